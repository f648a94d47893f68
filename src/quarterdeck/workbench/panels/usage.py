"""The usage panel: what the fleet has counted, as bars by agent, lead, project, vendor, model or
day; a chart of days; budgets and how far they are used.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.record import event_type

from ..rendering.lines import Line
from .components import HeadLine, PanelPage, PolledPanel, problem_lines
from .panel import PanelOptions
from .usage_model import (
    GROUPINGS,
    PERIODS,
    Grouping,
    Period,
    UsagePage,
    find_first_day,
    usage_facts,
    usage_lines,
)

if TYPE_CHECKING:
    from quarterdeck.fleet.budgets.api import BudgetRow
    from quarterdeck.wire.record import Record

__all__ = ["UsageOptions", "UsagePanel"]

_COUNTED = frozenset(
    {
        "compaction_changed",
        "model_call_finished",
        "model_call_metered",
        "session_changed",
        "session_ended",
        "session_opened",
        "session_spawned",
        "turn_ended",
        "usage_reported",
        "worktree_assigned",
    }
)
"""Events after which the fleet may count something else."""
_REST = 10
"""The part of the time that is spent with asking: one tenth at the most."""


class UsageOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a usage panel can be given."""

    by: Grouping = "agent"
    period: Period = "month"


class UsagePanel(PolledPanel):
    """Bars with figures; the fleet is asked again when something was used, once a second at most.

    It counts; the panel only shows. So the cost of one more event does not grow with what was
    shown before, and what happened before the panel was opened is in it.
    """

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = UsageOptions
    EVERY: ClassVar[float | None] = 1.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "group(1)", "group by agent, lead, project, vendor, model or day"),
        Binding("G", "group(-1)", "group by the one before"),
        Binding("p", "period", "another period: 30 days, all, today, 7 days"),
        Binding("b", "app.command('budgets')", "set, raise or remove budgets"),
        Binding("a", "archived", "show archived agents one by one, or as one"),
        Binding("r", "reload", "refresh"),
    ]

    def __init__(self, context: Any, options: UsageOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.grouping: Grouping = options.by
        self.period: Period = options.period
        self._known: UsagePage | None = None
        self._problem: str | None = None
        self._shows_archived = False
        self._is_stale = True
        self._is_outdated = False
        """What is drawn is not what is known."""
        self._rests_until = 0.0
        self._stops: list[Any] = []
        self.head: HeadLine = HeadLine()
        self.page = PanelPage(self._lines, id="page")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.page)

    def on_mount(self) -> None:
        """Follow what happens."""
        context = self.context
        self._stops = [
            context.roster.watch(self._outdate),
            context.budgets.watch(self._outdate),
            context.watch(self._try_again),
        ]
        context.listeners.append(self._hear)
        self._show_head()

    def on_unmount(self) -> None:
        """Let go of the stores."""
        for stop in self._stops:
            stop()
        self.context.listeners.remove(self._hear)

    def focus_target(self) -> PanelPage:
        """See ``PolledPanel``."""
        return self.page

    def change(self, options: Any) -> bool:
        """See ``Panel``."""
        self.options, self.grouping, self.period = options, options.by, options.period
        self.look_now()
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        return {"by": self.grouping, "period": self.period, "archived": self._shows_archived}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        self._shows_archived = state.get("archived") is True
        self.grouping = _one_of(GROUPINGS, state.get("by"), self.grouping)
        self.period = _one_of(PERIODS, state.get("period"), self.period)

    async def look(self) -> None:
        """Ask the fleet what it has counted."""
        self._is_stale = False
        began = time.monotonic()
        by, period, now = self.grouping, self.period, self.context.clock()
        since, fleet = find_first_day(period, now), self.context.fleet
        try:
            days = await fleet.usage("day", since=since, runs=True)
            rows = days if by == "day" else await fleet.usage(by, since=since, runs=True)
        except QuarterdeckError as error:
            self._problem = str(error)
        else:
            self._problem = None
            today = format_local_time(now, "%Y-%m-%d")
            self._known = UsagePage(days=days, rows=rows, period=period, today=today)
        took = time.monotonic() - began
        self._rests_until = began + took * _REST
        self._update()

    def action_group(self, step: int) -> None:
        """Add up by something else."""
        at = GROUPINGS.index(self.grouping) + step
        self.grouping = GROUPINGS[at % len(GROUPINGS)]
        self.look_now()

    def action_period(self) -> None:
        """Show another period."""
        self.period = PERIODS[(PERIODS.index(self.period) + 1) % len(PERIODS)]
        self.look_now()

    def action_archived(self) -> None:
        """Show archived agents one by one, or as one."""
        self._shows_archived = not self._shows_archived
        self._update()

    def action_reload(self) -> None:
        """Ask now."""
        self.look_now()

    def _hear(self, records: "Sequence[Record]") -> None:
        if not self._is_stale:
            self._is_stale = any(event_type(record.event) in _COUNTED for record in records)

    def _try_again(self) -> None:
        """Ask again what could not be answered, once the host is there."""
        self._is_stale = self._is_stale or self._problem is not None

    def _outdate(self) -> None:
        self._is_outdated = True

    def _poll(self) -> None:
        """Ask again if something was used, or the day is another; else draw what is new."""
        known = self._known
        is_other_day = (
            known is not None and format_local_time(self.context.clock(), "%Y-%m-%d") != known.today
        )
        if (self._is_stale or is_other_day) and time.monotonic() >= self._rests_until:
            super()._poll()
        elif self._is_outdated:
            self._update()

    def _update(self) -> None:
        if self.is_mounted:
            self._is_outdated = False
            self.page.update()
            self._show_head()

    def _show_head(self) -> None:
        page = self._known
        facts = usage_facts(page) if page is not None else []
        self.head.show("usage", *facts, ("g groups", "faint"), ("p period", "faint"))
        self.head.show_problem(self._problem if page is not None else None)

    def _lines(self, width: int) -> list[Line]:
        known = self._known
        if known is None:
            return problem_lines(self._problem, width) if self._problem else []
        roster = self.context.roster.everyone
        archived = [one.session for one in roster if one.is_archived]
        contexts = {
            one.session: one.context.used / one.context.size
            for one in roster
            if one.context is not None and one.context.size > 0
        }
        page = replace(
            known,
            archived=frozenset() if self._shows_archived else frozenset(archived),
            contexts=contexts,
            budgets=self._list_budgets(archived),
        )
        return usage_lines(page, width)

    def _list_budgets(self, archived: list[Any]) -> "list[BudgetRow]":
        """Those that may still count for an agent."""
        rows = self.context.budgets.rows
        return [row for row in rows if row.subject not in archived]


def _one_of(known: Sequence[Any], value: object, other: Any) -> Any:
    return value if value in known else other
