"""Opening the databases of others: for reading, leaving nothing behind, and soon."""

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from pathlib import Path

from .files import open_plain
from .session import HistoryLockedError, HistoryUnreadableError

__all__ = ["open_database"]

_MOST_COPIED = 256 * 1024 * 1024
"""Bytes of a locked database that are copied to be read."""
_PATIENCE = 0.5
"""Seconds to wait for a lock of another process."""
_BESIDE = ("-wal", "-journal")
"""What a database keeps beside itself that is not yet, or no longer, in it."""


@contextlib.contextmanager
def open_database(path: Path, *, most_copied: int = _MOST_COPIED) -> Generator[sqlite3.Connection]:
    """Open a database for reading; one that is locked is copied, and the copy is read.

    Leaves no file beside a database that no process has open.

    Raises:
        HistoryLockedError: it is locked and larger than ``most_copied`` bytes.
        HistoryUnreadableError: it is none, damaged, or not to be opened; also while it is in use.
    """
    _check(path)
    with contextlib.ExitStack() as stack:
        try:
            connection = stack.enter_context(_connected(path, _parameters(path)))
        except sqlite3.OperationalError as error:
            if _size(path) > most_copied:
                raise HistoryLockedError(path) from error
            connection = stack.enter_context(_copied(path))
        except sqlite3.Error as error:
            raise HistoryUnreadableError(path, str(error)) from error
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise HistoryLockedError(path) from error
            raise HistoryUnreadableError(path, str(error)) from error
        except sqlite3.Error as error:
            raise HistoryUnreadableError(path, str(error)) from error


def _check(path: Path) -> None:
    """Make sure that nothing here is a pipe: SQLite would wait for its other end."""
    with open_plain(path):
        pass
    for end in ("-wal", "-shm", "-journal"):
        beside = Path(f"{path}{end}")
        if beside.exists() and not beside.is_file():
            raise HistoryUnreadableError(beside, "it is not a regular file")


def _parameters(path: Path) -> str:
    """The URI parameters: a write-ahead-log database that no process has open is immutable.

    SQLite would make that log, and leave it.
    """
    is_open = any(Path(f"{path}{end}").exists() for end in ("-wal", "-shm"))
    return "mode=ro&immutable=1" if not is_open and _has_log(path) else "mode=ro"


def _has_log(path: Path) -> bool:
    try:
        with open_plain(path) as file:
            head = file.read(20)
    except (HistoryUnreadableError, OSError):
        return False
    # The versions of the format for writing and reading; 2 is the write-ahead log.
    return head[18:20] == b"\2\2"


@contextlib.contextmanager
def _connected(path: Path, parameters: str) -> Generator[sqlite3.Connection]:
    quoted = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(
        f"file:{quoted}?{parameters}", uri=True, timeout=_PATIENCE, check_same_thread=False
    )
    connection.text_factory = _text
    try:
        # Says at once whether it can be read.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield connection
    except UnicodeDecodeError as error:
        # The message of SQLite quotes a schema that is no text.
        raise sqlite3.DatabaseError("the schema is damaged") from error
    finally:
        connection.close()


@contextlib.contextmanager
def _copied(path: Path) -> Generator[sqlite3.Connection]:
    """A copy of a database and of what is beside it."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as folder:
        copy = Path(folder) / "copy.db"
        try:
            shutil.copyfile(path, copy)
            for end in _BESIDE:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{end}", f"{copy}{end}")
        except OSError as error:
            raise HistoryUnreadableError(path, error.strerror or str(error)) from error
        with contextlib.ExitStack() as stack:
            try:
                connection = stack.enter_context(_connected(copy, "mode=rw"))
            except sqlite3.Error as error:
                raise HistoryUnreadableError(path, str(error)) from error
            yield connection


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
