"""The usage panel: tokens and cost by agent, model or day, and over the last hour."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.terminal_text import count

from ..rendering.agent_rows import format_money
from ..rendering.lines import Line, Span, clip, width_of
from ..sanitize import sanitize_line
from .components import PanelPage, PolledPanel
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
    "usage_lines",
]

Grouping: TypeAlias = Literal["agent", "model", "day"]
GROUPINGS: tuple[Grouping, ...] = ("agent", "model", "day")

_MINUTE = 60_000_000
_MINUTES = 60
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_TITLES = {"agent": "by agent", "model": "by model", "day": "by day of last activity"}


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
    """A bar of exactly so many cells, filled up to ``part`` (from 0 to 1) by eighths."""
    if width <= 0:
        return ""
    filled = round(max(0.0, min(1.0, part)) * width * 8)
    if part > 0 and not filled:
        filled = 1  # little is not nothing
    whole, rest = divmod(filled, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def draw_sparkline(values: Sequence[int]) -> str:
    """One character for each figure; nothing is a point."""
    most = max(values, default=0)
    if not most:
        return "·" * len(values)
    top = len(_LEVELS) - 1
    return "".join("·" if not value else _LEVELS[value * top // most] for value in values)


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
        return [(("no agents yet; their usage appears here", "faint"),)]
    everything = _share("all", list(agents))
    lines: list[Line] = [
        (("all agents  ", "strong"), (_figures(everything), "text")),
        _over_time(history, now, width),
        (),
        ((f"── {_TITLES[grouping]} (g: change) ", "faint"),),
    ]
    shares = compute_shares(agents, grouping, day)
    most = max(share.tokens for share in shares)
    longest = max(width_of(((sanitize_line(share.name, 80), ""),)) for share in shares)
    room = min(max(8, longest), max(8, width // 3), 28)
    for share in shares:
        lines += _share_lines(share, most, room, width)
    return [clip(line, width) for line in lines]


def _over_time(history: UsageHistory, now: int, width: int) -> Line:
    values = history.minutes(now, max(5, min(60, width - 42)))
    summary = f"  {count(sum(values))} in {len(values)} min, peak {count(max(values))}/min"
    return (("tokens  ", "faint"), (draw_sparkline(values), "running"), (summary, "faint"))


def _share_lines(share: UsageShare, most: int, room: int, width: int) -> list[Line]:
    name: Line = clip(((sanitize_line(share.name, 80), "strong"),), room)
    before: list[Span] = [*name, (" " * (room - width_of(name) + 1), "text")]
    length = max(4, min(40, width - room - 34))
    part = share.tokens / most if most else 0.0
    line: Line = (*before, (draw_bar(part, length), "running"), (" " + _figures(share), "text"))
    if share.context is None:
        return [line]
    label = " " * (room - 7) + "context "
    full = f" {share.context:.0%}" + (" full" if share.context > 0.9 else "")
    role = "warning" if share.context > 0.9 else "faint"
    return [line, ((label, "faint"), (draw_bar(share.context, length), role), (full, role))]


def _figures(share: UsageShare) -> str:
    parts = [f"{count(share.tokens):>5} tokens"]
    parts += [format_money(amount, currency) for currency, amount in share.costs]
    if share.count > 1:
        parts.append(f"{share.count} agents")
    return "  ".join(parts)


class UsageOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a usage panel can be given."""

    by: Grouping = "agent"


class UsagePanel(PolledPanel):
    """Bars with figures; redrawn when the agents change, and each minute."""

    options_type: ClassVar[type[PanelOptions]] = UsageOptions
    EVERY: ClassVar[float | None] = 60.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "group", "group by agent, model or day"),
        Binding("a", "archived", "show or hide archived agents"),
    ]

    def __init__(self, context: Any, options: UsageOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.grouping: Grouping = options.by
        self.history = UsageHistory()
        self._counts_archived = False
        self._unwatch = lambda: None
        self.page = PanelPage(self._lines, id="page")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.page

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

    def _changed(self) -> None:
        self.history.take(self.context.roster.everyone, self.context.clock())
        if self.is_seen:
            self._update()

    def _update(self) -> None:
        if self.is_mounted:
            self.page.update()

    def _lines(self, width: int) -> list[Line]:
        everyone, now = self.context.roster.everyone, self.context.clock()
        agents = [one for one in everyone if self._counts_archived or not one.is_archived]
        return usage_lines(agents, self.history, self.grouping, now, width)
