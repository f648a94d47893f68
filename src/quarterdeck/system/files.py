"""Files of this machine, inside their roots; a write replaces the file in one step.

Every method does its work in one call to a thread and holds no descriptor between calls, so that a
cancelled caller leaks nothing. Reading never opens a pipe or a device: opening alone can block or
act.
"""

import asyncio
import errno
import functools
import os
import stat as modes
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from quarterdeck.system.api import (
    DirectoryEntry,
    FileContent,
    FileIdentity,
    FileKind,
    FileLines,
    Files,
    FileStat,
    PathLike,
)
from quarterdeck.system.errors import (
    FileChangedError,
    NoSuchPathError,
    PathRefusedError,
    SpecialFileError,
)
from quarterdeck.system.file_reader import read_window
from quarterdeck.system.paths import ConfinedPath, Roots

if TYPE_CHECKING:
    import hashlib

__all__ = ["TEMPORARY_PREFIX", "LocalFiles", "replace_content"]

TEMPORARY_PREFIX = ".quarterdeck-"
"""Begins the name of every temporary file; only a killed process leaves one behind."""


def replace_content(
    place: ConfinedPath, data: bytes, check: Callable[[], os.stat_result | None]
) -> os.stat_result:
    """Put ``data`` at ``place``; give the status of the new file.

    ``check`` says what is there to be replaced (None: nothing) or raises; it is asked before
    anything is written and again just before the move. A symlink that appears at the place in
    between is replaced itself: nothing is ever written through it.

    Hard links to the old file keep the old content: that is the price of the single step. Blocks.
    Raises OSError and what ``check`` raises; no temporary file stays behind then.
    """
    old = check()
    name = f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # The mode of a new file is the system's to decide (umask); that of an old one is kept.
    descriptor = os.open(name, flags, 0o666 if old is None else 0o600, dir_fd=place.directory)
    try:
        try:
            _fill(descriptor, data, old)
            check()
            os.rename(name, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place.directory)
            raise
        written = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    _sync_directory(place.directory)
    return written


def _fill(descriptor: int, data: bytes, old: os.stat_result | None) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    if old is not None:
        with suppress(PermissionError):  # only root may give a file away
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(descriptor, old.st_uid, old.st_gid)
        # As the kernel does on a write: other content does not get another's rights.
        os.fchmod(descriptor, modes.S_IMODE(old.st_mode) & ~(modes.S_ISUID | modes.S_ISGID))
    os.fsync(descriptor)


def _sync_directory(directory: int) -> None:
    """Make the move itself durable where the file system can."""
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_DIGEST_LIMIT = 8 * 1_048_576  # hashing costs about 1 ms per MiB
_PIECE = 1_048_576
_BATCH = 512
_BATCH_SECONDS = 0.05


