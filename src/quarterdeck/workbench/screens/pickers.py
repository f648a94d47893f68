"""Screens to choose from a list: layouts, prompts, terminals, themes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.errors import QuarterdeckError

from ..preferences.themes.apply import ThemeError, apply_theme
from ..preferences.themes.files import FoundTheme
from ..rendering.glyphs import FAILED, RUNNING, STOPPED
from ..rendering.lines import Line
from ..sanitize import sanitize_line, sanitize_text
from ..terminal.command_line import format_command_line
from ..widgets.picker import Picker
from ..widgets.transcript_position import read_prompts

if TYPE_CHECKING:
    from textual.app import App
    from textual.timer import Timer

    from quarterdeck.fleet.terminals.api import TerminalInfo

    from ..stores.blocks import PromptBlock
    from ..stores.transcript import TranscriptStore

__all__ = ["LayoutsScreen", "PromptsScreen", "TerminalsScreen", "ThemeChoice", "ThemesScreen"]


class _Layouts(Picker):
    def __init__(self, layouts: Sequence[dict[str, Any]]) -> None:
        super().__init__(id="layouts")
        self._layouts = layouts
        self.cursor = layouts[0]["name"] if layouts else None

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [
            (
                one["name"],
                (
                    (f"{sanitize_line(one['name'], 24):<26}", "strong"),
                    (f"{one['scope']:<10}", "faint"),
                    (sanitize_line(one["help"]), "text"),
                ),
            )
            for one in self._layouts
        ]


class LayoutsScreen(ModalScreen[str | None]):
    """Gives the name of a layout, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "cancel")]

    def __init__(self, layouts: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self._layouts = layouts

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "layouts"
            box.border_subtitle = "enter load · esc cancel · /layout save NAME saves this one"
            yield _Layouts(self._layouts)

    def on_mount(self) -> None:
        """Let keys choose."""
        self.query_one(_Layouts).focus()

    @on(Picker.Chosen, "#layouts")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        self.dismiss(event.key)


class _Prompts(Picker):
    def __init__(self) -> None:
        super().__init__(id="prompts")
        self.prompts: list[PromptBlock] = []

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [(str(prompt.first), _prompt_line(prompt)) for prompt in self.prompts]


def _prompt_line(prompt: "PromptBlock") -> Line:
    origin = "" if prompt.origin == "person" else f"({prompt.origin}) "
    words = sanitize_line(prompt.text.strip().split("\n")[0], 300)
    clock = format_local_time(prompt.time, "%d %b %H:%M").lstrip("0") if prompt.time else ""
    return ((f"{clock:>12} ", "faint"), (f"{origin}{words}", "text"))


class PromptsScreen(ModalScreen[int | None]):
    """Gives the record of a prompt to go to, or None.

    Args:
        store: the transcript; its earlier prompts are read while the list is shown.
        here: the record at the top of the view: the cursor is on the prompt before that.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,p", "dismiss(None)", "cancel")]

    def __init__(self, store: "TranscriptStore", here: int) -> None:
        super().__init__()
        self._store = store
        self._here = here

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "prompts"
            box.border_subtitle = "enter go to · esc cancel"
            yield _Prompts()

    def on_mount(self) -> None:
        """Let keys choose, and read."""
        self.query_one(_Prompts).focus()
        self.run_worker(self._read, group="prompts")

    async def _read(self) -> None:
        rows = self.query_one(_Prompts)
        try:
            async for found in read_prompts(self._store):
                known = {prompt.first: prompt for prompt in (*rows.prompts, *found)}
                rows.prompts = [known[seq] for seq in sorted(known)]
                rows.update()
                earlier = [seq for seq in known if seq <= self._here]
                if rows.cursor is None and known:
                    rows.place(str(max(earlier, default=min(known))))
        except QuarterdeckError as error:
            self.notify(sanitize_text(str(error)), severity="error", markup=False)

    @on(Picker.Chosen, "#prompts")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        self.dismiss(int(event.key))


class _Terminals(Picker):
    def __init__(self, terminals: "Sequence[TerminalInfo]") -> None:
        super().__init__(id="terminals")
        self._terminals = terminals
        self.cursor = terminals[0].id if terminals else None

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [(one.id, _line(one)) for one in self._terminals]


def _line(one: "TerminalInfo") -> Line:
    what = one.title or format_command_line(one.command)
    is_over = one.ended is not None
    state = "ended" if is_over else "running"
    kind = f"agent, {state}" if one.session is not None else state
    return (
        (f"{STOPPED if is_over else RUNNING} ", "faint" if is_over else "running"),
        (f"{sanitize_line(one.name, 16):<18}", "strong"),
        (f"{kind:<15}", "faint"),
        (sanitize_line(what, 60), "text"),
        (f"  {sanitize_line(one.cwd, 200)}", "faint"),
    )


class TerminalsScreen(ModalScreen[tuple[str, bool] | None]):
    """Gives the id of a terminal and whether it is to be ended; None: nothing is to be done."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "cancel"),
        Binding("x", "end", "end it"),
    ]

    def __init__(self, terminals: "Sequence[TerminalInfo]") -> None:
        super().__init__()
        self._terminals = terminals

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "terminals"
            box.border_subtitle = "enter show · x end · esc cancel"
            yield _Terminals(self._terminals)

    def on_mount(self) -> None:
        """Let keys choose."""
        self.query_one(_Terminals).focus()

    @on(Picker.Chosen, "#terminals")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        self.dismiss((event.key, False))

    def action_end(self) -> None:
        """End the program of the row."""
        chosen = self.query_one(_Terminals).cursor
        if chosen is not None:
            self.dismiss((chosen, True))


