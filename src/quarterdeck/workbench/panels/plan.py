"""The plan panel: a run of a plan, its tasks with their states, times and costs, as they change."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.terminal_text import count_noun

from ..rendering import glyphs
from ..rendering.agent_rows import format_money
from ..rendering.calls import format_duration
from ..rendering.lines import Line, Span, clip
from ..sanitize import sanitize_line
from ..widgets.picker import Picker
from .components import HeadLine, PolledPanel, empty_lines, problem_lines
from .panel import PanelOptions

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.plans.progress import ContenderReport, TaskProgress
    from quarterdeck.plans.run import PlanRun

__all__ = ["PlanOptions", "PlanPage", "PlanPanel", "TaskList", "read_page", "task_lines"]

_LOOKS: dict[str, tuple[str, str]] = {
    "waiting": (glyphs.IDLE, "faint"),
    "running": (glyphs.RUNNING, "running"),
    "needs you": (glyphs.NEEDS_YOU, "asking"),
    "done": (glyphs.DONE, "good"),
    "passed": (glyphs.DONE, "good"),
    "failed": (glyphs.FAILED, "bad"),
    "skipped": (glyphs.STOPPED, "faint"),
    "stopped": (glyphs.STOPPED, "faint"),
    "withdrawn": (glyphs.STOPPED, "faint"),
}
_LEAST_NOTE = 16
_LONGEST_NAME = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPage:
    """A run as it was read."""

    name: str
    state: str
    tasks: "Mapping[str, TaskProgress]"
    notes: tuple[str, ...]
    others: tuple[str, ...]
    """The names of all runs, the latest first."""


class PlanOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a plan panel can be given."""

    run: str | None = None
    """The name of a run; None: the latest."""


