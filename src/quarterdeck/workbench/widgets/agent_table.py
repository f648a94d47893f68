"""The table of agents: who needs a person first, or as a person wants it; rows, or cards where
there is room.
"""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message

from quarterdeck.wire.clock import WallClock

from ..rendering import glyphs
from ..rendering.agent_rows import (
    AgentRow,
    agent_card,
    agent_head,
    agent_line,
    find_urgent_columns,
    group_line,
    measure_columns,
    place_columns,
)
from ..rendering.lines import Line, clip
from ..sanitize import sanitize_line
from ..stores.checkouts import Checkouts
from ..stores.roster import SORTS, RosterStore, name_group
from .picker import Picker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual.timer import Timer

    from quarterdeck.fleet.api import AgentInfo, InboxItem
    from quarterdeck.fleet.budgets.api import BudgetRow
    from quarterdeck.wire.ids import SessionId

    from ..stores.budgets import BudgetStore
    from ..stores.inbox import InboxStore

__all__ = ["AgentTable"]

_AT_WORK = ("running", "starting", "waiting")
_TABLE = 80
"""Cells from which agents are rows of a table with names above its columns."""
_NUMBERED = 9
"""Agents that have a key of their own, which is their number."""
_NUMBER = 2
"""Cells of a number."""
_NUMBER_ROOM = 40
"""Cells from which there is room for numbers."""
_CALM = 20.0
"""Seconds between two looks at the ages of agents, while none works."""


