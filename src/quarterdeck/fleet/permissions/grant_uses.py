"""How often grants were used and when last, counted from the logs.

``grant_used`` names the grants of a decision. Logs of earlier versions have only the text of the
rule that decided; there a grant counts as used if its text is the same. Only if nothing names it
does that count, so that an equal rule of the settings adds nothing to what is known exactly.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from quarterdeck.config.places import Places
from quarterdeck.journal import Journal, JournalError
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.events import GrantUsed, PermissionAnswered
from quarterdeck.wire.record import Record

from ..log_pages import read_pages

__all__ = ["USE_TABLES", "GrantUse", "GrantUses", "add_uses", "load_grant_uses"]

_log = logging.getLogger(__name__)
_TYPES = frozenset({"grant_used", "permission_answered"})
_UPSERT = (
    "INSERT INTO {table} ({key}, session, uses, last) VALUES (?, ?, 1, ?)"
    " ON CONFLICT ({key}, session) DO UPDATE SET uses = uses + 1, last = max(last, excluded.last)"
)
USE_TABLES = tuple(
    f"CREATE TABLE {table} ({key} TEXT NOT NULL, session TEXT NOT NULL, uses INTEGER NOT NULL,"
    f" last INTEGER NOT NULL, PRIMARY KEY ({key}, session))"
    for table, key in (("grant_uses", "id"), ("rule_uses", "rule"))
)
"""The tables of a projection that ``add_uses`` fills."""


class GrantUse(Struct, frozen=True, kw_only=True):
    """The use of one grant."""

    uses: int = 0
    """Decisions in which it had a part."""
    last: int | None = None
    """Microseconds since the epoch; None: it was never used."""

    def add(self, uses: int, last: int) -> "GrantUse":
        """The same with more uses."""
        return GrantUse(uses=self.uses + uses, last=max(self.last or 0, last))


class GrantUses:
    """Counts uses from records, or from tables that were made of them."""

    def __init__(self) -> None:
        self._grants: dict[str, GrantUse] = {}
        self._rules: dict[str, dict[str, GrantUse]] = {}
        """By the rule's text, then by session."""

    def take(self, records: Iterable[Record]) -> None:
        """Count what records say."""
        for record in records:
            for table, key in _named(record):
                self._add(table, key, record.session, 1, record.time)

    def load(self, connection: sqlite3.Connection) -> bool:
        """Count what the tables of a log say; False if it has none."""
        names = "SELECT count(*) FROM sqlite_master WHERE name IN ('grant_uses', 'rule_uses')"
        if connection.execute(names).fetchone()[0] != len(USE_TABLES):
            return False
        for table, key in (("grant_uses", "id"), ("rule_uses", "rule")):
            query = f"SELECT {key}, session, uses, last FROM {table}"
            for name, session, uses, last in connection.execute(query):
                self._add(table, name, session, uses, last)
        return True

    def _add(self, table: str, key: str, session: str, uses: int, last: int) -> None:
        if table == "grant_uses":
            self._grants[key] = self._grants.get(key, GrantUse()).add(uses, last)
        else:
            of_rule = self._rules.setdefault(key, {})
            of_rule[session] = of_rule.get(session, GrantUse()).add(uses, last)

    def find(self, grant: Grant) -> GrantUse:
        """The use of a grant."""
        if (exact := self._grants.get(grant.id)) is not None:
            return exact
        found = GrantUse()
        by_text = self._rules.get(f"{grant.effect} {grant.pattern}", {})
        for session, use in by_text.items():
            is_own = grant.session in (None, session) and use.last is not None
            if is_own and use.last is not None and use.last >= grant.created:
                found = found.add(use.uses, use.last)
        return found


def _named(record: Record) -> list[tuple[str, str]]:
    match record.event:
        case GrantUsed(grants=grants):
            return [("grant_uses", grant) for grant in grants]
        case PermissionAnswered(by=by) if by.kind == "rule" and by.name:
            return [("rule_uses", by.name)]
        case _:
            return []


def add_uses(connection: sqlite3.Connection, record: Record) -> None:
    """Count a record in the tables."""
    for table, key in _named(record):
        column = "id" if table == "grant_uses" else "rule"
        statement = _UPSERT.format(table=table, key=column)
        connection.execute(statement, (key, record.session, record.time))


async def load_grant_uses(places: Places, grants: Sequence[Grant]) -> dict[str, GrantUse]:
    """The use of each of these grants by id, in the fleet's log and those of sessions without a
    host. A log that cannot be read counts nothing.
    """
    uses = GrantUses()
    if grants:
        for path in await asyncio.to_thread(_find_logs, places):
            await _load(path, uses)
    return {grant.id: uses.find(grant) for grant in grants}


async def _load(path: Path, uses: GrantUses) -> None:
    try:
        async with Journal.open(path, write=False) as journal:
            if not await journal.query(uses.load):
                await read_pages(journal, _TYPES, uses.take)
    except JournalError as error:
        _log.warning("what it says about the use of grants is not counted: %s", error)


def _find_logs(places: Places) -> list[Path]:
    found = [places.journal_file, *sorted((places.state / "sessions").glob("ses_*.db"))]
    return [path for path in found if path.is_file()]
