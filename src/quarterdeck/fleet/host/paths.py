"""Where a host's socket, lock and log file are. One host for each state directory."""

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from quarterdeck.config.errors import UnusablePlaceError
from quarterdeck.config.places import Places, make_private

__all__ = ["LONGEST_PATH", "lock_file", "log_file", "make_socket_directory", "socket_path"]

LONGEST_PATH = 103
"""Bytes that a socket's path may have: macOS takes 104 with the zero at the end, Linux 108."""


def lock_file(places: Places) -> Path:
    """The file whose lock makes a process the host; beside the log that it guards."""
    return places.journal_file.with_name("host.lock")


def log_file(places: Places) -> Path:
    """Where the host tells what it does."""
    return places.logs / "host.log"


def socket_path(places: Places) -> Path:
    """Where a host of these places listens; touches no file.

    The name depends on the state directory: two homes may share one runtime directory. A path
    that no socket can have is replaced by a short one below the directory for temporary files.
    """
    mark = hashlib.sha256(os.fsencode(places.state)).hexdigest()[:12]
    path = places.runtime / f"host-{mark}.sock"
    if _fits(path):
        return path
    for parent in (Path(tempfile.gettempdir()), Path("/tmp")):
        short = parent / f"quarterdeck-{os.getuid()}" / f"host-{mark}.sock"
        if _fits(short):
            return short
    raise UnusablePlaceError(
        f"cannot create a socket: {str(path)!r} is longer than {LONGEST_PATH} bytes and so is "
        f"{tempfile.gettempdir()!r}; set QUARTERDECK_HOME to a shorter path"
    )


def make_socket_directory(path: Path) -> None:
    """Make the socket's directory, and make sure that it is ours and ours alone.

    Raises:
        UnusablePlaceError: it cannot be made, is a link, or belongs to somebody else.
    """
    directory = path.parent
    make_private(directory)
    status = directory.lstat()
    # Whoever owns the directory could put a socket of their own there: in /tmp anybody can try.
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise UnusablePlaceError(
            f"{str(directory)!r} is not a directory that you own; remove it or set "
            "QUARTERDECK_HOME to a shorter path"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        try:
            directory.chmod(0o700)
        except OSError as error:
            raise UnusablePlaceError(f"cannot make {str(directory)!r} private: {error}") from error


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= LONGEST_PATH
