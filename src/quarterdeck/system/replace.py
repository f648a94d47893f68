"""The atomic write: a new file beside the old one, moved over it when it is whole on disk."""

import os
import stat as modes
from collections.abc import Callable
from contextlib import suppress

from quarterdeck.system.paths import Place

__all__ = ["TEMPORARY_PREFIX", "replace_content"]

TEMPORARY_PREFIX = ".quarterdeck-"
"""Begins the name of every temporary file; only a killed process leaves one behind."""


def replace_content(
    place: Place, data: bytes, check: Callable[[], os.stat_result | None]
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
        # As the kernel does for whoever writes: other content does not get another's rights.
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
