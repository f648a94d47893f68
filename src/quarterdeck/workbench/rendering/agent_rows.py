"""The rows of the agent table: columns that a person chose, or as many as fit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.event_text import REQUEST_PREFIXES
from quarterdeck.wire.terminal_text import count, format_age

from ..sanitize import sanitize_line
from ..stores.roster import SYMBOLS, RosterStore
from .lines import Line, Span, clip

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo

    from ..stores.checkouts import Checkout

__all__ = [
    "COLUMNS", "STATE_ROLES", "AgentColumn", "AgentRow", "agent_head", "agent_line",
    "find_urgent_columns", "format_money", "place_columns"
]  # fmt: skip

STATE_ROLES = {
    "running": "running",
    "starting": "running",
    "waiting": "asking",
    "failed": "bad",
    "killed": "bad",
    "interrupted": "warning",
    "done": "good",
}
_WAITS = {"permission": "permission", "person": "question", "agent": "asks agent"}
_DAY = 20 * 3_600 * 1_000_000
_LEAST_DOING = 24
_NARROW = 60
"""Cells below which the sign of a state stands for its word, and what is done has the room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """What a row is made of."""

    agent: "AgentInfo"
    roster: RosterStore
    now: int
    """Microseconds since the epoch."""
    checkout: "Checkout | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentColumn:
    """A column; its width is in cells and does not change with what is in it."""

    name: str
    width: int
    text: Callable[[AgentRow], str]
    title: str = ""
    is_right: bool = False
    role: str = "faint"

    @property
    def head(self) -> str:
        """What stands above it."""
        return self.title or self.name


def _elapsed(row: AgentRow) -> str:
    """How long the turn has been running, or since when the agent has its state."""
    agent = row.agent
    then = row.roster.since(agent)
    if agent.state in ("running", "starting"):
        return format_age(then, row.now)
    form = "since %H:%M" if row.now - then < _DAY else "since %d%b"
    return format_local_time(then, form)


def _state_and_doing(row: AgentRow, doing: str) -> str:
    """For narrow tables: the time of a running turn, else the state, and what is being done."""
    agent = row.agent
    if agent.state in ("running", "starting"):
        return f"{_elapsed(row)} {doing}"
    if agent.waits_for and doing.startswith(REQUEST_PREFIXES):
        return doing
    word = _WAITS.get(agent.waits_for or "", agent.state)
    if agent.worktree is not None and (changes := _changes(row)):
        word = f"{word} {changes}"
    return f"{word}: {doing}" if doing else word


def _context(row: AgentRow) -> str:
    context = row.agent.context
    return f"{100 * context.used // context.size}%" if context and context.size else "-"


def _cost(row: AgentRow) -> str:
    cost = row.agent.cost
    return format_money(cost.amount, cost.currency) if cost else "-"


def _doing(row: AgentRow) -> str:
    words = sanitize_line(row.roster.doing(row.agent), 300)
    return "(archived) " + words if row.agent.is_archived else words


COLUMNS = {
    column.name: column
    for column in (
        AgentColumn(
            name="name", title="agent", width=14, text=lambda r: sanitize_line(r.agent.name, 60)
        ),
        AgentColumn(
            name="state",
            width=12,
            text=lambda r: _WAITS.get(r.agent.waits_for or "", r.agent.state),
        ),
        AgentColumn(name="time", width=11, text=_elapsed, is_right=True),
        AgentColumn(name="doing", width=_LEAST_DOING, text=_doing, role="text"),
        AgentColumn(name="kind", width=9, text=lambda r: sanitize_line(r.agent.agent, 20)),
        AgentColumn(name="model", width=14, text=lambda r: sanitize_line(r.agent.model or "", 40)),
        AgentColumn(
            name="tokens", width=6, text=lambda r: count(r.agent.usage.total), is_right=True
        ),
        AgentColumn(name="context", title="ctx", width=4, text=_context, is_right=True),
        AgentColumn(name="cost", width=7, text=_cost, is_right=True),
        AgentColumn(name="branch", width=16, text=lambda r: sanitize_line(_branch(r), 60)),
        AgentColumn(name="changes", width=11, text=lambda r: _changes(r)),
        AgentColumn(name="conflicts", width=12, text=lambda r: _conflicts(r), role="warning"),
    )
}
"""In the order in which they stand."""
_NEEDED = ("name", "state", "time", "doing")
_NARROW_NEEDED = ("name", "doing")
_BY_WORTH = ("context", "cost", "tokens", "branch", "changes", "model", "kind")
"""Which come first where there is room."""


def find_urgent_columns(agents: "Iterable[AgentInfo]") -> tuple[str, ...]:
    """Columns that come before others, because some agent has something there."""
    known = list(agents)
    conflicts = ("conflicts",) if any(map(_is_in_conflict, known)) else ()
    trees = ("changes", "branch") if any(agent.worktree for agent in known) else ()
    return (*conflicts, *trees)


