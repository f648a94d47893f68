"""The usage panel: tokens and cost by agent, model or day, and over the last hour."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.terminal_text import count, count_noun

from ..rendering.agent_rows import format_money
from ..rendering.glyphs import (
    BAR,
    FREE,
    HALF_BAR,
    LEVELS,
    UNKNOWN,
    USED,
    WALL,
    WARNING,
)
from ..rendering.lines import Line, Span, clip, width_of
from ..sanitize import sanitize_line
from .components import HeadLine, PanelPage, PolledPanel, empty_lines
from .panel import PanelOptions

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo

__all__ = [
    "GROUPINGS",
    "Grouping",
    "UsageHistory",
    "UsageOptions",
    "UsagePanel",
    "UsageShare",
    "compute_shares",
    "draw_bar",
    "draw_columns",
    "draw_gauge",
    "format_costs",
    "usage_lines",
]

Grouping: TypeAlias = Literal["agent", "model", "day"]
GROUPINGS: tuple[Grouping, ...] = ("agent", "model", "day")

_MINUTE = 60_000_000
_MINUTES = 60
_AXIS = 7
"""Cells before a chart."""
_CHART_ROWS = 4
_LEAST_BAR = 10
_LONGEST_BAR = 60
"""Longer ones say no more, and figures would be far from names."""
_GAUGE = 8
"""Cells of a bar that shows how full a context is."""
_FULL = 0.9
_TITLES = {"agent": "by agent", "model": "by model", "day": "by day"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageShare:
    """What one agent, model or day used."""

    name: str
    tokens: int
    costs: tuple[tuple[str, float], ...] = ()
    """Currency and amount; different ones are not added."""
    context: float | None = None
    """How full the model's window is, from 0 to 1; of a single agent."""
    count: int = 1
    """How many agents."""


