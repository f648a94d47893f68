"""Screens that ask for trust: in a workspace, or in the source of a custom widget."""

import time
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen

from ..custom_widgets.library import WidgetSource
from ..rendering import glyphs
from ..rendering.lines import Line, indented, plain, wrap
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.lines_view import LinesView
from .key_guard import KeyGuard

if TYPE_CHECKING:
    from textual import events

    from quarterdeck.fleet.permissions.workspace_trust import WorkspaceTrust

__all__ = ["ApproveScreen", "TrustAnswer", "TrustScreen"]

TrustAnswer: TypeAlias = Literal["trust", "later", "never"]

_CHOICES = (
    ("t", "trust it: agents that start here use these files"),
    ("n", "not now: everything works, these files are ignored"),
    ("x", "never ask again; /trust changes it"),
)


class _Facts(LinesView, can_focus=True):
    def __init__(self, trust: "WorkspaceTrust") -> None:
        super().__init__(id="facts")
        self._trust = trust

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = [
            *wrap(plain(sanitize_text(self._trust.root), "strong"), width),
            *wrap(plain("These files take effect if you trust this project:"), width),
        ]
        for act in self._trust.acts:
            spans = [
                (sanitize_line(act.path, 80), "code"),
                (f" {sanitize_line(act.what, 400)}", "text"),
            ]
            lines += indented(
                wrap(spans, max(10, width - 2)), (f"{glyphs.POINT} ", "bullet"), ("  ", "text")
            )
        means = (
            "Settings can run programs, send your code elsewhere and allow actions "
            "without asking; agents follow the instructions. Trust only authors you know. "
            "Agents of other vendors ask about trust on their own."
        )
        return [*lines, *wrap(plain(means, "faint"), width)]


class _Choices(LinesView):
    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for key, words in _CHOICES:
            inner = wrap(plain(words), max(10, width - 5))
            lines += indented(inner, (f"  {key}  ", "key"), ("     ", "text"))
        self.styles.height = len(lines)
        return lines


class TrustScreen(ModalScreen[None]):
    """Asks once. Keys count only after a moment without any; who types goes on typing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "answer('trust')", "trust this workspace"),
        Binding("n,escape", "answer('later')", "not now"),
        Binding("x", "answer('never')", "never ask again"),
        Binding("up", "scroll(-1)", "scroll", show=False),
        Binding("down", "scroll(1)", "scroll", show=False),
    ]

    @dataclass
    class Answered(Message):
        """A person has decided, or went on typing: then with what was typed."""

        trust: "WorkspaceTrust"
        answer: TrustAnswer
        typed: str = ""

    def __init__(self, trust: "WorkspaceTrust") -> None:
        super().__init__()
        self.trust = trust
        self._guard = KeyGuard(monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "do you trust this workspace?"
            box.border_subtitle = "↑↓ scroll · esc not now"
            yield _Facts(self.trust)
            yield _Choices(id="choices")

    def on_mount(self) -> None:
        """Let keys reach the screen."""
        self.query_one(_Facts).focus()

    def on_resize(self) -> None:
        """Give the answers the room that they need; the rest can be scrolled."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        choices, facts = self.query_one(_Choices), self.query_one(_Facts)
        room = max(1, self.size.height - choices.virtual_size.height - 3)
        facts.styles.height = min(room, facts.virtual_size.height)

    def on_key(self, event: "events.Key") -> None:
        """Who types while the question comes up did not mean the question: pass it on."""
        if not self._guard.holds:
            return
        event.stop()
        event.prevent_default()
        if event.is_printable and event.character:
            self.post_message(self.Answered(self.trust, "later", event.character))

    def action_answer(self, answer: TrustAnswer) -> None:
        """Decide."""
        self.post_message(self.Answered(self.trust, answer))

    def action_scroll(self, step: int) -> None:
        """Look at other lines."""
        self.query_one(_Facts).scroll_relative(y=step, animate=False)


class _Code(LinesView, can_focus=True):
    def __init__(self, text: str) -> None:
        super().__init__(id="code")
        self._text = text

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``: every line has its number, so that none hides behind another."""
        lines: list[Line] = []
        source = sanitize_text(self._text).split("\n")
        wide = len(str(len(source)))
        for number, line in enumerate(source, 1):
            parts = wrap([(line, "code")], max(10, width - wide - 2))
            lines += indented(
                parts, (f"{number:>{wide}}  ", "faint"), (f"{'↪':>{wide}}  ", "faint")
            )
        return lines


class _WidgetFacts(LinesView, can_focus=False):
    def __init__(self, source: WidgetSource) -> None:
        super().__init__(id="facts")
        self._source = source

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        who = (
            f"offered by {sanitize_line(self._source.by, 40)}"
            if self._source.by
            else "your own file"
        )
        facts = [
            plain(f"{who} · {sanitize_line(str(self._source.path))}", "faint"),
            plain(
                "It runs with your permissions and without a sandbox, like any program you start.",
                "bad",
            ),
            plain("y approve exactly this source · n or esc cancel", "key"),
        ]
        return [part for line in facts for part in wrap(line, width)]


class ApproveScreen(ModalScreen[bool]):
    """Gives True if the person approves what is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "approve", "approve"),
        Binding("n,escape", "leave", "cancel"),
    ]

    def __init__(self, source: WidgetSource) -> None:
        super().__init__()
        self._source = source
        self._guard = KeyGuard(time.monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(f"widget {sanitize_line(self._source.name, 40)}")
            yield _WidgetFacts(self._source)
            yield _Code(self._source.text)

    def on_mount(self) -> None:
        """Let keys scroll."""
        self.query_one(_Code).focus()

    def action_approve(self) -> None:
        """Yes, unless the key was meant for something else."""
        if not self._guard.holds:
            self.dismiss(True)

    def action_leave(self) -> None:
        """No."""
        self.dismiss(False)
