"""Sessions that are one file each: found newest first, read entry by entry."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from .files import Found, json_lines, open_plain
from .past import PastEvent, PastSession, Tally

__all__ = ["EntryReader", "newest_sessions", "read_entries"]


class EntryReader(Protocol):
    """Turns the entries of one session into events."""

    def entry(self, entry: Mapping[str, Any], /) -> Iterator[PastEvent]:
        """What an entry tells."""
        ...

    def finish(self) -> Iterator[PastEvent]:
        """What is left to tell at the end."""
        ...


def newest_sessions(
    found: Iterable[Found], limit: int | None, past_of: Callable[[Found], PastSession | None]
) -> list[PastSession]:
    """The sessions of files, the file that changed last first; ``past_of``: None for one that is
    no session, or of another directory.
    """
    sessions: list[PastSession] = []
    for file in sorted(found, key=lambda one: one.changed, reverse=True):
        if limit is not None and len(sessions) >= limit:
            break
        past = past_of(file)
        if past is not None:
            sessions.append(past)
    return sessions


def read_entries(past: PastSession, tally: Tally, reader: EntryReader) -> Iterator[PastEvent]:
    """The events of a session that is a file of JSON lines."""
    with open_plain(Path(past.path)) as file:
        for entry in json_lines(file, tally):
            yield from reader.entry(entry)
    yield from reader.finish()
