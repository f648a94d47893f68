"""Rows of a terminal as segments: what a program draws, with nothing in it that could act.

What stands in a row has come through an emulator, so no control character is in it. What is left
can still shift or turn what is beside it: marks of direction, joined pictures, characters of which
every terminal has its own opinion how wide they are. Each character gets exactly the cells that the
emulator gave it.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle

from quarterdeck.drivers.screen.port import Color, Row, Style

__all__ = ["Drawer", "cells_of", "drawn_text"]

_MOST_MARKS = 3
"""Accents over one letter; more than any language writes would climb over other rows."""
_MOST_KEPT = 4_096
_SIMPLE = re.compile("[ -~─-╿▀-▟¡-¬®-ſ]*")
"""What is one cell in every terminal: Latin letters, lines and blocks."""
_FLAG = range(0x1F1E6, 0x1F200)
_TONE = range(0x1F3FB, 0x1F400)


def cells_of(character: str) -> int:
    """The cells that an emulator gives to a character of its own."""
    point = ord(character)
    if point < 0x300:
        return 1
    if point in _FLAG or point in _TONE:
        return 2  # other tables join them with what is beside
    return cell_len(character)


def drawn_text(text: str) -> str:
    """The text as it is drawn: as many cells as the emulator gave it, whoever counts them."""
    if _SIMPLE.fullmatch(text):
        return text
    return "".join(_clusters(text))


def _clusters(text: str) -> Iterator[str]:
    marks = 0
    flag = ""
    for character in text:
        point = ord(character)
        if flag:
            yield f"{flag}{character}  " if point in _FLAG else _letter(flag)
            is_pair, flag = point in _FLAG, ""
            if is_pair:
                marks = 0
                continue
        if point in _FLAG:
            flag = character
            continue
        if cells_of(character) == 0:
            marks += 1
            if marks <= _MOST_MARKS and unicodedata.category(character) in ("Mn", "Me"):
                yield "" if "\ufe00" <= character <= "\ufe0f" else character
            continue
        marks = 0
        yield _shown(character, point)
    if flag:
        yield _letter(flag)


def _letter(flag: str) -> str:
    """Half a flag: its letter."""
    return chr(ord(flag) - _FLAG.start + ord("A")) + " "


def _shown(character: str, point: int) -> str:
    if point in _TONE or point == 0x2800:
        return "  " if point in _TONE else " "
    if point == 0xAD:
        return "-"
    category = unicodedata.category(character)
    if category in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp"):
        return "\ufffd" * cells_of(character)
    return character


class Drawer:
    """Makes segments of rows; keeps the styles that it has met.

    Args:
        ground: the colours of a terminal that was told none.
    """

    def __init__(self, ground: Callable[[], RichStyle]) -> None:
        self._ground = ground
        self._base: RichStyle | None = None
        self._styles: dict[Style, RichStyle] = {}

    @property
    def base(self) -> RichStyle:
        """How a cell looks to which nothing was said."""
        if self._base is None:
            self._base = self._ground()
        return self._base

    def forget(self) -> None:
        """The colours around are others now."""
        self._base = None
        self._styles.clear()

    def segments(self, row: Row) -> list[Segment]:
        """The row, without what is blank at its end."""
        return [
            Segment(
                " " * _width(span.text) if span.style.invisible else drawn_text(span.text),
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


def _width(text: str) -> int:
    return cell_len(drawn_text(text))
