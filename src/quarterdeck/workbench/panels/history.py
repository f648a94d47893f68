"""Sessions that ran without a host: of `run` and editors, and those that other agents keep."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from quarterdeck.fleet.names import looks_like_id
from quarterdeck.wire.clock import WallClock
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.terminal_text import count_noun, format_age

from ..rendering.glyphs import FAILED
from ..rendering.lines import Line, Span
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.picker import Picker
from .components import AskBar, HeadLine, PolledPanel, empty_lines, problem_lines
from .panel import PanelOptions
from .paths import format_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from quarterdeck.drivers.history.reader import HistorySession
    from quarterdeck.fleet.api import AgentInfo

__all__ = ["HistoryOptions", "HistoryPanel", "SessionList"]

_MOST = 200
"""Sessions that are listed."""
_NARROW = 40
"""Columns below which a row tells less than it could."""


class HistoryOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a history panel can be given."""

    everywhere: bool = False
    """Sessions of all directories, not of this one alone."""


class SessionList(Picker):
    """A row for each session; those used last come first."""

    def __init__(self, clock: WallClock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._notices: Callable[[int], list[Line]] = lambda _: []
        self._places = False
        self._snippets: dict[str, str] = {}
        self.sessions: dict[str, HistorySession] = {}

    def take(
        self,
        sessions: "Iterable[HistorySession]",
        notices: "Callable[[int], list[Line]]",
        *,
        places: bool,
        snippets: "Mapping[HistorySession, str] | None" = None,
    ) -> None:
        """Show other sessions; the cursor stays on its session.

        ``notices`` gives the lines above for a width; ``places``: whether to show where each
        worked; ``snippets``: what was found in it.
        """
        self._notices, self._places = notices, places
        self.sessions = {_key(past): past for past in sessions}
        self._snippets = {_key(past): snippet for past, snippet in (snippets or {}).items()}
        if self.cursor not in self.sessions:
            self.cursor = next(iter(self.sessions), None)
        self.update()

    @property
    def chosen(self) -> "HistorySession | None":
        """The session under the cursor."""
        return self.sessions.get(self.cursor or "")

    def head(self, width: int) -> list[Line]:
        """See ``Picker``."""
        return self._notices(width)

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [(key, self._line(key, past, width)) for key, past in self.sessions.items()]

    def _line(self, key: str, past: "HistorySession", width: int) -> Line:
        agent = (f"{past.agent:<9}" if width >= _NARROW else f"{past.agent:.3} ", "strong")
        changed = (f"{format_age(past.updated, self._clock()):>5}  ", "faint")
        marks = "run " * looks_like_id(past.id) + "archived " * past.archived
        marks += "prompts only " * (not past.can_resume)
        title = sanitize_line(past.title or past.id, 200)
        rest: list[Span] = []
        if key in self._snippets:
            rest.append((f"  {sanitize_line(self._snippets[key], 200)}", "faint"))
        elif self._places:
            rest.append((f"  {sanitize_line(past.cwd or '', 100)}", "faint"))
        time = (changed,) if width >= _NARROW else ()
        return (agent, *time, (marks, "faint"), (title, "text"), *rest)


def _key(past: "HistorySession") -> str:
    return f"{past.agent} {past.id}"


class HistoryPanel(PolledPanel):
    """Sessions of `run`, of editors and of other agents in this directory; looks when shown."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = HistoryOptions
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "resume", "import and resume it"),
        Binding("a", "everywhere", "show all directories or only this one"),
        Binding("slash", "search", "search sessions"),
        Binding("escape", "show_all", "clear the search"),
        Binding("r", "look", "refresh"),
    ]

    def __init__(self, context: Any, options: HistoryOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.everywhere = options.everywhere
        self.environment: dict[str, str] = dict(os.environ)
        """Tells where the agents keep their sessions."""
        self.head: HeadLine = HeadLine()
        self.list = SessionList(context.clock, id="past")
        self.bar = AskBar()
        self.words = ""
        """What the sessions shown have in them; empty: all are shown."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.head
        yield self.list
        yield self.bar

    def focus_target(self) -> SessionList:
        """See ``PolledPanel``."""
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
        """See ``PolledPanel``."""
        from quarterdeck.drivers.history.history import AgentHistory

        where = None if self.everywhere else Path(self.context.cwd)
        try:
            history = AgentHistory.of(self.environment)
            listed = await history.list(where, limit=_MOST)
            runs = await self._list_runs()
        except QuarterdeckError as error:
            self._fail(str(error))
            return
        ours = {one.path for one in runs}
        # A session that one of our logs has too is listed once.
        theirs = [one for one in listed.sessions if f"{one.agent} {one.id}" not in ours]
        every = sorted([*runs, *theirs], key=lambda one: one.updated, reverse=True)[:_MOST]
        found: dict[HistorySession, str] = {}
        if self.words:
            found = await self._search_runs(runs)
            hits = history.search(self.words, theirs, limit=_MOST)
            found |= {hit.past: hit.snippet async for hit in hits}
        some = [one for one in every if one in found] if self.words else every
        self.head.show_problem(None)
        failures = [_failure(agent, reason) for agent, reason in listed.failures.items()]
        instead = self._nothing() if not some else None

        def notices(width: int) -> list[Line]:
            return [*failures, *(empty_lines(*instead, width) if instead is not None else ())]

        self.list.take(some, notices, places=self.everywhere, snippets=found)
        self._say(len(some), len(every))

    async def _list_runs(self) -> "list[HistorySession]":
        """The sessions in logs of our own; ``path`` names what the agent itself keeps of each."""
        from quarterdeck.drivers.history.session import HistorySession

        where = None if self.everywhere else self.context.cwd
        return [
            HistorySession(
                agent=one.agent,
                id=one.id,
                path=f"{one.agent} {one.agent_session}",
                cwd=one.cwd,
                title=" · ".join(filter(None, (one.damage, one.title))) or None,
                started=one.opened,
                updated=one.updated,
            )
            for one in await self.context.fleet.standalone_sessions(cwd=where, limit=_MOST)
        ]

    async def _search_runs(self, runs: "list[HistorySession]") -> "dict[HistorySession, str]":
        snippets: dict[str, str] = {}
        for hit in await self.context.fleet.search(self.words, limit=_MOST):
            snippets.setdefault(hit.session, hit.snippet)
        return {one: snippets[one.id] for one in runs if one.id in snippets}

    def _say(self, some: int, every: int) -> None:
        place = "all directories" if self.everywhere else format_path("/nowhere", self.context.cwd)
        count = f"{some:,} of {every:,} sessions" if self.words else count_noun(every, "session")
        words = f"with {sanitize_line(self.words, 40)}" if self.words else ""
        self.head.show("history", (words, "text"), (count, "faint"), (place, "faint"))

    def _fail(self, reason: str) -> None:
        """Say why there is no list; one that is there already stays."""
        self.head.show("history")
        if self.list.sessions:
            self.head.show_problem(reason)
        else:
            self.list.take((), lambda width: problem_lines(reason, width), places=False)

    def _nothing(self) -> tuple[str, list[tuple[str, str]]]:
        """What is said where no session is, and the keys that change that."""
        if self.words:
            return "No session contains all these words.", [("esc", "shows all")]
        if self.everywhere:
            return "No sessions yet.", [("r", "looks again")]
        return "No sessions in this directory.", [("a", "shows all directories")]

    def on_picker_chosen(self, event: Picker.Chosen) -> None:
        """Take the session into the log and show it."""
        event.stop()
        self._take(None)

    def action_resume(self) -> None:
        """Take the session into the log and go on with it."""
        self._take(lambda info: self._resumed(info))

    def action_everywhere(self) -> None:
        """List the sessions of all directories, or of this one."""
        self.everywhere = not self.everywhere
        self.look_now()

    def action_search(self) -> None:
        """Ask for words, and show only sessions that have them all."""
        self.bar.ask("search", "search words", self.words, back=self.list)

    @on(AskBar.Given)
    def _given(self, event: AskBar.Given) -> None:
        event.stop()
        self.words = (event.text or "").strip()
        self.look_now()

    def action_show_all(self) -> None:
        """Show all again."""
        self.words = ""
        self.look_now()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """See Textual: a key that would do nothing is someone else's."""
        return action != "show_all" or bool(self.words)

    def action_look(self) -> None:
        """Look again."""
        self.look_now()

    def _take(self, then: "Callable[[AgentInfo], Awaitable[None]] | None") -> None:
        past = self.list.chosen
        if past is not None:
            self.run_worker(partial(self._taking, past, then), group="take", exclusive=True)

    async def _taking(
        self, past: "HistorySession", then: "Callable[[AgentInfo], Awaitable[None]] | None"
    ) -> None:
        from ..fleet_actions import import_session

        try:
            if looks_like_id(past.id):
                agent = await self.context.fleet.adopt_session(past.id)
            else:
                agent = await import_session(self.context, past, self.environment)
            if then is not None:
                await then(agent)
        except QuarterdeckError as error:
            self.notify(sanitize_text(str(error)), severity="error", markup=False)
            return
        self.post_message(self.AgentWanted(agent.session))

    async def _resumed(self, info: "AgentInfo") -> None:
        if not info.is_live:
            await self.context.fleet.resume(info.session)


def _failure(agent: str, reason: str) -> Line:
    return ((f"{FAILED} {agent}: {sanitize_text(reason)}", "bad"),)
