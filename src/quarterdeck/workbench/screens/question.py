"""An agent's question: the form in the agent's own conversation, or the same form in a dialog for
the question of another agent; its fields, and the values that a person types.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalGroup, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Label, RadioButton, RadioSet

from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.events import QuestionAsked

from ..rendering import glyphs
from ..sanitize import sanitize_line, sanitize_text
from .key_guard import KeyGuard
from .permission_lines import RequestQueue

if TYPE_CHECKING:
    from quarterdeck.fleet.api import InboxItem

__all__ = [
    "FieldKind",
    "FieldValueError",
    "FormCheckbox",
    "FormField",
    "FormRadioButton",
    "QuestionForm",
    "QuestionScreen",
    "leave_out_asked",
    "parse_field_value",
    "parse_form",
]

FieldKind: TypeAlias = Literal["text", "number", "integer", "yes_no", "one_of", "some_of"]
_OWN_WORDS = "_other"
_NUMBER = re.compile(r"^\s*\d+\. ")
_KINDS: dict[str, FieldKind] = {"number": "number", "integer": "integer", "boolean": "yes_no"}


class FieldValueError(ValueError):
    """What was typed is not what a field wants; the message says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One thing that is asked for."""

    name: str
    title: str
    kind: FieldKind
    hint: str = ""
    choices: tuple[tuple[Any, str], ...] = ()
    """Values with the words for them."""
    is_required: bool = False
    default: Any = None
    other: str | None = None
    """The name for an answer in own words, besides the choices; None: there is none."""


def parse_form(question: QuestionAsked) -> list[FormField]:
    """The fields of a question's form; what is strange in it becomes a text field."""
    form = question.form or {}
    required = form.get("required")
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    found: Any = form.get("properties")
    if not isinstance(found, dict):
        return []
    fields = [
        _field(str(name), cast("dict[str, Any]", kind), name in needed)
        for name, kind in cast("dict[Any, Any]", found).items()
        if isinstance(kind, dict)
    ]
    return _with_own_words(fields)


def _with_own_words(fields: list[FormField]) -> list[FormField]:
    """Choices and the text field for another answer become one field."""
    texts = {field.name for field in fields if field.kind == "text" and field.default is None}
    paired = {f"{field.name}{_OWN_WORDS}" for field in fields if field.choices} & texts
    return [
        replace(field, other=name) if (name := f"{field.name}{_OWN_WORDS}") in paired else field
        for field in fields
        if field.name not in paired
    ]


def parse_field_value(field: FormField, typed: str) -> Any:
    """What was typed, as the field wants it; None for nothing.

    Raises:
        FieldValueError: it does not fit.
    """
    word = typed.strip()
    if not word:
        if field.is_required:
            raise FieldValueError(f"{field.title} is required")
        return None
    try:
        match field.kind:
            case "integer":
                return int(word)
            case "number":
                return float(word)
            case _:
                return typed
    except ValueError:
        raise FieldValueError(f"{field.title} must be a number, not {word!r}") from None


def _field(name: str, kind: dict[str, Any], is_required: bool) -> FormField:
    choices = _choices(kind)
    many = kind.get("type") == "array"
    if many:
        items = kind.get("items")
        choices = _choices(cast("dict[str, Any]", items)) if isinstance(items, dict) else ()
    chosen: FieldKind = "some_of" if many else "one_of"
    return FormField(
        name=name,
        title=str(kind.get("title") or name),
        kind=chosen if choices else _KINDS.get(str(kind.get("type")), "text"),
        hint=str(kind.get("description") or ""),
        choices=choices,
        is_required=is_required,
        default=kind.get("default"),
    )


def _choices(kind: dict[str, Any]) -> tuple[tuple[Any, str], ...]:
    for option in [*_list(kind, "oneOf"), *_list(kind, "anyOf")]:
        if isinstance(option, dict) and "const" in option:
            return tuple(_titled(kind))
    values = _list(kind, "enum")
    words = _list(kind, "enumNames") or values
    return tuple((value, str(word)) for value, word in zip(values, words, strict=False))


def _titled(kind: dict[str, Any]) -> list[tuple[Any, str]]:
    options = [*_list(kind, "oneOf"), *_list(kind, "anyOf")]
    listed = [cast("dict[str, Any]", option) for option in options if isinstance(option, dict)]
    return [(o["const"], str(o.get("title", o["const"]))) for o in listed if "const" in o]


def _list(kind: dict[str, Any], key: str) -> list[Any]:
    found = kind.get(key)
    return cast("list[Any]", found) if isinstance(found, list) else []


class FormCheckbox(Checkbox):
    """On is a cross, off is nothing; the state shows without colour."""

    def render(self) -> Content:
        """Draw the box as it is now."""
        return _mark(self, "[x]" if self.value else "[ ]")


