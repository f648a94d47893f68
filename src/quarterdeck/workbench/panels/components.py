"""What panels are built from: head line, page, input line, panels that poll, a placeholder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from msgspec import field
from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from ..rendering.glyphs import BETWEEN, CUT, FAILED
from ..rendering.lines import Line, Span, clip, width_of, wrap
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.lines_view import LineCanvas, LinesView
from .panel import Panel, PanelOptions
from .paths import make_absolute, shorten_path

if TYPE_CHECKING:
    from ..context import WorkbenchContext

__all__ = [
    "AskBar",
    "HeadLine",
    "KeyHints",
    "MissingOptions",
    "MissingPanel",
    "PagePanel",
    "PanelPage",
    "PolledPanel",
    "Purpose",
    "draw_head",
    "empty_lines",
    "problem_lines",
]

Purpose: TypeAlias = Literal["search", "goto", "filter", "path"]
_SLOW = 0.2
"""Seconds after which a look is said to be loading: less would only flicker."""


def problem_lines(problem: str, width: int) -> list[Line]:
    """An error in the place of what cannot be shown: what happened, and the key that tries again.

    ``problem`` is foreign text.
    """
    room = max(1, width - 2)
    words: list[Span] = [(f"{FAILED} ", "bad"), (sanitize_text(problem).replace("\n", " "), "bad")]
    return [
        (),
        *_inset([*wrap(words, room), (), *wrap([("r", "key"), (" try again", "faint")], room)]),
    ]


def empty_lines(words: str, hints: Sequence[tuple[str, str]], width: int) -> list[Line]:
    """What would be here, and the keys that fill it with what each does."""
    room = max(1, width - 2)
    lines = wrap([(words, "strong")], room)
    for key, does in hints:
        lines += wrap([(key, "key"), (f" {does}", "faint")], room)
    return [(), *_inset(lines)]


def _inset(lines: Sequence[Line]) -> list[Line]:
    return [(("  ", "text"), *line) if line else () for line in lines]


class HeadLine(LineCanvas, can_focus=False):
    """The one line above a panel: its name, and facts about it at the right.

    Where there is no room for all facts, the last faint ones go first, then the beginning of the
    name.
    """

    def __init__(self) -> None:
        super().__init__(classes="panel-head")
        self._name = ""
        self._facts: tuple[Span, ...] = ()
        self._is_loading = True
        self._problem = ""

    def show(self, name: str, *facts: Span) -> None:
        """Say something else; ``name`` must be literal. Facts without text do not count."""
        facts = tuple((text.strip(), role) for text, role in facts if text.strip())
        if (name, facts) != (self._name, self._facts):
            self._name, self._facts = name, facts
            self.refresh()

    def show_loading(self, is_loading: bool) -> None:
        """Say that the panel is being read; what it shows is older."""
        if is_loading is not self._is_loading:
            self._is_loading = is_loading
            self.refresh()

    def show_problem(self, problem: str | None) -> None:
        """Say why what is below is not newer; None: nothing is wrong. ``problem`` is foreign."""
        words = sanitize_line(problem, 200) if problem else ""
        if words != self._problem:
            self._problem = words
            self.refresh()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        if y:
            return (), False
        width = self.size.width
        facts = [(f"loading {CUT}", "running")] if self._is_loading else []
        if self._problem:
            facts += [(f"{FAILED} {self._problem}", "bad"), ("r try again", "key")]
        return draw_head(self._name, [*facts, *self._facts], width), False


def draw_head(name: str, facts: Sequence[Span], width: int) -> Line:
    """A name at the left and facts at the right, in exactly so many cells if there are facts."""
    kept = list(facts)
    least = min(cell_len(name), max(8, width // 3))
    while kept and _facts_width(kept) + least + 2 > width:
        faint = [at for at, (_, role) in enumerate(kept) if role == "faint"]
        if len(kept) == 1 and not faint:
            break
        kept.pop(faint[-1] if faint else -1)
    room = max(min(8, width), width - (_facts_width(kept) + 2 if kept else 0))
    spans: list[Span] = [(shorten_path(name, room), "strong")] if name else []
    if not kept:
        return clip(tuple(spans), width)
    gap = max(2 if name else 0, width - width_of(tuple(spans)) - _facts_width(kept))
    spans.append((" " * gap, "text"))
    for at, fact in enumerate(kept):
        spans += [(f" {BETWEEN} ", "faint")] if at else []
        spans.append(fact)
    return clip(tuple(spans), width)


def _facts_width(facts: Sequence[Span]) -> int:
    return width_of(tuple(facts)) + 3 * (len(facts) - 1)


class PanelPage(LinesView):
    """Lines that someone else works out for a width."""

    def __init__(self, lines: Callable[[int], list[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._give = lines

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        return self._give(width)


class AskBar(Input):
    """A line to type in, there while something is asked."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "cancel")]

    @dataclass
    class Typed(Message):
        """Something was typed and may still be changed."""

        purpose: Purpose
        text: str

    @dataclass
    class Given(Message):
        """The line is done; None: there is to be none."""

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


