"""What is kept about worktrees on disk: those that we made, and those in the trash.

Agents can write to a worktree and to its part of the git directory; these files are ours alone.
They say what was under way when the host was killed. Everything here blocks.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from quarterdeck.system.errors import GitError
from quarterdeck.wire.decoders import decode_json, decode_msgpack
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.private_files import make_private_directory
from quarterdeck.wire.worktrees import Worktree

__all__ = ["IncludedFile", "TrashRecord", "WorktreeRecord", "WorktreeRecords", "WorktreeStage"]

WorktreeStage: TypeAlias = Literal["making", "ready", "parked", "deleting"]
"""Parked: its files were moved, and it may come back; deleting: all of value is safe."""
T = TypeVar("T", bound="WorktreeRecord | TrashRecord")


class IncludedFile(Struct, frozen=True, array_like=True):
    """An ignored file that was copied into a worktree, as it was then."""

    path: bytes
    """Relative to the top."""
    size: int
    modified_ns: int


class WorktreeRecord(Struct, frozen=True, kw_only=True):
    """A worktree that we made."""

    v: Literal[1] = 1
    name: str
    worktree: Worktree
    git_dir: str | None = None
    """The directory that git knows it by; None while that is not made yet."""
    stage: WorktreeStage = "making"
    restored_from: str | None = None
    """The commit in the trash, if it was restored from there."""
    created: int = 0
    """Microseconds since the epoch, as all times."""
    parked: str | None = None
    """Where its files are while it is being removed."""
    needs_setup: bool = False
    """The set-up commands have not run to their end yet."""
    landed: str | None = None
    """The commit that was checked out when its changes were merged."""
    landed_files: str | None = None
    """A commit with all its files as they were merged, uncommitted ones too; the first parent is
    what the branch pointed at then."""


class TrashRecord(Struct, frozen=True, kw_only=True):
    """A worktree that was discarded, and what is needed to restore it."""

    v: Literal[1] = 1
    id: str
    """The last part of the reference."""
    name: str
    worktree: Worktree
    reference: str
    commit: str
    """Everything that was in it, committed upon the tip of its branch."""
    tip: str
    discarded: int
    expires: int
    sessions: tuple[SessionId, ...] = ()


class WorktreeRecords:
    """The records below a directory of ours, one file each, replaced as a whole."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._made = directory / "records"
        self._trash = directory / "trash"

    def all(self) -> list[WorktreeRecord]:
        """Every worktree that we made and that is not gone; those that cannot be read left out."""
        return sorted(self._read_all(self._made, WorktreeRecord), key=lambda one: one.created)

    def find(self, path: str) -> WorktreeRecord | None:
        """The record of the worktree with this top."""
        return _read(self._made / f"{_key(path)}.json", WorktreeRecord)

    def write(self, record: WorktreeRecord) -> None:
        """Keep a record, in place of the one before. Raises GitError."""
        _write(self._made / f"{_key(record.worktree.path)}.json", record)

    def forget(self, path: str) -> None:
        """Drop what is kept about a worktree that is gone."""
        for kind in ("json", "files"):
            (self._made / f"{_key(path)}.{kind}").unlink(missing_ok=True)

    def included(self, path: str) -> dict[bytes, IncludedFile]:
        """The ignored files that were copied into a worktree."""
        try:
            data = (self._made / f"{_key(path)}.files").read_bytes()
            return {one.path: one for one in decode_msgpack(data, list[IncludedFile])}
        except (OSError, msgspec.DecodeError):
            return {}

    def write_included(self, path: str, files: Iterable[IncludedFile]) -> None:
        """Keep which files were copied. Raises GitError."""
        _replace(self._made / f"{_key(path)}.files", msgspec.msgpack.encode(list(files)))

    def trash(self) -> list[TrashRecord]:
        """What can be restored, newest first."""
        found = self._read_all(self._trash, TrashRecord)
        return sorted(found, key=lambda one: one.discarded, reverse=True)

    def write_trash(self, record: TrashRecord) -> None:
        """Keep what is needed to restore. Raises GitError."""
        _write(self._trash / f"{record.id}.json", record)

    def forget_trash(self, record: TrashRecord) -> None:
        """Drop a record of the trash."""
        (self._trash / f"{record.id}.json").unlink(missing_ok=True)

    def _read_all(self, directory: Path, kind: type[T]) -> Iterable[T]:
        found = (_read(path, kind) for path in directory.glob("*.json"))
        return [one for one in found if one is not None]


def _key(path: str) -> str:
    return hashlib.blake2b(os.fsencode(path), digest_size=12).hexdigest()


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return decode_json(path.read_bytes(), kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _write(path: Path, record: "WorktreeRecord | TrashRecord") -> None:
    _replace(path, msgspec.json.encode(record))


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make_private_directory(path.parent)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise GitError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
