"""The database file: its schema, its versions, its connections, and the deletion of sessions.

Tables of version 2::

session_ids the text id behind each small number used in events events one row for each event;
``seq`` is its place in the log, ``checksum`` that of its columns (``journal.rows``), NULL in rows
of version 1 deletions sessions that were deleted, and up to where; read by the search index
projections which projections the file holds, of what version, and how far they are identity one
row: a random name of this log

A deletion is noted first, then done in slices so that no commit waits long. The note outlives the
rows: an interrupted deletion is finished at the next opening, no sequence number is given out
twice, and the search index, which is a file of its own, learns from it what to drop.
"""

import os
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.private_files import close_to_others, open_private

from .errors import (
    DATABASE_ERRORS,
    JournalError,
    JournalReadOnlyError,
    JournalTooNewError,
    JournalUnreachableError,
    NotAJournalError,
    damage_error,
    is_faulty_statement,
    translate_reading_errors,
)

__all__ = [
    "APPLICATION_ID",
    "MIGRATIONS",
    "VERSION",
    "commits_unsynced",
    "connect_reader",
    "connect_writer",
    "delete_slice",
    "finish_deletions",
    "last_seq",
    "migrate",
    "note_deletion",
    "transaction",
]

APPLICATION_ID = 0x51444B4C
"""``QDKL`` in the file's header: this database is one of our logs."""

Migration: TypeAlias = tuple[str, ...]

MIGRATIONS: tuple[Migration, ...] = (
    (
        "CREATE TABLE session_ids (key INTEGER PRIMARY KEY AUTOINCREMENT,"
        " id TEXT NOT NULL UNIQUE, made INTEGER NOT NULL)",
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL,"
        " session INTEGER NOT NULL, turn TEXT, parent TEXT, type TEXT NOT NULL,"
        " body BLOB NOT NULL)",
        # A row's seq is part of every index entry, so this orders a session's events as well.
        "CREATE INDEX events_by_session ON events (session)",
        "CREATE TABLE deletions (number INTEGER PRIMARY KEY AUTOINCREMENT,"
        " session TEXT NOT NULL, through INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0)",
        "CREATE TABLE projections (name TEXT PRIMARY KEY, version INTEGER NOT NULL,"
        " tables TEXT NOT NULL, through INTEGER)",
        "CREATE TABLE identity (id TEXT NOT NULL)",
        "INSERT INTO identity VALUES (lower(hex(randomblob(16))))",
    ),
    (
        # Rows that are there already have none: they are read, and counted as unverified.
        "ALTER TABLE events ADD COLUMN checksum INTEGER",
        "ALTER TABLE session_ids ADD COLUMN checksum INTEGER",
    ),
)
"""What leads from each version to the next; only ever appended to."""
VERSION = len(MIGRATIONS)

_PROBES = (
    "SELECT seq, time, session, turn, parent, type, body FROM events LIMIT 0",
    "SELECT key, id, made FROM session_ids LIMIT 0",
    "SELECT number, session, through, done FROM deletions LIMIT 0",
    "SELECT name, version, tables, through FROM projections LIMIT 0",
    "SELECT id FROM identity LIMIT 0",
)
_MOST_SEQ = 1 << 53
_BUSY_SECONDS = 5.0
_WAL_BYTES = 64 << 20
_CHECKPOINT_PAGES = 4_000
_CACHE_KIB = 16_000


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the log for writing, making or migrating it where needed. Blocks.

    Raises:
        JournalError: any of the errors of opening; the file is then unchanged.
    """
    try:
        # Made by us first, so that transcripts are never readable by others.
        os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    except PermissionError as error:
        raise JournalReadOnlyError(path, str(error)) from error
    except OSError as error:
        raise JournalUnreachableError(path, str(error)) from error
    for end in ("-wal", "-shm"):
        close_to_others(path.with_name(path.name + end))
    connection = _connect(path, "rw")
    try:
        _refuse_foreign(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        # Fewer, larger checkpoints write the sessions' index pages less often: a tenth cheaper.
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        with commits_unsynced(connection):
            migrate(connection, MIGRATIONS)
        _probe(connection)
        last_seq(connection)
    except DATABASE_ERRORS as error:
        connection.close()
        raise translate_reading_errors(error, path) from error
    except JournalError:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the log for reading only; works beside a writer in any process. Blocks.

    Raises:
        JournalError: any of the errors of opening.
    """
    if not path.exists():
        raise JournalUnreachableError(path, "there is no such file")
    try:
        return _reader(path, "ro")
    except JournalError as error:
        # A directory that may not be written cannot get the shared memory that WAL needs.
        # With no log of writes beside it the file is complete and can be read as it stands.
        wal = path.with_name(path.name + "-wal")
        if os.access(path.parent, os.W_OK) or (wal.exists() and wal.stat().st_size):
            raise
        try:
            return _reader(path, "ro&immutable=1")
        except JournalError:
            raise error from None


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Bring the file to the newest version, in one transaction: a new log waits for each."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= len(migrations):
        return
    with transaction(connection):
        for statement in chain.from_iterable(migrations[version:]):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")


