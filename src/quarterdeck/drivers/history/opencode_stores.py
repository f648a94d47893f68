"""Where OpenCode keeps sessions, messages and parts: a database, earlier a file for each."""

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from ..pipe.told import as_map, as_text
from .errors import HistoryLocked, HistoryUnreadable
from .files import Budget, decode, found_files, microseconds, read_json
from .past import PastSession, Tally

__all__ = ["Database", "Entry", "Files", "Store", "databases"]

_MOST_COPIED = 256 * 1024 * 1024
"""Bytes of a locked database that are copied to be read."""
_SESSION_FILE = 65_536
_COLUMNS = ("id", "parent_id", "directory", "title", "version", "time_created", "time_updated")


@dataclass(frozen=True, slots=True)
class Entry:
    """A message or a part."""

    id: str
    data: Mapping[str, Any]


class Store(Protocol):
    """A place with sessions."""

    def sessions(self, budget: Budget) -> Iterator[PastSession]:
        """Every session that is no other's child, the last used first."""
        ...

    def messages(self, session: str, tally: Tally) -> Iterator[Entry]:
        """A session's messages in order."""
        ...

    def parts(self, session: str, message: str, tally: Tally) -> Iterator[Entry]:
        """A message's parts in order."""
        ...


def databases(home: Path) -> list[Path]:
    """The databases of OpenCode's channels."""
    return sorted(
        one.path
        for one in found_files(home, lambda n: n.startswith("opencode") and n.endswith(".db"))
    )


# A database


class Database:
    """Sessions in SQLite; made by ``open``."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, *, most_copied: int = _MOST_COPIED) -> Generator["Database"]:
        """Open it for reading; one that is locked is copied, and the copy is read.

        Raises:
            HistoryLocked: it is locked and larger than ``most_copied`` bytes.
            HistoryUnreadable: it is none, damaged, or not to be opened.
        """
        with contextlib.ExitStack() as stack:
            try:
                connection = stack.enter_context(_opened(path))
            except sqlite3.OperationalError as error:
                if path.exists() and path.stat().st_size > most_copied:
                    raise HistoryLocked(path) from error
                copy = stack.enter_context(_copied(path))
                connection = stack.enter_context(_opened_copy(copy, path))
            try:
                yield cls(path, connection)
            except sqlite3.OperationalError as error:
                if "locked" in str(error) or "busy" in str(error):
                    raise HistoryLocked(path) from error
                raise HistoryUnreadable(path, str(error)) from error
            except sqlite3.Error as error:
                raise HistoryUnreadable(path, str(error)) from error

    def sessions(self, budget: Budget) -> Iterator[PastSession]:
        """See ``Store``."""
        known = {row[1] for row in self._connection.execute("PRAGMA table_info(session)")}
        if not known.issuperset(_COLUMNS):
            raise HistoryUnreadable(self.path, "its form is not one that we know")
        put_away = "time_archived" if "time_archived" in known else "NULL"
        query = (
            f"SELECT {', '.join(_COLUMNS)}, {put_away}, (SELECT count(*) FROM message "
            "WHERE session_id = session.id) FROM session WHERE parent_id IS NULL "
            "ORDER BY time_updated DESC, id DESC"
        )
        for (
            id_,
            _,
            directory,
            title,
            version,
            created,
            updated,
            archived,
            count,
        ) in self._connection.execute(query):
            yield PastSession(
                agent="opencode",
                id=as_text(id_),
                path=str(self.path),
                cwd=as_text(directory) or None,
                title=as_text(title) or None,
                started=microseconds(created),
                updated=microseconds(updated),
                messages=count,
                version=as_text(version) or None,
                archived=archived is not None,
            )

    def messages(self, session: str, tally: Tally) -> Iterator[Entry]:
        """See ``Store``."""
        query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
        yield from self._entries(query, session, tally)

    def parts(self, session: str, message: str, tally: Tally) -> Iterator[Entry]:
        """See ``Store``."""
        query = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
        yield from self._entries(query, message, tally)

    def first_words(self, session: str) -> str:
        """What the person said first, as far as it is cheap to tell."""
        row = self._connection.execute(
            "SELECT substr(data, 1, 4000) FROM part WHERE session_id = ? ORDER BY id LIMIT 1",
            (session,),
        ).fetchone()
        return as_text(as_map(decode(str(row[0]).encode())).get("text")) if row else ""

    def has_words(self, session: str, words: tuple[str, ...]) -> bool:
        """Whether every word may be in the parts of a session."""
        plain = [word for word in words if word.isascii() and not set('"\\\n\t') & set(word)]
        query = "SELECT 1 FROM part WHERE session_id = ? AND instr(lower(data), ?) LIMIT 1"
        return all(self._connection.execute(query, (session, word)).fetchone() for word in plain)

    def _entries(self, query: str, key: str, tally: Tally) -> Iterator[Entry]:
        # Taken whole: whoever draws these may ask for others in between.
        for id_, data in self._connection.execute(query, (key,)).fetchall():
            tally.lines += 1
            value = decode(str(data).encode("utf-8", "replace"))
            if not isinstance(value, dict):
                tally.corrupt += 1
                continue
            yield Entry(str(id_), cast("Mapping[str, Any]", value))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@contextlib.contextmanager
def _opened(path: Path, parameters: str = "mode=ro") -> Generator[sqlite3.Connection]:
    quoted = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(
        f"file:{quoted}?{parameters}", uri=True, timeout=1.0, check_same_thread=False
    )
    connection.text_factory = _text
    try:
        # Says at once whether it can be read.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield connection
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        raise HistoryUnreadable(path, str(error)) from error
    finally:
        connection.close()


@contextlib.contextmanager
def _copied(path: Path) -> Generator[Path]:
    """A copy of a database and of what is not yet in it."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as folder:
        copy = Path(folder) / "copy.db"
        try:
            shutil.copyfile(path, copy)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        except OSError as error:
            raise HistoryUnreadable(path, error.strerror or str(error)) from error
        yield copy


