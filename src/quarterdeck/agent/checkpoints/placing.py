"""One path at a time: what stands in the way, deleting, putting a content in place. Blocks."""
# Names of files may be no text, and pathlib takes text alone.
# ruff: noqa: PTH112, PTH114, PTH118, PTH120

import os
import stat
from contextlib import suppress

from quarterdeck.system.paths import real_directory

from .entries import Entry, is_within

__all__ = ["delete", "link_before", "put", "remove_temporary", "will_be_empty"]

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


def put(path: bytes, entry: Entry, data: bytes) -> None:
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


def delete(path: bytes, root: bytes) -> None:
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
