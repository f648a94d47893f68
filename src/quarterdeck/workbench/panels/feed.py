"""The feed panel: what all agents do, line by line; a line leads to where it happened."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.event_text import NameFinder, Severity, describe_event
from quarterdeck.wire.events import (
    CompactionChanged,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    QuestionAnswered,
    SessionChanged,
    SessionSpawned,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.record import encode_event, event_type
from quarterdeck.wire.terminal_text import count_columns, cut_to_width

from ..rendering import glyphs
from ..rendering.lines import Line, Span, clip
from ..sanitize import sanitize_line
from ..widgets.lines_view import LineCanvas
from .components import HeadLine, empty_lines, problem_lines
from .feed_model import FEED_MODES, FeedMode, FeedModel
from .panel import Panel, PanelOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.wire.events import Event
    from quarterdeck.wire.record import Record

__all__ = ["FeedOptions", "FeedPanel", "activity_line"]

_NAME, _SHORT_NAME = 14, 8
_WIDE = 70
"""Cells from which on there is room for seconds and long names."""
_NOTE_SIGNS = {"warning": glyphs.WARNING, "error": glyphs.FAILED, "question": glyphs.NEEDS_YOU}
_NOTE_ROLES = {"quiet": "faint", "info": "text", "warning": "warning", "error": "bad"}


def activity_line(
    record: "Record", name: str, width: int, find_name: NameFinder = lambda _: None
) -> Line:
    """One line of at most ``width`` cells; ``find_name``: of other agents that it is about."""
    is_wide = width >= _WIDE
    form = "%H:%M:%S" if is_wide else "%H:%M"
    clock = format_local_time(record.time, form)
    words, role = _describe_event(record.event, find_name)
    room = _NAME if is_wide else _SHORT_NAME
    shown = cut_to_width(sanitize_line(name, room * 2), room)
    shown += " " * (room - count_columns(shown))
    line: Line = (
        (f"{clock} ", "faint"),
        (f"{shown} ", "strong"),
        (sanitize_line(words, 400), role),
    )
    return clip(line, width)


def _describe_event(event: "Event", find_name: NameFinder) -> tuple[str, str]:
    """What to show of an event, and its role."""
    text = describe_event(event, find_name)
    if text is None:
        return f"{event_type(event)} {_raw(event)}", "faint"
    sign, role = _look(event, text.severity)
    return f"{sign or glyphs.BETWEEN} {text.text}", role


def _look(event: "Event", severity: Severity) -> tuple[str, str]:
    is_good = severity == "info"
    match event:
        case ToolCallStarted():
            return glyphs.FOLDED, "tool"
        case ToolCallEnded() | PermissionAnswered():
            return (glyphs.DONE, "good") if is_good else (glyphs.FAILED, "bad")
        case PermissionAsked():
            return glyphs.NEEDS_YOU, "asking"
        case QuestionAnswered():
            return "!", "text"
        case SessionSpawned():
            return "+", "good"
        case SessionChanged() | CompactionChanged(status="in_progress"):
            return "~", "faint"
        case Prompted():
            return glyphs.PROMPT, "prompt"
        case TurnStarted():
            return glyphs.RUNNING, "running"
        case TurnEnded(stop="end_turn"):
            return glyphs.IDLE, "text"
        case _:
            return _NOTE_SIGNS.get(severity, ""), _NOTE_ROLES.get(severity, "asking")


def _raw(event: "Event") -> str:
    return encode_event(event)[:600].decode("utf-8", "replace")


class FeedOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a feed shows."""

    mode: FeedMode = "audit"
    agent: str | None = None
    """The name or session of one agent; None: all."""