class PolledPanel(Panel):
    """A panel that looks at something again and again, only while it can be seen."""

    EVERY: ClassVar[float | None] = None
    """Seconds between two looks; None: it looks only when it is shown, or asked to."""

    head: HeadLine
    """Says that something loads; a panel that someone else wrote may have none."""
    is_seen = False
    _poll_timer: Timer | None = None
    _is_looking = False
    _looks_again = False

    def on_mount(self) -> None:
        """Get ready to look."""
        if self.EVERY is not None:
            self._poll_timer = self.set_interval(self.EVERY, self._poll, pause=True)

    def on_show(self) -> None:
        """Look at once, and go on."""
        self.is_seen = True
        if self._poll_timer is not None:
            self._poll_timer.resume()
        self.look_now()

    def on_hide(self) -> None:
        """Rest."""
        self.is_seen = False
        if self._poll_timer is not None:
            self._poll_timer.pause()

    def look_now(self) -> None:
        """Look without waiting; a look that is under way is followed by another."""
        if self._is_looking:
            self._looks_again = True
            return
        self._is_looking = True
        self.run_worker(self._looking, group="look")

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

    def _poll(self) -> None:
        if not self._is_looking:
            self.look_now()

    async def _looking(self) -> None:
        slow = self.set_timer(_SLOW, partial(self._show_loading, True))
        try:
            while True:
                self._looks_again = False
                await self.look()
                if not self._looks_again:
                    return
        finally:
            slow.stop()
            self._show_loading(False)
            self._is_looking = False

    def _show_loading(self, is_loading: bool) -> None:
        head = getattr(self, "head", None)
        if isinstance(head, HeadLine):
            head.show_loading(is_loading)


class PagePanel(PolledPanel):
    """Base of viewers whose options have a ``path``; a subclass reads it and makes the lines."""

    has_head: ClassVar[bool] = False
    EVERY: ClassVar[float | None] = 1.0
    KIND: ClassVar[str] = "page"
    """What it is called while it shows no file."""

    def __init__(self, context: Any, options: Any, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.path: str | None = self.absolute(options.path)
        self._problem: str | None = None
        self._identity: object = None
        """Which file, and in what state, was read last; None: it is read at the next look."""
        self._scroll: float | None = None
        """Where to go when there is something to see."""
        self.head: HeadLine = HeadLine()
        self.page = PanelPage(self.lines, id="page")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.page)

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return self.KIND if self.path is None else sanitize_line(PurePath(self.path).name, 60)

    @property
    def has_content(self) -> bool:
        """Whether something was read that can be shown."""
        raise NotImplementedError

    def lines(self, width: int) -> list[Line]:
        """The page for a width."""
        raise NotImplementedError

    def show_head(self) -> None:
        """Say in the first line what is shown."""
        raise NotImplementedError

    def focus_target(self) -> PanelPage:
        """See ``PolledPanel``."""
        return self.page

    def action_reload(self) -> None:
        """Read the file again."""
        self._identity = None
        self.look_now()

    def absolute(self, path: str | None) -> str | None:
        """A path as options have it, from the directory that the person is in."""
        return None if path is None else make_absolute(self.context.cwd, path)

    def update(self) -> None:
        """Show what was read."""
        if not self.is_mounted:
            return
        self.page.update()
        if self._scroll is not None and self.has_content:
            self.page.scroll_to(y=self._scroll, animate=False, force=True)
            self._scroll = None
        self.show_head()


class MissingOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it stands for."""

    widget: str = ""
    options: dict[str, Any] = field(default_factory=dict[str, Any])


class MissingPanel(Panel):
    """Kept in the layout until the widget is back or someone closes it."""

    options_type = MissingOptions
    can_focus = True

    def __init__(self, context: "WorkbenchContext", options: Any, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self._state: dict[str, Any] = {}

    def compose(self) -> ComposeResult:
        """The parts."""
        name = sanitize_line(self.options.widget, 60)
        words = f"No widget {name!r}.\n\n/widgets shows why; ctrl+w closes this panel."
        yield Static(words, markup=False)

    def remember(self) -> dict[str, Any]:
        """See ``Panel``: what the widget itself remembered."""
        return self._state

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        self._state = state

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return f"{self.options.widget} (missing)"


class KeyHints(LineCanvas, can_focus=False):
    """One line of keys and what they do; those that do not fit are left out."""

    HAS_KEYS = True

    def __init__(self) -> None:
        super().__init__(classes="panel-foot")
        self._hints: Sequence[tuple[str, str]] = ()

    def show(self, hints: Sequence[tuple[str, str]]) -> None:
        """Show other keys; the most useful ones first."""
        if hints != self._hints:
            self._hints = hints
            self.refresh()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        if y:
            return (), False
        spans: list[Span] = []
        for key, words in self._hints:
            hint: list[Span] = [(f" {BETWEEN} " if spans else " ", "faint"), (key, "key")]
            hint.append((f" {words}", "faint"))
            if width_of((*spans, *hint)) > self.size.width:
                break
            spans += hint
        return tuple(spans), False