class LocalFiles:
    """The ``Files`` port on this machine."""

    is_disk = True

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    async def stat(self, path: PathLike, *, follow: bool = True) -> FileStat:
        """Look at a path."""
        return await asyncio.to_thread(self._stat, path, follow)

    async def read(
        self, path: PathLike, *, offset: int = 0, limit: int | None = None
    ) -> FileContent:
        """Read bytes of a file."""
        return await asyncio.to_thread(self._read, path, offset, limit)

    async def read_lines(
        self,
        path: PathLike,
        *,
        line: int = 1,
        limit: int | None = None,
        max_bytes: int = 1_048_576,
    ) -> FileLines:
        """Read a window of lines."""
        return await asyncio.to_thread(self._read_lines, path, line, limit, max_bytes)

    async def write(
        self,
        path: PathLike,
        data: bytes,
        *,
        expected: FileIdentity | None = None,
        create: bool | None = None,
    ) -> FileIdentity:
        """Replace the content of a file in one step."""
        return await asyncio.to_thread(self._write, path, data, expected, create)

    async def list(self, path: PathLike = ".") -> tuple[DirectoryEntry, ...]:
        """The entries of a directory."""
        return await asyncio.to_thread(self._list, path)

    async def walk(
        self,
        path: PathLike = ".",
        *,
        limit: int = 100_000,
        prune: Callable[[DirectoryEntry], bool] | None = None,
    ) -> AsyncIterator[DirectoryEntry]:
        """Everything below a directory."""
        walker = _Walker(self._roots, os.fspath(path), prune)
        while limit > 0 and (batch := await asyncio.to_thread(walker.batch, limit)):
            limit -= len(batch)
            for entry in batch:
                yield entry

    async def make_directory(self, path: PathLike) -> None:
        """Make a directory and its parents."""
        await asyncio.to_thread(self._make_directory, path)

    async def remove(self, path: PathLike) -> None:
        """Remove a file, a symlink or an empty directory."""
        await asyncio.to_thread(self._remove, path)

    async def rename(self, source: PathLike, target: PathLike) -> None:
        """Move within the roots."""
        await asyncio.to_thread(self._rename, source, target)

    def _stat(self, path: PathLike, follow: bool) -> FileStat:
        with self._roots.place(path, follow=follow) as place:
            found = place.stat()
            return FileStat(
                path=place.path,
                kind=_kind(found.st_mode),
                mode=modes.S_IMODE(found.st_mode),
                identity=_identity(found),
            )

    def _read(self, path: PathLike, offset: int, limit: int | None) -> FileContent:
        with self._roots.place(path) as place:
            descriptor = _open_regular(place, os.fspath(path))
            try:
                before = os.fstat(descriptor)
                data = _pread(descriptor, offset, limit)
                at_end = not os.pread(descriptor, 1, offset + len(data))
            finally:
                os.close(descriptor)
        is_whole = offset == 0 and at_end and len(data) <= _DIGEST_LIMIT
        digest = _digest_of(data) if is_whole else ""
        return FileContent(data=data, identity=_identity(before, digest), at_end=at_end)

    def _read_lines(
        self, path: PathLike, line: int, limit: int | None, max_bytes: int
    ) -> FileLines:
        with self._roots.place(path) as place:
            descriptor = _open_regular(place, os.fspath(path))
            try:
                before = os.fstat(descriptor)
                hasher = _hasher() if before.st_size <= _DIGEST_LIMIT else None
                window = read_window(descriptor, max(line, 1), limit, max_bytes, hasher)
            finally:
                os.close(descriptor)
        return FileLines(
            data=window.data,
            identity=_identity(before, hasher.hexdigest() if hasher else ""),
            first=max(line, 1),
            count=window.count,
            total=window.total,
            is_cut=window.is_cut,
        )

    def _write(
        self, path: PathLike, data: bytes, expected: FileIdentity | None, create: bool | None
    ) -> FileIdentity:
        text = os.fspath(path)
        with self._roots.place(path, parents=create is not False) as place:

            def check() -> os.stat_result | None:
                """What is there now, if it may be replaced; asked twice."""
                return _check_target(place, text, expected, create)

            written = replace_content(place, data, check)
        return _identity(written, _digest_of(data) if len(data) <= _DIGEST_LIMIT else "")

    def _list(self, path: PathLike) -> tuple[DirectoryEntry, ...]:
        with self._roots.place(path) as place:
            return tuple(_scan(place, with_sizes=True))

    def _make_directory(self, path: PathLike) -> None:
        with self._roots.place(path, parents=True) as place:
            try:
                os.mkdir(place.name, dir_fd=place.directory)
            except FileExistsError:
                if not modes.S_ISDIR(place.stat().st_mode):
                    raise

    def _remove(self, path: PathLike) -> None:
        with self._roots.place(path, follow=False) as place:
            if place.name == ".":
                raise PathRefusedError(os.fspath(path), "a root cannot be removed")
            if modes.S_ISDIR(place.stat().st_mode):
                os.rmdir(place.name, dir_fd=place.directory)
            else:
                os.unlink(place.name, dir_fd=place.directory)

    def _rename(self, source: PathLike, target: PathLike) -> None:
        with (
            self._roots.place(source, follow=False) as old,
            self._roots.place(target, follow=False, parents=True) as new,
        ):
            if "." in (old.name, new.name):
                raise PathRefusedError(os.fspath(source), "a root cannot be moved or replaced")
            os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)


class _Walker:
    """A walk in batches. It keeps names, not descriptors: each directory is found anew."""

    def __init__(
        self, roots: Roots, top: str, prune: Callable[[DirectoryEntry], bool] | None
    ) -> None:
        self._roots = roots
        self._top = top
        self._prune = prune
        self._waiting: list[DirectoryEntry] = []
        self._has_begun = False

    def batch(self, limit: int) -> list[DirectoryEntry]:
        """The next entries, at least one unless the walk is over. Raises as ``Roots.place``."""
        if not self._has_begun:
            self._push("")
            self._has_begun = True
        found: list[DirectoryEntry] = []
        deadline = time.monotonic() + _BATCH_SECONDS
        while self._waiting and len(found) < min(limit, _BATCH):
            entry = self._waiting.pop()
            found.append(self._entered(entry) if entry.kind == "directory" else entry)
            if time.monotonic() > deadline:
                break
        return found

    def _entered(self, entry: DirectoryEntry) -> DirectoryEntry:
        try:
            self._push(entry.path)
        except (NoSuchPathError, PathRefusedError) as error:
            return DirectoryEntry(path=entry.path, kind="directory", problem=str(error))
        return entry

    def _push(self, below: str) -> None:
        with self._roots.place(f"{self._top}/{below}", follow=not below) as place:
            entries = list(_scan(place, with_sizes=False))
        prefix = f"{below}/" if below else ""
        named = [
            DirectoryEntry(path=prefix + entry.path, kind=entry.kind) for entry in reversed(entries)
        ]
        self._waiting += [e for e in named if self._prune is None or not self._prune(e)]