class AgentTable(Picker):
    """Rows or cards of agents in groups; once a second, those lines are drawn that have changed.

    Args:
        roster: the agents.
        clock: tells the time, in microseconds.
        inbox: what agents wait for; None: that is not known.
        budgets: what agents may use; None: that is not known.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "ask('interrupt')", "interrupt the selected agent"),
        Binding("k,K", "ask('kill')", "kill it, after confirmation"),
        Binding("a", "ask('archive')", "archive or unarchive it"),
        Binding("r", "ask('resume')", "resume it where it stopped"),
        Binding("n", "ask('rename')", "rename it"),
        Binding("v", "ask('review')", "review what it changed"),
        Binding("s", "sort(1)", "sort by the next column"),
        Binding("S", "turn", "reverse the order"),
        Binding("slash", "seek", "filter agents; escape shows all"),
        Binding("g", "app.command('group')", "group by state, lead, project or not at all"),
        Binding("z", "archived", "show or hide archived agents"),
        Binding("h", "ask('here')", "show agents of this directory only, or all"),
    ]

    class CommandWanted(Message):
        """A command is to be done to an agent, whichever is in view."""

        def __init__(self, session: "SessionId", command: str) -> None:
            super().__init__()
            self.session = session
            self.command = command

    def __init__(
        self,
        roster: RosterStore,
        clock: WallClock,
        inbox: "InboxStore | None" = None,
        budgets: "BudgetStore | None" = None,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._budgets = budgets
        self.columns: Sequence[str] = ()
        """What a person chose; empty: as many as fit."""
        self._roster = roster
        self._clock = clock
        self._inbox = inbox
        self._checkouts = Checkouts()
        self._stops: list[Callable[[], None]] = []
        self._is_seeking = False
        self._states: dict[SessionId, str] = {}
        self._timer: Timer | None = None
        self._urgent: Sequence[str] = ()
        """Columns that agents have something for."""
        self._wide: Mapping[str, int] = {}
        """How wide what is in the columns is."""
        self._requests: dict[SessionId, list[InboxItem]] = {}
        self._is_cards = False
        self._titles: dict[int, tuple[str, int]] = {}
        """The titles of the groups, by the agent before which they stand."""
        self._has_numbers = True
        self._numbers: dict[SessionId, int] = {}
        self.is_seen = False

    def on_mount(self) -> None:
        """Follow the stores, and let time pass."""
        self.border_title = "agents"
        self._timer = self.set_interval(1.0, self._tick, pause=True)
        self.set_interval(_CALM, self._tick)
        self._stops = [self._roster.watch(self._changed)]
        if self._inbox is not None:
            self._stops.append(self._inbox.watch(self._changed))
        if self._budgets is not None:
            self._stops.append(self._budgets.watch(self._changed))
        self._changed()

    def on_unmount(self) -> None:
        """Let go of the stores."""
        for stop in self._stops:
            stop()

    def on_show(self) -> None:
        """Time goes on again."""
        self.is_seen = True
        self._changed()

    def on_hide(self) -> None:
        """No one sees it."""
        self.is_seen = False
        if self._timer is not None:
            self._timer.pause()

    def head(self, width: int) -> list[Line]:
        """See ``Picker``."""
        roster = self._roster
        lines: list[Line] = []
        if self._has_names(width) and (roster.agents or roster.query.narrows):
            room = width - self._number_cells(width)
            head = agent_head(room, self.columns, roster.query.by, self._urgent, self._wide)
            lines.append(self._add_number(head, width))
        if self._is_seeking or roster.query.narrows:
            lines.append(self._filter_text())
        return lines

    def count_lines(self, width: int) -> int:
        """How many lines it fills as rows, which is the least; 0: there is no agent."""
        agents = len(self._roster.agents)
        titles = len(self._find_titles()) if agents else 0
        return len(self.head(width)) + agents + titles + max(0, titles - 1)

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        now, agents = self._clock(), self._roster.agents
        self._numbers = {one.session: at for at, one in enumerate(agents[:_NUMBERED], 1)}
        self._titles = self._find_titles()
        self._requests = self._find_requests()
        self._wide = measure_columns(self._row(agent, now) for agent in agents)
        room = self.scrollable_content_region.height - len(self._head)
        titles = len(self._titles)
        gaps = max(0, titles - 1)
        self._is_cards = (
            not self.columns and width < _TABLE and 2 * len(agents) + titles + gaps <= room
        )
        has_gaps = self._is_cards or len(agents) + titles + gaps <= room
        lines: list[tuple[str, Line]] = []
        for at, agent in enumerate(agents):
            if at in self._titles:
                if at and has_gaps:
                    lines.append(("", ()))
                lines.append(("", group_line(*self._titles[at], width)))
            lines += ((agent.session, line) for line in self._draw(agent, now, width))
        return lines

    def _find_titles(self) -> dict[int, tuple[str, int]]:
        """Before which agent a group begins; a single group of agents needs no title."""
        found: dict[int, tuple[str, int]] = {}
        by, last, first = self._roster.query.group, "", 0
        for at, agent in enumerate(self._roster.agents):
            title = name_group(agent, by)
            if not at or title != last:
                last, first = title, at
                found[at] = (title, 0)
            found[first] = (title, found[first][1] + 1)
        return found if len(found) > 1 else {}

    def _find_requests(self) -> "dict[SessionId, list[InboxItem]]":
        found: dict[SessionId, list[InboxItem]] = {}
        for item in self._inbox.items if self._inbox is not None else ():
            found.setdefault(item.session, []).append(item)
        return found

    def _has_names(self, width: int) -> bool:
        return bool(self.columns) or width >= _TABLE

    def action_ask(self, command: str) -> None:
        """Have something done to the agent under the cursor."""
        agent = self._roster.find(self.cursor)  # pyright: ignore[reportArgumentType] - an id
        if agent is not None:
            self.post_message(self.CommandWanted(agent.session, command))

    def action_sort(self, step: int) -> None:
        """Sort by another column."""
        names = list(SORTS)
        self._roster.sort(names[(names.index(self._roster.query.by) + step) % len(names)])

    def action_turn(self) -> None:
        """Sort the other way round."""
        self._roster.sort(self._roster.query.by, is_reversed=not self._roster.query.is_reversed)

    def action_seek(self) -> None:
        """Take what is typed as words that an agent must have."""
        self._is_seeking = True
        self.update()

    def action_archived(self) -> None:
        """Show agents that are put away, or hide them."""
        self._roster.show_archived(not self._roster.query.archived)

    def on_key(self, event: events.Key) -> None:
        """Take words for the filter while they are typed."""
        words = self._roster.query.words
        if event.key == "escape" and (self._is_seeking or words):
            self._is_seeking = False
            self._roster.seek("")
        elif not self._is_seeking:
            return
        elif event.key == "enter":
            self._is_seeking = False
            self.update()
        elif event.key == "backspace":
            self._roster.seek(words[:-1])
        elif event.is_printable and event.character is not None:
            self._roster.seek(words + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_blur(self) -> None:
        """The words stay; keys are keys again."""
        self._is_seeking = False

    def on_click(self, event: events.Click) -> None:
        """Sort by a column whose name is clicked."""
        width = self.scrollable_content_region.width
        if event.y != 0 or not self._head or not self._has_names(width):
            super().on_click(event)
            return
        event.prevent_default()
        before = self._number_cells(width)
        places = place_columns(width - before, self.columns, self._urgent, self._wide)
        for column, at, wide in places:
            if at <= event.x - before < at + wide and column.name in SORTS:
                by = self._roster.query.by
                is_again = by == column.name and not self._roster.query.is_reversed
                self._roster.sort(column.name, is_reversed=is_again)

    def _row(self, agent: "AgentInfo", now: int) -> AgentRow:
        return AgentRow(
            agent=agent,
            roster=self._roster,
            now=now,
            checkout=self._checkouts.get(agent.cwd),
            requests=self._requests.get(agent.session, ()),
            budget=self._find_budget(agent),
        )

    def _find_budget(self, agent: "AgentInfo") -> "BudgetRow | None":
        return self._budgets.find(agent, self._roster.find) if self._budgets is not None else None

    def _draw(self, agent: "AgentInfo", now: int, width: int) -> list[Line]:
        row = self._row(agent, now)
        room = width - self._number_cells(width)
        if self._is_cards:
            first, second = agent_card(row, room, self._wide)
            return [self._add_number(first, width, agent), self._add_number(second, width)]
        line = agent_line(row, room, self.columns, self._urgent, self._wide)
        return [self._add_number(line, width, agent)]

    def number(self, has_numbers: bool) -> None:
        """Show which keys go to agents, or do not, where they do something else."""
        if has_numbers != self._has_numbers:
            self._has_numbers = has_numbers
            self.update()

    def _number_cells(self, width: int) -> int:
        """Cells that numbers take; one agent alone needs none."""
        is_of_use = self._has_numbers and len(self._roster.agents) > 1
        return _NUMBER if is_of_use and width >= _NUMBER_ROOM else 0

    def _add_number(self, line: Line, width: int, agent: "AgentInfo | None" = None) -> Line:
        """Put the number of an agent, or room for one, behind the sign of its state."""
        if not (cells := self._number_cells(width)):
            return line
        number = str(self._numbers.get(agent.session, "")) if agent is not None else ""
        return (*line[:1], (number.ljust(cells), "faint"), *line[1:])

    def _filter_text(self) -> Line:
        query = self._roster.query
        shown, there = len(self._roster.agents), len(self._roster.everyone)
        where = f" in {sanitize_line(query.within, 60)}" if query.within is not None else ""
        typed = sanitize_line(query.words) + (glyphs.CARET if self._is_seeking else "")
        return (
            ("/ ", "key"),
            (typed, "strong"),
            (f"  {shown} of {there}{where} · esc show all", "faint"),
        )

    def _changed(self) -> None:
        has_budgets = any(map(self._find_budget, self._roster.agents))
        self._urgent = find_urgent_columns(self._roster.agents, self._roster, budgets=has_budgets)
        self.update()
        agents = self._roster.agents
        if self._timer is not None:
            if self.display and any(agent.state in _AT_WORK for agent in agents):
                self._timer.resume()
            else:
                self._timer.pause()
        self._look_at_checkouts()

    def update(self) -> None:
        """See ``Picker``: the names of columns are as wide as what was measured last."""
        super().update()
        if self._has_names(width := self.scrollable_content_region.width) and self._head:
            self._head = [clip(line, width) for line in self.head(width)]

    def _tick(self) -> None:
        """Draw what has changed by now: ages, what agents do, activity; only those lines."""
        width = self.scrollable_content_region.width
        if width <= 0 or not self.is_on_screen:
            return
        now = self._clock()
        top, head = self.scroll_offset.y, len(self._head)
        shown = range(max(0, top), min(len(self._rows), top + self.size.height - head))
        drawn: dict[str, list[Line]] = {}
        for at in shown:
            key, line = self._rows[at]
            if not key:
                continue
            part = 1 if at and self._rows[at - 1][0] == key else 0
            if key not in drawn:
                agent = self._roster.find(key)  # pyright: ignore[reportArgumentType] - an id
                drawn[key] = self._draw(agent, now, width) if agent is not None else []
            new = clip(drawn[key][part], width) if part < len(drawn[key]) else line
            if new != line:
                self._rows[at] = (key, new)
                self.refresh(Region(0, at - top + head, width, 1))
        self._look_at_checkouts()

    def _look_at_checkouts(self) -> None:
        """Ask git where someone looks: at first, when a turn has ended, and while one goes on."""
        width = self.scrollable_content_region.width
        columns = place_columns(width, self.columns, self._urgent, self._wide)
        names = {column.name for column, _, _ in columns}
        before, self._states = self._states, {a.session: a.state for a in self._roster.agents}
        if width <= 0 or not self.display:
            return
        if not self._is_cards and not names & {"branch", "changes"}:
            return
        wanted: set[str] = set()
        for agent in self._roster.agents:
            was = before.get(agent.session)
            has_ended = was in _AT_WORK and agent.state not in _AT_WORK
            is_new = was is None
            if agent.worktree is not None and agent.changes is not None:
                continue  # the fleet counts those itself
            if (is_new or has_ended or agent.state in _AT_WORK) and self._checkouts.is_due(
                agent.cwd, is_stale=has_ended
            ):
                wanted.add(agent.cwd)
        for cwd in wanted:
            self.run_worker(partial(self._ask_git, cwd), group="git")

    async def _ask_git(self, cwd: str) -> None:
        if await self._checkouts.ask(cwd):
            self.update()
