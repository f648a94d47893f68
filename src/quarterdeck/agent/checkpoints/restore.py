"""Restores files: all of them or none, as far as a file system allows.

The intent is written down before the first file is touched; after a crash ``finish`` completes it.
Everything here blocks.
"""

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from quarterdeck.config.places import make_private
from quarterdeck.system.paths import real_directory
from quarterdeck.wire.decoders import decode_msgpack
from quarterdeck.wire.events import Redone, Rewound

from .errors import ContentMissingError, FilesChangedError, RestoreError
from .file_state import (
    BlobStore,
    FileChange,
    FileState,
    is_within,
    path_text,
    read_file_state,
    write_whole,
)

__all__ = [
    "FileRestorer",
    "RestoreIntent",
    "RestorePlan",
    "RestorePlanner",
    "RestoreStep",
    "link_before",
    "put",
    "remove_file",
    "remove_temporary",
    "will_be_empty",
]

# Names of files may be no text, and pathlib takes text alone.
# ruff: noqa: PTH112, PTH114, PTH118, PTH120


_TEMPORARY = b".quarterdeck-undo-"


def link_before(path: bytes) -> bytes | None:
    """The first directory on the way that is a symlink: nothing is written through one."""
    parent = os.path.dirname(path)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if os.path.realpath(parent) == parent:
        return None
    way = parent.split(b"/")
    ways = (b"/".join(way[:count]) for count in range(2, len(way) + 1))
    return next((one for one in ways if os.path.islink(one)), parent)


def will_be_empty(directory: bytes, leaving: set[bytes]) -> bool:
    """Whether a directory holds nothing but what is leaving."""
    if not os.path.isdir(directory):
        return False
    for here, directories, files in os.walk(directory):
        links = [name for name in directories if os.path.islink(os.path.join(here, name))]
        if any(os.path.join(here, name) not in leaving for name in (*files, *links)):
            return False
    return True


def put(path: bytes, entry: FileState, data: bytes) -> None:
    """Put a content at a path in one step, with the directories that it needs. Raises OSError.

    An empty directory gives way; the bits of a file that is there stay, but *executable*. Nothing
    is written through a symlink, also not through one that appears meanwhile.
    """
    parent, _, name = path.rpartition(b"/")
    with real_directory(parent, make=True) as directory:
        status = _status(name, directory)
        if status is not None and stat.S_ISDIR(status.st_mode):
            _remove_empty(name, directory)
        beside = _temporary(name)
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=directory)
        if entry.kind == "link":
            os.symlink(data, beside, dir_fd=directory)
        else:
            is_file = status is not None and stat.S_ISREG(status.st_mode)
            # The system decides about the bits of a new file.
            mode = stat.S_IMODE(status.st_mode) if status is not None and is_file else None
            _write(beside, directory, data, mode, entry.executable)
        os.replace(beside, name, src_dir_fd=directory, dst_dir_fd=directory)


def remove_file(path: bytes, root: bytes) -> None:
    """Delete a file, and the directories below ``root`` that are empty then. Raises OSError."""
    parent, _, name = path.rpartition(b"/")
    with suppress(FileNotFoundError, NotADirectoryError), real_directory(parent) as directory:
        os.unlink(name, dir_fd=directory)
    with suppress(OSError):  # as git does: a directory that holds nothing any more goes as well
        while not is_within(root, parent):
            parent, _, name = parent.rpartition(b"/")
            with real_directory(parent) as directory:
                os.rmdir(name, dir_fd=directory)


def _remove_empty(name: bytes, directory: int) -> None:
    """Remove a directory that holds nothing but such. Raises OSError where there is a file."""
    for _, directories, _, here in os.fwalk(name, topdown=False, dir_fd=directory):
        for one in directories:
            os.rmdir(one, dir_fd=here)
    os.rmdir(name, dir_fd=directory)


def _status(name: bytes, directory: int) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return None


def _write(name: bytes, directory: int, data: bytes, mode: int | None, executable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666 if mode is None else 0o600, dir_fd=directory)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if mode is None:
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        # Who may read may run: only that bit is kept.
        os.fchmod(descriptor, mode | (mode & 0o444) >> 2 if executable else mode & ~0o111)
    finally:
        os.close(descriptor)


def remove_temporary(path: bytes) -> None:
    """Remove what a process that was killed left beside a path."""
    parent, _, name = path.rpartition(b"/")
    with suppress(OSError), real_directory(parent) as directory:
        os.unlink(_temporary(name), dir_fd=directory)


def _temporary(name: bytes) -> bytes:
    return _TEMPORARY + name[:200]


_INTENT = "restoring"


class RestorePlan(Struct, frozen=True, kw_only=True):
    """What is to be done, looked at and found possible."""

    changes: tuple[FileChange, ...]
    """From the present state of the files to the restored one."""
    kept: tuple[str, ...] = ()
    """Paths that cannot be brought back, for people."""
    forced: bool = False
    merged: tuple[str, ...] = ()
    """Paths in which later changes by others stay, for people."""
    reasons: tuple[str, ...] = ()
    """Why, for each of ``kept``."""


