"""What a word in the input can become: a file after ``@``, a command after ``/``."""

import asyncio
import heapq
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from quarterdeck.wire.errors import QuarterdeckError

from .mentions import format_mention

if TYPE_CHECKING:
    from quarterdeck.wire.settings import Command as AgentCommand

    from .context import WorkbenchContext
    from .panels.panel import Panel

__all__ = [
    "MOST_FILES",
    "CompletionChoice",
    "CompletionSource",
    "CompletionWord",
    "find_completion_word",
    "list_files",
    "rank_names",
    "score_name",
]

MOST_FILES = 50_000
_SHOWN = 50
_FRESH = 15.0
"""Seconds for which a list of files is used."""
_PASSED_OVER = frozenset({".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionWord:
    """A word that can be completed, before the cursor."""

    kind: Literal["file", "command"]
    typed: str
    """Without its sign."""
    start: int
    """The column of its sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionChoice:
    """Something that a word can become."""

    text: str
    """What is written in place of the word, sign and all."""
    name: str
    help: str = ""
    origin: str = ""
    """Whose it is, where that is not clear."""


def find_completion_word(line: str, column: int, *, is_first: bool) -> CompletionWord | None:
    """The word before the cursor if it can be completed; ``is_first``: it is the first line."""
    before = line[:column]
    if is_first and before.startswith("/") and not any(c.isspace() for c in before):
        return CompletionWord(kind="command", typed=before[1:], start=0)
    at = before.rfind("@")
    if at < 0 or (at and not before[at - 1].isspace()):
        return None
    typed = before[at + 1 :]
    if typed.startswith('"'):
        return None if '"' in typed[1:] else CompletionWord(kind="file", typed=typed[1:], start=at)
    if any(c.isspace() for c in typed):
        return None
    return CompletionWord(kind="file", typed=typed, start=at)


def score_name(typed: str, name: str) -> int | None:
    """How well a name fits what was typed, 0 being best; None: not at all.

    All letters must be there in order; fewer letters between them, in the last part of a path and
    at the beginning of words are better.
    """
    lower = name.lower()
    base = lower.rfind("/") + 1
    at = lower.find(typed, base)
    if at >= 0:
        return (at - base) + len(lower) - base
    at = lower.find(typed)
    if at >= 0:
        return 1_000 + at + len(lower)
    at, gaps, last = -1, 0, -1
    for letter in typed:
        at = lower.find(letter, at + 1)
        if at < 0:
            return None
        gaps += at - last - 1
        last = at
    return 2_000 + 4 * gaps + len(lower)


def rank_names(typed: str, names: Iterable[str], most: int = _SHOWN) -> list[str]:
    """The names that fit best, the best first."""
    typed = typed.lower()
    scored = ((score_name(typed, name), name) for name in names)
    fitting = ((points, name) for points, name in scored if points is not None)
    return [name for _, name in heapq.nsmallest(most, fitting)]


def list_files(cwd: str) -> list[str]:
    """The files of a directory and below that git does not ignore; bounded. Blocks."""
    from quarterdeck.system.errors import GitError
    from quarterdeck.system.git.repository import ask_git

    words = ["ls-files", "-co", "--exclude-standard", "--deduplicate", "-z"]
    try:
        data = ask_git(cwd, words, most=8_000_000, seconds=5.0).data
    except GitError:
        return _walk(cwd)
    names = data.decode("utf-8", "surrogateescape").split("\0")
    return [name for name in names if name][:MOST_FILES]


def _walk(cwd: str) -> list[str]:
    found: list[str] = []
    until = time.monotonic() + 5.0
    for where, directories, files in os.walk(cwd):
        directories[:] = sorted(d for d in directories if d not in _PASSED_OVER)
        relative = os.path.relpath(where, cwd)
        found += [name if relative == "." else f"{relative}/{name}" for name in sorted(files)]
        if len(found) >= MOST_FILES or time.monotonic() > until:
            break
    return found[:MOST_FILES]


class CompletionSource:
    """What can be offered in a chat: files of its agent's directory, our commands and its own."""

    def __init__(self, context: "WorkbenchContext", panel: "Panel") -> None:
        self._app_context = context
        self._panel = panel
        self._files: tuple[str, float, list[str]] | None = None

    async def __call__(self, word: CompletionWord) -> Sequence[CompletionChoice]:
        """What a word can become, the best first. Errors of the fleet count as nothing to offer."""
        if word.kind == "file":
            return await self._named(word.typed)
        try:
            session = self._panel.session
            own = await self._app_context.pages.commands(session) if session is not None else ()
        except QuarterdeckError:
            own = ()
        return complete_command(word.typed, own)

    async def _named(self, typed: str) -> Sequence[CompletionChoice]:
        agent = self._app_context.roster.find(self._panel.session)
        cwd = agent.cwd if agent is not None else self._app_context.cwd
        known = self._files
        if known is None or known[0] != cwd or time.monotonic() - known[1] > _FRESH:
            files = await asyncio.to_thread(list_files, cwd)
            known = self._files = (cwd, time.monotonic(), files)
        names = await asyncio.to_thread(rank_names, typed, known[2])
        return [CompletionChoice(text=format_mention(_writable(name)), name=name) for name in names]


def complete_command(typed: str, own: "Sequence[AgentCommand]") -> list[CompletionChoice]:
    """The commands that fit, ours and the agent's; a second slash is for the agent's only."""
    from .commands.registry import COMMANDS

    is_own = typed.startswith("/")
    typed = typed.removeprefix("/")
    ours = {} if is_own else {c.name: c.help for c in COMMANDS}
    taken = {c.name for c in COMMANDS}
    offers = [
        CompletionChoice(text=f"/{name}", name=f"/{name}", help=help, origin="quarterdeck")
        for name, help in ours.items()
    ]
    for command in own:
        sign = "//" if command.name in taken or is_own else "/"
        name = f"{sign}{command.name}"
        offers.append(
            CompletionChoice(text=name, name=name, help=command.description, origin="agent")
        )
    places = {
        name: at for at, name in enumerate(rank_names(typed, map(_bare, offers), most=_SHOWN))
    }
    fitting = [offer for offer in offers if _bare(offer) in places]
    return sorted(fitting, key=lambda offer: places[_bare(offer)])


def _bare(offer: CompletionChoice) -> str:
    return offer.name.lstrip("/")


def _writable(name: str) -> str:
    """A name that can stand in a prompt: bytes that are no text become an escape."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
