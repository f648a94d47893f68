"""Locks on files between processes; each belongs to an open file and ends with its process.

A lock file stays when its lock is given back: removing it would let two processes lock two files of
one name. Children do not inherit the open file, but one that another thread is starting has it
until its program runs; so a lock is given back before the file is closed. In ``wire``, because the
log, settings and grants lock files too, and none of those rooms knows the others.
"""

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from .private_files import open_private

__all__ = ["hold_lock", "open_lock", "release_lock", "try_lock"]

_HELD = (errno.EWOULDBLOCK, errno.EACCES)


def open_lock(path: Path) -> int:
    """Open a lock file, made for its owner alone if there is none. Raises OSError."""
    return open_private(path, os.O_RDWR | os.O_CREAT)


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Take the lock of an open file; False: another has it.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


def release_lock(handle: int) -> None:
    """Give a lock back, and close its file."""
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextmanager
def hold_lock(path: Path) -> Generator[None]:
    """Hold the lock of a file, once the one who has it gives it back; blocks. Raises OSError."""
    handle = open_lock(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        release_lock(handle)
