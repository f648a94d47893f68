"""A question of an agent, with its form."""

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalGroup, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Label, RadioSet

from ..literal import literal, one_line
from ..stores.forms import BadValue, Field, fields_of, value_of
from ..widgets.marks import Choice, Mark
from .guard import Guard

if TYPE_CHECKING:
    from quarterdeck.fleet.port import InboxItem

__all__ = ["QuestionScreen"]


class QuestionScreen(ModalScreen[None]):
    """Asks a person what an agent wants to know.

    Args:
        item: the question.
        kept: what was filled in earlier, as ``Filled`` told it.
    """

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
    class Filled(Message):
        """Something was filled in; nothing is sent yet."""

        item: "InboxItem"
        kept: str

    @dataclass
    class PutOff(Message):
        """A person wants to answer later."""

        item: "InboxItem"

    def __init__(self, item: "InboxItem", kept: str = "") -> None:
        super().__init__()
        assert item.question is not None
        self.item = item
        self._question = item.question
        self._fields = fields_of(item.question)
        self._guard = Guard(monotonic)
        self._filled = _read(kept)

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
            content = self.answer()
        except BadValue as error:
            self.notify(literal(str(error)), severity="warning", markup=False)
            return
        self.post_message(self.Replied(self.item, content))

    def answer(self) -> dict[str, Any]:
        """What is filled in, by the names of the fields. Raises BadValue where it does not fit."""
        values = {f.name: self._value(n, f) for n, f in enumerate(self._fields)}
        return {name: value for name, value in values.items() if value is not None}

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

    @on(Input.Changed)
    @on(Checkbox.Changed)
    @on(RadioSet.Changed)
    def _keep(self) -> None:
        filled = {f.name: self._state(n, f) for n, f in enumerate(self._fields)}
        if filled != self._filled:
            self._filled = filled
            self.post_message(self.Filled(self.item, msgspec.json.encode(filled).decode()))

    def _ask(self, number: int, field: Field) -> ComposeResult:
        needed = " (needed)" if field.is_required else ""
        hint = f": {literal(field.hint)}" if field.hint else ""
        yield Label(Content(f"{literal(field.title)}{needed}{hint}"), classes="title")
        id_ = f"field-{number}"
        state = self._filled.get(field.name, field.default)
        chosen = self._chosen(field)
        match field.kind:
            case "yes_no":
                yield Mark(Content("yes"), state is True, id=id_, classes="field")
            case "one_of":
                buttons = [
                    Choice(Content(literal(word)), at in chosen)
                    for at, (_, word) in enumerate(field.choices)
                ]
                yield RadioSet(*buttons, id=id_, classes="field")
            case "some_of":
                with VerticalGroup(id=id_):
                    for at, (_, word) in enumerate(field.choices):
                        yield Mark(Content(literal(word)), at in chosen, classes="field")
            case _:
                yield Input(_as_line(state), id=id_, classes="field")

    def _chosen(self, field: Field) -> list[int]:
        """The places of the choices that are on at first."""
        kept = self._filled.get(field.name)
        if isinstance(kept, list):
            return [at for at in cast("list[Any]", kept) if isinstance(at, int)]
        default: Any = field.default
        values = cast("list[Any]", default if isinstance(default, list) else [default])
        return [at for at, (value, _) in enumerate(field.choices) if value in values]

    def _state(self, number: int, field: Field) -> Any:
        """What is filled in, as it is shown: a text, yes or no, or the places of choices."""
        id_ = f"#field-{number}"
        match field.kind:
            case "yes_no":
                return self.query_one(id_, Mark).value
            case "one_of":
                at = self.query_one(id_, RadioSet).pressed_index
                return [at] if at >= 0 else []
            case "some_of":
                marks = self.query_one(id_).query(Mark)
                return [at for at, mark in enumerate(marks) if mark.value]
            case _:
                return self.query_one(id_, Input).value

    def _values(self, field: Field, chosen: list[int]) -> list[Any]:
        return [field.choices[at][0] for at in chosen]

    def _value(self, number: int, field: Field) -> Any:
        state: Any = self._state(number, field)
        match field.kind:
            case "yes_no":
                return state
            case "one_of":
                if not state and field.is_required:
                    raise BadValue(f"{field.title} is needed")
                values = self._values(field, state)
                return values[0] if values else None
            case "some_of":
                return self._values(field, state)
            case _:
                # What cannot be typed into a line is only shown in another form, not changed.
                is_untouched = isinstance(field.default, str) and state == _as_line(field.default)
                return value_of(field, field.default if is_untouched else state)


def _as_line(value: object) -> str:
    return "" if value is None else literal(str(value)).replace("\n", "\\n")


def _read(kept: str) -> dict[str, Any]:
    """What was kept; nothing where it cannot be understood."""
    try:
        return msgspec.json.decode(kept, type=dict[str, Any]) if kept else {}
    except msgspec.MsgspecError:
        return {}
