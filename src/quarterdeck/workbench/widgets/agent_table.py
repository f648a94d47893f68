"""The table of agents: who needs a person first, or as a person wants it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message

from quarterdeck.wire.clock import WallClock

from ..rendering.agent_rows import (
    AgentRow,
    agent_head,
    agent_line,
    find_urgent_columns,
    place_columns,
)
from ..rendering.lines import Line
from ..sanitize import sanitize_line
from ..stores.checkouts import Checkouts
from ..stores.roster import SORTS, RosterStore
from .picker import Picker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.timer import Timer

    from quarterdeck.wire.ids import SessionId

__all__ = ["AgentTable"]

_AT_WORK = ("running", "starting")


class AgentTable(Picker):
    """A row for each agent; the times of those at work go on, and nothing else does."""

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
        Binding("z", "archived", "show or hide archived agents"),
        Binding("h", "ask('here')", "show agents of this directory only, or all"),
    ]

    @dataclass
    class CommandWanted(Message):
        """A command is to be done to an agent, whichever is in view."""

        session: "SessionId"
        command: str

    def __init__(self, roster: RosterStore, clock: WallClock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.columns: Sequence[str] = ()
        """What a person chose; empty: as many as fit."""
        self._roster = roster
        self._clock = clock
        self._checkouts = Checkouts()
        self._unwatch = lambda: None
        self._is_seeking = False
        self._states: dict[SessionId, str] = {}
        self._timer: Timer | None = None
        self._urgent: Sequence[str] = ()
        """Columns that agents have something for."""
        self.is_seen = False

    def on_mount(self) -> None:
        """Follow the store, and let time pass."""
        self.border_title = "agents"
        self._timer = self.set_interval(1.0, self._tick, pause=True)
        self._unwatch = self._roster.watch(self._changed)
        self._changed()

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

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
        if roster.agents or roster.query.narrows:
            lines.append(agent_head(width, self.columns, roster.query.by, self._urgent))
        if self._is_seeking or roster.query.narrows:
            lines.append(self._filter_text())
        return lines

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        now = self._clock()
        return [
            (agent.session, self._line(at, now, width))
            for at, agent in enumerate(self._roster.agents)
        ]

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
        if event.y != 0 or not self._head:
            super().on_click(event)
            return
        event.prevent_default()
        width = self.scrollable_content_region.width
        for column, at, wide in place_columns(width, self.columns, self._urgent):
            if at <= event.x < at + wide and column.name in SORTS:
                by = self._roster.query.by
                is_again = by == column.name and not self._roster.query.is_reversed
                self._roster.sort(column.name, is_reversed=is_again)

    def _line(self, at: int, now: int, width: int) -> Line:
        agent = self._roster.agents[at]
        checkout = self._checkouts.get(agent.cwd)
        row = AgentRow(agent=agent, roster=self._roster, now=now, checkout=checkout)
        return agent_line(row, width, self.columns, self._urgent)

    def _filter_text(self) -> Line:
        query = self._roster.query
        shown, there = len(self._roster.agents), len(self._roster.everyone)
        where = f" in {sanitize_line(query.within, 60)}" if query.within is not None else ""
        typed = sanitize_line(query.words) + ("▏" if self._is_seeking else "")
        return (
            ("/ ", "key"),
            (typed, "strong"),
            (f"  {shown} of {there}{where} · esc show all", "faint"),
        )

    def _changed(self) -> None:
        self._urgent = find_urgent_columns(self._roster.agents)
        self.update()
        agents = self._roster.agents
        if self._timer is not None:
            if self.display and any(agent.state in _AT_WORK for agent in agents):
                self._timer.resume()
            else:
                self._timer.pause()
        self._look_at_checkouts()

    def _tick(self) -> None:
        """Draw the times of those at work anew; only their cells."""
        width = self.scrollable_content_region.width
        columns = place_columns(width, self.columns, self._urgent)
        names = [column.name for column, _, _ in columns]
        ticking = "time" if "time" in names else "doing"
        times = [(at, wide) for column, at, wide in columns if column.name == ticking]
        now = self._clock()
        top, height = self.scroll_offset.y, self.size.height
        for at, agent in enumerate(self._roster.agents[: len(self._rows)]):
            y = at + len(self._head) - top
            if agent.state in _AT_WORK and len(self._head) <= y < height and times:
                self._rows[at] = (agent.session, self._line(at, now, width))
                self.refresh(Region(times[0][0], y, times[0][1], 1))
        self._look_at_checkouts()

    def _look_at_checkouts(self) -> None:
        """Ask git where someone looks: at first, when a turn has ended, and while one goes on."""
        width = self.scrollable_content_region.width
        names = {column.name for column, _, _ in place_columns(width, self.columns, self._urgent)}
        before, self._states = self._states, {a.session: a.state for a in self._roster.agents}
        if width <= 0 or not names & {"branch", "changes"} or not self.display:
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
            self.run_worker(self._ask_git(cwd), group="git")

    async def _ask_git(self, cwd: str) -> None:
        if await self._checkouts.ask(cwd):
            self.update()
