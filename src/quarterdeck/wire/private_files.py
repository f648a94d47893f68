"""Files and directories for their owner alone, whatever the umask; blocks for a moment.

What we keep (transcripts, grants, trust, drafts) is private, and write access to it would be enough
to grant. What an earlier version or a careless copy left open is closed when it is used.
"""

import os
import stat
from pathlib import Path

__all__ = ["close_to_others", "make_private_directory", "open_private", "write_private"]

_OTHERS = 0o077


def make_private_directory(path: Path, *, is_ours: bool = True) -> None:
    """Make a directory, and those above it that are missing, with access for the owner alone.

    ``is_ours``: it is one of this program's own; if it exists, others lose their access to it.

    Raises:
        PermissionError: it belongs to another user, who could replace what is in it.
        OSError: it cannot be made.
    """
    missing = [path]
    while not missing[-1].exists() and missing[-1].parent != missing[-1]:
        missing.append(missing[-1].parent)
    # Path.mkdir(mode, parents=True) gives the mode to the last directory alone.
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)
    if is_ours:
        status = path.stat()
        if status.st_uid not in (os.getuid(), 0) and os.getuid() != 0:
            raise PermissionError(1, "it belongs to another user", str(path))
        if stat.S_IMODE(status.st_mode) & _OTHERS and status.st_uid == os.getuid():
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)


def open_private(path: Path | str, flags: int) -> int:
    """Open a file, made if ``flags`` say so, that only its owner can read or write.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        status = os.fstat(descriptor)
        if _is_open(status) and stat.S_ISREG(status.st_mode):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_OTHERS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def close_to_others(path: Path) -> None:
    """Take the access of others to a file of ours away; nothing where there is none."""
    try:
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and _is_open(status):
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
    except OSError:
        # It is gone, or on a disk that knows no owners: the directory guards it.
        return


def _is_open(status: os.stat_result) -> bool:
    return bool(status.st_mode & _OTHERS) and status.st_uid == os.getuid()


def write_private(path: Path, content: str | bytes) -> None:
    """Replace a file; a crash leaves the old one or the new one. Blocks.

    Raises:
        OSError: it cannot be written; the old one stays.
    """
    import tempfile  # costs milliseconds, and every start loads this module

    target = path.resolve()  # a link of the person's own stays one
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(handle)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