def read_page(places: "Places", name: str | None) -> PlanPage | None:
    """A run by its name, or the latest; None: there is none. Blocks.

    Raises:
        QuarterdeckError: it cannot be read, or there is none of that name.
    """
    from quarterdeck.plans.run import find_run, list_runs

    runs = list_runs(places)
    found: PlanRun | None = find_run(places, name) if name is not None else next(iter(runs), None)
    if found is None:
        return None
    progress = found.read_progress()
    return PlanPage(
        name=found.info.name,
        state=found.find_state(progress),
        tasks=progress.tasks,
        notes=tuple(progress.notes),
        others=tuple(run.info.name for run in runs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    key: str
    name: str
    state: str
    time: str
    cost: str
    note: str


def task_lines(
    page: PlanPage, agents: "Mapping[str, AgentInfo]", now: int, width: int
) -> list[tuple[str, Line]]:
    """A line for each task, and for each contender of a race below it; with the key of its row."""
    rows = [row for task in page.tasks.values() for row in _make_rows(task, page, agents, now)]
    names = min(_LONGEST_NAME, max((cell_len(row.name) for row in rows), default=0))
    widths = {
        "name": names,
        "state": max((len(row.state) for row in rows), default=0),
        "time": max((len(row.time) for row in rows), default=0),
        "cost": max((cell_len(row.cost) for row in rows), default=0),
    }
    shown = _choose_columns(widths, any(row.note for row in rows), width)
    return [(row.key, _draw_row(row, widths, shown, width)) for row in rows]


def _choose_columns(widths: Mapping[str, int], has_notes: bool, width: int) -> list[str]:
    """The columns that fit whole, the most important first."""
    used, shown = 2 + widths["name"], ["name"]
    for name, needed in (
        ("state", widths["state"]),
        ("time", widths["time"]),
        ("note", _LEAST_NOTE if has_notes else 0),
        ("cost", widths["cost"]),
    ):
        if needed and used + 2 + needed <= width:
            used += 2 + needed
            shown.append(name)
    return shown


def _draw_row(row: _Row, widths: Mapping[str, int], shown: list[str], width: int) -> Line:
    sign, role = _LOOKS.get(row.state, (glyphs.UNKNOWN, "faint"))
    is_part = row.name.startswith(" ")
    name = row.name + " " * (widths["name"] - cell_len(row.name))
    spans: list[Span] = [
        (f"{sign} ", role),
        *clip(((name, "text" if is_part else "strong"),), widths["name"]),
    ]
    if "state" in shown:
        spans.append((f"  {row.state:<{widths['state']}}", role))
    spans += [
        (f"  {getattr(row, column):>{widths[column]}}", "text")
        for column in ("time", "cost")
        if column in shown
    ]
    if "note" in shown and row.note:
        spans.append((f"  {row.note}", "faint"))
    return clip(tuple(spans), width)


def _make_rows(
    task: "TaskProgress", page: PlanPage, agents: "Mapping[str, AgentInfo]", now: int
) -> Iterable[_Row]:
    state = {"gate": "needs you"}.get(task.state, task.state)
    if state == "running" and page.state == "stopped":
        state = "stopped"
    names = list(dict.fromkeys((*task.sessions, *task.reports)))
    live = [agents[one] for one in task.sessions.values() if one in agents]
    if state == "running" and any(agent.needs_person for agent in live):
        state = "needs you"
    took = (task.ended or now) - task.begun
    yield _Row(
        key=task.key,
        name=sanitize_line(task.key, _LONGEST_NAME),
        state=state,
        time=format_duration(max(0, took)) if task.begun else "",
        cost=_sum_costs(task, names, agents),
        note=_describe_task(task, names),
    )
    if len(names) > 1:
        for name in names:
            yield _make_contender_row(task, name, agents)


def _make_contender_row(task: "TaskProgress", name: str, agents: "Mapping[str, AgentInfo]") -> _Row:
    report = task.reports.get(name)
    agent = agents.get(task.sessions.get(name, ""))
    state, time, note = "waiting", "", ""
    if report is not None:
        state = str(report.state)
        time = format_duration(int(report.seconds * 1_000_000))
        note = _describe_report(report)
    elif agent is not None:
        state = "needs you" if agent.needs_person else "running"
    return _Row(
        key=f"{task.key} {name}",
        name=f"  {sanitize_line(name, _LONGEST_NAME - 2)}",
        state=state,
        time=time,
        cost=_format_costs(_find_costs(report, agent)) if report or agent else "",
        note=f" {glyphs.BETWEEN} ".join(filter(None, ("won" * (name == task.winner), note))),
    )


def _describe_task(task: "TaskProgress", names: list[str]) -> str:
    facts: list[str] = []
    if len(names) == 1:
        facts.append(sanitize_line(names[0], 40))
    if task.state == "gate":
        facts.append("approve or reject it in the inbox")
    if task.attempts > 1:
        facts.append(count_noun(task.attempts, "attempt"))
    if task.repeated:
        facts.append(f"{count_noun(task.repeated, 'turn')} repeated")
    if task.text:
        facts.append(sanitize_line(task.text, 200))
    elif len(names) == 1 and names[0] in task.reports:
        facts.append(_describe_report(task.reports[names[0]]))
    return f" {glyphs.BETWEEN} ".join(filter(None, facts))


def _describe_report(report: "ContenderReport") -> str:
    facts: list[str] = []
    if report.checks:
        facts.append(f"{report.passed_checks} of {count_noun(len(report.checks), 'check')}")
    if report.files:
        facts.append(f"+{report.added} {glyphs.MINUS}{report.removed}")
    if report.reason:
        facts.append(sanitize_line(report.reason, 200))
    return f" {glyphs.BETWEEN} ".join(facts)


def _find_costs(
    report: "ContenderReport | None", agent: "AgentInfo | None"
) -> dict[str, float] | None:
    """What is known, by currency; None: nothing."""
    if report is not None:
        return dict(report.costs) or None
    if agent is not None and agent.cost is not None:
        return {agent.cost.currency: agent.cost.amount}
    return None


def _sum_costs(task: "TaskProgress", names: list[str], agents: "Mapping[str, AgentInfo]") -> str:
    if not names:
        return ""
    total: dict[str, float] = {}
    for name in names:
        agent = agents.get(task.sessions.get(name, ""))
        for currency, amount in (_find_costs(task.reports.get(name), agent) or {}).items():
            total[currency] = total.get(currency, 0.0) + amount
    return _format_costs(total or None)


def _format_costs(costs: Mapping[str, float] | None) -> str:
    if costs is None:
        return glyphs.UNKNOWN
    return " + ".join(format_money(amount, currency) for currency, amount in sorted(costs.items()))


class TaskList(Picker):
    """A row for each task of a run, and for each contender of a race."""

    def __init__(self, panel: "PlanPanel") -> None:
        super().__init__(id="tasks")
        self._panel = panel

    def head(self, width: int) -> list[Line]:
        """See ``Picker``."""
        return self._panel.notices(width)

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return self._panel.task_rows(width)


class PlanPanel(PolledPanel):
    """The latest run, or one that is named; read once a second while it is seen."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = PlanOptions
    EVERY: ClassVar[float | None] = 1.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "other(1)", "the run before this one"),
        Binding("p", "other(-1)", "the run after this one"),
        Binding("r", "look", "refresh"),
    ]

    def __init__(self, context: Any, options: PlanOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.run_name: str | None = options.run
        self.places: Places | None = context.discovery.places
        """Where runs are; None: not known yet."""
        self._page: PlanPage | None = None
        self._is_read = False
        self._problem: str | None = None
        self.head: HeadLine = HeadLine()
        self.list = TaskList(self)

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.head
        yield self.list

    def focus_target(self) -> TaskList:
        """See ``PolledPanel``."""
        return self.list

    def change(self, options: Any) -> bool:
        """See ``Panel``."""
        self.options, self.run_name = options, options.run
        self.look_now()
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        return {"run": self.run_name}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        name = state.get("run")
        self.run_name = name if isinstance(name, str) else self.run_name

    async def look(self) -> None:
        """See ``PolledPanel``."""
        places = self.places or self.context.discovery.places
        try:
            if places is not None:
                self._page = await asyncio.to_thread(read_page, places, self.run_name)
            self._problem = None
        except QuarterdeckError as error:
            self._problem = str(error)
        self._is_read = True
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        page = self._page
        if page is not None and (self.list.cursor or "").partition(" ")[0] not in page.tasks:
            self.list.cursor = next(iter(page.tasks), None)
        self.list.update()
        if page is None:
            self.head.show("plan")
        else:
            done = sum(task.state == "done" for task in page.tasks.values())
            several = [("n p other runs", "faint")] if len(page.others) > 1 else []
            self.head.show(
                "plan",
                (sanitize_line(page.name, 40), "text"),
                (page.state, _LOOKS[page.state][1]),
                (f"{done} of {count_noun(len(page.tasks), 'task')}", "faint"),
                *several,
            )
        self.head.show_problem(self._problem if page is not None else None)

    def notices(self, width: int) -> list[Line]:
        """What stands above the tasks for a width: that there are none, or what is to be known."""
        page = self._page
        if page is None:
            if self._problem is not None:
                return problem_lines(self._problem, width)
            hint = [("quarterdeck plan run FILE", "runs a plan")]
            return empty_lines("Runs of plans appear here.", hint, width) if self._is_read else []
        lines: list[Line] = [
            ((f"{glyphs.WARNING} ", "warning"), (sanitize_line(note, 200), "text"))
            for note in dict.fromkeys(page.notes)
        ]
        if not page.tasks:
            lines.append((("the run begins", "faint"),))
        return [clip(line, width) for line in lines]

    def task_rows(self, width: int) -> list[tuple[str, Line]]:
        """The tasks for a width."""
        if self._page is None:
            return []
        agents = {str(one.session): one for one in self.context.roster.everyone}
        return task_lines(self._page, agents, self.context.clock(), width)

    def on_picker_chosen(self, event: Picker.Chosen) -> None:
        """Show the agent of the row: the winner, or the first."""
        event.stop()
        key, _, contender = event.key.partition(" ")
        task = self._page.tasks.get(key) if self._page is not None else None
        if task is not None and task.sessions:
            first = next(iter(task.sessions))
            session = task.sessions.get(contender or task.winner or first, task.sessions[first])
            self.post_message(self.AgentWanted(SessionId(session)))

    def action_other(self, step: int) -> None:
        """Show another run."""
        page = self._page
        if page is not None and page.name in page.others:
            at = page.others.index(page.name) + step
            if 0 <= at < len(page.others):
                self.run_name = page.others[at]
                self.look_now()

    def action_look(self) -> None:
        """Look again."""
        self.look_now()
