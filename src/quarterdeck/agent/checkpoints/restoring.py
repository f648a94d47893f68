"""Brings files to what they are to be: all of them or none, as far as a file system allows.

What is to be done is written down before the first file is touched. A process that is killed half
way leaves that note, and ``finish`` carries it through. Everything here blocks.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from quarterdeck.config.places import make_private
from quarterdeck.wire.events import Redone, Rewound

from .blobs import Blobs, write_whole
from .entries import Change, Entry, path_text
from .errors import ContentMissing, FilesChangedSince, RestoreFailed
from .looking import look_at
from .placing import delete, link_before, put, remove_temporary, will_be_empty

__all__ = ["Intent", "Plan", "Restoring"]

_INTENT = "restoring"


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be done, looked at and found possible."""

    changes: tuple[Change, ...]
    """From what is there now to what shall be."""
    kept: tuple[str, ...] = ()
    """Paths that cannot be brought back, for people."""
    forced: bool = False


class Intent(Struct, frozen=True, kw_only=True):
    """The note of what is being done."""

    changes: tuple[Change, ...]
    event: Rewound | Redone
    """What is appended to the log when it is done."""
    moves: int
    """How often the session had gone back or forth: tells whether the log has it already."""


class Restoring:
    """Restores files of one session.

    Args:
        directory: the session's own, for the note.
        root: the session's working directory; paths are shown relative to it.
    """

    def __init__(self, directory: Path, blobs: Blobs, root: bytes) -> None:
        self._note = directory / _INTENT
        self._blobs = blobs
        self._root = root

    def plan(self, changes: Iterable[Change], *, force: bool = False) -> Plan:
        """See whether the files are as ``before`` says; changes nothing.

        Raises:
            FilesChangedSince: some are not, and ``force`` is not given.
            ContentMissing: what they shall be is not kept any more.
        """
        todo: list[Change] = []
        kept: list[str] = []
        others: list[str] = []
        listed = tuple(changes)
        leaving = {change.path for change in listed if change.after is None}
        for change in listed:
            now = self._now(change.path, leaving)
            shown = path_text(change.path, self._root)
            if now == change.after:
                continue
            if _is_lost(change):
                kept.append(shown)
                continue
            is_astray = link_before(change.path) not in (None, *leaving)
            if now != change.before or is_astray:
                others.append(shown)
                if is_astray or (now is not None and not now.is_restorable):
                    kept.append(shown)
                    continue
            self._expect_content(change.after)
            todo.append(Change(path=change.path, before=now, after=change.after))
        if others and not force:
            raise FilesChangedSince(tuple(others))
        return Plan(changes=tuple(todo), kept=tuple(kept), forced=bool(others))

    def carry_out(self, plan: Plan, event: Rewound | Redone, moves: int = 0) -> None:
        """Do what was planned; ``moves`` as in ``Intent``. The note stays until ``done``.

        Raises:
            RestoreFailed: the system refused; what had been done was taken back.
        """
        intent = Intent(changes=plan.changes, event=event, moves=moves)
        make_private(self._note.parent)
        write_whole(self._note, msgspec.msgpack.encode(intent), durable=True)
        finished: list[Change] = []
        try:
            for change in _in_order(plan.changes):
                finished.append(change)
                self._apply(change)
        except (OSError, ContentMissing) as error:
            self._take_back(finished)
            self.done()
            raise RestoreFailed(
                f"files could not be restored: {error}; they are as they were before"
            ) from error

    def left_over(self) -> Intent | None:
        """What a process that was killed had begun."""
        try:
            return msgspec.msgpack.decode(self._note.read_bytes(), type=Intent)
        except (OSError, msgspec.DecodeError):
            return None

    def finish(self, intent: Intent) -> tuple[str, ...]:
        """Carry through what was begun; gives the paths that somebody changed meanwhile."""
        kept: list[str] = []
        for change in _in_order(intent.changes):
            now = self._now(change.path, set())
            if now == change.after:
                continue
            try:
                if now != change.before or link_before(change.path) is not None:
                    kept.append(path_text(change.path, self._root))
                else:
                    self._apply(change)
            except (OSError, ContentMissing):
                kept.append(path_text(change.path, self._root))
        for change in intent.changes:
            remove_temporary(change.path)
        return tuple(kept)

    def done(self) -> None:
        """It is in the log."""
        self._note.unlink(missing_ok=True)

    def _now(self, path: bytes, leaving: set[bytes]) -> Entry | None:
        """What is there, once all that is ``leaving`` has left."""
        if link_before(path) in leaving:
            return None
        now = look_at(path, self._blobs)
        if now is not None and now.kind == "other" and will_be_empty(path, leaving):
            return None
        return now

    def _expect_content(self, entry: Entry | None) -> None:
        if entry is not None:
            self._blobs.get(entry.digest)

    def _take_back(self, finished: list[Change]) -> None:
        for change in _in_order([change.reversed for change in finished]):
            with suppress(OSError, ContentMissing):
                if look_at(change.path) != change.after:
                    self._apply(change)

    def _apply(self, change: Change) -> None:
        if change.after is None:
            delete(change.path, self._root)
            return
        put(change.path, change.after, self._blobs.get(change.after.digest))


def _is_lost(change: Change) -> bool:
    """Whether what is there, or what shall be, is not kept."""
    return any(
        entry is not None and not entry.is_restorable for entry in (change.before, change.after)
    )


def _in_order(changes: Iterable[Change]) -> list[Change]:
    """What is deleted first, the deepest first: a directory may have to become a file."""
    listed = list(changes)
    gone = sorted((c for c in listed if c.after is None), key=lambda c: c.path, reverse=True)
    return [*gone, *(c for c in listed if c.after is not None)]
