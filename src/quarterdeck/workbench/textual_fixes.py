"""What Textual gets wrong once in thousands of times, put right for every app of ours."""

from typing import TYPE_CHECKING, Any, cast

import textual.message_pump
import textual.screen
from textual._compositor import Compositor, ReflowResult
from textual.timer import Timer

if TYPE_CHECKING:
    from textual.geometry import Size
    from textual.widget import Widget

__all__ = ["ReliableCompositor", "ReliableTimer", "use_reliable_textual"]


class ReliableCompositor(Compositor):
    """Tells each widget its size, also one whose place was asked for between two layouts.

    Textual compares a layout with its map of the widgets. Whoever asks for the place of a new
    widget makes it work that map out anew, and the layout that follows finds no difference: the
    widget never learns its size, and one that draws what fits it stays blank. Here the comparison
    is with the layout before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._announced: dict[Widget, Size] = {}

    def reflow(self, parent: "Widget", size: "Size") -> ReflowResult:
        """Lay out; returns hidden, shown and resized widgets."""
        hidden = super().reflow(parent, size).hidden
        before = self._announced
        self._announced = {widget: place.region.size for widget, place in self._full_map.items()}
        shown = self._announced.keys() - before.keys()
        resized = {
            widget for widget, now in self._announced.items() if before.get(widget, now) != now
        }
        return ReflowResult(hidden=hidden, shown=shown, resized=resized)


class ReliableTimer(Timer):
    """Fires late rather than never, if it is to fire once.

    Textual leaves out the times that a timer has missed. One that fires once, and whose process
    has to wait for the processor between its start and the first look at the clock, then never
    fires: after a new size of the terminal, the screen would keep the old one for ever.
    """

    def __init__(self, *given: Any, repeat: int | None = None, **named: Any) -> None:
        super().__init__(*given, repeat=repeat, skip=repeat != 0, **named)


def use_reliable_textual() -> None:
    """Let every screen and timer that is made from now on be of these kinds."""
    cast("Any", textual.screen).Compositor = ReliableCompositor
    cast("Any", textual.message_pump).Timer = ReliableTimer
