"""The lines above and below a terminal, and the live terminal of an agent in place of its
transcript.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from ...remote_control import RefusedCallError
from ...rendering.lines import Line, Span, clip, plain, width_of, wrap
from ...sanitize import sanitize_line, sanitize_text
from ...terminal.command_line import format_command_line
from ...widgets.lines_view import LineCanvas
from ...widgets.terminal import TerminalView

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo

    from ...context import WorkbenchContext

__all__ = [
    "AgentTerminalView",
    "TitleLine",
    "check_agent_terminal",
    "foot_spans",
    "head_spans",
    "key_spans",
    "offer_lines",
]

_LEAST_TITLE = 12
"""Cells that a title keeps beside what else is said."""


class TitleLine(LineCanvas, can_focus=False):
    """A title, and at the right what is to be said of it; the title's end goes first.

    Like ``HeadLine``, for a title that is no path and spans that are keys. Without a title the
    spans stand at the left.
    """

    def __init__(self) -> None:
        super().__init__(classes="panel-head")
        self._title = ""
        self._spans: tuple[Span, ...] = ()

    def show(self, title: str, *spans: Span) -> None:
        """Say something else; ``title`` must be literal."""
        if (title, spans) != (self._title, self._spans):
            self._title, self._spans = title, spans
            self.refresh()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        if y:
            return (), False
        width = self.scrollable_content_region.width
        room = max(min(_LEAST_TITLE, width), width - width_of(self._spans))
        title = clip(((self._title, "strong"),), room) if self._title else ()
        gap = " " * max(0, width - width_of((*title, *self._spans))) if title else ""
        return clip((*title, (gap, "text"), *self._spans), width), False


def head_spans(view: "TerminalView", place: str) -> list[Span]:
    """What keys do, how far up one is, or where the program runs."""
    spans: list[Span] = []
    if view.page.back:
        spans.append((f"  ↑ {view.page.back:,} lines up", "warning"))
    if view.state != "live":
        return spans
    if view.takes_every_key:
        if view.guarded:
            spans.append(("  you are typing into the agent;", "warning"))
        return [*spans, *key_spans(("ctrl+\\", "stop typing"))]
    if view.has_focus:
        keys = (("enter", "type"), ("/", "search"), ("f4", "next panel"))
        return [*spans, *key_spans(*keys[: 1 if view.guarded else 3])]
    return [*spans, (f"  {sanitize_text(place)}", "faint")] if place else spans


def foot_spans(view: "TerminalView", keys: Sequence[tuple[str, str]]) -> list[Span]:
    """How it ended, and what can be done then; nothing while it runs."""
    reason = sanitize_line(view.reason, 200)
    match view.state:
        case "ended":
            text = f"ended: {reason}" if reason else "ended"
            return [(text, "warning"), *key_spans(*keys)]
        case "gone":
            text = "no output" if view.guarded else "this terminal no longer exists"
            return [(text, "warning"), *key_spans(*keys), (f"  {reason}", "faint")]
        case "lost":
            return [("disconnected, waiting for the host", "warning"), (f"  {reason}", "faint")]
        case _:
            return []


def offer_lines(argv: Sequence[str], place: str, width: int) -> list[Line]:
    """What a key would start, and where."""
    room = max(1, width - 2)
    what = "your shell" if not argv else sanitize_text(format_command_line(argv))
    lines: list[Line] = [
        (),
        *wrap([("Nothing is running here.", "text")], room),
        (),
        *wrap([("enter", "key"), (" starts ", "text"), (what, "strong")], room),
        *wrap([("in ", "text"), (sanitize_text(place), "text")], room),
    ]
    if argv:
        lines += [(), *wrap(plain("Layouts never start programs on their own.", "faint"), room)]
    return [((" ", "text"), *line) for line in lines]


def key_spans(*keys: tuple[str, str]) -> list[Span]:
    """Keys and what they do, in a row."""
    spans: list[Span] = []
    for at, (key, does) in enumerate(keys):
        spans += [("  " if not at else " · ", "faint"), (key, "key"), (f" {does}", "faint")]
    return spans


def check_agent_terminal(agent: "AgentInfo | None") -> "AgentInfo":
    """An agent whose screen can be seen. Raises RefusedCallError: it has none."""
    if agent is None:
        raise RefusedCallError("no agent selected, so no live terminal")
    if agent.transport not in ("pty", None):  # it is not known before the agent has started
        raise RefusedCallError(f"{agent.name!r} does not run in a terminal")
    if not agent.is_live:
        raise RefusedCallError(f"{agent.name!r} is not running; /resume restarts it")
    return agent


class AgentTerminalView(Widget):
    """What an agent's program shows at the moment."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.command('screen')", "back to the transcript"),
    ]

    class Ended(Message):
        """There is nothing more to see."""

    def __init__(self, context: "WorkbenchContext", agent: "AgentInfo") -> None:
        super().__init__(classes="agent-screen")
        self.agent = agent
        self._head = TitleLine()
        self.view = TerminalView(
            context, guarded=True, show_message=self._show_message, id="screen"
        )

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self._head, self.view)

    def on_mount(self) -> None:
        """Look at it."""
        self.view.attach(self.agent.session)
        self._say()

    def on_descendant_focus(self) -> None:
        """Say what keys do."""
        self._say()

    def on_descendant_blur(self) -> None:
        """Say less."""
        self._say()

    @on(TerminalView.FactsChanged)
    def _facts_changed(self, event: TerminalView.FactsChanged) -> None:
        event.stop()
        self._say()
        if self.view.state == "gone":
            self._show_message(self.view.reason)
        if self.view.state in ("ended", "gone"):
            self.post_message(self.Ended())

    def _say(self) -> None:
        view = self.view
        foot = foot_spans(view, ())
        spans = [*([("  ", "faint"), *foot] if foot else ()), *head_spans(view, "")]
        if not view.takes_every_key:
            key = "esc" if view.has_focus else "/screen"
            between = " · " if view.has_focus and view.state == "live" else "  "
            spans += [(between, "faint"), (key, "key"), (" back to the transcript", "faint")]
        self._head.show("live terminal", *spans)

    def _show_message(self, words: str) -> None:
        self.notify(sanitize_text(words), severity="error", timeout=8, markup=False)
