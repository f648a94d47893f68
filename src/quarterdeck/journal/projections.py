"""Tables that follow from the log: registered by any room, kept in step, rebuildable.

A registered projection is applied in the transaction that writes the events, so its tables and
the log never disagree. The ``projections`` table holds NULL in ``through`` while that is so.
A program that opens the log without registering a projection first notes how far it had got;
the next one that registers it catches up from there. No commit pays for this bookkeeping.
"""

import logging
import re
import sqlite3
from collections.abc import Sequence
from typing import Any, Protocol, cast

import msgspec

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record

from .errors import is_faulty_statement
from .records import RecordReader
from .store import last_seq, transaction

__all__ = ["Projection", "Projections"]

_log = logging.getLogger(__name__)
_SLICE = 2_000
_TABLE = re.compile(r"CREATE TABLE (\w+)")


class Projection(Protocol):
    """Something computed from events into tables of its own.

    All members are used in the writer's thread only. What ``apply`` does must depend on nothing
    but the records it is given and its own tables.
    """

    @property
    def name(self) -> str:
        """Unique among projections."""
        ...

    @property
    def version(self) -> int:
        """Raise it when ``schema`` or ``apply`` changes; the tables are then built anew."""
        ...

    @property
    def types(self) -> frozenset[str]:
        """The tags of the events it wants to see; others cost it nothing."""
        ...

    @property
    def schema(self) -> tuple[str, ...]:
        """Statements that make its tables, one statement each."""
        ...

    def apply(self, connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Take in records, in order, within a transaction of the caller's.

        An exception undoes what it did and sets the projection aside until it is rebuilt; the
        log itself goes on.
        """
        ...

    def forget(self, connection: sqlite3.Connection, session: SessionId) -> None:
        """Drop what came from a session that is being deleted."""
        ...


class Projections:
    """The registered projections of one log, in the writer's thread."""

    def __init__(self, projections: Sequence[Projection]) -> None:
        self._all = {projection.name: projection for projection in projections}
        if len(self._all) != len(projections):
            names = sorted(projection.name for projection in projections)
            raise ValueError(f"two projections have the same name: {names!r}")
        self._live: dict[str, Projection] = {}
        self._wanted: frozenset[str] = frozenset()
        self._uncommitted: list[str] = []
        self.failed: dict[str, str] = {}
        """Projections set aside, and why."""

    @property
    def names(self) -> tuple[str, ...]:
        """All that are registered, also those set aside."""
        return tuple(self._all)

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Make missing tables, remake those of another version, note who is left out."""
        with transaction(connection):
            known = dict(connection.execute("SELECT name, version FROM projections"))
            left_out = [name for name in known if name not in self._all]
            connection.executemany(
                "UPDATE projections SET through = ? WHERE name = ? AND through IS NULL",
                [(last_seq(connection), name) for name in left_out],
            )
            for name, projection in self._all.items():
                if known.get(name) != projection.version or not self._is_whole(connection, name):
                    self._create(connection, projection)

    def behind(self) -> list[str]:
        """The registered projections that are not in step, failed ones left out."""
        return [name for name in self._all if name not in self._live and name not in self.failed]

    def advance(self, connection: sqlite3.Connection, reader: RecordReader, name: str) -> bool:
        """Feed a projection the next slice of the log; True when it is in step."""
        projection = self._all[name]
        try:
            with transaction(connection):
                (through,) = connection.execute(
                    "SELECT through FROM projections WHERE name = ?", (name,)
                ).fetchone()
                records = (
                    reader.after(through, limit=_SLICE, types=projection.types)
                    if through is not None
                    else []
                )
                if records:
                    projection.apply(connection, records)
                connection.execute(
                    "UPDATE projections SET through = ? WHERE name = ?",
                    (records[-1].seq if records else None, name),
                )
        except Exception as error:
            if not is_faulty_statement(error):
                raise
            self._set_aside(name, error)
            return True
        if not records:
            self._enliven(name)
        return not records

    def apply(self, connection: sqlite3.Connection, entries: Sequence[tuple[Record, str]]) -> None:
        """Feed the projections that are in step; part of the transaction of these events."""
        self._uncommitted.clear()
        wanted = self._wanted
        fresh = [entry for entry in entries if entry[1] in wanted]
        if not fresh:
            return
        for name, projection in list(self._live.items()):
            records = [record for record, tag in fresh if tag in projection.types]
            if records:
                self._apply_guarded(connection, name, projection, records, entries[0][0].seq)

    def rolled_back(self) -> None:
        """The transaction of the last ``apply`` failed; what it set aside is in step again."""
        for name in self._uncommitted:
            del self.failed[name]
            self._enliven(name)
        self._uncommitted.clear()

    def reset(self, connection: sqlite3.Connection, name: str) -> None:
        """Empty a projection's tables, so that it catches up from the beginning.

        Raises:
            KeyError: no projection of that name is registered.
        """
        projection = self._all[name]
        with transaction(connection):
            self._create(connection, projection)
        self._live.pop(name, None)
        self.failed.pop(name, None)
        self._note_wanted()

    def forget(self, connection: sqlite3.Connection, session: SessionId) -> None:
        """Drop a session from every registered projection."""
        for projection in self._all.values():
            projection.forget(connection, session)

    def _apply_guarded(
        self,
        connection: sqlite3.Connection,
        name: str,
        projection: Projection,
        records: Sequence[Record],
        first: int,
    ) -> None:
        connection.execute("SAVEPOINT projection")
        try:
            projection.apply(connection, records)
        except Exception as error:
            if not is_faulty_statement(error):
                # The disk's fault: the whole commit is tried again.
                raise
            connection.execute("ROLLBACK TO projection")
            connection.execute(
                "UPDATE projections SET through = ? WHERE name = ?", (first - 1, name)
            )
            self._set_aside(name, error)
            self._uncommitted.append(name)
        connection.execute("RELEASE projection")

    def _create(self, connection: sqlite3.Connection, projection: Projection) -> None:
        row = connection.execute(
            "SELECT tables FROM projections WHERE name = ?", (projection.name,)
        ).fetchone()
        made = _listed(row[0]) if row else []
        for table in (*made, *_TABLE.findall(" ".join(projection.schema))):
            quoted = table.replace('"', '""')
            connection.execute(f'DROP TABLE IF EXISTS "{quoted}"')
        before = _tables(connection)
        for statement in projection.schema:
            connection.execute(statement)
        made = sorted(_tables(connection) - before)
        connection.execute(
            "INSERT OR REPLACE INTO projections (name, version, tables, through)"
            " VALUES (?, ?, ?, 0)",
            (projection.name, projection.version, msgspec.json.encode(made).decode()),
        )

    def _is_whole(self, connection: sqlite3.Connection, name: str) -> bool:
        """Whether its tables are there; in a damaged log one may have lost its name."""
        row = connection.execute(
            "SELECT tables, through FROM projections WHERE name = ?", (name,)
        ).fetchone()
        if row is None or not isinstance(row[1], int | None):
            return False
        return set(_listed(row[0])) <= _tables(connection)

    def _enliven(self, name: str) -> None:
        self._live[name] = self._all[name]
        self._note_wanted()

    def _set_aside(self, name: str, error: Exception) -> None:
        _log.error("projection %r is disabled; rebuild it when it is fixed", name, exc_info=error)
        self._live.pop(name, None)
        self.failed[name] = repr(error)
        self._note_wanted()

    def _note_wanted(self) -> None:
        kinds = [projection.types for projection in self._live.values()]
        self._wanted = frozenset().union(*kinds)


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in rows}


def _listed(tables: object) -> list[str]:
    try:
        found: Any = msgspec.json.decode(tables) if isinstance(tables, str) else None
    except (msgspec.DecodeError, RecursionError):
        found = None
    return [str(one) for one in cast("list[Any]", found)] if isinstance(found, list) else []
