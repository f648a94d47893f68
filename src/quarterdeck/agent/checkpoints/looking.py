"""What is at a path right now. Everything here blocks."""

import errno
import os
import stat

from quarterdeck.system.paths import real_directory
from quarterdeck.system.plain_file import open_plain_file

from .blobs import Blobs, digest_of
from .entries import Entry

__all__ = ["LARGEST", "fingerprint", "look_at"]

_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
"""What the system says of a way that ends early, or of a symlink on it."""
LARGEST = 10_000_000
"""Bytes of a file beyond which its content is not kept."""


def look_at(path: bytes, blobs: Blobs | None = None) -> Entry | None:
    """What is there; with ``blobs`` its content is kept. Symlinks are not followed.

    None: nothing, also where a part of the way is no directory, or a symlink. A directory is
    ``other``.
    """
    parent, _, name = path.rpartition(b"/")
    try:
        with real_directory(parent) as directory:
            return _look(directory, name, blobs)
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        raise


def _look(directory: int, name: bytes, blobs: Blobs | None) -> Entry:
    status = os.lstat(name, dir_fd=directory)
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=directory)
        return Entry(kind="link", digest=_keep(target, blobs))
    if not stat.S_ISREG(status.st_mode):
        return Entry(kind="other", digest=str(stat.S_IFMT(status.st_mode)))
    if status.st_size > LARGEST:
        return fingerprint(status)
    try:
        with open_plain_file(name, follow=False, dir_fd=directory) as file:
            data = file.read(LARGEST + 1)
    except OSError:  # it may not be read, or is something else by now
        return fingerprint(status)
    return Entry(
        kind="file", digest=_keep(data, blobs), executable=bool(status.st_mode & stat.S_IXUSR)
    )


def fingerprint(status: os.stat_result) -> Entry:
    """A file whose content is not kept; a change of size or time tells two states apart."""
    return Entry(kind="large", digest=f"{status.st_size}-{status.st_mtime_ns}")


def _keep(data: bytes, blobs: Blobs | None) -> str:
    return digest_of(data) if blobs is None else blobs.put(data)
