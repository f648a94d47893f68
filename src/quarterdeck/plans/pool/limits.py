"""Limits of a pool: how many tasks of a vendor or a label at a time, and what a day may cost.

A limit counts for tasks that are not begun: what is under way goes on. Claims are one after the
other, so that counts are exact. Times are those of the database.
"""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from .database import Connection, PoolDatabase
from .errors import PoolError

__all__ = ["BUDGETS", "LIMIT_KINDS", "SATURATED", "LimitKind", "PoolLimit", "PoolLimits"]

LimitKind: TypeAlias = Literal["vendor", "label", "budget"]
LIMIT_KINDS: tuple[LimitKind, ...] = get_args(LimitKind)
BUDGETS = ("usd", "ktok")
"""What a budget is in: dollars that agents report, or thousands of tokens; in the last 24 hours."""

_USED = """
    CASE l.kind
    WHEN 'vendor' THEN (
        SELECT count(*) FROM quarterdeck.tasks o WHERE l.name = ANY (o.agents)
        AND o.state = 'leased' AND o.lease_until >= now()
    )
    WHEN 'label' THEN (
        SELECT count(*) FROM quarterdeck.tasks o WHERE l.name = ANY (o.labels)
        AND o.state = 'leased' AND o.lease_until >= now()
    )
    ELSE (
        SELECT coalesce(sum(CASE l.name WHEN 'usd' THEN s.cost ELSE s.tokens / 1000.0 END), 0)
        FROM quarterdeck.sessions s WHERE s.updated > now() - interval '24 hours'
    ) END
"""
SATURATED = f"""
    SELECT
        coalesce(array_agg(l.name) FILTER (WHERE l.kind = 'vendor'), '{{}}') AS agents,
        coalesce(array_agg(l.name) FILTER (WHERE l.kind = 'label'), '{{}}') AS labels,
        coalesce(bool_or(l.kind = 'budget'), false) AS is_spent
    FROM quarterdeck.limits l WHERE {_USED} >= l.most
"""
"""One row: vendors and labels of which no further task may begin, and whether a budget is spent."""


class PoolLimit(Struct, frozen=True, kw_only=True):
    """A limit and how far it is used."""

    kind: LimitKind
    name: str
    """The agent's name, the label, or one of ``BUDGETS``."""
    most: float
    used: float = 0.0

    @property
    def is_reached(self) -> bool:
        """Whether no further task may begin."""
        return self.used >= self.most


class PoolLimits:
    """The limits of a pool, for people."""

    def __init__(self, database: PoolDatabase) -> None:
        self._database = database

    async def list_all(self) -> list[PoolLimit]:
        """Every limit with its use, by kind and name."""

        async def read(connection: Connection) -> list[PoolLimit]:
            words = (
                f"SELECT l.kind, l.name, l.most, {_USED} FROM quarterdeck.limits l ORDER BY 1, 2"
            )
            return [
                PoolLimit(kind=kind, name=name, most=float(most), used=float(used))
                async for kind, name, most, used in await connection.execute(words.encode())
            ]

        return await self._database.run(read)

    async def set(self, kind: LimitKind, name: str, most: float | None) -> bool:
        """Set a limit, or remove it with None; False: there was none to remove.

        Raises:
            PoolError: it cannot be such a limit.
        """
        _check_limit(kind, name, most)

        async def write(connection: Connection) -> bool:
            if most is None:
                words = "DELETE FROM quarterdeck.limits WHERE kind = %s AND name = %s"
                return (await connection.execute(words, (kind, name))).rowcount == 1
            await connection.execute(
                "INSERT INTO quarterdeck.limits (kind, name, most) VALUES (%s, %s, %s) "
                "ON CONFLICT (kind, name) DO UPDATE SET most = EXCLUDED.most",
                (kind, name, most),
            )
            return True

        return await self._database.run(write)


def _check_limit(kind: LimitKind, name: str, most: float | None) -> None:
    if not name.strip():
        raise PoolError(f"a limit of kind {kind!r} needs a name")
    if kind == "budget" and name not in BUDGETS:
        raise PoolError(f"a budget is in {' or '.join(BUDGETS)}, not in {name!r}")
    if most is None:
        return
    if not 0 <= most < 1e12:
        raise PoolError(f"{most!r} is no limit; give a number from 0 on, or `none`")
    if kind != "budget" and most != int(most):
        raise PoolError(f"{most!r} tasks cannot be; give a whole number")