@contextlib.contextmanager
def _opened_copy(copy: Path, path: Path) -> Generator[sqlite3.Connection]:
    try:
        with _opened(copy, "mode=rw") as connection:
            yield connection
    except sqlite3.OperationalError as error:
        raise HistoryUnreadable(path, str(error)) from error


# Files


class Files:
    """Sessions in files: ``storage/session/<project>/<id>.json`` and so on, or older."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def sessions(self, budget: Budget) -> Iterator[PastSession]:
        """See ``Store``."""
        folders = [one for one in self._folders() if one.is_dir()]
        found = [
            file
            for folder in folders
            for file in found_files(folder, lambda name: name.endswith(".json"))
        ]
        for file in sorted(found, key=lambda one: one.changed, reverse=True):
            told = as_map(read_json(file.path, budget, most=_SESSION_FILE))
            id_, time = as_text(told.get("id")), as_map(told.get("time"))
            if not id_ or told.get("parentID"):
                continue
            yield PastSession(
                agent="opencode",
                id=id_,
                path=str(file.path),
                cwd=as_text(told.get("directory")) or self._cwd(file.path, id_, budget),
                title=as_text(told.get("title")) or None,
                started=microseconds(time.get("created")) or file.changed,
                updated=microseconds(time.get("updated")) or file.changed,
                version=as_text(told.get("version")) or None,
            )

    def messages(self, session: str, tally: Tally) -> Iterator[Entry]:
        """See ``Store``."""
        folders = [self._home / "storage" / "message" / session]
        folders += self._home.glob(f"project/*/storage/session/message/{_plain(session)}")
        yield from _read(folders, tally)

    def parts(self, session: str, message: str, tally: Tally) -> Iterator[Entry]:
        """See ``Store``."""
        folders = [self._home / "storage" / "part" / message]
        pattern = f"project/*/storage/session/part/{_plain(session)}/{_plain(message)}"
        folders += self._home.glob(pattern)
        yield from _read(folders, tally)

    def _folders(self) -> Iterator[Path]:
        yield from self._home.glob("storage/session/*")
        yield from self._home.glob("project/*/storage/session/info")

    def _cwd(self, path: Path, session: str, budget: Budget) -> str | None:
        """Where a session worked, told by a message of it: the oldest files do not say."""
        folder = path.parent.parent / "message" / session
        for file in found_files(folder, lambda name: name.endswith(".json")):
            told = as_map(read_json(file.path, budget, most=_SESSION_FILE))
            if cwd := as_text(as_map(told.get("path")).get("cwd")):
                return cwd
        return None


def _plain(name: str) -> str:
    """A name that is one step of a path and no pattern."""
    is_plain = all(letter.isalnum() or letter in "_-" for letter in name)
    return name if name and is_plain else "\N{REPLACEMENT CHARACTER}"


def _read(folders: list[Path], tally: Tally) -> Iterator[Entry]:
    for folder in folders:
        found = found_files(folder, lambda name: name.endswith(".json"))
        # Ids are made so that their order is the order in time.
        for file in sorted(found, key=lambda one: one.path.name):
            tally.lines += 1
            value = read_json(file.path)
            if not isinstance(value, dict):
                tally.corrupt += 1
                continue
            yield Entry(file.path.stem, cast("Mapping[str, Any]", value))