class FormRadioButton(RadioButton):
    """On is a dot, off is nothing; the state shows without colour."""

    def render(self) -> Content:
        """Draw the button as it is now."""
        return _mark(self, f"({glyphs.CHOSEN})" if self.value else "( )")


def _mark(button: Checkbox | RadioButton, sign: str) -> Content:
    sign_style = "$text-success" if button.value else "$text-muted"
    label = button.label.stylize_before(button.get_visual_style("toggle--label"))
    return Content.assemble((sign, sign_style), " ", label)


class QuestionForm(Vertical):
    """Asks a person what an agent wants to know.

    Args:
        item: the question.
        saved: what was filled in earlier, as ``Filled`` reported it.
        queue: where it stands among what waits.
        is_own: it stands in the agent's own conversation.
        room: how many lines it may take; None: all.
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
        saved: str

    @dataclass
    class PutOff(Message):
        """A person wants to answer later."""

        item: "InboxItem"

    def __init__(
        self,
        item: "InboxItem",
        saved: str = "",
        *,
        queue: RequestQueue | None = None,
        is_own: bool = False,
        room: Callable[[], int] | None = None,
    ) -> None:
        super().__init__()
        assert item.question is not None
        self.item = item
        self._question = item.question
        self._fields = parse_form(item.question)
        self._guard = KeyGuard(monotonic)
        self._filled = _read(saved)
        self._queue = queue or RequestQueue()
        self._is_own = is_own
        self._room = room
        self._is_sent = False
        self._wants_focus = False

    def compose(self) -> ComposeResult:
        """The parts."""
        with VerticalScroll(can_focus=not self._fields):
            if words := leave_out_asked(sanitize_text(self._question.text), self._fields):
                yield Label(Content(words), classes="question")
            if self._question.url:
                yield Label(Content(f"answer at {sanitize_text(self._question.url)}"))
            for number, field in enumerate(self._fields):
                yield from self._ask(number, field)

    def on_mount(self) -> None:
        """Say who asks, and which keys there are."""
        self.show_queue(self._queue)
        self.fit()
        if self._wants_focus:
            self.take_focus()

    def on_resize(self) -> None:
        """Keep within the room."""
        self.fit()

    def fit(self) -> None:
        """Take as much room as there is and as it needs."""
        if self._room is not None:
            self.styles.max_height = max(3, self._room())

    def show_queue(self, queue: RequestQueue) -> None:
        """Say where it stands among what waits."""
        name = "asks" if self._is_own else f"{sanitize_line(self.item.name, 40)} asks"
        self.border_title = Content(" · ".join(filter(None, (name, queue.words))))
        self.border_subtitle = "ctrl+s send · ctrl+x decline · esc later"

    def reopen(self) -> None:
        """An answer was not taken: the question is still open."""
        self._is_sent = False
        self._guard.close()

    def take_focus(self) -> None:
        """Begin with the first field."""
        self._guard.close()
        self._wants_focus = not self.is_mounted
        for widget in self.query(".field, VerticalScroll").results(Widget):
            if widget.focusable:
                widget.focus()
                return

    def action_send(self) -> None:
        """Answer with what is filled in."""
        if self._guard.holds or self._is_sent:
            return
        try:
            content = self.answer()
        except FieldValueError as error:
            self.notify(sanitize_text(str(error)), severity="warning", markup=False)
            return
        self._is_sent = True
        self.post_message(self.Replied(self.item, content))

    def answer(self) -> dict[str, Any]:
        """What is filled in, by the names of the fields. Raises FieldValueError where it does not
        fit.
        """
        values = {f.name: self._value(n, f) for n, f in enumerate(self._fields)}
        values |= {f.other: self._own_words(n, f) for n, f in enumerate(self._fields) if f.other}
        return {name: value for name, value in values.items() if value is not None}

    def action_decline(self) -> None:
        """Say that there is no answer."""
        if not self._guard.holds and not self._is_sent:
            self._is_sent = True
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
            self.screen.focus_next()

    @on(Input.Changed, ".other")
    def _other_typed(self, event: Input.Changed) -> None:
        """Own words choose themselves."""
        if event.value:
            for mark in self.query(f"#mark-{event.input.id}"):
                assert isinstance(mark, Checkbox | RadioButton)
                mark.value = True

    @on(Input.Changed)
    @on(Checkbox.Changed)
    @on(RadioSet.Changed)
    def _keep(self) -> None:
        filled = {f.name: self._state(n, f) for n, f in enumerate(self._fields)}
        for number, field in enumerate(self._fields):
            if field.other:
                filled[field.other] = self.query_one(f"#other-{number}", Input).value
        if filled != self._filled:
            self._filled = filled
            self.post_message(self.Filled(self.item, msgspec.json.encode(filled).decode()))

    def _ask(self, number: int, field: FormField) -> ComposeResult:
        needed = " (needed)" if field.is_required else ""
        hint = f" {glyphs.BETWEEN} {sanitize_text(field.hint)}" if field.hint else ""
        yield Label(Content(f"{sanitize_text(field.title)}{needed}{hint}"), classes="title")
        id_ = f"field-{number}"
        state = self._filled.get(field.name, field.default)
        chosen = self._chosen(field)
        match field.kind:
            case "yes_no":
                yield FormCheckbox(Content("yes"), state is True, id=id_, classes="field")
            case "one_of":
                buttons = [
                    FormRadioButton(Content(sanitize_text(word)), at in chosen)
                    for at, (_, word) in enumerate(field.choices)
                ]
                if field.other:
                    is_on = len(field.choices) in chosen
                    buttons.append(FormRadioButton("other", is_on, id=f"mark-other-{number}"))
                yield RadioSet(*buttons, id=id_, classes="field")
                yield from self._ask_other(number, field)
            case "some_of":
                with VerticalGroup(id=id_):
                    for at, (_, word) in enumerate(field.choices):
                        yield FormCheckbox(
                            Content(sanitize_text(word)), at in chosen, classes="field"
                        )
                    if field.other:
                        yield FormCheckbox(
                            "other",
                            len(field.choices) in chosen,
                            id=f"mark-other-{number}",
                            classes="field",
                        )
                yield from self._ask_other(number, field)
            case _:
                yield Input(_as_line(state), id=id_, classes="field")

    def _ask_other(self, number: int, field: FormField) -> ComposeResult:
        if field.other:
            typed = _as_line(self._filled.get(field.other))
            hint = "other, in your own words"
            yield Input(typed, hint, id=f"other-{number}", classes="field other")

    def _chosen(self, field: FormField) -> list[int]:
        """The places of the choices that are on at first."""
        saved = self._filled.get(field.name)
        if isinstance(saved, list):
            return [at for at in cast("list[Any]", saved) if isinstance(at, int)]
        default: Any = field.default
        values = cast("list[Any]", default if isinstance(default, list) else [default])
        return [at for at, (value, _) in enumerate(field.choices) if value in values]

    def _state(self, number: int, field: FormField) -> Any:
        """What is filled in, as it is shown: a text, yes or no, or the places of choices."""
        id_ = f"#field-{number}"
        match field.kind:
            case "yes_no":
                return self.query_one(id_, FormCheckbox).value
            case "one_of":
                at = self.query_one(id_, RadioSet).pressed_index
                return [at] if at >= 0 else []
            case "some_of":
                marks = self.query_one(id_).query(FormCheckbox)
                return [at for at, mark in enumerate(marks) if mark.value]
            case _:
                return self.query_one(id_, Input).value

    def _values(self, field: FormField, chosen: list[int]) -> list[Any]:
        return [field.choices[at][0] for at in chosen if at < len(field.choices)]

    def _own_words(self, number: int, field: FormField) -> str | None:
        """The other answer, if it is chosen."""
        if len(field.choices) not in self._state(number, field):
            return None
        return self.query_one(f"#other-{number}", Input).value.strip() or None

    def _value(self, number: int, field: FormField) -> Any:
        state: Any = self._state(number, field)
        match field.kind:
            case "yes_no":
                return state
            case "one_of":
                values = self._values(field, state)
                own = self._own_words(number, field) if field.other else None
                if not values and own is None and field.is_required:
                    raise FieldValueError(f"{field.title} is required")
                return values[0] if values else None
            case "some_of":
                return self._values(field, state)
            case _:
                # What cannot be typed into a line is only shown in another form, not changed.
                is_untouched = isinstance(field.default, str) and state == _as_line(field.default)
                return parse_field_value(field, field.default if is_untouched else state)


class QuestionScreen(ModalScreen[None]):
    """The question of an agent that is not in view; its form alone."""

    AUTO_FOCUS = None

    def __init__(
        self, item: "InboxItem", saved: str = "", queue: RequestQueue | None = None
    ) -> None:
        super().__init__()
        self.form = QuestionForm(item, saved, queue=queue)

    @property
    def item(self) -> "InboxItem":
        """The question."""
        return self.form.item

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.form

    def on_mount(self) -> None:
        """Begin with the first field."""
        self.form.take_focus()


def leave_out_asked(text: str, fields: Iterable[FormField]) -> str:
    """What a question says besides what its fields ask: agents list there what they ask below."""
    known = (words for field in fields for words in (field.title, field.hint))
    asked = {sanitize_text(words).strip() for words in known if words.strip()}
    lines = text.split("\n")
    kept = [line for line in lines if _NUMBER.sub("", line).strip() not in asked]
    return "\n".join(kept).strip("\n") if len(kept) < len(lines) else text


def _as_line(value: object) -> str:
    return "" if value is None else sanitize_text(str(value)).replace("\n", "\\n")


def _read(saved: str) -> dict[str, Any]:
    """What was kept; nothing where it cannot be understood."""
    try:
        return decode_json(saved, dict[str, Any]) if saved else {}
    except msgspec.MsgspecError:
        return {}
