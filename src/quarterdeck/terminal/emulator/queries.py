"""What programs ask their terminal, and the answers, for an emulator that gives none itself.

A program that asks and gets no answer waits, some of them for seconds and some for ever.
"""

import re
from collections.abc import Iterator

from .api import CursorShape, GridCursor, TerminalModes, mouse_of

__all__ = ["CLEAR_TAB", "SOFT_RESET", "QueryResponder"]

SOFT_RESET, CLEAR_TAB = b"\x1b[!p", b"\x1b[g"

_LONGEST = 256
"""Bytes of a sequence that is not complete yet; a longer one asks nothing."""
_CELL_WIDTH, _CELL_HEIGHT = 8, 16
_KNOWN = frozenset((1, 6, 7, 9, 25, 47, 1000, 1002, 1003, 1004, 1006, 1047, 1048, 1049, 2004, 2026))
_ON_AT_FIRST: frozenset[int] = frozenset((7, 25))
_OFF_SOFTLY = frozenset((1, 6))
_SHAPES: dict[str, CursorShape] = {"3": "underline", "4": "underline", "5": "bar", "6": "bar"}
_ALTERNATE = frozenset((47, 1047, 1049))

_CSI = rb"\x1b\[(?P<private>[?>=<]?)(?P<numbers>[0-9;]*)(?P<last>\$?[cnpqtuhl])"
_SHAPE = rb"\x1b\[(?P<shape>[0-9]?) q"
_ORDERS = rb"\x1b(?:c|\[!p|\[g)"
_OSC = rb"\x1b\](?P<color>1[01]);\?(?P<end>\x07|\x1b\\)"
_TITLE = rb"\x1b\][02];(?P<title>[^\x07\x1b]{0,200})(?:\x07|\x1b\\)"
_EVERYTHING = re.compile(rb"|".join((_CSI, _OSC, _TITLE, _SHAPE, _ORDERS)))
# One beginning for all of them: alternatives from the first byte on would be six times slower.
_FOR_WINDOWS = re.compile(
    rb"\x1b(?:\[(?:(?P<private>\??)(?P<numbers>14|16|18|996)(?P<last>[tn])"
    rb"|(?P<shape>[0-9]?) q|!p|g)|c)"
)
_WHOLE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[^\[\]PX^_])"
)

_STRINGS = (b"]", b"P", b"X", b"^", b"_")
_COLORS = {b"10": b"d0d0/d0d0/d0d0", b"11": b"1010/1010/1010"}
_FIXED = {
    ("", "5", "n"): b"\x1b[0n",
    ("", "", "c"): b"\x1b[?62;22c",
    ("", "0", "c"): b"\x1b[?62;22c",
    (">", "", "c"): b"\x1b[>1;0;0c",
    (">", "0", "c"): b"\x1b[>1;0;0c",
    ("=", "", "c"): b"\x1bP!|00000000\x1b\\",
    (">", "", "q"): b"\x1bP>|quarterdeck\x1b\\",
    (">", "0", "q"): b"\x1bP>|quarterdeck\x1b\\",
    ("", "16", "t"): b"\x1b[6;16;8t",
    ("?", "996", "n"): b"\x1b[?997;1n",
}


