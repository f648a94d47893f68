"""Codex: ``sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``, and ``archived_sessions``.

Three forms: since 0.32 each line is ``{timestamp, type, payload}``; before, the first line was the
session itself and each other an item; the oldest were one object in ``rollout-….json``. Which files
make up a session is documented in ``codex_rollouts``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from quarterdeck.wire.events import NoticePosted

from ..foreign_json import as_list, as_map, as_number, as_text
from . import codex_files
from .codex_files import (
    IndexedSession,
    Rollout,
    can_unpack,
    current_rollouts,
    find_rollouts,
    open_rollout,
    rollout_lineage,
)
from .codex_items import CodexItemReader, prompt_text
from .files import (
    ReadBudget,
    decode_json,
    head_lines,
    is_same_place,
    json_lines,
    make_title,
    may_contain,
    open_plain,
    read_json,
)
from .reader import HistoryEvent, HistorySession, ReadTally
from .session import HistoryUnreadableError

__all__ = ["CodexHistory"]

_CWD = re.compile(rb'"cwd":\s*("(?:[^"\\]|\\.)*")')
_VERSION = re.compile(rb'"cli_version":\s*("(?:[^"\\]|\\.)*")')
_SUB_AGENT = re.compile(rb'"source":\s*\{\s*"subagent"')
_FORK = b'"forked_from_id"'
_STATED_CWD = re.compile(r"<cwd>([^<]+)</cwd>|Current working directory: ([^\n]+)")
_WRAPPED = re.compile(rb'"payload":')
_META = 1_024
"""Bytes of a file that have its directory; what follows is mostly instructions."""
_HEAD = 131_072
"""Bytes in which the first prompt is looked for; what comes before it is long."""
_MOST_UNPACKED = 200
"""Compressed files that one listing looks into; sessions in the index need none."""


class CodexHistory:
    """Reads the sessions of Codex below its own directory."""

    agent = "codex"

    def __init__(self, home: Path) -> None:
        self._home = home

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """See ``HistoryReader``."""
        found = list(find_rollouts(self._home))
        firsts = {one.session: one for one in found if one.is_first}
        listing = _Listing(self._home, directory, budget)
        sessions: list[HistorySession] = []
        for rollout in current_rollouts(found):
            if limit is not None and len(sessions) >= limit:
                break
            past = listing.past(rollout)
            if past is not None:
                sessions.append(past)
        named = codex_files.read_names(self._home, budget)
        return [
            replace(past, title=named[past.id])
            if past.id in named
            else listing.titled(past, firsts.get(past.id))
            for past in sessions
        ]

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """See ``HistoryReader``."""
        reading, path = CodexItemReader(past.id, tally), Path(past.path)
        pieces, missing = rollout_lineage(self._home, path)
        if missing is not None:
            title = f"Earlier entries are in {missing!r}, which is missing or cannot be read"
            yield HistoryEvent(
                event=NoticePosted(title=title, severity="warning"), time=past.started
            )
        for piece in pieces:
            for entry in _entries(piece.path, tally):
                if piece.end is not None and as_number(entry.get("ordinal")) >= piece.end:
                    break
                yield from reading.entry(entry)
        yield from reading.finish()

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """See ``HistoryReader``."""
        path = Path(past.path)
        if path.suffix == ".zst":
            return can_unpack()
        rollout = Rollout.named(path)
        head = b"".join(head_lines(path, budget, most=_META))
        if _FORK not in head and (rollout is None or rollout.is_first):
            return may_contain((path,), words, budget)
        pieces, _ = rollout_lineage(self._home, path)
        if any(piece.path.suffix == ".zst" for piece in pieces):
            return True
        return may_contain([piece.path for piece in pieces], words, budget)


class _Listing:
    """One look at the heads of files."""

    def __init__(self, home: Path, directory: Path | None, budget: ReadBudget) -> None:
        self._home = home
        self._directory = directory
        self._budget = budget
        self._read: Mapping[str, IndexedSession] | None = None
        self._unpacked = 0

    def past(self, rollout: Rollout) -> HistorySession | None:
        """The facts of a session but the title; None: of another directory, or no person's."""
        path = rollout.file.path
        indexed = self._index.get(rollout.session) if rollout.is_packed else None
        if indexed is not None:
            if indexed.is_sub_agent:
                return None
            cwd, version = indexed.cwd, None
        else:
            head = b"\n".join(self._head(path, most=_META))
            if _SUB_AGENT.search(head):
                return None
            cwd, version = _quoted(_CWD, head), _quoted(_VERSION, head)
            if cwd is None and head and not _WRAPPED.search(head):
                # Only forms that are out of use for long do not have it at the beginning.
                cwd, _ = _look(self._head(path, first=8_192), None)
        if self._directory is not None and not is_same_place(cwd, self._directory):
            return None
        return HistorySession(
            agent="codex",
            id=rollout.session,
            path=str(path),
            cwd=cwd,
            started=rollout.started,
            updated=rollout.file.changed,
            size=rollout.file.size,
            version=version,
            archived=path.parent.name == "archived_sessions",
        )

    def titled(self, past: HistorySession, first: Rollout | None) -> HistorySession:
        """The same with a title: the beginning of the first prompt in its first file."""
        indexed = self._index.get(past.id)
        if indexed is not None and indexed.title is not None:
            return replace(past, title=indexed.title)
        if words := self._prompts.get(past.id):
            return replace(past, title=words)
        path = first.file.path if first is not None else Path(past.path)
        if path.suffix == ".json":
            items = as_list(as_map(read_json(path, self._budget, most=1 << 20)).get("items"))
            words = next((one for item in items if (one := prompt_text(as_map(item)))), None)
        else:
            _, words = _look(self._head(path, first=40_960, most=_HEAD), past.cwd)
        return replace(past, title=make_title(words)) if words else past

    @property
    def _index(self) -> Mapping[str, IndexedSession]:
        """The entries of Codex's own index."""
        if self._read is None:
            self._read = codex_files.read_index(self._home)
        return self._read

    @cached_property
    def _prompts(self) -> Mapping[str, str]:
        """First prompts that Codex has in a list of its own."""
        return codex_files.read_first_prompts(self._home, self._budget)

    def _head(self, path: Path, *, most: int = 65_536, first: int = 2_048) -> Iterator[bytes]:
        if path.suffix != ".zst":
            yield from head_lines(path, self._budget, most=most, first=first)
            return
        self._unpacked += 1
        if self._unpacked > _MOST_UNPACKED:
            return
        try:
            with open_rollout(path) as file:
                yield from file.read(self._budget.take(most)).split(b"\n")
        except (HistoryUnreadableError, OSError):
            return


def _look(lines: Iterable[bytes], cwd: str | None) -> tuple[str | None, str | None]:
    """The directory and the first prompt, where the head has them."""
    for line in lines:
        item = as_map(decode_json(line))
        item = as_map(item.get("payload")) or item
        if cwd is None and (match := _STATED_CWD.search(_texts(item))):
            cwd = (match[1] or match[2]).strip()
        if title := prompt_text(item):
            return cwd, title
    return cwd, None


def _texts(item: Mapping[str, Any]) -> str:
    return "\n".join(as_text(as_map(one).get("text")) for one in as_list(item.get("content")))


def _quoted(pattern: re.Pattern[bytes], head: bytes) -> str | None:
    found = pattern.search(head)
    return as_text(decode_json(found[1])) or None if found else None


def _entries(path: Path, tally: ReadTally) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".json":
        with open_plain(path):
            pass  # to say why it cannot be opened
        whole = as_map(read_json(path))
        tally.corrupt += not whole
        yield from map(as_map, as_list(whole.get("items")))
        return
    with open_rollout(path) as file:
        yield from json_lines(file, tally)
