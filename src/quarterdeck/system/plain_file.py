"""Files that somebody else named: opened only if they are regular, so that nothing waits for ever.

Opening a named pipe waits for a writer, reading a device may never end, and what was a file when it
was looked at may be something else when it is opened. So the look comes after the opening.
"""

import errno
import os
import stat
from typing import BinaryIO

__all__ = ["open_plain_file", "read_plain_file"]


def open_plain_file(
    path: str | bytes | os.PathLike[str], *, follow: bool = True, dir_fd: int | None = None
) -> BinaryIO:
    """Open a regular file for reading; ``follow``: a link to one counts. Blocks.

    ``dir_fd``: the open directory where a relative path begins.

    Raises:
        OSError: it cannot be opened, or it is no regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    flags |= 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, flags, dir_fd=dir_fd)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
        raise OSError(errno.EINVAL, "it is no regular file", os.fsdecode(path))
    return os.fdopen(descriptor, "rb")


def read_plain_file(path: str | bytes | os.PathLike[str], most: int) -> bytes:
    """The first ``most`` bytes of a regular file. Blocks. Raises as ``open_plain_file``."""
    with open_plain_file(path) as file:
        return file.read(most)
