"""Foreign text on a screen of cells: nothing in it is hidden, and none of it has any power.

Stricter than ``wire.shown``, which writes to a plain terminal: here a character whose width is
measured differently by different terminals would shift everything beside it.
"""

import re
import unicodedata
from functools import cache

__all__ = ["sanitize_line", "sanitize_text"]

_TAB = "    "
_EMOJI_STYLE = "\ufe0f"
_JOINER = "\u200d"
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
"""Letters without a shape."""
# After a symbol the style mark says only that it is a picture, and the joiner that it is one with
# the next: leaving them out hides no meaning and keeps the width certain.
_PICTURE_MARKS = r"(?<=[^\x00-\u203b])[\ufe0f\u200d]+(?=[^\x00-\u203b]|\s|$)|\ufe0f"
_PILES = "(?:[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]){4,}"
"""More marks over one letter than any language writes."""


class _Table(dict[int, str]):
    """What each character is shown as, worked out when it is first met."""

    def __missing__(self, point: int) -> str:
        character = chr(point)
        shown = character if _is_plain(character) else _escaped(character)
        if len(self) < 20_000:
            self[point] = shown
        return shown


def _is_plain(character: str) -> bool:
    if character == "\n":
        return True
    if character in _BLANK_LETTERS or "\ufe00" <= character <= "\ufe0f":
        return False
    if "\U000e0100" <= character <= "\U000e01ef":
        return False
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


_table = _Table()


def sanitize_text(text: str) -> str:
    r"""The text with everything invisible or powerful as an escape; lines end with ``\n`` only.

    Control characters, marks of direction, characters without width, letters without a shape and
    piles of accents are escaped; a tab is four spaces; ``\r\n`` is one end of line.
    """
    if text.isascii():
        if text.isprintable():
            return text
        return text.replace("\r\n", "\n").replace("\t", _TAB).translate(_table)
    text = text.replace("\r\n", "\n").replace("\t", _TAB)
    if _EMOJI_STYLE in text or _JOINER in text:
        text = _compile(_PICTURE_MARKS).sub("", text)
    return _compile(_PILES).sub(lambda pile: _pile(pile.group()), text.translate(_table))


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """A pattern, compiled when it is first needed: that takes a millisecond of the start."""
    return re.compile(pattern)


def sanitize_line(text: str, most: int = 500) -> str:
    """The same in one line of at most so many characters: white space becomes one space."""
    words = sanitize_text(" ".join(text[: most * 4].split()))
    is_cut = len(words) > most or len(text) > most * 4
    return words[:most] + "…" if is_cut else words


def _pile(marks: str) -> str:
    return marks[:3] + "".join(_escaped(mark) for mark in marks[3:])
