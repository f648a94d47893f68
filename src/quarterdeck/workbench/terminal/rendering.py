"""Rows of a terminal as segments and strips: what a program draws, with nothing in it that could
act.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

from rich.cells import cell_len, split_graphemes
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.strip import Strip

from quarterdeck.terminal.emulator.api import Color, GridRow, Style

__all__ = ["RowRenderer", "StripCache", "find_graphemes", "overlay_style", "render_text"]

_MOST_MARKS = 3
"""Accents over one letter; more than any language writes would climb over other rows."""
_MOST_KEPT = 4_096
_SIMPLE = re.compile("[ -~─-╿▀-▟¡-¬®-ſ]*")
"""What is one cell in every terminal: Latin letters, lines and blocks."""
_FLAGS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
_POWERFUL = frozenset(("Cc", "Cf", "Cs", "Cn", "Zl", "Zp"))
_SHOWN_AS = {"\u2800": " ", "\u00ad": "-"}
"""Braille without a dot, which is drawn in graphs; a hyphen that terminals show or not."""


def find_graphemes(text: str) -> Iterator[tuple[str, int]]:
    """What people take for one character, and the cells that the emulator gave to it."""
    if _SIMPLE.fullmatch(text):
        for character in text:
            yield character, 1
        return
    flag = ""
    for begin, end, width in split_graphemes(text)[0]:
        cluster = text[begin:end]
        if cluster[0] in _FLAGS:  # two of them are one, and one alone is as wide
            flag += cluster
            if len(flag) > 1:
                yield flag, 2
                flag = ""
            continue
        if flag:
            yield flag, 2
            flag = ""
        yield from _toned(cluster, width)
    if flag:
        yield flag, 2


def _toned(cluster: str, width: int) -> Iterator[tuple[str, int]]:
    """A colour of skin where there is no skin is a picture of its own."""
    at = next((n for n, one in enumerate(cluster) if one in _TONES), None)
    if at is None or width == 2:
        yield cluster, width
        return
    if at:
        yield cluster[:at], width
    yield cluster[at:], 2


def render_text(text: str) -> str:
    """The text as it is drawn: as many cells as the emulator gave it, no matter who counts them."""
    if _SIMPLE.fullmatch(text):
        return text
    return "".join([_drawn(cluster, width) for cluster, width in find_graphemes(text)])


def _drawn(cluster: str, width: int) -> str:
    """Of joined pictures the first, of accents the first few; blanks for what is left."""
    if not width:
        return ""
    first = cluster[0]
    if first in _FLAGS and len(cluster) > 1:
        return cluster
    if first in _TONES:
        return " " * width
    if first in _SHOWN_AS:
        return _SHOWN_AS[first]
    if unicodedata.category(first) in _POWERFUL:
        return "\ufffd" * width
    marks = [
        one
        for one in cluster[1:]
        if unicodedata.category(one) in ("Mn", "Me") and not "\ufe00" <= one <= "\ufe0f"
    ]
    shown = first + "".join(marks[:_MOST_MARKS])
    return shown + " " * (width - cell_len(shown))


class RowRenderer:
    """Makes segments of rows; keeps the styles that it has met.

    Args:
        base_style: the colours of a terminal that was given none.
    """

    def __init__(self, base_style: Callable[[], RichStyle]) -> None:
        self._base_style = base_style
        self._base: RichStyle | None = None
        self._styles: dict[Style, RichStyle] = {}

    @property
    def base(self) -> RichStyle:
        """How a cell looks to which nothing was said."""
        if self._base is None:
            self._base = self._base_style()
        return self._base

    def forget(self) -> None:
        """The colours around are others now."""
        self._base = None
        self._styles.clear()

    def segments(self, row: GridRow) -> list[Segment]:
        """The row, without what is blank at its end."""
        return [
            Segment(
                " " * cell_len(span.text) if span.style.invisible else render_text(span.text),
                self.style(span.style),
            )
            for span in row.spans
        ]

    def style(self, style: Style) -> RichStyle:
        """How characters of a style look."""
        found = self._styles.get(style)
        if found is None:
            if len(self._styles) >= _MOST_KEPT:
                self._styles.clear()
            self._styles[style] = found = self.base + _rich(style)
        return found


def _rich(style: Style) -> RichStyle:
    return RichStyle(
        color=_color(style.foreground),
        bgcolor=_color(style.background),
        bold=style.bold or None,
        dim=style.faint or None,
        italic=style.italic or None,
        underline=style.underline or None,
        blink=style.blink or None,
        reverse=style.inverse or None,
        strike=style.strikethrough or None,
    )


def _color(color: Color) -> RichColor | None:
    if color is None:
        return None
    if isinstance(color, int):
        return RichColor.from_ansi(color)
    return RichColor.from_rgb(*color)


_MOST_STRIPS = 1_024


class StripCache:
    """Lines by the row that they show: a row that did not change, or moved, is not made again."""

    def __init__(self, drawer: RowRenderer) -> None:
        self._drawer = drawer
        self._strips: dict[int, tuple[GridRow, Strip]] = {}
        """By the row's identity; the row is held, so that no other gets its number."""

    def of(self, row: GridRow) -> Strip:
        """The line of a row, as long as the row is."""
        found = self._strips.get(id(row))
        if found is not None and found[0] is row:
            return found[1]
        if len(self._strips) >= _MOST_STRIPS:
            self._strips.clear()
        strip = Strip(self._drawer.segments(row))
        self._strips[id(row)] = row, strip
        return strip

    def fitted(self, row: GridRow, left: int, width: int) -> Strip:
        """The line from a column on, exactly so wide."""
        strip = self.of(row)
        if left:
            strip = strip.crop(left, left + width)
        return strip.adjust_cell_length(width, self._drawer.base)

    def forget(self) -> None:
        """Everything looks different now."""
        self._strips.clear()
        self._drawer.forget()


def overlay_style(
    strip: Strip, begin: int, end: int, style: RichStyle, *, turns: bool = False
) -> Strip:
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
