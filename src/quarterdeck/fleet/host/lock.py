"""One host for each state directory: its lock, and where its socket and log file are.

The lock belongs to the open file, so the system drops it with the process however that ends: a
process id that is left in the file proves nothing, the lock does. The file stays, because
removing it would let two processes lock two different files of one name. In it the host says
where it listens, so that a client whose environment names another runtime directory finds it.
"""

import hashlib
import os
import stat
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from quarterdeck.config.errors import UnusablePlaceError
from quarterdeck.config.places import Places, make_private
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.filelock import open_lock, release_lock, try_lock

from ..errors import HostError

__all__ = [
    "LONGEST_PATH",
    "HostLock",
    "HostRunningError",
    "LockHolder",
    "holder",
    "lock_file",
    "log_file",
    "make_socket_directory",
    "socket_path",
]

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
    import tempfile  # most paths are short enough

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
        UnusablePlaceError: it cannot be made, is a link, or belongs to someone else.
    """
    directory = path.parent
    make_private(directory)
    status = directory.lstat()
    # The one who owns the directory could put a socket of their own there: in /tmp anybody can try.
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


_MOST_BYTES = 4096
_TRIES = 10
_PAUSE = 0.03


class HostRunningError(HostError):
    """Another process is the host of this home."""

    def __init__(self, pid: int | None) -> None:
        who = "" if pid is None else f" (process {pid})"
        super().__init__(f"a host is already running{who}; see `quarterdeck host status`")
        self.pid = pid


class LockHolder(Struct, frozen=True, kw_only=True):
    """What a host says about itself in its lock file."""

    pid: int
    socket: str
    version: str
    started: int
    """Microseconds since the epoch."""


class HostLock:
    """The right to be the host, held until ``release``. Blocks shortly: use it in a thread."""

    def __init__(self, handle: int) -> None:
        """Only ``acquire`` makes locks."""
        self._handle = handle

    @classmethod
    def acquire(cls, path: Path) -> "HostLock":
        """Become the host.

        Raises:
            HostRunningError: another process is.
            UnusablePlaceError: the file cannot be made, or the file system has no locks.
        """
        make_private(path.parent)
        try:
            handle = open_lock(path)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            is_locked = _lock(handle)
        except OSError as error:
            os.close(handle)
            raise _unusable(path, error) from error
        if not is_locked:
            owner = _read(handle)
            os.close(handle)
            raise HostRunningError(owner.pid if owner else None)
        lock = cls(handle)
        lock._write(b"")
        return lock

    def sign(self, holder: LockHolder) -> None:
        """Say who we are and where we listen."""
        self._write(msgspec.json.encode(holder))

    def is_current(self, path: Path) -> bool:
        """Whether the file is still the one that we hold; another could be locked in its place."""
        try:
            return os.path.samestat(path.stat(), os.fstat(self._handle))
        except OSError:
            return False

    def release(self) -> None:
        """Let another process be the host; may be called again."""
        if self._handle >= 0:
            self._write(b"")
            release_lock(self._handle)
            self._handle = -1

    def _write(self, data: bytes) -> None:
        try:
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, data, 0)
        except OSError:
            # On a full disk the lock still holds; clients then look at the usual place.
            return


def holder(path: Path) -> tuple[bool, LockHolder | None]:
    """Whether a process holds the lock, and what it said so far. Blocks shortly.

    Raises:
        UnusablePlaceError: the file cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False, None
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        # Shared: two who look at the same time are no obstacle to each other.
        if try_lock(handle, shared=True):
            return False, None
        return True, _read(handle)
    except OSError as error:
        raise _unusable(path, error) from error
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Take the lock; who only looks (``holder``) has it for a moment, so try more than once."""
    for left in reversed(range(_TRIES)):
        if try_lock(handle):
            return True
        if left:
            time.sleep(_PAUSE)
    return False


def _read(handle: int) -> LockHolder | None:
    try:
        return decode_json(os.pread(handle, _MOST_BYTES, 0), LockHolder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _unusable(path: Path, error: OSError) -> UnusablePlaceError:
    return UnusablePlaceError(
        f"cannot use the lock {str(path)!r}: {error.strerror or error}; "
        "make it writable or set QUARTERDECK_HOME to a directory on a local disk"
    )