class _Rows(LineCanvas, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "up; at the top: load older"),
        Binding("down", "step(1)", "down"),
        Binding("pageup", "step(-15)", "a page up"),
        Binding("pagedown", "step(15)", "a page down"),
        Binding("home", "step(-100000)", "first entry; again: load older"),
        Binding("end", "follow", "last entry, and follow"),
        Binding("enter", "choose", "open this entry in the agent's transcript"),
    ]

    @dataclass
    class Chosen(Message):
        """A line was chosen."""

        at: int

    class OlderWanted(Message):
        """The beginning of what is there was reached."""

    def __init__(self, panel: "FeedPanel") -> None:
        super().__init__(classes="feed-rows")
        self._panel = panel
        self.cursor: int | None = None
        self.is_following = True

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``: only what is in view is worked out."""
        records = self._panel.activity.records
        if y >= len(records):
            lines = self._panel.instead(self.scrollable_content_region.width)
            return (lines[y] if not records and y < len(lines) else ()), False
        record = records[y]
        agent = self._panel.context.roster.find(record.session)
        name = agent.name if agent is not None else record.session
        width, find_name = self.scrollable_content_region.width, self._panel.context.find_name
        return activity_line(record, name, width, find_name), y == self.cursor

    def update(self) -> None:
        """Show what is there now."""
        self.virtual_size = Size(self.scrollable_content_region.width, self._count)
        if self.is_following:
            self.cursor = None
            self.scroll_end(animate=False)
        self.refresh()

    def moved(self, lines: int) -> None:
        """Lines came before what is read, or went: stay where the person reads."""
        if self.cursor is not None:
            self.cursor = max(0, self.cursor + lines)
        self.update()
        if not self.is_following:
            self.scroll_to(y=max(0, self.scroll_offset.y + lines), animate=False)

    def action_step(self, step: int) -> None:
        """Move the cursor."""
        if not self._count:
            return
        at = self._count if self.cursor is None else self.cursor
        if at == 0 and step < 0:
            self.post_message(self.OlderWanted())
        self._put(max(0, min(self._count - 1, at + step)))

    def action_follow(self) -> None:
        """Stay at the end."""
        self.is_following = True
        self._panel.catch_up()

    def action_choose(self) -> None:
        """Go where the line under the cursor happened."""
        at = self._count - 1 if self.cursor is None else self.cursor
        if 0 <= at < self._count:
            self.post_message(self.Chosen(at))

    def on_click(self, event: events.Click) -> None:
        """Go where a line happened."""
        at = self.scroll_offset.y + event.y
        if 0 <= at < self._count:
            self._put(at)
            self.post_message(self.Chosen(at))

    def on_mouse_scroll_up(self) -> None:
        """Who scrolls up wants to read."""
        self.is_following = False
        if self.scroll_offset.y == 0:
            self.post_message(self.OlderWanted())

    def on_resize(self) -> None:
        """Fit anew."""
        self.update()

    @property
    def _count(self) -> int:
        return len(self._panel.activity.records)

    def _put(self, at: int) -> None:
        self.is_following = False
        self.cursor = at
        top, height = self.scroll_offset.y, self.size.height
        if not top <= at < top + height:
            self.scroll_to(y=max(0, at - (0 if at < top else height - 1)), animate=False)
        self.refresh()


class FeedPanel(Panel):
    """Records of all agents as they come; the window is bounded, older ones come from the log."""

    options_type = FeedOptions
    has_head = False
    options: FeedOptions
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(n), f"mode('{mode}')", f"show {mode}")
            for n, mode in enumerate(FEED_MODES, 1)
        ),
        Binding("p", "pause", "pause or resume"),
        Binding("f", "only", "show only this entry's agent, or all agents"),
        Binding("r", "reload", "read the end of the log again"),
    ]

    def __init__(self, context: Any, options: FeedOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.activity = FeedModel(options.mode)
        self.is_paused = False
        self.is_read = False
        """The log has been read at least once."""
        self.missed = 0
        """How many came that are not shown."""
        self._problem: str | None = None
        self.head = HeadLine()

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.head
        yield _Rows(self)

    def on_mount(self) -> None:
        """Listen, and read the end of the log."""
        self._rows = self.query_one(_Rows)
        self.context.listeners.append(self._hear)
        self._unwatch = self.context.roster.watch(self._names_changed)
        self.show(self.options.mode, self.options.agent)

    def on_unmount(self) -> None:
        """Listen no more."""
        self.context.listeners.remove(self._hear)
        self._unwatch()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return f"feed: {self.activity.mode}"

    def change(self, options: FeedOptions) -> bool:
        """See ``Panel``."""
        if options != self.options and self.is_mounted:
            self.show(options.mode, options.agent)
        self.options = options
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        return {"mode": self.activity.mode}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        if state.get("mode") in FEED_MODES:
            self.options = FeedOptions(mode=state["mode"], agent=self.options.agent)

    def show(self, mode: FeedMode, agent: str | None) -> None:
        """Show another mode, or another agent."""
        session = self.context.find_session(agent) if agent is not None else None
        self.activity = FeedModel(mode, session)
        self.post_message(self.Renamed(self))
        self.catch_up()

    def catch_up(self) -> None:
        """Show the end of the log."""
        self.is_paused, self.missed = False, 0
        self._rows.is_following = True
        self.run_worker(partial(self._read, self.activity), group="read", exclusive=True)

    def action_mode(self, mode: FeedMode) -> None:
        """Show another mode."""
        self.show(mode, self.activity.agent)

    def action_pause(self) -> None:
        """Hold still, or go on."""
        if self.is_paused:
            self.catch_up()
        else:
            self.is_paused = True
            self._show_head()

    def action_only(self) -> None:
        """Only the agent of the line under the cursor, or all again."""
        if self.activity.agent is not None:
            self.show(self.activity.mode, None)
            return
        at = self._rows.cursor if self._rows.cursor is not None else -1
        if self.activity.records:
            self.show(self.activity.mode, self.activity.records[at].session)

    @on(_Rows.Chosen)
    def _chosen(self, event: _Rows.Chosen) -> None:
        event.stop()
        record = self.activity.records[event.at]
        self.post_message(self.AgentWanted(record.session, record.seq))

    @on(_Rows.OlderWanted)
    def _older_wanted(self, event: _Rows.OlderWanted) -> None:
        event.stop()
        self.run_worker(partial(self._read_older, self.activity), group="read", exclusive=True)

    def _names_changed(self) -> None:
        self._rows.refresh()

    def _hear(self, records: "Sequence[Record]") -> None:
        activity = self.activity
        if self.is_paused or not activity.is_at_end:
            self.missed += sum(activity.fits(record) for record in records)
            self._show_head()
            return
        came, dropped = activity.live(records, may_drop=self._rows.is_following)
        if not activity.is_at_end:
            self.missed += sum(activity.fits(record) for record in records)
            self._show_head()
        elif came:
            self._rows.moved(-dropped)

    def action_reload(self) -> None:
        """Read the end of the log again."""
        self.catch_up()

    def instead(self, width: int) -> list[Line]:
        """What is said where there are no entries."""
        if self._problem is not None:
            return problem_lines(self._problem, width)
        if not self.is_read:
            return []
        if self.activity.agent is not None:
            return empty_lines("This agent has no entries yet.", [("f", "shows all agents")], width)
        words = f"What agents do appears here ({self.activity.mode})."
        return empty_lines(
            words, [("1-4", "shows other entries"), ("ctrl+t", "starts an agent")], width
        )

    def _show_head(self) -> None:
        agent = self.context.roster.find(self.activity.agent)
        facts: list[Span] = []
        if self.is_paused:
            facts.append((f"paused, p resumes, {self.missed} more", "warning"))
        elif not self.activity.is_at_end:
            facts.append((f"{self.missed} more below, end", "warning"))
        modes = " ".join(f"{number} {mode}" for number, mode in enumerate(FEED_MODES, 1))
        who: Span = (sanitize_line(agent.name, 30), "text") if agent else ("all agents", "faint")
        self.head.show_problem(self._problem if self.activity.records else None)
        self.head.show(self.title, *facts, (modes, "faint"), who)

    async def _read(self, activity: FeedModel) -> None:
        self.head.show_loading(True)
        try:
            await activity.start(self.context.fleet)
            self._problem = None
        except QuarterdeckError as error:
            self._problem = str(error)
        self.is_read = True
        self.head.show_loading(False)
        if activity is self.activity:
            self._show_head()
            self._rows.update()

    async def _read_older(self, activity: FeedModel) -> None:
        try:
            came = await activity.older(self.context.fleet)
        except QuarterdeckError as error:
            self._problem = str(error)
            self._show_head()
            return
        if activity is self.activity:
            self._show_head()
            self._rows.moved(came)
