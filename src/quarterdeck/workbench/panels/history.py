"""Sessions that other agents keep on disk, as a list to take them from."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.shown import since

from ..literal import literal, one_line
from ..rendering.lines import Line
from ..widgets.picker import Picker
from .panel import PanelOptions
from .parts import HeadLine, WatchingPanel

if TYPE_CHECKING:
    from quarterdeck.drivers.history.past import PastSession
    from quarterdeck.fleet.port import AgentInfo

__all__ = ["HistoryOptions", "HistoryPanel", "PastList"]

_MOST = 200
"""Sessions that are listed."""


class HistoryOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a history panel can be told."""

    everywhere: bool = False
    """Sessions of every directory, not of this one alone."""


class PastList(Picker):
    """A row for each session; those used last come first."""

    def __init__(self, clock: Callable[[], int], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clock = clock
        self.sessions: dict[str, PastSession] = {}

    def take(self, sessions: "tuple[PastSession, ...]") -> None:
        """Show other sessions; the cursor stays on its session."""
        self.sessions = {f"{past.agent} {past.id}": past for past in sessions}
        if self.cursor not in self.sessions:
            self.cursor = next(iter(self.sessions), None)
        self.update()

    @property
    def chosen(self) -> "PastSession | None":
        """The session under the cursor."""
        return self.sessions.get(self.cursor or "")

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [(key, self._line(past)) for key, past in self.sessions.items()]

    def _line(self, past: "PastSession") -> Line:
        return (
            (f"{past.agent:<9}", "strong"),
            (f"{since(past.updated, self._clock()):>5}  ", "faint"),
            (one_line(past.title or past.id, 200), "text"),
            (f"  {one_line(past.cwd or '', 100)}", "faint"),
        )


class HistoryPanel(WatchingPanel):
    """The past of Claude Code, Codex, Gemini and OpenCode in this directory; looks when shown."""

    options_type: ClassVar[type[PanelOptions]] = HistoryOptions
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "resume", "go on with it: import and resume"),
        Binding("a", "everywhere", "of every directory, or of this one"),
        Binding("r", "look", "look again"),
    ]

    def __init__(self, desk: Any, options: HistoryOptions, *, id: str | None = None) -> None:
        super().__init__(desk, options, id=id)
        self.everywhere = options.everywhere
        self.environment: dict[str, str] = dict(os.environ)
        """Tells where the agents keep their sessions."""
        self.head = HeadLine()
        self.list = PastList(desk.clock, id="past")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.head
        yield self.list

    def focus_target(self) -> PastList:
        """See ``WatchingPanel``."""
        return self.list

    def change(self, options: Any) -> bool:
        """See ``Panel``."""
        self.options, self.everywhere = options, options.everywhere
        self.look_now()
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        return {"everywhere": self.everywhere}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        self.everywhere = state.get("everywhere") is True

    async def look(self) -> None:
        """See ``WatchingPanel``."""
        from quarterdeck.drivers.history.history import History

        where = None if self.everywhere else Path(self.desk.cwd)
        try:
            listed = await History.of(self.environment).list(where, limit=_MOST)
        except QuarterdeckError as error:
            self.head.show("sessions", (f"  {literal(str(error))}", "bad"))
            return
        self.list.take(listed.sessions)
        count = len(listed.sessions)
        told = "nothing yet" if not count else f"{count} session{'s' * (count != 1)}"
        failed = "".join(f"  {agent} cannot be read" for agent in listed.failures)
        place = "every directory" if self.everywhere else literal(self.desk.cwd)
        self.head.show(place, (f"  {told}", "faint"), (failed, "bad"))

    def on_picker_chosen(self, event: Picker.Chosen) -> None:
        """Take the session into the log and show it."""
        event.stop()
        self._take(None)

    def action_resume(self) -> None:
        """Take the session into the log and go on with it."""
        self._take(lambda info: self._resumed(info))

    def action_everywhere(self) -> None:
        """List the sessions of every directory, or of this one."""
        self.everywhere = not self.everywhere
        self.look_now()

    def action_look(self) -> None:
        """Look again."""
        self.look_now()

    def _take(self, then: "Callable[[AgentInfo], Awaitable[None]] | None") -> None:
        past = self.list.chosen
        if past is not None:
            self.run_worker(self._taking(past, then), group="take", exclusive=True)

    async def _taking(
        self, past: "PastSession", then: "Callable[[AgentInfo], Awaitable[None]] | None"
    ) -> None:
        from quarterdeck.drivers.history.homes import VARIABLES

        given = self.environment
        homes = {key: given[key] for key in VARIABLES if key in given}
        try:
            done = await self.desk.fleet.import_session(
                past.agent, past.id, homes, cwd=past.cwd or self.desk.cwd
            )
            if then is not None:
                await then(done.agent)
        except QuarterdeckError as error:
            self.notify(literal(str(error)), severity="error", markup=False)
            return
        self.post_message(self.AgentWanted(done.agent.session))

    async def _resumed(self, info: "AgentInfo") -> None:
        if not info.is_live:
            await self.desk.fleet.resume(info.session)
