"""Where OpenCode keeps sessions, messages and parts, and the database that it is now."""

import contextlib
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from ..pipe.told import as_map, as_text
from .databases import open_database
from .errors import HistoryUnreadable
from .files import LONGEST_LINE, Budget, decode, found_files, microseconds
from .past import PastSession, Tally

__all__ = ["Database", "Entry", "Store", "databases"]

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
        """A session's messages in order; ``parts`` within one stand for those beside it."""
        ...

    def parts(self, session: str, message: str, tally: Tally) -> Iterator[Entry]:
        """A message's parts in order."""
        ...

    def first_words(self, session: str, budget: Budget) -> str:
        """What the person said first, as far as it is cheap to tell."""
        ...


def databases(home: Path) -> list[Path]:
    """The databases of OpenCode's channels."""
    return sorted(
        one.path
        for one in found_files(home, lambda n: n.startswith("opencode") and n.endswith(".db"))
    )


class Database:
    """Sessions in SQLite; made by ``open``."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path) -> Generator["Database"]:
        """Open it for reading.

        Raises:
            HistoryLocked, HistoryUnreadable: see ``open_database``.
        """
        with open_database(path) as connection:
            yield cls(path, connection)

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

    def first_words(self, session: str, budget: Budget) -> str:
        """See ``Store``."""
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
            told = str(data).encode("utf-8", "replace")
            if len(told) > LONGEST_LINE:
                tally.too_long += 1
                continue
            value = decode(told)
            if not isinstance(value, dict):
                tally.corrupt += 1
                continue
            yield Entry(str(id_), cast("Mapping[str, Any]", value))
