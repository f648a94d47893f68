"""What panels are made of: a line of state above, a page, and a line to type in below."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from ..literal import literal
from ..rendering.lines import Line, Span, clip, width_of, wrap
from ..widgets.lined import Lined, LinesView
from .panel import Panel
from .paths import shortened

__all__ = [
    "AskBar",
    "HeadLine",
    "Page",
    "Purpose",
    "WatchingPanel",
    "problem_lines",
]

Purpose: TypeAlias = Literal["search", "goto", "filter", "path"]


def problem_lines(problem: str, width: int) -> list[Line]:
    """An error in the place of what cannot be shown."""
    spans: list[Span] = [("✗ ", "bad"), (literal(problem).replace("\n", " "), "bad")]
    return [(), *wrap(spans, max(1, width))]


class HeadLine(Lined, can_focus=False):
    """One line about what is below: a path, and what is to be said of it.

    Where there is no room for both, the beginning of the path goes first.
    """

    def __init__(self) -> None:
        super().__init__(classes="panel-head")
        self._path = ""
        self._line: Line = ()

    def show(self, path: str, *spans: Span) -> None:
        """Say something else; ``path`` must be literal."""
        if (path, spans) != (self._path, self._line):
            self._path, self._line = path, spans
            self.refresh()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``Lined``."""
        if y:
            return (), False
        width = self.size.width
        room = max(min(16, width // 2), width - width_of(self._line))
        return clip(((shortened(self._path, room), "strong"), *self._line), width), False


class Page(LinesView):
    """Lines that somebody else works out for a width."""

    def __init__(self, lines: Callable[[int], list[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._give = lines

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        return self._give(width)


class AskBar(Input):
    """A line to type in, there while something is asked."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave")]

    @dataclass
    class Typed(Message):
        """Something was typed and may still be changed."""

        purpose: Purpose
        text: str

    @dataclass
    class Given(Message):
        """The line is done; None: there shall be none."""

        purpose: Purpose
        text: str | None

    def __init__(self) -> None:
        super().__init__(classes="panel-ask", compact=True, select_on_focus=False)
        self.purpose: Purpose = "search"
        self._back: Widget | None = None
        self.display = False

    def ask(self, purpose: Purpose, title: str, given: str = "", *, back: Widget) -> None:
        """Open the line; ``back`` gets the focus afterwards."""
        self.purpose = purpose
        self._back = back
        self.placeholder = title
        with self.prevent(Input.Changed):
            self.value = given
        self.cursor_position = len(given)
        self.display = True
        self.focus()

    def close(self) -> None:
        """Hide the line and give the focus back."""
        if self.display:
            self.display = False
            if self._back is not None:
                self._back.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell what is typed."""
        event.stop()
        if self.display:
            self.post_message(self.Typed(self.purpose, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Tell what was typed."""
        event.stop()
        self.close()
        self.post_message(self.Given(self.purpose, event.value))

    def action_leave(self) -> None:
        """Close without an answer."""
        self.close()
        self.post_message(self.Given(self.purpose, None))


class WatchingPanel(Panel):
    """A panel that looks at something again and again, only while it can be seen."""

    EVERY: ClassVar[float | None] = None
    """Seconds between two looks; None: it looks only when it is shown, or told to."""

    is_seen = False
    _beat: Timer | None = None
    _is_looking = False
    _looks_again = False

    def on_mount(self) -> None:
        """Get ready to look."""
        if self.EVERY is not None:
            self._beat = self.set_interval(self.EVERY, self._beaten, pause=True)

    def on_show(self) -> None:
        """Look at once, and go on."""
        self.is_seen = True
        if self._beat is not None:
            self._beat.resume()
        self.look_now()

    def on_hide(self) -> None:
        """Rest."""
        self.is_seen = False
        if self._beat is not None:
            self._beat.pause()

    def look_now(self) -> None:
        """Look without waiting; a look that is under way is followed by another."""
        if self._is_looking:
            self._looks_again = True
            return
        self._is_looking = True
        self.run_worker(self._looking(), group="look")

    async def look(self) -> None:
        """Find out and show; a subclass knows how. Files are read in a thread."""

    def focus_target(self) -> Widget | None:
        """What takes the focus for the panel."""
        return None

    def enter(self) -> None:
        """See ``Panel``."""
        target = self.focus_target()
        if target is not None:
            self.screen.set_focus(target)

    def _beaten(self) -> None:
        if not self._is_looking:
            self.look_now()

    async def _looking(self) -> None:
        try:
            while True:
                self._looks_again = False
                await self.look()
                if not self._looks_again:
                    return
        finally:
            self._is_looking = False