_PAUSE = 0.08
"""Seconds that the cursor stays before a theme is put on: who passes by need not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThemeChoice:
    """What the person took."""

    found_theme: FoundTheme
    here: bool
    """For this directory alone."""


class _Themes(Picker):
    def __init__(self, found_theme: Sequence[FoundTheme]) -> None:
        super().__init__(id="themes")
        self.errors = {one.name: one.error for one in found_theme if one.error}
        self._found_themes = found_theme

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        rows: list[tuple[str, Line]] = []
        for one in self._found_themes:
            error = self.errors.get(one.name)
            help_text = one.theme.help if one.theme is not None and error is None else ""
            rows.append(
                (
                    one.name,
                    (
                        (f"{sanitize_line(one.name, 20):<14}", "strong"),
                        (f" {one.scope:<9} ", "faint"),
                        (
                            f"{FAILED} {sanitize_line(error)}"
                            if error
                            else sanitize_line(help_text),
                            _role(error),
                        ),
                    ),
                )
            )
        return rows


def _role(error: str | None) -> str:
    return "bad" if error else "text"


class ThemesScreen(ModalScreen[ThemeChoice | None]):
    """Gives the theme that was taken; with None everything looks as before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f9", "leave", "cancel"),
        Binding("h", "take(True)", "use it for this directory only"),
    ]

    def __init__(self, found_theme: Sequence[FoundTheme]) -> None:
        super().__init__()
        self._by_name = {one.name: one for one in found_theme}
        self._found_themes = found_theme
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "themes"
            box.border_subtitle = "enter use · h use for this directory · esc cancel"
            yield _Themes(self._found_themes)

    def on_mount(self) -> None:
        """Begin at what is worn."""
        self._app: App[Any] = cast("Any", super()).app
        self._before = self._by_name.get(self._app.theme)
        self._shown_theme = self._app.theme
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
        found_theme = self._by_name.get(self._themes.cursor or "")
        if found_theme is not None and self._show():
            self.dismiss(ThemeChoice(found_theme=found_theme, here=here))

    def action_leave(self) -> None:
        """Put on again what was worn before."""
        if self._timer is not None:
            self._timer.stop()
        if self._before is not None and self._shown_theme != self._before.name:
            apply_theme(self._app, self._before)
        self.dismiss(None)

    def _show(self) -> bool:
        found_theme = self._by_name.get(self._themes.cursor or "")
        if found_theme is None:
            return False
        if found_theme.name == self._shown_theme:
            return True
        try:
            apply_theme(self._app, found_theme)
        except ThemeError as error:
            self._themes.errors[found_theme.name] = str(error)
            self._themes.update()
            return False
        self._shown_theme = found_theme.name
        return True
