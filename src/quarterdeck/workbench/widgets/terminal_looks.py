"""How rows of a terminal become lines of a widget."""

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.strip import Strip

from quarterdeck.drivers.screen.port import Row

from ..terminals.drawing import Drawer

__all__ = ["Strips", "over"]

_MOST_KEPT = 1_024


class Strips:
    """Lines by the row that they show: a row that did not change, or moved, is not made again."""

    def __init__(self, drawer: Drawer) -> None:
        self._drawer = drawer
        self._kept: dict[int, tuple[Row, Strip]] = {}
        """By the row's identity; the row is held, so that no other gets its number."""

    def of(self, row: Row) -> Strip:
        """The line of a row, as long as the row is."""
        found = self._kept.get(id(row))
        if found is not None and found[0] is row:
            return found[1]
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        strip = Strip(self._drawer.segments(row))
        self._kept[id(row)] = row, strip
        return strip

    def fitted(self, row: Row, left: int, width: int) -> Strip:
        """The line from a column on, exactly so wide."""
        strip = self.of(row)
        if left:
            strip = strip.crop(left, left + width)
        return strip.adjust_cell_length(width, self._drawer.base)

    def forget(self) -> None:
        """Everything looks different now."""
        self._kept.clear()
        self._drawer.forget()


def over(strip: Strip, begin: int, end: int, style: RichStyle, *, turns: bool = False) -> Strip:
    """The line with some cells in another style; ``turns``: those that are inverse are not."""
    begin, end = max(begin, 0), min(end, strip.cell_length)
    if begin >= end:
        return strip
    middle: list[Segment] = []
    for text, old, control in strip.crop(begin, end):
        look = (old + style) if old is not None else style
        if turns and old is not None and old.reverse:
            look += RichStyle(reverse=False)
        middle.append(Segment(text, look, control))
    changed = Strip(middle, end - begin)
    return Strip.join([strip.crop(0, begin), changed, strip.crop(end)])
