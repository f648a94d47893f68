"""A question of an agent, with its form."""

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Label, RadioButton, RadioSet, SelectionList
from textual.widgets.selection_list import Selection

from ..literal import literal, one_line
from ..stores.forms import BadValue, Field, fields_of, value_of
from .guard import Guard

if TYPE_CHECKING:
    from quarterdeck.fleet.port import InboxItem

__all__ = ["QuestionScreen"]


class QuestionScreen(ModalScreen[None]):
    """Asks a person what an agent wants to know."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "later", "answer later"),
        Binding("ctrl+s", "send", "send the answer"),
        Binding("ctrl+x", "decline", "decline", priority=True),
    ]

    @dataclass
    class Replied(Message):
        """A person has answered, or does not want to."""

        item: "InboxItem"
        content: dict[str, Any] | None
        """None: declined."""

    @dataclass
    class PutOff(Message):
        """A person wants to answer later."""

        item: "InboxItem"

    def __init__(self, item: "InboxItem") -> None:
        super().__init__()
        assert item.question is not None
        self.item = item
        self._question = item.question
        self._fields = fields_of(item.question)
        self._guard = Guard(monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(f"{one_line(self.item.name, 40)} asks")
            box.border_subtitle = "ctrl+s send · ctrl+x decline · esc later"
            with VerticalScroll():
                yield Label(Content(literal(self._question.text)), classes="question")
                if self._question.url:
                    yield Label(Content(f"answer at {literal(self._question.url)}"))
                for number, field in enumerate(self._fields):
                    yield from self._ask(number, field)

    def on_mount(self) -> None:
        """Begin with the first field."""
        for widget in self.query(".field").results(Widget):
            widget.focus()
            return

    def action_send(self) -> None:
        """Answer with what is filled in."""
        if self._guard.holds:
            return
        try:
            values = {f.name: self._value(n, f) for n, f in enumerate(self._fields)}
        except BadValue as error:
            self.notify(literal(str(error)), severity="warning", markup=False)
            return
        content = {name: value for name, value in values.items() if value is not None}
        self.post_message(self.Replied(self.item, content))

    def action_decline(self) -> None:
        """Say that there is no answer."""
        if not self._guard.holds:
            self.post_message(self.Replied(self.item, None))

    def action_later(self) -> None:
        """Leave the question open."""
        if not self._guard.holds:
            self.post_message(self.PutOff(self.item))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in the last field sends."""
        event.stop()
        inputs = list(self.query(".field").results(Widget))
        if inputs and inputs[-1] is event.input:
            self.action_send()
        else:
            self.focus_next()

    def _ask(self, number: int, field: Field) -> ComposeResult:
        needed = " (needed)" if field.is_required else ""
        hint = f": {literal(field.hint)}" if field.hint else ""
        yield Label(Content(f"{literal(field.title)}{needed}{hint}"), classes="title")
        id_ = f"field-{number}"
        match field.kind:
            case "yes_no":
                yield Checkbox(Content("yes"), field.default is True, id=id_, classes="field")
            case "one_of":
                buttons = [
                    RadioButton(Content(literal(word)), value == field.default)
                    for value, word in field.choices
                ]
                yield RadioSet(*buttons, id=id_, classes="field")
            case "some_of":
                default: Any = field.default
                chosen = cast("list[Any]", default if isinstance(default, list) else [])
                choices = [
                    Selection(Content(literal(word)), at, value in chosen)
                    for at, (value, word) in enumerate(field.choices)
                ]
                yield SelectionList[int](*choices, id=id_, classes="field")
            case _:
                given = "" if field.default is None else literal(str(field.default))
                yield Input(given, id=id_, classes="field")

    def _value(self, number: int, field: Field) -> Any:
        id_ = f"#field-{number}"
        match field.kind:
            case "yes_no":
                return self.query_one(id_, Checkbox).value
            case "one_of":
                at = self.query_one(id_, RadioSet).pressed_index
                if at < 0 and field.is_required:
                    raise BadValue(f"{field.title} is needed")
                return field.choices[at][0] if at >= 0 else None
            case "some_of":
                chosen = cast("SelectionList[int]", self.query_one(id_, SelectionList))
                return [field.choices[at][0] for at in sorted(chosen.selected)]
            case _:
                return value_of(field, self.query_one(id_, Input).value)
