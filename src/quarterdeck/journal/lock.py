"""One writer at a time: an advisory lock on a file beside the log.

The lock belongs to the open file, so the system drops it with the process however that ends.
The file stays: removing it would let two processes lock two different files of one name.
"""

import errno
import fcntl
import os
from pathlib import Path

from quarterdeck.wire.private_files import open_private

from .errors import (
    JournalLockedError,
    JournalReadOnlyError,
    JournalUnlockableError,
    JournalUnreachableError,
)

__all__ = ["acquire_lock", "lock_path", "release_lock"]

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}


def lock_path(path: Path) -> Path:
    """The file whose lock guards the log at ``path``."""
    return path.with_name(path.name + ".lock")


def acquire_lock(path: Path) -> int:
    """Become the one writer of the log at ``path``; returns what ``release_lock`` needs.

    Raises:
        JournalLockedError: another process is; it is named where its id can be read.
        JournalUnlockableError: the file system has no locks.
        JournalReadOnlyError: the lock file cannot be made.
        Unreachable: the directory is not there.
    """
    lock = lock_path(path)
    try:
        handle = open_private(lock, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise JournalReadOnlyError(path, str(error)) from error
        raise JournalUnreachableError(path, str(error)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = _holder(handle)
        os.close(handle)
        raise JournalLockedError(path, pid) from None
    except OSError as error:
        os.close(handle)
        if error.errno in _NO_LOCKS:
            raise JournalUnlockableError(path, str(error)) from error
        raise JournalUnreachableError(path, str(error)) from error
    _sign(handle)
    return handle


def release_lock(handle: int) -> None:
    """Let another writer in."""
    os.close(handle)


def _sign(handle: int) -> None:
    """Leave our process id for the message that a second writer gets."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    except OSError:
        # On a full disk the lock still holds; only its holder's name is missing.
        return


def _holder(handle: int) -> int | None:
    try:
        return int(os.pread(handle, 20, 0))
    except (OSError, ValueError):
        return None
