"""A field of one line whose values are chosen from a list below it; typing filters the list."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast

from textual import events, on
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.widgets import Input

from ..completion import score_name
from ..rendering.lines import Line, Span, width_of
from ..sanitize import sanitize_line
from .picker import Picker

if TYPE_CHECKING:
    from textual.app import App
    from textual.worker import Worker

__all__ = ["FindOptions", "SelectField", "SelectList", "SelectOption", "filter_options"]

_MOST_ROWS = 10
_LONGEST_NAME = 34
_AS_TYPED = "as typed"
_TITLE = "\0"
"""Before the key of a row that is the title of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectOption:
    """A value that can be chosen. Its texts may be any."""

    value: str
    """What stands in the field."""
    words: str = ""
    """What it means, in a line."""
    group: str = ""
    """The title above it and its neighbours; empty: none."""
    problem: str = ""
    """Why it cannot be chosen; it is shown with this reason."""


FindOptions: TypeAlias = Callable[[str], Awaitable[Sequence[SelectOption]]]
"""Finds options for what is typed, in the order in which they are shown."""


def filter_options(options: Sequence[SelectOption], typed: str) -> list[SelectOption]:
    """The options that have every typed word in their value or meaning, in their order."""
    words = typed.lower().split()
    return [one for one in options if _matches(one, words)]


def _matches(option: SelectOption, words: Sequence[str]) -> bool:
    text = f"{option.value} {option.words} {option.group} {option.problem}".lower()
    return all(word in text or score_name(word, option.value) is not None for word in words)


def _find_best(options: Sequence[SelectOption], typed: str) -> int:
    """The place of the option that fits best; one that can be chosen is better."""
    typed = typed.strip().lower()
    if not typed:
        return 0
    options = [one for one in options if one.words != _AS_TYPED] or options
    scores = [(bool(one.problem), score_name(typed, one.value)) for one in options]
    ranked = sorted(
        range(len(options)),
        key=lambda at: (scores[at][0], scores[at][1] is None, scores[at][1] or 0, at),
    )
    return ranked[0] if ranked else 0


class SelectList(Picker, can_focus=False):
    """The list below a field; the field keeps the keys, and a click chooses."""

    def __init__(self, choose: Callable[[int], None]) -> None:
        super().__init__(classes="select-list")
        self._options: Sequence[SelectOption] = ()
        self._choose = choose
        self._place: tuple[Region, Size] | None = None
        """Where the field was when the list was put beside it, and the size of the screen."""
        self.display = False

    def show(self, options: Sequence[SelectOption], at: int, field: "SelectField") -> None:
        """Show options below a field, or above it where that has more room."""
        self._options = options
        self.display = True
        self._fit(field)
        self.move(at)

    def follow(self, field: "SelectField") -> None:
        """Stay beside the field when that moves."""
        place = (field.region, self.screen.size)
        if self.display and place != self._place and field.region:
            self._fit(field)

    def _fit(self, field: "SelectField") -> None:
        region, screen = field.region, self.screen.size
        self._place = (region, screen)
        below, above = screen.height - region.bottom, region.y
        lines = [line for _, line in self.rows(screen.width)]
        rows = min(len(lines), _MOST_ROWS, max(1, below, above))
        is_above = rows > below and above > below
        rows = max(1, min(rows, above if is_above else below))
        widest = max((width_of(line) for line in lines), default=0) + 3
        boxes = [one.region.right - 2 for one in self.screen.query("#box")]
        most = min((screen.width, *boxes)) - region.x
        # Within a dialog up to its edge: what would be left of the lines beside says nothing.
        width = max(1, most if boxes else min(max(widest, region.width), most))
        self.styles.height, self.styles.width = rows, width
        y = region.y - rows if is_above else region.bottom
        self.absolute_offset = Offset(region.x, max(0, y))
        self.update()
        self.refresh(layout=True)

    def move(self, at: int) -> None:
        """Put the cursor on an option."""
        self.place(str(at))
        if at == 0:  # with the title above it
            self.scroll_to(y=0, animate=False)

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        if not self._options:
            return [(f"{_TITLE}", ((" nothing matches", "faint"),))]
        names = [sanitize_line(one.value, 200) for one in self._options]
        wide = min(_LONGEST_NAME, max(len(name) for name in names))
        rows: list[tuple[str, Line]] = []
        group = ""
        indent = "   " if any(one.group for one in self._options) else " "
        for at, (name, option) in enumerate(zip(names, self._options, strict=True)):
            if option.group != group:
                group = option.group
                rows.append((f"{_TITLE}{at}", ((f" {sanitize_line(group, 80)}", "faint"),)))
            rows.append((str(at), _row(f"{indent}{name:<{wide}}", option)))
        return rows

    @on(Picker.Chosen)
    def _clicked(self, event: Picker.Chosen) -> None:
        event.stop()
        if event.key.isdigit():
            self._choose(int(event.key))

    @on(Picker.Moved)
    def _moved(self, event: Picker.Moved) -> None:
        event.stop()


