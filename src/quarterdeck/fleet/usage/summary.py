"""Usage by agent, tree, project, vendor, model, day or turn, with what it cost."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from quarterdeck.models.model import Prices
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.usage import TokenUsage

from ..agent_entry import NATIVE
from .api import UsageGrouping, UsageReport, UsageRow
from .ledger import UNKNOWN_DAY, UsageCell, UsedSession

__all__ = ["UsageSource", "find_root", "group_usage", "price_of", "sort_usage"]

_MILLION = 1_000_000


class UsageSource(Struct, frozen=True, kw_only=True):
    """Cells of one or several logs, and what is needed to name and price them."""

    cells: Iterable[UsageCell]
    sessions: Mapping[SessionId, UsedSession]
    prices: Callable[[str], Prices | None]
    """Of a model by its name, as the log has it; None: unknown."""
    project: Callable[[UsedSession], str] = lambda session: session.cwd or "unknown project"
    vendor: Callable[[str], str] = lambda agent: agent
    """Of an agent, by its name in the catalogue, or of a model, by its vendor's id."""
    ignored: int = 0


_Key: TypeAlias = tuple[str, SessionId | None, TurnId | None]
"""What makes a row: its name, its session, its turn."""


class _Row(Struct, eq=False):
    tokens: TokenUsage = TokenUsage()
    reported: dict[str, float] = field(default_factory=dict[str, float])
    computed: float = 0.0
    unpriced: int = 0
    sessions: set[SessionId] = field(default_factory=set[SessionId])
    first: int = 0
    last: int = 0

    def add(self, cell: UsageCell, price: Callable[[UsageCell], float | None]) -> None:
        self.first = min(self.first, cell.first) if self.sessions else cell.first
        self.last = max(self.last, cell.last)
        self.sessions.add(cell.session)
        self.tokens += cell.tokens
        for currency, amount in cell.reported.items():
            self.reported[currency] = self.reported.get(currency, 0.0) + amount
        if cell.uncosted.total:
            money = price(cell)
            if money is None:
                self.unpriced += cell.uncosted.total
            else:
                self.computed += money


def group_usage(
    source: UsageSource,
    by: UsageGrouping,
    *,
    since: str | None = None,
    prices_of: str = "",
    within: SessionId | None = None,
) -> UsageReport:
    """Add usage up. ``since``: the first day; ``within``: only this session and all below it.

    A record whose day is unknown counts only where all days do.
    """
    rows: dict[_Key, _Row] = {}
    total = _Row()
    unpriced: set[str] = set()
    name_key = _make_keys(source, by)

    def price(cell: UsageCell) -> float | None:
        prices = source.prices(cell.model) if cell.model else None
        if prices is None and cell.model:
            unpriced.add(cell.model)
        return None if prices is None else price_of(cell.uncosted, prices)

    for cell in source.cells:
        is_late = since is None or (cell.day != UNKNOWN_DAY and cell.day >= since)
        if is_late and (within is None or _is_within(source.sessions, cell.session, within)):
            total.add(cell, price)
            rows.setdefault(name_key(cell), _Row()).add(cell, price)
    return UsageReport(
        by=by,
        since=since,
        rows=tuple(sort_usage([_finish(key, row) for key, row in rows.items()], by)),
        total=_finish(("all", None, None), total),
        prices_of=prices_of,
        unpriced_models=tuple(sorted(unpriced)),
        ignored=source.ignored,
    )


def price_of(usage: TokenUsage, prices: Prices) -> float:
    """US dollars for tokens; those of the cache are never charged twice, whatever is reported."""
    cached = min(usage.cached, usage.input)
    written = min(usage.cache_written, usage.input - cached)
    fresh = usage.input - cached - written
    return (
        fresh * prices.input
        + cached * prices.cached
        + written * prices.cache_written
        + usage.output * prices.output
    ) / _MILLION


def _finish(key: _Key, row: _Row) -> UsageRow:
    name, session, turn = key
    return UsageRow(
        name=name,
        session=session,
        turn=turn,
        tokens=row.tokens,
        reported=dict(sorted(row.reported.items())),
        computed=row.computed,
        unpriced=row.unpriced,
        agents=len(row.sessions),
        first=row.first,
        last=row.last,
    )


def sort_usage(rows: list[UsageRow], by: UsageGrouping) -> list[UsageRow]:
    """The rows in the order of a report: the most tokens first; days: the latest first."""
    if by == "day":
        return sorted(rows, key=lambda row: (row.name != UNKNOWN_DAY, row.name), reverse=True)
    if by == "turn":
        return sorted(rows, key=lambda row: (row.first, row.name))
    return sorted(rows, key=lambda row: (-row.tokens.total, row.name))


def _make_keys(source: UsageSource, by: UsageGrouping) -> Callable[[UsageCell], _Key]:
    sessions = source.sessions

    def key(cell: UsageCell) -> _Key:
        session = sessions[cell.session]
        match by:
            case "day":
                return cell.day, None, None
            case "model":
                return cell.model or "unknown model", None, None
            case "vendor":
                return _vendor(source, session, cell.model), None, None
            case "project":
                return source.project(_agent(sessions, session)), None, None
            case "tree":
                return _key(find_root(sessions, session))
            case "agent":
                return _key(_agent(sessions, session))
            case "turn":
                return _name(session), session.id, cell.turn

    return key


def _key(session: UsedSession) -> _Key:
    """The row of an agent; runs without a host, which have no name, are one for each agent."""
    if session.is_spawned or session.name is not None or session.parent is not None:
        return _name(session), session.id, None
    return f"runs of {session.agent or 'an unknown agent'}", None, None


def _name(session: UsedSession) -> str:
    return session.name or session.id


def _vendor(source: UsageSource, session: UsedSession, model: str | None) -> str:
    """Who makes the agent; for our own agent, who serves the model."""
    if session.agent in (None, NATIVE):
        vendor, separator, _ = (model or "").partition("/")
        return source.vendor(vendor) if separator else "unknown vendor"
    return source.vendor(session.agent)


def _agent(sessions: Mapping[SessionId, UsedSession], session: UsedSession) -> UsedSession:
    """The agent that a session is, or is a sub-agent of."""
    return _climb(sessions, session, lambda one: one.is_spawned)


def find_root(sessions: Mapping[SessionId, UsedSession], session: UsedSession) -> UsedSession:
    """The session at the top of the tree that a session is in."""
    return _climb(sessions, session, lambda _: False)


def _climb(
    sessions: Mapping[SessionId, UsedSession],
    session: UsedSession,
    is_enough: Callable[[UsedSession], bool],
) -> UsedSession:
    seen = {session.id}
    while not is_enough(session) and session.parent is not None:
        above = sessions.get(session.parent)
        if above is None or above.id in seen:
            break
        seen.add(above.id)
        session = above
    return session


def _is_within(
    sessions: Mapping[SessionId, UsedSession], id_: SessionId, within: SessionId
) -> bool:
    top = _climb(sessions, sessions[id_], lambda one: one.id == within)
    return top.id == within