class UsageHistory:
    """Tokens in each of the last sixty minutes, counted from when it was made."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._minutes: dict[int, int] = {}

    def take(self, agents: Iterable["AgentInfo"], now: int) -> None:
        """Note what agents have used by now, in microseconds; the first look is the start."""
        grown = 0
        for agent in agents:
            total = agent.usage.total
            grown += max(0, total - self._last.get(agent.session, total))
            self._last[agent.session] = total
        minute = now // _MINUTE
        self._minutes[minute] = self._minutes.get(minute, 0) + grown
        for old in [at for at in self._minutes if at <= minute - _MINUTES]:
            del self._minutes[old]

    def minutes(self, now: int, most: int = _MINUTES) -> list[int]:
        """Tokens of each minute up to this one, oldest first."""
        last = now // _MINUTE
        return [self._minutes.get(at, 0) for at in range(last - min(most, _MINUTES) + 1, last + 1)]


def compute_shares(
    agents: Iterable["AgentInfo"],
    grouping: Grouping,
    day: "Callable[[int], str] | None" = None,
) -> list[UsageShare]:
    """The shares, biggest first; days: latest first. ``day`` names the day of a time."""
    groups: dict[str, list[AgentInfo]] = {}
    name_of = day or _day
    for agent in agents:
        if grouping == "agent":
            key = agent.name
        else:
            key = agent.model or agent.agent if grouping == "model" else name_of(agent.updated)
        groups.setdefault(key, []).append(agent)
    shares = [_share(name, group) for name, group in groups.items()]
    if grouping == "day":
        return sorted(shares, key=lambda share: share.name, reverse=True)
    return sorted(shares, key=lambda share: (-share.tokens, share.name))


def _share(name: str, agents: "list[AgentInfo]") -> UsageShare:
    costs: dict[str, float] = {}
    for agent in agents:
        if agent.cost is not None:
            costs[agent.cost.currency] = costs.get(agent.cost.currency, 0.0) + agent.cost.amount
    context = agents[0].context if len(agents) == 1 else None
    return UsageShare(
        name=name,
        tokens=sum(agent.usage.total for agent in agents),
        costs=tuple(sorted(costs.items())),
        context=context.used / context.size if context is not None and context.size > 0 else None,
        count=len(agents),
    )


def _day(time: int) -> str:
    return format_local_time(time, "%Y-%m-%d")


def draw_bar(part: float, width: int) -> str:
    """A line as long as ``part`` (from 0 to 1) of so many cells, by halves."""
    if width <= 0:
        return ""
    filled = round(max(0.0, min(1.0, part)) * width * 2)
    if part > 0 and not filled:
        filled = 1  # little is not nothing
    whole, rest = divmod(filled, 2)
    return (BAR * whole + HALF_BAR * rest).ljust(width)


def draw_gauge(part: float, width: int) -> str:
    """How much of something is used, of exactly so many cells."""
    used = round(max(0.0, min(1.0, part)) * width)
    if part > 0 and not used and width > 0:
        used = 1
    return USED * used + FREE * (max(0, width) - used)


def draw_columns(values: Sequence[int], height: int, wide: int = 1) -> list[str]:
    """A column for each figure, from the top row to the bottom; what is more than 0 is seen."""
    most = max(values, default=0)
    steps = [max(1, round(value / most * height * 8)) if value else 0 for value in values]
    rows: list[str] = []
    for below in range(height - 1, -1, -1):
        cells = (max(0, min(8, step - below * 8)) for step in steps)
        rows.append("".join((LEVELS[cell - 1] if cell else " ") * wide for cell in cells))
    return rows


def usage_lines(
    agents: "Sequence[AgentInfo]",
    history: UsageHistory,
    grouping: Grouping,
    now: int,
    width: int,
    day: "Callable[[int], str] | None" = None,
) -> list[Line]:
    """The whole page."""
    if not agents:
        hints = [("ctrl+t", "starts an agent"), ("a", "shows archived ones")]
        return empty_lines("What agents use appears here.", hints, width)
    shares = compute_shares(agents, grouping, day)
    lines = [*_over_time(history, now, width), (), *_share_lines(shares, grouping, width)]
    return [clip(line, width) for line in lines]


def _over_time(history: UsageHistory, now: int, width: int) -> list[Line]:
    """Tokens of each minute of the last hour, as columns over the whole width."""
    count_of = max(5, min(_MINUTES, width - _AXIS))
    values = history.minutes(now, count_of)
    title = f"tokens a minute, last {len(values)} min"
    if not any(values):
        return [((title, "strong"), ("  none since this panel was opened", "faint"))]
    wide = max(1, (width - _AXIS) // len(values))
    summary = f"  {count(sum(values))} in all, at most {count(max(values))}"
    lines: list[Line] = [((title, "strong"), (summary, "faint"))]
    for at, row in enumerate(draw_columns(values, _CHART_ROWS, wide)):
        label = count(max(values)) if not at else "0" if at == _CHART_ROWS - 1 else ""
        lines.append(((f"{label:>{_AXIS - 2}} {WALL}", "faint"), (row, "running")))
    return lines


class _Column(NamedTuple):
    """A column of figures, right-aligned below its name."""

    name: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.name, *self.cells)))


def _share_lines(shares: list[UsageShare], grouping: Grouping, width: int) -> list[Line]:
    """A row for each share: name, bar, figures; figures that have no room go as a column."""
    names = [sanitize_line(share.name, 80) for share in shares]
    room = min(max(8, *map(cell_len, names)), max(8, width // 3), 28)
    columns = _columns(shares)
    while len(columns) > 1 and _figures_width(columns) + room + _LEAST_BAR + 1 > width:
        columns.pop()
    has_context = any(share.context is not None for share in shares)
    gauge = _GAUGE if has_context and width - room - _figures_width(columns) > 2 * _GAUGE + 8 else 0
    left = width - room - 1 - _figures_width(columns) - (gauge + 10 if gauge else 0)
    length = max(0, min(left, _LONGEST_BAR))
    head = _TITLES[grouping].ljust(room + 1 + length)[: room + 1 + length]
    titles = "".join(f"  {column.name:>{column.width}}" for column in columns)
    gauge_title = f"  {'context':<{gauge + 8}}" if gauge else ""
    lines: list[Line] = [((head, "strong"), (titles + gauge_title, "faint"))]
    most = max(share.tokens for share in shares)
    for at, share in enumerate(shares):
        name = clip(((names[at], "text"),), room)
        pad = " " * (room - width_of(name) + 1)
        bar = draw_bar(share.tokens / most if most else 0.0, length)
        figures = "".join(f"  {column.cells[at]:>{column.width}}" for column in columns)
        lines.append((*name, (pad, "text"), (bar, "running"), (figures, "text"),
                      *_context(share, gauge)))  # fmt: skip
    return lines


def _columns(shares: list[UsageShare]) -> list[_Column]:
    """The figures of shares; those that say nothing are not there, the least needed last."""
    total = sum(share.tokens for share in shares)
    found = [_Column("tokens", [count(share.tokens) for share in shares])]
    if any(share.costs for share in shares):
        found.append(_Column("cost", [format_costs(share.costs) for share in shares]))
    if total:
        parts = [f"{100 * share.tokens / total:.0f} %" for share in shares]
        found.append(_Column("share", parts))
    if any(share.count > 1 for share in shares):
        found.append(_Column("agents", [str(share.count) for share in shares]))
    return found


def _figures_width(columns: list[_Column]) -> int:
    return sum(column.width + 2 for column in columns)


def _context(share: UsageShare, length: int) -> list[Span]:
    if not length:
        return []
    if share.context is None:
        return [(f"  {UNKNOWN:<{length + 8}}", "faint")]
    role = "warning" if share.context > _FULL else "faint"
    sign = WARNING if share.context > _FULL else " "
    return [(f"  {draw_gauge(share.context, length)} {share.context * 100:>3.0f} % {sign}", role)]


def format_costs(costs: tuple[tuple[str, float], ...]) -> str:
    """What was paid; different currencies are not added up."""
    return " ".join(format_money(amount, currency) for currency, amount in costs) or UNKNOWN


class UsageOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a usage panel can be given."""

    by: Grouping = "agent"


