"""One path at a time: what stands in the way, deleting, putting a content in place. Blocks."""
# Names of files may be no text, and pathlib takes text alone.
# ruff: noqa: PTH103, PTH105, PTH106, PTH108, PTH112, PTH114, PTH118, PTH119, PTH120, PTH211

import os
import stat
from contextlib import suppress

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

    An empty directory gives way; the bits of a file that is there stay, but *executable*.
    """
    parent = os.path.dirname(path)
    os.makedirs(parent, exist_ok=True)
    if os.path.isdir(path) and not os.path.islink(path):
        _remove_empty(path)
    beside = _temporary(path)
    with suppress(FileNotFoundError):
        os.unlink(beside)
    if entry.kind == "link":
        os.symlink(data, beside)
    else:
        _write(beside, data, _mode(path), entry.executable)
    os.replace(beside, path)


def delete(path: bytes, root: bytes) -> None:
    """Delete a file, and the directories below ``root`` that are empty then. Raises OSError."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)
    parent = os.path.dirname(path)
    with suppress(OSError):  # as git does: a directory that holds nothing any more goes as well
        while not is_within(root, parent):
            os.rmdir(parent)
            parent = os.path.dirname(parent)


def _remove_empty(directory: bytes) -> None:
    """Remove a directory that holds nothing but such. Raises OSError where there is a file."""
    for here, _, _ in os.walk(directory, topdown=False):
        os.rmdir(here)


def _mode(path: bytes) -> int | None:
    """The bits of the file that is there; None: the system decides, as for every new file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def _write(path: bytes, data: bytes, mode: int | None, executable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666 if mode is None else 0o600)
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
    with suppress(OSError):
        os.unlink(_temporary(path))


def _temporary(path: bytes) -> bytes:
    return os.path.join(os.path.dirname(path), _TEMPORARY + os.path.basename(path)[:200])
