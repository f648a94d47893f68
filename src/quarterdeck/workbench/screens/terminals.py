"""Choosing a terminal of the host."""

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ..literal import one_line
from ..rendering.lines import Line
from ..terminals.wishes import spoken
from ..widgets.picker import Picker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.fleet.terminal_port import TerminalInfo

__all__ = ["TerminalsScreen"]


class _Terminals(Picker):
    def __init__(self, terminals: "Sequence[TerminalInfo]") -> None:
        super().__init__(id="terminals")
        self._terminals = terminals
        self.cursor = terminals[0].id if terminals else None

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [(one.id, _line(one)) for one in self._terminals]


def _line(one: "TerminalInfo") -> Line:
    what = one.title or spoken(one.command)
    state = "runs" if one.ended is None else "ended"
    kind = "agent" if one.session is not None else state
    return (
        (f"{one_line(one.name, 16):<18}", "strong"),
        (f"{kind:<7}", "faint" if one.ended is None else "warning"),
        (one_line(what, 60), "text"),
        (f"  {one_line(one.cwd, 200)}", "faint"),
    )


class TerminalsScreen(ModalScreen[tuple[str, bool] | None]):
    """Gives the id of a terminal and whether it shall be ended; None: nothing shall be done."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "leave"),
        Binding("x", "end", "end it"),
    ]

    def __init__(self, terminals: "Sequence[TerminalInfo]") -> None:
        super().__init__()
        self._terminals = terminals

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "terminals"
            box.border_subtitle = "enter shows it · x ends it · esc leaves"
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
