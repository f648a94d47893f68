"""A list of themes; each is put on while the cursor is on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ..literal import one_line
from ..rendering.lines import Line
from ..themes.shelf import Shelved
from ..themes.wearing import BadTheme, wear
from ..widgets.picker import Picker

if TYPE_CHECKING:
    from textual.app import App
    from textual.timer import Timer

__all__ = ["ThemeChoice", "ThemesScreen"]

_PAUSE = 0.08
"""Seconds that the cursor stays before a theme is put on: who passes by need not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThemeChoice:
    """What the person took."""

    shelved: Shelved
    here: bool
    """For this directory alone."""


class _Themes(Picker):
    def __init__(self, shelved: Sequence[Shelved]) -> None:
        super().__init__(id="themes")
        self.errors = {one.name: one.error for one in shelved if one.error}
        self._shelved = shelved

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        rows: list[tuple[str, Line]] = []
        for one in self._shelved:
            error = self.errors.get(one.name)
            told = one.theme.help if one.theme is not None and error is None else ""
            rows.append(
                (
                    one.name,
                    (
                        (f"{one_line(one.name, 20):<14}", "strong"),
                        (f" {one.scope:<9} ", "faint"),
                        (f"✗ {one_line(error)}" if error else one_line(told), _role(error)),
                    ),
                )
            )
        return rows


def _role(error: str | None) -> str:
    return "bad" if error else "text"


class ThemesScreen(ModalScreen[ThemeChoice | None]):
    """Gives the theme that was taken; with None everything looks as before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f9", "leave", "leave everything as it was"),
        Binding("h", "take(True)", "take it for this directory alone"),
    ]

    def __init__(self, shelved: Sequence[Shelved]) -> None:
        super().__init__()
        self._by_name = {one.name: one for one in shelved}
        self._shelved = shelved
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "themes"
            box.border_subtitle = "enter takes it · h for here alone · esc"
            yield _Themes(self._shelved)

    def on_mount(self) -> None:
        """Begin at what is worn."""
        self._app: App[Any] = cast("Any", super()).app
        self._before = self._by_name.get(self._app.theme)
        self._worn = self._app.theme
        self._themes = self.query_one(_Themes)
        self._themes.focus()
        self._themes.place(self._app.theme)

    @on(Picker.Moved)
    def _moved(self, event: Picker.Moved) -> None:
        event.stop()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_PAUSE, self._show)

    @on(Picker.Chosen)
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        self.action_take(False)

    def action_take(self, here: bool) -> None:
        """Keep what the cursor is on, if it can be worn."""
        shelved = self._by_name.get(self._themes.cursor or "")
        if shelved is not None and self._show():
            self.dismiss(ThemeChoice(shelved=shelved, here=here))

    def action_leave(self) -> None:
        """Put on again what was worn before."""
        if self._timer is not None:
            self._timer.stop()
        if self._before is not None and self._worn != self._before.name:
            wear(self._app, self._before)
        self.dismiss(None)

    def _show(self) -> bool:
        shelved = self._by_name.get(self._themes.cursor or "")
        if shelved is None:
            return False
        if shelved.name == self._worn:
            return True
        try:
            wear(self._app, shelved)
        except BadTheme as error:
            self._themes.errors[shelved.name] = str(error)
            self._themes.update()
            return False
        self._worn = shelved.name
        return True
