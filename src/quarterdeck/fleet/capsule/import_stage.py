"""An import that appears in one step: all is prepared aside, then a plan is written, then carried
out.

Until the plan is there, nothing of an import counts, and what is left of one is deleted by the
next. From then on all of it counts: what was interrupted is finished by the next import. Nothing
that exists is replaced. Everything here blocks.
"""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.config.places import Places, make_private
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.filelock import open_lock, release_lock, try_lock
from quarterdeck.wire.private_files import make_private_directory, open_private, write_private

from .errors import CapsuleError

__all__ = ["ImportStage", "open_stage"]

_PLAN, _BESIDE = "plan.json", "beside"
_PREFIX = "stage-"
_Kind: TypeAlias = Literal["file", "directory"]


class _Move(Struct, frozen=True):
    kind: _Kind
    source: str
    target: str


class ImportStage:
    """A directory of ours in which an import is prepared."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._moves: list[_Move] = []

    def add(self, source: Path, target: Path, kind: _Kind = "file") -> None:
        """Plan that something which is prepared goes to its place, if nothing is there."""
        self._moves.append(_Move(kind, str(source), str(target)))

    def note_beside(self, path: Path) -> None:
        """Something is prepared outside of this directory; it goes if this import does."""
        (self.directory / _BESIDE).write_bytes(os.fsencode(path))

    def commit(self) -> None:
        """The one step; then carry the plan out. Raises OSError."""
        write_private(self.directory / _PLAN, msgspec.json.encode(self._moves).decode())
        _finish(self.directory)


@contextmanager
def open_stage(places: Places) -> Generator[ImportStage]:
    """A new stage; one at a time. What an earlier import left is finished or deleted first.

    Raises:
        CapsuleError: another import runs.
        OSError: the disk failed.
    """
    top = make_private(places.state / "capsules")
    handle = open_lock(top / "lock")
    if not try_lock(handle):
        os.close(handle)
        raise CapsuleError("another capsule is being imported; try again when it is done")
    try:
        for left in sorted(top.glob(f"{_PREFIX}*")):
            _finish(left) if (left / _PLAN).exists() else _drop(left)
        directory = Path(tempfile.mkdtemp(dir=top, prefix=_PREFIX))
        try:
            yield ImportStage(directory)
        finally:
            if not (directory / _PLAN).exists():
                _drop(directory)
    finally:
        release_lock(handle)


def _drop(directory: Path) -> None:
    with suppress(OSError):
        beside = Path(os.fsdecode((directory / _BESIDE).read_bytes()))
        shutil.rmtree(beside, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)


def _finish(directory: Path) -> None:
    for move in decode_json((directory / _PLAN).read_bytes(), tuple[_Move, ...]):
        source, target = Path(move.source), Path(move.target)
        if not source.exists():
            continue  # done before
        if move.kind == "directory":
            with suppress(OSError):
                target.rmdir()  # an empty one
            source.rename(target)
            continue
        make_private_directory(target.parent, is_ours=False)
        _place(source, target)
    (directory / _BESIDE).unlink(missing_ok=True)
    shutil.rmtree(directory)


def _place(source: Path, target: Path) -> None:
    """Move a file, also to another disk; one that is there stays."""
    try:
        os.link(source, target)
    except FileExistsError:
        pass
    except OSError:
        beside = target.with_name(f".{target.name}.{os.getpid()}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with source.open("rb") as data, os.fdopen(open_private(beside, flags), "wb") as copy:
            shutil.copyfileobj(data, copy, 1 << 20)
        with suppress(FileExistsError):
            os.link(beside, target)
        beside.unlink()
    source.unlink()