class QueryResponder:
    """Finds queries in what a program writes, wherever it is cut, and knows the answers.

    It also keeps the modes and the title, for an emulator that does not expose them. With
    ``windowed`` it only looks for what needs a window: sizes in pixels, the colour scheme, and the
    cursor's shape.
    """

    def __init__(self, *, windowed: bool = False) -> None:
        self._pattern = _FOR_WINDOWS if windowed else _EVERYTHING
        self._tail = b""
        self._on: set[int] = set(_ON_AT_FIRST)
        self._keyboard = [0]
        self.title = ""
        self._shape = ""

    @property
    def modes(self) -> TerminalModes:
        """What the program has asked for."""
        return TerminalModes(
            alternate_screen=bool(self._on & _ALTERNATE),
            bracketed_paste=2004 in self._on,
            application_cursor=1 in self._on,
            mouse=mouse_of(self._on),
            mouse_sgr=1006 in self._on,
            focus=1004 in self._on,
            synchronized=2026 in self._on,
            kitty_keyboard=self._keyboard[-1],
        )

    @property
    def shape(self) -> CursorShape:
        """The cursor's."""
        return _SHAPES.get(self._shape, "block")

    @property
    def shaped(self) -> str:
        """What gives the cursor its shape; empty if the program never did."""
        return f"\x1b[{self._shape} q" if self._shape else ""

    @property
    def keyboard(self) -> str:
        """What sets the flags of the keyboard protocol, with those below them."""
        bottom, *above = self._keyboard
        if not above and not bottom:
            return ""
        return f"\x1b[={bottom}u" + "".join(f"\x1b[>{flags}u" for flags in above)

    @property
    def on(self) -> frozenset[int]:
        """The private modes that are on."""
        return frozenset(self._on)

    def split(self, data: bytes) -> Iterator[tuple[bytes, "re.Match[bytes] | None"]]:
        """The same bytes in pieces: each but the last is followed by something that was asked."""
        if not self._tail and b"\x1b" not in data:
            yield data, None
            return
        whole, begun = self._tail + data, len(self._tail)
        done = begun
        for found in self._pattern.finditer(whole):
            if found.end() > begun:
                yield whole[done : found.end()], found
                done = found.end()
        self._tail = _unfinished(whole)
        yield whole[done:], None

    def answer(self, found: "re.Match[bytes]", size: tuple[int, int], cursor: GridCursor) -> bytes:
        """What to write back, if anything: many sequences are orders, which are kept in mind."""
        groups = found.groupdict()
        if groups.get("color"):
            color, end = groups["color"], groups["end"]
            return b"\x1b]" + color + b";rgb:" + _COLORS[color] + end
        if groups["last"] is None:
            self._keep_in_mind(groups, found[0])
            return b""
        private = groups["private"].decode()
        numbers, last = groups["numbers"].decode(), groups["last"].decode()
        if fixed := _FIXED.get((private, numbers, last)):
            return fixed
        return self._changing(private, numbers, last, size, cursor)

    def _keep_in_mind(self, groups: "dict[str, bytes | None]", order: bytes) -> None:
        if (title := groups.get("title")) is not None:
            self.title = title.decode("utf-8", "replace")
        elif (shape := groups["shape"]) is not None:
            self._shape = shape.decode()
        elif order == CLEAR_TAB:
            pass
        elif order == SOFT_RESET:
            self._on = self._on - _OFF_SOFTLY | _ON_AT_FIRST
        else:
            self._on, self._keyboard, self._shape = set[int](_ON_AT_FIRST), [0], ""

    def _changing(
        self, private: str, numbers: str, last: str, size: tuple[int, int], cursor: GridCursor
    ) -> bytes:
        columns, rows = size
        match private, numbers, last:
            case "" | "?", "6", "n":
                return f"\x1b[{private}{cursor.row + 1};{cursor.column + 1}R".encode()
            case "", "14", "t":
                return f"\x1b[4;{rows * _CELL_HEIGHT};{columns * _CELL_WIDTH}t".encode()
            case "", "18", "t":
                return f"\x1b[8;{rows};{columns}t".encode()
            case "?", number, "$p" if number.isdigit():
                return f"\x1b[?{number};{self._mode_report(int(number))}$y".encode()
            case "?", _, "h" | "l":
                self._switch(numbers, last == "h")
            case _, _, "u":
                return self._keys(private, numbers)
            case _:
                pass
        return b""

    def _mode_report(self, mode: int) -> int:
        if mode not in _KNOWN:
            return 0
        return 1 if mode in self._on else 2

    def _switch(self, numbers: str, is_on: bool) -> None:
        for number in numbers.split(";"):
            if number.isdigit() and int(number) in _KNOWN:
                (self._on.add if is_on else self._on.discard)(int(number))
                if not is_on and int(number) in _ALTERNATE:
                    self._on -= _ALTERNATE

    def _keys(self, private: str, numbers: str) -> bytes:
        """The keyboard protocol of kitty: a stack of flags."""
        first = int(numbers.split(";")[0] or 0) & 31
        match private:
            case "?":
                return f"\x1b[?{self._keyboard[-1]}u".encode()
            case ">":
                self._keyboard = [*self._keyboard[-15:], first]
            case "<":
                left = self._keyboard[: -max(first, 1)]
                self._keyboard = left or [0]
            case "=":
                self._keyboard[-1] = first
            case _:  # restores the cursor
                pass
        return b""


def _unfinished(data: bytes) -> bytes:
    """A sequence at the end that may go on in the next bytes."""
    begun = data.rfind(b"\x1b")
    if begun > 0 and data[begun:] == b"\x1b":  # it may be the first half of the end of a string
        before = data.rfind(b"\x1b", 0, begun)
        if before >= 0 and data[before + 1 : before + 2] in _STRINGS:
            begun = begun if _WHOLE.match(data, before) else before
    if begun < 0 or len(data) - begun > _LONGEST or _WHOLE.match(data, begun):
        return b""
    return data[begun:]
