"""The stored sessions of every agent that we can read, and where each agent keeps them."""

import asyncio
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import Event, MessageChunk, Prompted, ToolCallStarted

from .claude import ClaudeHistory
from .codex import CodexHistory
from .files import ReadBudget
from .gemini import GeminiHistory
from .goose import GooseHistory
from .kimi import KimiHistory
from .opencode import OpencodeHistory
from .pi import PiHistory
from .qwen import QwenHistory
from .reader import HistoryEvent, HistoryReader, HistorySession, ReadTally
from .session import (
    AmbiguousHistorySessionError,
    HistoryError,
    HistoryIncompleteError,
    NoHistorySessionError,
)
from .vibe import VibeHistory

__all__ = ["AGENTS", "VARIABLES", "AgentHistory", "AgentHomes", "HistoryHit", "HistoryListing"]

VARIABLES = (
    *("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME"),
    *("KIMI_CODE_HOME", "PI_CODING_AGENT_DIR", "QWEN_HOME", "VIBE_HOME"),
)
"""The variables that count; none of them holds a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHomes:
    """The directories of the agents. Absolute; none needs to exist."""

    claude: Path
    codex: Path
    gemini: Path
    opencode: Path
    goose: Path
    kimi: Path
    pi: Path
    qwen: Path
    vibe: Path

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> "AgentHomes":
        """Find them from an environment; touches no file.

        Raises:
            QuarterdeckError: it names no home directory.
        """
        given = environment.get("HOME", "")
        if not given:
            raise QuarterdeckError("no home directory is known; set HOME to a directory")
        home = Path(given).absolute()
        path = environment.get("XDG_DATA_HOME", "")
        data = Path(path) if path.startswith("/") else home / ".local" / "share"
        gemini = environment.get("GEMINI_CLI_HOME", "")
        return cls(
            claude=_given(environment, "CLAUDE_CONFIG_DIR", home / ".claude"),
            codex=_given(environment, "CODEX_HOME", home / ".codex"),
            gemini=(Path(gemini).absolute() if gemini else home) / ".gemini",
            opencode=data / "opencode",
            goose=data / "goose",
            kimi=_given(environment, "KIMI_CODE_HOME", home / ".kimi-code"),
            pi=_given(environment, "PI_CODING_AGENT_DIR", home / ".pi" / "agent"),
            qwen=_given(environment, "QWEN_HOME", home / ".qwen"),
            vibe=_given(environment, "VIBE_HOME", home / ".vibe"),
        )


def _given(environment: Mapping[str, str], variable: str, usual: Path) -> Path:
    path = environment.get(variable, "")
    return Path(path).absolute() if path else usual


AGENTS = ("claude", "codex", "gemini", "opencode", "goose", "kimi", "pi", "qwen", "vibe")
"""Agents with sessions that can be read."""
_BATCH = 200
"""Events that are taken in a thread at one time."""
_SEARCHED = 1 << 30
"""Bytes that one search looks through."""
_AT_ONCE = 4
"""Sessions that are searched at one time."""
_AROUND = 60
"""Characters of a snippet before and after the word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryListing:
    """Sessions, and what could not be looked at."""

    sessions: tuple[HistorySession, ...]
    failures: Mapping[str, str]
    """Agents whose history cannot be read, with the reason."""
    read: int
    """Bytes that were read of files; a database counts for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryHit:
    """A session in which all words occur, and where the first does."""

    past: HistorySession
    snippet: str


class AgentHistory:
    """Lists, finds, reads and searches what agents keep on disk. Writes nothing."""

    def __init__(self, homes: AgentHomes) -> None:
        readers: tuple[HistoryReader, ...] = (
            ClaudeHistory(homes.claude),
            CodexHistory(homes.codex),
            GeminiHistory(homes.gemini),
            OpencodeHistory(homes.opencode),
            GooseHistory(homes.goose),
            KimiHistory(homes.kimi),
            PiHistory(homes.pi),
            QwenHistory(homes.qwen),
            VibeHistory(homes.vibe),
        )
        self._readers = {reader.agent: reader for reader in readers}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "AgentHistory":
        """The history of the user of this environment; see ``AgentHomes``."""
        return cls(AgentHomes.find(environment))

    async def list(
        self,
        directory: Path | None,
        *,
        agent: str | None = None,
        limit: int | None = 50,
        budget: ReadBudget | None = None,
    ) -> HistoryListing:
        """Sessions that worked in a directory, or all with None; those used last come first.

        An agent whose history cannot be read costs only its own sessions.

        Raises:
            NoHistorySessionError: we cannot read what an agent of this name keeps.
        """
        budget = budget or ReadBudget()
        wanted = self._wanted(agent)
        resolved = await asyncio.to_thread(directory.resolve) if directory is not None else None
        failures: dict[str, str] = {}
        found: list[HistorySession] = []
        # The last has what the others leave, and most people have most of the first.
        for place, reader in enumerate(reversed(wanted)):
            share = ReadBudget((budget.most - budget.spent) // (len(wanted) - place))
            try:
                found += await asyncio.to_thread(reader.list, resolved, limit, share)
            except HistoryError as error:
                failures[reader.agent] = str(error)
                found += error.sessions if isinstance(error, HistoryIncompleteError) else ()
            budget.take(share.spent)
        found.sort(key=lambda past: past.updated, reverse=True)
        sessions = tuple(found if limit is None else found[:limit])
        return HistoryListing(sessions=sessions, failures=failures, read=budget.spent)

    async def find(
        self, id_: str, *, agent: str | None = None, near: Path | None = None
    ) -> HistorySession:
        """The session of an id, or of the beginning of one, in any directory.

        Where several begin so, one that worked in ``near`` is meant.

        Raises:
            NoHistorySessionError, AmbiguousHistorySessionError: there is none, or several.
        """
        found: list[HistorySession] = []
        failures: Mapping[str, str] = {}
        for place in (near, None) if near is not None else (None,):
            listed = await self.list(place, agent=agent, limit=None)
            found, failures = _beginning(id_, listed.sessions), listed.failures
            if len(found) == 1:
                return found[0]
        if not found:
            raise NoHistorySessionError(id_, agent, failures)
        raise AmbiguousHistorySessionError(id_, [f"{past.agent} {past.id}" for past in found])

    async def read(self, past: HistorySession, tally: ReadTally) -> AsyncGenerator[HistoryEvent]:
        """What happened in a session, in order, a few at a time.

        Raises:
            HistoryError: its file cannot be opened.
        """
        events = self._readers[past.agent].read(past, tally)
        try:
            while batch := await asyncio.to_thread(_taken, events):
                for event in batch:
                    yield event
        finally:
            await asyncio.to_thread(_closed, events)

    async def search(
        self,
        words: str,
        sessions: Iterable[HistorySession],
        *,
        limit: int = 20,
        budget: ReadBudget | None = None,
    ) -> AsyncIterator[HistoryHit]:
        """Sessions of these in which all words occur, in their order; stops when limits are met.

        A word of several is written "in quotes". Case does not count.
        """
        wanted = _words(words)
        budget = budget or ReadBudget(_SEARCHED)
        waiting = list(sessions)
        found = 0
        for start in range(0, len(waiting), _AT_ONCE):
            some = waiting[start : start + _AT_ONCE]
            looked = (asyncio.to_thread(self._look, past, wanted, budget) for past in some)
            for hit in await asyncio.gather(*looked):
                if hit is not None and wanted:
                    found += 1
                    yield hit
                if found >= limit:
                    return

    def _look(
        self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget
    ) -> HistoryHit | None:
        reader = self._readers[past.agent]
        try:
            if not reader.has_words(past, words, budget):
                return None
            left, snippet, most = set(words), "", 0
            for one in reader.read(past, ReadTally()):
                content = _message_text(one.event)
                lower = content.casefold()
                here = [word for word in words if word in lower]
                if len(here) > most:
                    snippet, most = _snippet(content, lower, here), len(here)
                left.difference_update(here)
                if not left:
                    return HistoryHit(past=past, snippet=snippet)
        except HistoryError:
            return None
        return None

    def _wanted(self, agent: str | None) -> "list[HistoryReader]":
        if agent is None:
            return list(self._readers.values())
        if agent not in self._readers:
            known = ", ".join(self._readers)
            raise HistoryError(
                f"the history of {agent!r} is not supported; supported agents: {known}"
            )
        return [self._readers[agent]]


def _beginning(id_: str, sessions: Iterable[HistorySession]) -> list[HistorySession]:
    """The session of an id, else those whose ids begin so."""
    some = [past for past in sessions if id_ and past.id.startswith(id_)]
    return [past for past in some if past.id == id_] or some


def _taken(events: Iterator[HistoryEvent]) -> list[HistoryEvent]:
    return list(islice(events, _BATCH))


def _closed(events: Iterator[HistoryEvent]) -> None:
    close = getattr(events, "close", None)
    if close is not None:
        close()


def _words(query: str) -> tuple[str, ...]:
    try:
        words = shlex.split(query)
    except ValueError:
        words = query.split()
    return tuple(word.casefold() for word in words if word)


def _message_text(event: Event) -> str:
    match event:
        case Prompted(content=content):
            return "\n".join(one.text for one in content if isinstance(one, TextContent))
        case MessageChunk(content=TextContent(text=words)):
            return words
        case ToolCallStarted(title=title):
            return title
        case _:
            return ""


def _snippet(text: str, lower: str, words: Iterable[str]) -> str:
    at = min(lower.find(word) for word in words)
    start = max(0, at - _AROUND)
    cut = text[start : at + _AROUND]
    return (
        ("…" if start else "") + " ".join(cut.split()) + ("…" if at + _AROUND < len(text) else "")
    )
