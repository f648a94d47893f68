"""Accepting and rejecting changes: what the index and the files become, and how that is undone.

A plan says for each path what it is and what it is to be. It is written down before anything is
changed, with every content that would go, so that ``undo`` finds it also after a crash. Everything
here blocks.
"""

import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from quarterdeck.agent.checkpoints.errors import CheckpointError, NothingToUndoError
from quarterdeck.agent.checkpoints.file_state import (
    BlobStore,
    FileState,
    read_file_state,
    write_whole,
)
from quarterdeck.agent.checkpoints.restore import put, remove_file
from quarterdeck.config.places import make_private
from quarterdeck.system.errors import GitError, GitUnsafeError
from quarterdeck.system.git.object_store import GitEntry
from quarterdeck.system.git.repository import GitRepository, expect_repository
from quarterdeck.wire.decoders import decode_msgpack

from .api import ReviewDecision
from .errors import ChangedMeanwhileError, ReviewError
from .index import IndexEntries

__all__ = [
    "DiskStep",
    "IndexStep",
    "PreviousMark",
    "ReviewOperation",
    "ReviewOperations",
    "look_at",
]

_MOST_KEPT = 200
_FILE = "operations"


class DiskStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A path on the disk, and what is to be there; None: nothing."""

    path: bytes
    name: str
    """For people."""
    before: FileState | None = None
    after: FileState | None = None


class IndexStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A path in an index, relative to the top; None: it is not listed."""

    path: bytes
    before: GitEntry | None = None
    after: GitEntry | None = None


class PreviousMark(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The marks that a file had."""

    file: str
    path: str
    viewed: str | None = None
    accepted: str | None = None
    rejected: str | None = None


class ReviewOperation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An acceptance or a rejection, as it is written down."""

    v: int = 1
    action: ReviewDecision
    root: bytes
    """The directory below which empty directories may go."""
    top: str | None = None
    """The work tree whose index is changed."""
    git_dir: str | None = None
    """Where that index is; None: as noted by an older program."""
    disk: tuple[DiskStep, ...] = ()
    index: tuple[IndexStep, ...] = ()
    marks: tuple[PreviousMark, ...] = ()
    names: tuple[str, ...] = ()
    """Of the files, for people."""


class ReviewOperations:
    """The acceptances and rejections of one session, the newest last.

    Args:
        directory: where they are written down.
    """

    def __init__(self, directory: Path) -> None:
        self.blobs = BlobStore(directory / "blobs")
        self._directory = directory

    @property
    def has_any(self) -> bool:
        """Whether something can be undone."""
        return bool(self._read())

    def carry_out(self, operation: ReviewOperation) -> None:
        """Change the files and the index.

        Raises:
            ChangedMeanwhileError: a file is not what it was when this was planned.
            ReviewError: the system or git refused. In both cases nothing is changed.
        """
        _check(operation.disk)
        known = self._read()
        self._write([*known, operation][-_MOST_KEPT:])
        try:
            self._change(operation.disk, operation.root)
            try:
                _change_index(operation)
            except BaseException:
                self._change(_reversed(operation.disk), operation.root)
                raise
        except (ReviewError, GitError, CheckpointError) as error:
            self._write(known)
            if isinstance(error, ReviewError):
                raise
            raise ReviewError(f"nothing was changed: {error}") from error

    def undo(self) -> tuple[ReviewOperation, tuple[str, ...]]:
        """Revert the newest; returns it, and what was not reverted.

        Raises:
            NothingToUndoError: there is none.
            ChangedMeanwhileError: a file was changed since; nothing was changed.
            ReviewError: the system refused; nothing was changed.
        """
        known = self._read()
        if not known:
            raise NothingToUndoError("there is no acceptance or rejection to undo")
        last = known[-1]
        # After a crash some of it may not be done.
        _check(last.disk, or_done=True)
        self._change(_reversed(last.disk), last.root)
        notes = _undo_index(last)
        self._write(known[:-1])
        return last, notes

    def _change(self, steps: Sequence[DiskStep], root: bytes) -> None:
        done: list[DiskStep] = []
        try:
            for step in steps:
                self._put(step, root)
                done.append(step)
        except OSError as error:
            for step in reversed(done):
                self._put(DiskStep(path=step.path, name=step.name, after=step.before), root)
            raise ReviewError(
                f"{steps[len(done)].name!r} cannot be written: {error.strerror or error}. Nothing "
                "was changed."
            ) from error

    def _put(self, step: DiskStep, root: bytes) -> None:
        if step.after is None:
            remove_file(step.path, root)
        else:
            put(step.path, step.after, self.blobs.get(step.after.digest))

    def _read(self) -> list[ReviewOperation]:
        try:
            data = (self._directory / _FILE).read_bytes()
            return decode_msgpack(data, list[ReviewOperation])
        except (OSError, msgspec.DecodeError):
            return []

    def _write(self, operations: list[ReviewOperation]) -> None:
        make_private(self._directory)
        write_whole(self._directory / _FILE, msgspec.msgpack.encode(operations), durable=True)


def look_at(path: bytes, blobs: BlobStore | None = None) -> FileState | None:
    """What is at a path; a directory is nothing, as for git. With ``blobs`` its content is kept."""
    state = read_file_state(path, blobs)
    is_directory = state is not None and state.digest == str(stat.S_IFDIR)
    return None if is_directory else state


def _reversed(steps: Iterable[DiskStep]) -> list[DiskStep]:
    return [
        DiskStep(path=step.path, name=step.name, before=step.after, after=step.before)
        for step in reversed(tuple(steps))
    ]


def _check(steps: Iterable[DiskStep], *, or_done: bool = False) -> None:
    """Make sure that files are what they were, or already what they are to be."""
    for step in steps:
        now = look_at(step.path)
        if now != step.before and not (or_done and now == step.after):
            raise ChangedMeanwhileError(step.name)


def _change_index(operation: ReviewOperation) -> None:
    if operation.top is None or not operation.index:
        return
    entries = IndexEntries(_open(operation.top, operation.git_dir))
    entries.write({step.path: step.after for step in operation.index})


def _open(top: str, git_dir: str | None) -> GitRepository:
    """The repository that was reviewed. Raises GitUnsafeError if it is another by now."""
    found = expect_repository(top)
    if found.top != top or git_dir not in (None, found.git_dir):
        raise GitUnsafeError(
            f"{top!r} is not a work tree of {git_dir!r} any more; restore its file .git"
        )
    return found


def _undo_index(operation: ReviewOperation) -> tuple[str, ...]:
    """Bring entries of the index back that are as they were left; says which are not."""
    if operation.top is None or not operation.index:
        return ()
    try:
        entries = IndexEntries(_open(operation.top, operation.git_dir))
        now = entries.read([step.path for step in operation.index])
        back = [step for step in operation.index if now.get(step.path) == step.after]
        entries.write({step.path: step.before for step in back})
    except GitError as error:
        return (f"the index was not changed: {error}",)
    if len(back) < len(operation.index):
        return ("what was staged since stays staged",)
    return ()
