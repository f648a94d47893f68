"""Copies of files from one tree into another: by reference where the file system can.

No symbolic link is followed, in either tree: a link is copied as a link, and a directory that is
one is refused. Modes and times of files are kept. Everything here blocks.
"""

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import groupby

from msgspec import Struct

__all__ = ["CopiedFile", "TreeCopier"]

_CLONE = 0x40049409
"""``FICLONE`` of Linux: both files share their blocks until one of them is changed."""
_PIECE = 1 << 24
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 4
_TOGETHER = 100
"""Files of one directory that one thread copies."""


class CopiedFile(Struct, frozen=True, kw_only=True):
    """A file as it is in the new tree."""

    path: bytes
    """Relative to the top."""
    size: int
    modified_ns: int


def _share_blocks(new: int, old: int) -> None:
    fcntl.ioctl(new, _CLONE, old)


class TreeCopier:
    """Copies files between the same places of two directories.

    ``skipped`` has what could not be copied, with the reason; a full disk is raised.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        replaces: bool = False,
        clone: Callable[[int, int], None] = _share_blocks,
    ) -> None:
        """``replaces``: a file that is there is replaced; else it stays. ``clone``: gives the first
        open file the content of the second by reference; raises OSError where that is impossible.
        """
        self._source = os.fsencode(source)
        self._target = os.fsencode(target)
        self._replaces = replaces
        self._share = clone
        self._can_clone = sys.platform == "linux"
        self.skipped: dict[bytes, str] = {}

    def copy(self, names: Iterable[bytes]) -> list[CopiedFile]:
        """Copy files by their names relative to the top; returns those that were copied.

        Raises:
            OSError: the disk is full, or the top directories are not there.
        """
        folders = groupby(sorted(names, key=_parts), key=lambda name: name.rpartition(b"/")[0])
        batches = [
            (folder, some)
            for folder, group in folders
            for some in _pieces([name.rpartition(b"/")[2] for name in group])
        ]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="copy") as pool:
            return [one for done in pool.map(self._copy_folder, batches) for one in done]

    def _copy_folder(self, batch: tuple[bytes, list[bytes]]) -> list[CopiedFile]:
        folder, names = batch
        found: list[CopiedFile] = []
        try:
            with self._opened(folder) as (source, target):
                for name in names:
                    path = folder + b"/" + name if folder else name
                    with self._noted(path):
                        copied = self._copy_one(source, target, name)
                        if copied is not None:
                            size, modified = copied.st_size, copied.st_mtime_ns
                            found.append(CopiedFile(path=path, size=size, modified_ns=modified))
        except OSError as error:
            if error.errno in _FATAL:
                raise
            self.skipped.update(dict.fromkeys((folder + b"/" + name for name in names), str(error)))
        return found

    @contextmanager
    def _noted(self, path: bytes) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            pass  # it is gone meanwhile
        except FileExistsError:
            pass  # what is there counts
        except OSError as error:
            if error.errno in _FATAL:
                raise
            self.skipped[path] = error.strerror or str(error)

    @contextmanager
    def _opened(self, folder: bytes) -> Generator[tuple[int, int]]:
        """The same directory in both trees; it is made in the second."""
        source = os.open(self._source, _DIRECTORY)
        try:
            target = os.open(self._target, _DIRECTORY)
            try:
                for name in folder.split(b"/") if folder else ():
                    source = _step(source, name)
                    mode = stat.S_IMODE(os.fstat(source).st_mode) | stat.S_IRWXU
                    with suppress(FileExistsError):
                        os.mkdir(name, mode, dir_fd=target)
                    target = _step(target, name)
                yield source, target
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _copy_one(self, source: int, target: int, name: bytes) -> os.stat_result | None:
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif stat.S_ISREG(status.st_mode):
            self._copy_file(source, target, name)
        else:
            return None
        return os.stat(name, dir_fd=target, follow_symlinks=False)

    def _copy_file(self, source: int, target: int, name: bytes) -> None:
        old = os.open(name, _READ, dir_fd=source)
        try:
            status = os.fstat(old)
            how = os.O_TRUNC if self._replaces else os.O_EXCL
            new = os.open(name, _WRITE | how, stat.S_IMODE(status.st_mode), dir_fd=target)
            try:
                self._fill(old, new, status.st_size)
                os.fchmod(new, stat.S_IMODE(status.st_mode))
                os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
            except BaseException:
                with suppress(OSError):
                    os.unlink(name, dir_fd=target)
                raise
            finally:
                os.close(new)
        finally:
            os.close(old)

    def _fill(self, old: int, new: int, size: int) -> None:
        if self._clone(old, new) or _copy_range(old, new, size):
            return
        # Whatever is still missing: some file systems copy nothing that way, and say no word.
        while piece := os.read(old, 1 << 20):
            view = memoryview(piece)
            while view:
                view = view[os.write(new, view) :]

    def _clone(self, old: int, new: int) -> bool:
        """Share the blocks, if the file system can."""
        if self._can_clone:
            try:
                self._share(new, old)
            except OSError as error:
                if error.errno in _FATAL:
                    raise
                self._can_clone = False  # this file system cannot, or these are two of them
        return self._can_clone


_FATAL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})


def _copy_range(old: int, new: int, size: int) -> bool:
    """Let the kernel copy as many bytes as a file had when it was opened; False: it did not."""
    if sys.platform != "linux" or not size:
        return False
    try:
        while size > 0 and (done := os.copy_file_range(old, new, _PIECE)):
            size -= done
    except OSError as error:
        if error.errno in _FATAL:
            raise
    return size <= 0


def _step(descriptor: int, name: bytes) -> int:
    """The directory below; the one above is closed then."""
    below = os.open(name, _DIRECTORY, dir_fd=descriptor)
    os.close(descriptor)
    return below


def _pieces(names: list[bytes]) -> list[list[bytes]]:
    return [names[start : start + _TOGETHER] for start in range(0, len(names), _TOGETHER)]


def _parts(name: bytes) -> tuple[bytes, bytes]:
    folder, _, last = name.rpartition(b"/")
    return folder, last