def last_seq(connection: sqlite3.Connection) -> int:
    """The highest sequence number ever given out and committed; deleted ones count.

    Raises:
        sqlite3.DatabaseError: it cannot be read, or is none that was ever given out.
    """
    (seq,) = connection.execute(
        "SELECT max(coalesce((SELECT max(seq) FROM events), 0),"
        " coalesce((SELECT max(through) FROM deletions), 0))"
    ).fetchone()
    if not isinstance(seq, int) or not 0 <= seq <= _MOST_SEQ:
        raise damage_error("the number of its last record cannot be right")
    return seq


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None, None, None]:
    """Run the body in one transaction that takes the write lock at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some failures, such as a full disk, have rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def commits_unsynced(connection: sqlite3.Connection) -> Generator[None, None, None]:
    """Let commits not wait for the disk: for tables, which are made again where they are lost.

    Nothing is ever half there. The first commit afterwards waits for its own changes and for all
    before it, which are in the same file.
    """
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        connection.execute("PRAGMA synchronous = FULL")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_SECONDS,
        )
    except sqlite3.Error as error:
        raise translate_reading_errors(error, path) from error


def _reader(path: Path, mode: str) -> sqlite3.Connection:
    connection = _connect(path, mode)
    try:
        connection.execute("PRAGMA query_only = ON")
        _refuse_foreign(connection, path)
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            raise JournalUnreachableError(path, "the file is empty")
        _probe(connection)
    except DATABASE_ERRORS as error:
        connection.close()
        raise translate_reading_errors(error, path) from error
    except JournalError:
        connection.close()
        raise
    return connection


def _probe(connection: sqlite3.Connection) -> None:
    """Make sure that the tables are there; a flipped letter in the schema renames one."""
    for statement in _PROBES:
        try:
            connection.execute(statement).close()
        except sqlite3.OperationalError as error:
            if is_faulty_statement(error):
                raise damage_error(f"its tables are not those of a log: {error}") from error
            raise


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    with closing(connection.cursor()) as cursor:
        (application,) = cursor.execute("PRAGMA application_id").fetchone()
        (version,) = cursor.execute("PRAGMA user_version").fetchone()
        (objects,) = cursor.execute("SELECT count(*) FROM sqlite_master").fetchone()
        has_events = (
            objects
            and cursor.execute(
                "SELECT 1 FROM sqlite_master WHERE name = 'events_by_session'"
            ).fetchone()
        )
    if has_events and (application != APPLICATION_ID or not version):
        raise damage_error("its header does not say that it is a log, but its tables do")
    if application != APPLICATION_ID and (application or version or objects):
        raise NotAJournalError(path)
    if version > VERSION:
        raise JournalTooNewError(path, version, VERSION)


_SLICE = 500


def note_deletion(connection: sqlite3.Connection, session: SessionId) -> int:
    """Write down, within the caller's transaction, that a session is to go; returns the note."""
    cursor = connection.execute(
        "INSERT INTO deletions (session, through) VALUES (?, ?)", (session, last_seq(connection))
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def delete_slice(connection: sqlite3.Connection, note: int) -> int:
    """Delete some of the rows that a note names; returns how many, 0 when all are gone."""
    with transaction(connection):
        row = connection.execute(
            "SELECT key, through FROM deletions JOIN session_ids ON id = session WHERE number = ?",
            (note,),
        ).fetchone()
        deleted = 0
        if row is not None:
            deleted = connection.execute(
                # Asked twice, because a damaged index may name rows of another session.
                "DELETE FROM events WHERE session = ? AND seq IN"
                " (SELECT seq FROM events WHERE session = ? AND seq <= ? LIMIT ?)",
                (row[0], *row, _SLICE),
            ).rowcount
        if not deleted:
            _finish(connection, note, row and row[0])
    return deleted


def finish_deletions(connection: sqlite3.Connection) -> None:
    """Carry through what an earlier process began."""
    open_notes = connection.execute("SELECT number FROM deletions WHERE NOT done").fetchall()
    for (note,) in open_notes:
        while delete_slice(connection, note):
            pass


def _finish(connection: sqlite3.Connection, note: int, key: int | None) -> None:
    connection.execute("UPDATE deletions SET done = 1 WHERE number = ?", (note,))
    connection.execute(
        "DELETE FROM session_ids WHERE key = ?"
        " AND NOT EXISTS (SELECT 1 FROM events WHERE session = key)",
        (key,),
    )