class UsagePanel(PolledPanel):
    """Bars with figures; redrawn when the agents change, and each minute."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = UsageOptions
    EVERY: ClassVar[float | None] = 60.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "group", "group by agent, model or day"),
        Binding("a", "archived", "show or hide archived agents"),
        Binding("r", "reload", "refresh"),
    ]

    def __init__(self, context: Any, options: UsageOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.grouping: Grouping = options.by
        self.history = UsageHistory()
        self._counts_archived = False
        self._unwatch = lambda: None
        self.head: HeadLine = HeadLine()
        self.page = PanelPage(self._lines, id="page")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.page)

    def on_mount(self) -> None:
        """Follow the agents."""
        self._unwatch = self.context.roster.watch(self._changed)
        self.history.take(self.context.roster.everyone, self.context.clock())

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def focus_target(self) -> PanelPage:
        """See ``PolledPanel``."""
        return self.page

    def change(self, options: Any) -> bool:
        """See ``Panel``."""
        self.options, self.grouping = options, options.by
        self._update()
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        return {"by": self.grouping, "archived": self._counts_archived}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        self._counts_archived = state.get("archived") is True
        for grouping in GROUPINGS:
            if grouping == state.get("by"):
                self.grouping = grouping

    async def look(self) -> None:
        """Draw the passing of time."""
        self._update()

    def action_group(self) -> None:
        """Add up by something else."""
        self.grouping = GROUPINGS[(GROUPINGS.index(self.grouping) + 1) % len(GROUPINGS)]
        self._update()

    def action_archived(self) -> None:
        """Count agents that are put away, or not."""
        self._counts_archived = not self._counts_archived
        self._update()

    def action_reload(self) -> None:
        """Draw what is known now."""
        self.look_now()

    def _changed(self) -> None:
        self.history.take(self.context.roster.everyone, self.context.clock())
        if self.is_seen:
            self._update()

    def _update(self) -> None:
        if self.is_mounted:
            self.page.update()
            self._show_head()

    def _show_head(self) -> None:
        agents = self._agents()
        everything = _share("all", agents)
        facts = [f"{count(everything.tokens)} tokens"] if agents else []
        facts += [format_costs(everything.costs)] if everything.costs else []
        facts += [count_noun(len(agents), "agent")]
        facts += ["with archived"] if self._counts_archived else []
        self.head.show("usage", *((fact, "faint") for fact in facts), ("g groups", "faint"))

    def _agents(self) -> "list[AgentInfo]":
        everyone = self.context.roster.everyone
        return [one for one in everyone if self._counts_archived or not one.is_archived]

    def _lines(self, width: int) -> list[Line]:
        now = self.context.clock()
        return usage_lines(self._agents(), self.history, self.grouping, now, width)
