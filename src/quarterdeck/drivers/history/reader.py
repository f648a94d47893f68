"""Stored sessions, the contract of their readers, and readers of one file per session."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from quarterdeck.wire.events import Event
from quarterdeck.wire.ids import ToolCallId, TurnId

from .files import FoundFile, ReadBudget, ReadTally, json_lines, open_plain
from .session import HistorySession

__all__ = [
    "EntryReader",
    "HistoryEvent",
    "HistoryReader",
    "HistorySession",
    "ReadTally",
    "newest_sessions",
    "read_entries",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """One thing that happened, in its place."""

    event: Event
    time: int | None = None
    """Microseconds since the epoch; None where unknown."""
    turn: TurnId | None = None
    """The same each time that the session is read."""
    parent: ToolCallId | None = None


class HistoryReader(Protocol):
    """Reads what one agent keeps. All methods touch the disk: call them in a thread.

    Nothing is ever written, and no file is opened that could hold a credential.
    """

    agent: str

    def list(
        self, directory: Path | None, limit: int | None, budget: ReadBudget
    ) -> list[HistorySession]:
        """Sessions that worked in a directory, or all with None; those used last come first.

        Reads the heads and tails of files within the budget; what is no longer affordable is left
        out of a session's facts, and sessions without a known directory are left out unless
        all are asked for. Damaged files are left out.

        Raises:
            HistoryIncompleteError: a database that holds some of them cannot be read; it has the
                others.
        """
        ...

    def read(self, past: HistorySession, tally: ReadTally) -> Iterator[HistoryEvent]:
        """What happened, in order, as the iterator is drawn; the same each time.

        What cannot be read is counted in ``tally`` and never raises.

        Raises:
            HistoryLockedError, HistoryUnreadableError: the file or database cannot be opened.
        """
        ...

    def has_words(self, past: HistorySession, words: tuple[str, ...], budget: ReadBudget) -> bool:
        """Whether all of these may occur; cheap, and True where a cheap check cannot decide.

        ``words`` are casefolded.
        """
        ...


class EntryReader(Protocol):
    """Turns the entries of one session into events."""

    def entry(self, entry: Mapping[str, Any], /) -> Iterator[HistoryEvent]:
        """The events of an entry."""
        ...

    def finish(self) -> Iterator[HistoryEvent]:
        """The events that are left at the end."""
        ...


def newest_sessions(
    found: Iterable[FoundFile],
    limit: int | None,
    past_of: Callable[[FoundFile], HistorySession | None],
) -> list[HistorySession]:
    """The sessions of files, the file that changed last first; ``past_of``: None for one that is
    no session, or of another directory.
    """
    sessions: list[HistorySession] = []
    for file in sorted(found, key=lambda one: one.changed, reverse=True):
        if limit is not None and len(sessions) >= limit:
            break
        past = past_of(file)
        if past is not None:
            sessions.append(past)
    return sessions


def read_entries(
    past: HistorySession, tally: ReadTally, reader: EntryReader
) -> Iterator[HistoryEvent]:
    """The events of a session that is a file of JSON lines."""
    with open_plain(Path(past.path)) as file:
        for entry in json_lines(file, tally):
            yield from reader.entry(entry)
    yield from reader.finish()