class RestoreStep(Struct, frozen=True, kw_only=True):
    """A change that is to be taken back, or done again."""

    change: FileChange
    """From what was left there to what was there before."""
    agents: tuple[str, ...] = ()
    """Other agents that may have made the change."""


class RestorePlanner(Protocol):
    """Decides what is done to files."""

    def plan(self, steps: Sequence[RestoreStep], *, force: bool = False) -> RestorePlan:
        """Look at the files and change nothing; blocks.

        ``steps``: in the order in which they are carried out; a path may come more than once.

        Raises:
            CheckpointError: it cannot be done.
        """
        ...


class RestoreIntent(Struct, frozen=True, kw_only=True):
    """The note of what is being done."""

    changes: tuple[FileChange, ...]
    event: Rewound | Redone
    """What is appended to the log when it is done."""
    moves: int
    """How often the session had gone back or forth: shows whether the log has it already."""


class FileRestorer:
    """Restores files of one session.

    Args:
        directory: the session's own, for the note.
        root: the session's working directory; paths are shown relative to it.
    """

    def __init__(self, directory: Path, blobs: BlobStore, root: bytes) -> None:
        self._note = directory / _INTENT
        self._blobs = blobs
        self._root = root

    def plan(self, changes: Iterable[FileChange], *, force: bool = False) -> RestorePlan:
        """See whether the files are as ``before`` says; changes nothing.

        Raises:
            FilesChangedError: some are not, and ``force`` is not given.
            ContentMissingError: their content to restore is not kept any more.
        """
        todo: list[FileChange] = []
        kept: list[str] = []
        others: list[str] = []
        listed = tuple(changes)
        leaving = {change.path for change in listed if change.after is None}
        for change in listed:
            now = self.read_now(change.path, leaving)
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
            todo.append(FileChange(path=change.path, before=now, after=change.after))
        if others and not force:
            raise FilesChangedError(tuple(others))
        return RestorePlan(changes=tuple(todo), kept=tuple(kept), forced=bool(others))

    def carry_out(self, plan: RestorePlan, event: Rewound | Redone, moves: int = 0) -> None:
        """Do what was planned; ``moves`` as in ``RestoreIntent``. The note stays until ``done``.

        Raises:
            RestoreError: the system refused; what had been done was taken back.
        """
        intent = RestoreIntent(changes=plan.changes, event=event, moves=moves)
        make_private(self._note.parent)
        write_whole(self._note, msgspec.msgpack.encode(intent), durable=True)
        finished: list[FileChange] = []
        try:
            for change in _in_order(plan.changes):
                finished.append(change)
                self._apply(change)
        except (OSError, ContentMissingError) as error:
            self._take_back(finished)
            self.done()
            raise RestoreError(f"could not restore files: {error}; no file was changed") from error

    def left_over(self) -> RestoreIntent | None:
        """What a process that was killed had begun."""
        try:
            return decode_msgpack(self._note.read_bytes(), RestoreIntent)
        except (OSError, msgspec.DecodeError):
            return None

    def finish(self, intent: RestoreIntent) -> tuple[str, ...]:
        """Complete what was begun; gives the paths that were changed by others meanwhile."""
        kept: list[str] = []
        for change in _in_order(intent.changes):
            now = self.read_now(change.path, set())
            if now == change.after:
                continue
            try:
                if now != change.before or link_before(change.path) is not None:
                    kept.append(path_text(change.path, self._root))
                else:
                    self._apply(change)
            except (OSError, ContentMissingError):
                kept.append(path_text(change.path, self._root))
        for change in intent.changes:
            remove_temporary(change.path)
        return tuple(kept)

    def done(self) -> None:
        """It is in the log."""
        self._note.unlink(missing_ok=True)

    def read_now(self, path: bytes, leaving: set[bytes]) -> FileState | None:
        """What is there, once all that is ``leaving`` has left; its content is kept."""
        if link_before(path) in leaving:
            return None
        now = read_file_state(path, self._blobs)
        if now is not None and now.kind == "other" and will_be_empty(path, leaving):
            return None
        return now

    def _expect_content(self, entry: FileState | None) -> None:
        if entry is not None:
            self._blobs.get(entry.digest)

    def _take_back(self, finished: list[FileChange]) -> None:
        for change in _in_order([change.reversed for change in finished]):
            with suppress(OSError, ContentMissingError):
                if read_file_state(change.path) != change.after:
                    self._apply(change)

    def _apply(self, change: FileChange) -> None:
        if change.after is None:
            remove_file(change.path, self._root)
            return
        put(change.path, change.after, self._blobs.get(change.after.digest))


def _is_lost(change: FileChange) -> bool:
    """Whether the present content, or the one to restore, is not kept."""
    return any(
        entry is not None and not entry.is_restorable for entry in (change.before, change.after)
    )


def _in_order(changes: Iterable[FileChange]) -> list[FileChange]:
    """What is deleted first, the deepest first: a directory may have to become a file."""
    listed = list(changes)
    gone = sorted((c for c in listed if c.after is None), key=lambda c: c.path, reverse=True)
    return [*gone, *(c for c in listed if c.after is not None)]
