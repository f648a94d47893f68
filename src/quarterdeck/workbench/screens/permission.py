"""The screen of a permission request: every argument, literally and whole, and one key for each
answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input

from quarterdeck.wire.event_text import describe_content
from quarterdeck.wire.events import PermissionAsked, QuestionAsked
from quarterdeck.wire.permissions import PermissionOption, option_of_kind
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem

from ..rendering.code import diff_lines
from ..rendering.lines import Line, Span, clip, indented, plain, wrap
from ..sanitize import sanitize_line, sanitize_text
from ..stores.blocks import format_json
from ..widgets.lines_view import LinesView
from .key_guard import KeyGuard

if TYPE_CHECKING:
    from textual import events

    from quarterdeck.fleet.api import InboxItem

__all__ = ["KEYS", "PermissionScreen", "option_lines", "request_lines"]

KEYS = {"allow_once": "y", "allow_always": "a", "reject_once": "n", "reject_always": "x"}
"""The key for the first option of a kind; each option has its number, too."""


def request_lines(item: "InboxItem", cwd: str | None, width: int) -> list[Line]:
    """Everything about a request."""
    if item.permission is not None:
        parts = _permission(item.permission, cwd)
    elif item.question is not None:
        parts = _question(item.question)
    else:
        parts = iter(())
    return [line for part in parts for line in _fit(part, width)]


def option_lines(
    options: tuple[PermissionOption, ...], width: int, *, is_tight: bool = False
) -> list[Line]:
    """What can be answered, with the keys for it; one line for each where it is tight."""
    taken: set[str] = set()
    lines: list[Line] = []
    for number, option in enumerate(options[:9], 1):
        key = KEYS.get(option.kind)
        keys = f"{number}"
        if key is not None and key not in taken:
            taken.add(key)
            keys = f"{key} {number}"
        words = sanitize_line(option.name, 400)
        kind = sanitize_line(option.kind.replace("_", " "), 40)
        head: Span = (f" {keys:>3}  ", "key")
        spans: list[Span] = [(words, "text")]
        if kind.lower() != words.lower():
            spans.append((f"  ({kind})", "faint"))
        if is_tight:
            room = width - 6 - sum(len(text) for text, _ in spans[1:])
            lines.append((head, *clip((spans[0],), room), *spans[1:]))
            continue
        lines += indented(wrap(spans, width - 6), head, ("      ", "text"))
    return lines


def _permission(asked: PermissionAsked, cwd: str | None) -> Iterator[Line]:
    yield ((sanitize_line(asked.name or asked.kind, 80), "tool"), (f"  {asked.kind}", "faint"))
    yield from _text(asked.title, "strong")
    if cwd:
        yield plain(f"in {sanitize_line(cwd)}", "faint")
    if asked.raw_input is not None:
        yield ()
        yield from _input(asked.raw_input, _in_diffs(asked))
    for place in asked.locations:
        where = f"{place.path}:{place.line}" if place.line else place.path
        yield plain(f"at {sanitize_text(where)}", "faint")
    known = _words(asked.raw_input)
    for item in asked.content:
        if isinstance(item, ContentItem) and describe_content(item.content) in known:
            continue  # it is among the arguments
        yield ()
        match item:
            case Diff(path=path, old_text=old, new_text=new):
                yield from diff_lines(path, old, new)
            case ContentItem(content=content):
                yield from _text(describe_content(content), "text")
            case TerminalItem(terminal_id=terminal):
                yield plain(f"terminal {sanitize_line(terminal)}", "faint")
    if asked.reason:
        yield ()
        yield plain(f"reason: {sanitize_line(asked.reason)}", "faint")


def _words(value: object) -> set[str]:
    """Arguments that are texts."""
    given = cast("dict[object, object]", value).values() if isinstance(value, dict) else ()
    return {one for one in given if isinstance(one, str)}


def _in_diffs(asked: PermissionAsked) -> set[str]:
    """Long arguments that a difference shows whole."""
    texts = {item.new_text for item in asked.content if isinstance(item, Diff)}
    return {text for text in texts & _words(asked.raw_input) if "\n" in text}


def _input(value: object, elsewhere: set[str]) -> Iterator[Line]:
    """Arguments by name, each text as it is; what is no object as JSON."""
    if not isinstance(value, dict):
        yield from _text(format_json(value), "code")
        return
    for name, given in cast("dict[object, object]", value).items():
        words = sanitize_text(format_json(given)).split("\n")
        label = sanitize_line(str(name), 80)
        if isinstance(given, str) and given in elsewhere:
            yield ((f"{label}: ", "faint"), (f"{len(words)} lines, see below", "faint"))
            continue
        if len(words) == 1:
            yield ((f"{label}: ", "faint"), (words[0], "code"))
            continue
        yield plain(f"{label}:", "faint")
        yield from ((("  ", "code"), (word, "code")) for word in words)


def _question(asked: QuestionAsked) -> Iterator[Line]:
    yield from _text(asked.text, "text")
    if asked.url:
        yield plain(f"answer at {sanitize_text(asked.url)}", "link")


def _text(text: str, role: str) -> Iterator[Line]:
    for line in sanitize_text(text).split("\n"):
        yield plain(line, role)


def _fit(line: Line, width: int) -> list[Line]:
    return wrap(line, width) if line else [()]


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
        found.append(plain("   f  deny with a reason   esc  decide later", "faint"))
        self.styles.height = len(found)
        return found


class PermissionScreen(ModalScreen[None]):
    """Asks a person for permission. Keys count only after a moment without any."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "later", "decide later"),
        Binding("f", "feedback", "deny with a reason"),
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
        self._guard = KeyGuard(monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            name = sanitize_line(self.item.name, 40)
            box.border_title = Content(f"{name} needs permission{self._place_of}")
            yield _Details(self.item, self._cwd)
            yield _Options(self.item)
            feedback = Input(id="feedback", placeholder="reason, and what to do instead")
            feedback.display = False
            yield feedback

    def on_mount(self) -> None:
        """Let keys reach the screen."""
        self.query_one(_Details).focus()

    def on_resize(self) -> None:
        """Give the answers the room that they need; what is asked can be scrolled."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        if not self.query(_Details):  # taken down meanwhile
            return
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
        self.notify("this agent offers no way to deny; press esc to go back", severity="warning")

    def on_key(self, event: "events.Key") -> None:
        """A key that means nothing here still shows that someone types."""
        if not self.query_one("#feedback", Input).has_focus:
            _ = self._guard.holds

    def _answer(self, choice: str, feedback: str | None = None) -> None:
        self.post_message(self.Answered(self.item, choice, feedback))