def _is_in_conflict(agent: "AgentInfo") -> bool:
    return any(file.kind != "file" for one in agent.conflicts for file in one.files)


def place_columns(
    width: int, chosen: Sequence[str] = (), urgent: Sequence[str] = ()
) -> list[tuple[AgentColumn, int, int]]:
    """The columns that are shown, each with where it begins and how wide it is.

    ``urgent``: which come first where a person chose none. What a person chose stays whole as long
    as it fits; what is done gets what is left over.
    """
    names = [name for name in COLUMNS if name in (chosen or _fitting(width, urgent))]
    names = names if "name" in names else ["name", *names]
    wide = {name: COLUMNS[name].width for name in names}
    if width >= 100 or "doing" not in names:
        wide["name"] = 20
    spare = width - 2 - sum(wide.values()) - len(names)
    grower = "doing" if "doing" in names else "name"
    wide[grower] = max(8, wide[grower] + spare)
    found: list[tuple[AgentColumn, int, int]] = []
    at = 2
    for name in names:
        found.append((COLUMNS[name], at, wide[name]))
        at += wide[name] + 1
    return found


def agent_head(
    width: int, chosen: Sequence[str] = (), by: str = "need", urgent: Sequence[str] = ()
) -> Line:
    """The names of the columns; the one that is sorted by has a sign."""
    spans: list[Span] = [("  ", "faint")]
    for column, _, wide in place_columns(width, chosen, urgent):
        title = column.head + ("▾" if column.name == by else "")
        role = "strong" if column.name == by else "faint"
        spans.append((_cell(title, wide, column.is_right) + " ", role))
    return clip(tuple(spans), width)


def agent_line(
    row: AgentRow, width: int, chosen: Sequence[str] = (), urgent: Sequence[str] = ()
) -> Line:
    """One agent."""
    agent = row.agent
    role = "faint" if agent.is_archived else STATE_ROLES.get(agent.state, "text")
    spans: list[Span] = [(SYMBOLS[agent.state] + " ", role)]
    is_narrow = width < _NARROW and not chosen
    columns = place_columns(width, chosen, urgent)
    has_conflicts = any(column.name == "conflicts" for column, _, _ in columns)
    for column, _, wide in columns:
        text = column.text(row)
        if column.name == "doing" and is_narrow:
            text = _state_and_doing(row, text)
        if column.name == "doing" and not has_conflicts and (sign := _conflicts(row)):
            text = f"{sign}  {text}"
        own = {"name": "strong", "state": role}.get(column.name, column.role)
        depth = row.roster.depth(agent.session)
        if column.name == "name" and depth:
            text = "  " * (min(depth, 4) - 1) + "└ " + text
        spans.append((_cell(text, wide, column.is_right) + " ", own))
    return clip(tuple(spans), width)


def format_money(amount: float, currency: str) -> str:
    """An amount in few characters."""
    sign = "$" if currency == "USD" else sanitize_line(currency, 4) + " "
    return f"{sign}{amount:.2f}" if amount >= 0.005 or not amount else f"<{sign}0.01"


def _fitting(width: int, urgent: Sequence[str]) -> list[str]:
    if width < _NARROW:
        return list(_NARROW_NEEDED)
    names = list[str](_NEEDED)
    room = width - 2 - sum(COLUMNS[name].width + 1 for name in names)
    for name in dict.fromkeys((*urgent, *_BY_WORTH)):
        room -= COLUMNS[name].width + 1
        if room < 0:
            break
        names.append(name)
    return names


def _branch(row: AgentRow) -> str:
    """The branch of its worktree, or the one that is checked out where it works."""
    tree = row.agent.worktree
    return tree.branch or "(no branch)" if tree is not None else _checkout(row).branch


def _changes(row: AgentRow) -> str:
    """Lines that it changed in its worktree, or that are uncommitted where it works."""
    counts = row.agent.changes
    if row.agent.worktree is None or counts is None:
        return _checkout(row).changes
    return f"+{counts.added} −{counts.removed}" if counts.files else ""


def _conflicts(row: AgentRow) -> str:
    """The agents that change the same lines or symbols."""
    names: list[str] = []
    for conflict in row.agent.conflicts:
        other = row.roster.find(conflict.other)
        if any(file.kind != "file" for file in conflict.files):
            names.append(other.name if other is not None else conflict.other)
    if not names:
        return ""
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"⚠ {sanitize_line(names[0], 30)}{more}"


def _checkout(row: AgentRow) -> "Checkout":
    from ..stores.checkouts import Checkout

    return row.checkout or Checkout()


def _cell(text: str, width: int, is_right: bool = False) -> str:
    """A text in exactly so many cells."""
    ((shown, _),) = clip(((text, ""),), width) or (("", ""),)
    room = " " * (width - cell_len(shown))
    return room + shown if is_right else shown + room
