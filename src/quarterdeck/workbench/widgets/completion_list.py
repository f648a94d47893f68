"""What a word can become, in a list above the input."""

from collections.abc import Callable, Sequence

from textual import on
from textual.geometry import Offset

from ..completion import CompletionChoice
from ..rendering.lines import Line, Span, width_of
from ..sanitize import sanitize_line
from .picker import Picker

__all__ = ["CompletionList"]

_MOST_ROWS = 8


class CompletionList(Picker, can_focus=False):
    """Offers to choose from; the input keeps the keys, and a click chooses too."""

    def __init__(self) -> None:
        super().__init__(classes="completion")
        self.offers: Sequence[CompletionChoice] = ()
        self.offer_to: Callable[[CompletionChoice], None] = lambda _: None
        """Called with what was clicked."""
        self.display = False

    @property
    def chosen(self) -> CompletionChoice | None:
        """The offer under the cursor."""
        at = int(self.cursor or 0)
        return self.offers[at] if self.display and at < len(self.offers) else None

    def show(self, offers: Sequence[CompletionChoice], above: Offset) -> None:
        """Show offers above a place of the screen; nothing if there are none."""
        self.offers = offers
        self.cursor = "0"
        self.display = bool(offers)
        if not offers:
            return
        rows = max(1, min(len(offers), _MOST_ROWS, above.y))
        widest = max(width_of(_line(offer)) for offer in offers) + 2
        width = min(widest, self.screen.size.width)
        self.styles.height, self.styles.width = rows, width
        x = max(0, min(above.x, self.screen.size.width - width))
        self.absolute_offset = Offset(x, max(0, above.y - rows))
        self.update()
        self.scroll_to(y=0, animate=False)

    def hide(self) -> None:
        """Offer nothing."""
        self.show((), Offset())

    @on(Picker.Chosen)
    def _clicked(self, event: Picker.Chosen) -> None:
        event.stop()
        if (chosen := self.chosen) is not None:
            self.offer_to(chosen)

    @on(Picker.Moved)
    def _moved(self, event: Picker.Moved) -> None:
        event.stop()

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [(str(at), _line(offer)) for at, offer in enumerate(self.offers)]


def _line(offer: CompletionChoice) -> Line:
    spans: list[Span] = [(sanitize_line(offer.name, 200), "key")]
    if offer.origin:
        spans.append((f" ({sanitize_line(offer.origin, 30)})", "faint"))
    if offer.help:
        spans.append((f"  {sanitize_line(offer.help, 200)}", "text"))
    return tuple(spans)