def _row(name: str, option: SelectOption) -> Line:
    spans: list[Span] = [(name, "faint" if option.problem else "strong")]
    words = option.problem or option.words
    if words:
        spans.append((f"  {sanitize_line(words, 200)}", "faint"))
    return tuple(spans)


class SelectField(Input):
    """A line with a value. Up, down, a click and typing open the list; enter or tab takes what is
    highlighted; escape closes it first.

    Args:
        value: what is chosen at first.
        id: of the field.
        options: what can be chosen.
        is_free: other values can be typed too; else what is typed only filters.
        find: finds options for what is typed, instead of filtering ``options``.
        is_needed: it cannot be empty.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "the value before", show=False),
        Binding("down", "step(1)", "the next value", show=False),
        Binding("pageup", "step(-8)", "values before", show=False),
        Binding("pagedown", "step(8)", "values after", show=False),
        Binding("tab", "complete", "take what is highlighted", show=False),
        Binding("escape", "close_list", "close the list", show=False),
    ]

    @dataclass
    class Taken(Message):
        """Another value was chosen, or typed and left."""

        field: "SelectField"
        value: str

        @property
        def control(self) -> "SelectField":
            """Who posted it."""
            return self.field

    @dataclass
    class Refused(Message):
        """A person tried to choose what cannot be chosen."""

        field: "SelectField"
        option: SelectOption

        @property
        def control(self) -> "SelectField":
            """Who posted it."""
            return self.field

    def __init__(
        self,
        value: str = "",
        *,
        id: str | None = None,
        options: Sequence[SelectOption] = (),
        is_free: bool = False,
        find: FindOptions | None = None,
        is_needed: bool = False,
    ) -> None:
        super().__init__(sanitize_line(value), id=id)
        self.options = tuple(options)
        self._is_free = is_free
        self._is_needed = is_needed
        self._find = find
        self._settled = self.value
        """The value that counts until another is taken."""
        self._shown: tuple[SelectOption, ...] = ()
        self._at = 0
        self._is_typed = self._is_moved = False
        self._list: SelectList | None = None
        self._search: Worker[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the list is shown."""
        return self._list is not None and self._list.display

    @property
    def chosen(self) -> SelectOption | None:
        """The option of the value; None: it is another, or there is none."""
        return next((one for one in self.options if one.value == self.value), None)

    def offer(self, options: Sequence[SelectOption], *, is_free: bool | None = None) -> None:
        """Let people choose among these from now on; ``is_free`` as when it was made."""
        self.options = tuple(options)
        self._is_free = self._is_free if is_free is None else is_free
        if self.is_open:
            self._open(self.value if self._is_typed else "")

    def set_value(self, value: str) -> None:
        """Put a value in, as if it had been there always."""
        self._close()
        self._settled = self.value = value

    def settle(self) -> None:
        """Take what is typed or highlighted, and close the list."""
        self._catch_up()
        if self._is_moved or (self._is_typed and not self._is_free and self.value.strip()):
            self._choose(self._at)
        elif self._is_typed and (self._is_free or not self._is_needed):
            self._take(self.value)
        else:
            self.set_value(self._settled if self._is_typed else self.value)

    def action_step(self, step: int) -> None:
        """Open the list, or go to another value in it; what cannot be chosen can be looked at."""
        if not self.is_open:
            self._open("")
            values = [one.value for one in self._shown]
            if self.value not in values:  # the first, or the last
                self._move(0 if step > 0 else len(values) - 1)
                return
        if self._shown:
            at, last = self._at + step, len(self._shown) - 1
            self._move(at % (last + 1) if abs(step) == 1 else max(0, min(last, at)))

    def action_close_list(self) -> None:
        """Close the list; what was typed as a filter is gone."""
        if not self.is_open:
            raise SkipAction
        value = self.value if self._is_free and self._is_typed else self._settled
        self._is_moved = False
        if self._is_free:
            self._take(value)
        else:
            self.set_value(value)

    async def action_submit(self) -> None:
        """Take what is highlighted; with the list closed, submit."""
        self._catch_up()
        if not self.is_open:
            self.settle()
            await super().action_submit()
        elif self._shown:
            self._choose(self._at)

    def action_complete(self) -> None:
        """Take what is highlighted and stay, where options are found while one types."""
        if self._find is None or not self.is_open or not self._shown:
            raise SkipAction
        self._choose(self._at)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Typing opens the list."""
        is_set = event.value == self._settled and not self._is_typed
        if is_set or not self.has_focus or event.value != self.value:
            return
        self._is_typed, self._is_moved = True, False
        self._open(self.value)

    def on_click(self, event: events.Click) -> None:
        """A click opens the list, or closes it."""
        event.stop()
        if self.is_open:
            self.action_close_list()
        else:
            self._open("")

    def on_blur(self) -> None:
        """Whoever goes on to another field has chosen; who looks at another window has not."""
        app = cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]
        if not app.app_focus:
            return
        if self.is_open or self._is_typed:
            self.settle()

    def on_unmount(self) -> None:
        """The list goes with its field."""
        if self._list is not None and self._list.is_attached:
            self._list.remove()

    def _catch_up(self) -> None:
        """Filter by what is typed now: keys may be faster than the messages about them."""
        if not self.has_focus or self.value == self._settled or self._is_moved:
            return
        self._is_typed = True
        if self._find is None:
            self._show(filter_options(self.options, self.value), self.value)

    def _open(self, typed: str) -> None:
        if self._find is not None:
            self._search = self.run_worker(partial(self._find_and_show, typed), exclusive=True)
        else:
            self._show(filter_options(self.options, typed), typed)

    async def _find_and_show(self, typed: str) -> None:
        assert self._find is not None
        found = await self._find(typed)
        if self.has_focus:
            self._show(found, typed)

    def _show(self, options: Sequence[SelectOption], typed: str) -> None:
        values = [one.value for one in options]
        is_known = self.value in values
        if self._is_free and typed.strip() and options and not is_known:
            options = [*options, SelectOption(value=typed, words=_AS_TYPED)]
        self._shown = tuple(options)
        self._at = values.index(self.value) if is_known else _find_best(options, typed)
        if not options and self._is_free:
            self._hide()
            return
        if self._list is None:
            self._list = SelectList(self._choose)
            signal = self.screen.screen_layout_refresh_signal  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            signal.subscribe(self, self._follow)  # pyright: ignore[reportUnknownMemberType]
            # On the screen itself: elsewhere a click on it would move the focus, or be clipped.
            self.screen.mount(self._list)
        self._list.show(self._shown, self._at, self)

    def _follow(self, _: object) -> None:
        """The screen was laid out anew."""
        if self._list is not None:
            self._list.follow(self)

    def _move(self, at: int) -> None:
        self._at, self._is_moved = at, True
        if self._list is not None:
            self._list.move(at)

    def _choose(self, at: int) -> None:
        if at >= len(self._shown):
            self.set_value(self._settled)
            return
        option = self._shown[at]
        if option.problem:
            self.set_value(self._settled)
            self.post_message(self.Refused(self, option))
        else:
            self._take(option.value)

    def _take(self, value: str) -> None:
        is_other = value != self._settled
        self.set_value(value)
        self.action_end()
        if not self._is_free:
            self.select_all()
        if is_other:
            self.post_message(self.Taken(self, value))

    def _close(self) -> None:
        self._is_typed = self._is_moved = False
        self._hide()

    def _hide(self) -> None:
        if self._search is not None:
            self._search.cancel()
        if self._list is not None:
            self._list.display = False