def _scan(place: ConfinedPath, *, with_sizes: bool) -> list[DirectoryEntry]:
    descriptor = place.open(os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as found:
            entries = [_entry(item, with_sizes) for item in found]
    finally:
        os.close(descriptor)
    return sorted((e for e in entries if e is not None), key=lambda entry: entry.path)


def _entry(item: os.DirEntry[str], with_sizes: bool) -> DirectoryEntry | None:
    if not with_sizes:
        # The directory itself knows these three kinds; only the rest costs a look at the file.
        if item.is_symlink():
            return DirectoryEntry(path=item.name, kind="symlink")
        if item.is_dir(follow_symlinks=False):
            return DirectoryEntry(path=item.name, kind="directory")
        if item.is_file(follow_symlinks=False):
            return DirectoryEntry(path=item.name, kind="file")
    try:
        found = item.stat(follow_symlinks=False)
    except FileNotFoundError:  # removed since the directory was read
        return None
    return DirectoryEntry(
        path=item.name,
        kind=_kind(found.st_mode),
        size=found.st_size,
        modified_ns=found.st_mtime_ns,
    )


def _check_target(
    place: ConfinedPath, path: str, expected: FileIdentity | None, create: bool | None
) -> os.stat_result | None:
    try:
        found = place.stat()
    except FileNotFoundError:
        if create is False:
            raise
        if expected is not None:
            raise FileChangedError(path, "was removed") from None
        return None
    kind = _kind(found.st_mode)
    if kind == "directory":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if kind == "symlink":  # it was none when the path was resolved
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if kind != "file":
        raise SpecialFileError(path, kind)
    if create:
        raise FileChangedError(path, "exists, although it was not expected to,")
    if expected is not None and not _is_still(place, path, found, expected):
        raise FileChangedError(path, "was changed")
    return found


def _is_still(
    place: ConfinedPath, path: str, found: os.stat_result, expected: FileIdentity
) -> bool:
    if not expected.digest:
        return _identity(found) == expected
    if found.st_size != expected.size:
        return False
    descriptor = _open_regular(place, path)
    try:
        return _digest_of(_pread(descriptor, 0, expected.size + 1)) == expected.digest
    finally:
        os.close(descriptor)


def _open_regular(place: ConfinedPath, path: str) -> int:
    """Open a regular file for reading. Raises SpecialFileError and OSError; never blocks."""
    kind = _kind(place.stat().st_mode)
    if kind == "directory":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if kind not in ("file", "symlink"):
        raise SpecialFileError(path, kind)
    descriptor = place.open(os.O_RDONLY | os.O_NONBLOCK)
    if os.fstat(descriptor).st_dev == _processes_device():
        # Of this very process, for one: its environment has keys that no tool may see.
        os.close(descriptor)
        raise PathRefusedError(path, "it describes processes, not files")
    # Looked at again: what was a file a moment ago may have been replaced.
    kind = _kind(os.fstat(descriptor).st_mode)
    if kind != "file":
        os.close(descriptor)
        raise SpecialFileError(path, kind)
    return descriptor


@functools.cache
def _processes_device() -> int | None:
    """The device of the files that the kernel makes up about processes."""
    try:
        return os.lstat("/proc/self/status").st_dev
    except OSError:
        return None


def _pread(descriptor: int, offset: int, limit: int | None) -> bytes:
    pieces: list[bytes] = []
    left = limit
    while left is None or left > 0:
        piece = os.pread(descriptor, _PIECE if left is None else min(_PIECE, left), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        left = None if left is None else left - len(piece)
    return b"".join(pieces)


def _hasher(data: bytes = b"") -> "hashlib.blake2b":
    import hashlib  # late: it loads OpenSSL

    return hashlib.blake2b(data)


def _digest_of(data: bytes) -> str:
    return _hasher(data).hexdigest()


def _identity(found: os.stat_result, digest: str = "") -> FileIdentity:
    return FileIdentity(
        device=found.st_dev,
        inode=found.st_ino,
        size=found.st_size,
        modified_ns=found.st_mtime_ns,
        digest=digest,
    )


def _kind(mode: int) -> FileKind:
    if modes.S_ISREG(mode):
        return "file"
    if modes.S_ISDIR(mode):
        return "directory"
    if modes.S_ISLNK(mode):
        return "symlink"
    if modes.S_ISFIFO(mode):
        return "pipe"
    return "socket" if modes.S_ISSOCK(mode) else "device"


if TYPE_CHECKING:
    _files: Files = LocalFiles(Roots(["/"]))
