"""A permission request: all that is asked, and one key for each answer."""

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input

from quarterdeck.wire.permissions import option_of_kind

from ..literal import one_line
from ..rendering.lines import Line, plain
from ..rendering.requests import KEYS, option_lines, request_lines
from ..widgets.lined import LinesView
from .guard import Guard

if TYPE_CHECKING:
    from textual import events

    from quarterdeck.fleet.port import InboxItem

__all__ = ["PermissionScreen"]

_KINDS = {key: kind for kind, key in KEYS.items()}
_SHORT = 16
_LEAST = 4
"""Lines of what is asked; below that the choices have one line each."""
_DENIALS = ("reject_once", "reject_always")


class _Details(LinesView, can_focus=True):
    def __init__(self, item: "InboxItem", cwd: str | None) -> None:
        super().__init__(id="details")
        self._item = item
        self._cwd = cwd

    def lines(self, width: int) -> list[Line]:
        return request_lines(self._item, self._cwd, width)


class _Options(LinesView):
    def __init__(self, item: "InboxItem") -> None:
        super().__init__(id="options")
        self._item = item
        self.is_tight = False

    def lines(self, width: int) -> list[Line]:
        assert self._item.permission is not None
        options = self._item.permission.options
        found = option_lines(options, width, is_tight=self.is_tight)
        found.append(plain("   f  deny and say why     esc  decide later", "faint"))
        self.styles.height = len(found)
        return found


class PermissionScreen(ModalScreen[None]):
    """Asks a person for leave. Keys count only after a moment without any."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "later", "decide later"),
        Binding("f", "feedback", "deny and say why"),
        *(Binding(key, f"kind('{kind}')", kind.replace("_", " ")) for key, kind in _KINDS.items()),
        *(Binding(str(n), f"number({n})", f"option {n}", show=False) for n in range(1, 10)),
        Binding("up", "scroll(-1)", "scroll", show=False),
        Binding("down", "scroll(1)", "scroll", show=False),
        Binding("pageup", "scroll(-8)", "scroll", show=False),
        Binding("pagedown", "scroll(8)", "scroll", show=False),
    ]

    @dataclass
    class Answered(Message):
        """A person has decided."""

        item: "InboxItem"
        choice: str
        feedback: str | None = None

    @dataclass
    class PutOff(Message):
        """A person wants to decide later."""

        item: "InboxItem"

    def __init__(self, item: "InboxItem", cwd: str | None, place: str) -> None:
        super().__init__()
        self.item = item
        self._cwd = cwd
        self._place_of = place
        self._guard = Guard(monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            name = one_line(self.item.name, 40)
            box.border_title = Content(f"{name} asks for leave{self._place_of}")
            yield _Details(self.item, self._cwd)
            yield _Options(self.item)
            feedback = Input(id="feedback", placeholder="why not, and what to do instead")
            feedback.display = False
            yield feedback

    def on_mount(self) -> None:
        """Let keys reach the screen."""
        self.query_one(_Details).focus()

    def on_resize(self) -> None:
        """Give the answers the room that they need; what is asked can be scrolled."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        details, options = self.query_one(_Details), self.query_one(_Options)
        around = 5 if self.size.height > _SHORT else 4
        options.is_tight = False
        options.update()
        if self.size.height - options.virtual_size.height - around < _LEAST:
            options.is_tight = True
            options.update()
        room = max(2, self.size.height - options.virtual_size.height - around)
        details.styles.max_height = room
        hidden = details.virtual_size.height > room
        words = f"{details.virtual_size.height} lines: ↑ ↓ to see all" if hidden else ""
        self.query_one("#box").border_subtitle = words

    def action_kind(self, kind: str) -> None:
        """Answer with the first option of a kind."""
        if self._guard.holds or self.item.permission is None:
            return
        chosen = option_of_kind(self.item.permission.options, kind)
        if chosen is not None:
            self._answer(chosen)

    def action_number(self, number: int) -> None:
        """Answer with an option by its number."""
        if self._guard.holds or self.item.permission is None:
            return
        if number <= len(self.item.permission.options):
            self._answer(self.item.permission.options[number - 1].option_id)

    def action_feedback(self) -> None:
        """Write why not."""
        if self._guard.holds:
            return
        feedback = self.query_one("#feedback", Input)
        feedback.display = True
        feedback.focus()

    def action_later(self) -> None:
        """Leave the request open; from the feedback go back to the choice."""
        feedback = self.query_one("#feedback", Input)
        if feedback.has_focus:
            feedback.display = False
            self.query_one(_Details).focus()
        elif not self._guard.holds:
            self.post_message(self.PutOff(self.item))

    def action_scroll(self, step: int) -> None:
        """Look at other lines."""
        self.query_one(_Details).scroll_relative(y=step, animate=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Deny, with what was written."""
        event.stop()
        if self.item.permission is None:
            return
        for kind in _DENIALS:
            for option in self.item.permission.options:
                if option.kind == kind:
                    self._answer(option.option_id, event.value.strip() or None)
                    return
        self.notify("nothing here means no; esc goes back", severity="warning")

    def on_key(self, event: "events.Key") -> None:
        """A key that means nothing here still shows that somebody types."""
        if not self.query_one("#feedback", Input).has_focus:
            _ = self._guard.holds

    def _answer(self, choice: str, feedback: str | None = None) -> None:
        self.post_message(self.Answered(self.item, choice, feedback))
