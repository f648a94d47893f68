"""The emulator over avt, for machines that libghostty-vt has no build for."""

import codecs
import logging
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from avt import Color as AvtColor
from avt import Line, Pen, Vt
from avt.util import TextUnwrapper

from .api import (
    BLANK,
    PLAIN,
    Color,
    GridChange,
    GridCursor,
    GridRow,
    GridSpan,
    RowMark,
    Style,
    TerminalModes,
)
from .queries import QueryResponder
from .sgr_rows import StyledRows, line_of

__all__ = ["AvtEmulator", "UnfinishedSequence"]

_LONGEST = 4096
"""Characters that are kept; of a longer string the beginning, which is enough to be in one."""
_BEGINNINGS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
_CSI = r"(?:\x1b\[|\x9b)[\x00-?\x7f]*[@-~]"
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x9c]*[\x07\x18\x1a\x9c]"
_OTHER = r"\x1b[\x00-/\x7f]*[0-OQ-WYZ\\`-~]"
_WHOLE = re.compile(f"{_CSI}|{_STRING}|{_OTHER}|[^\x07]*[\x18\x1a]")
_IN_A_STRING = re.compile(r"\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]")
_OBEYED = re.compile(r"[\x00-\x17\x19\x1c-\x1f]")


class UnfinishedSequence:
    """Follows what a program writes, as characters."""

    def __init__(self) -> None:
        self._tail = ""

    def take(self, text: str) -> None:
        """What the program has written next."""
        if not self._tail and not any(one in text for one in _BEGINNINGS):
            return
        text = self._tail + text
        begun = _last(text, len(text))
        if begun == len(text) - 1 and text[begun] == "\x1b":  # perhaps half the end of a string
            before = _last(text, begun)
            if before >= 0 and _IN_A_STRING.match(text, before) and not _WHOLE.match(text, before):
                begun = before
        self._tail = "" if _WHOLE.match(text, begun) else _short(text[begun:])

    @property
    def text(self) -> str:
        """What brings a terminal into the middle of the sequence; nothing outside one.

        Within one, controls are obeyed at once, and so not repeated.
        """
        if _IN_A_STRING.match(self._tail):
            return self._tail
        return _OBEYED.sub("", self._tail)


def _last(text: str, end: int) -> int:
    return max(text.rfind(one, 0, end) for one in _BEGINNINGS)


def _short(tail: str) -> str:
    """Not too much of it, but its end where that is half of the end of a string."""
    if len(tail) <= _LONGEST:
        return tail
    return tail[:_LONGEST] + ("\x1b" if tail.endswith("\x1b") else "")


# Its names come from a compiled module.
# pyright: reportPrivateImportUsage=false


_log = logging.getLogger(__name__)

_Job: TypeAlias = Callable[[Vt], tuple[Sequence[int], list[Line]]]
_MOST_BYTES = 512 * 1024
"""Of what is above the screen, in a snapshot."""


class _AvtMark:
    """A row, counted from the first that there ever was."""

    def __init__(self, row: int) -> None:
        self.row = row

    def release(self) -> None:
        """Nothing is held."""


class AvtEmulator:
    """The ``Emulator`` port over avt."""

    backend = "avt"

    def __init__(self, columns: int, rows: int, scrollback: int) -> None:
        self._vt = Vt(columns, rows, scrollback)
        self._size = columns, rows
        self._scrollback = scrollback
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._listener = QueryResponder()
        self._unfinished = UnfinishedSequence()
        self._rows = StyledRows(rows)
        self._stale: set[int] = set(range(rows))
        self._dropped = 0

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._size

    @property
    def cursor(self) -> GridCursor:
        """Where it is; never beyond the last column, where avt waits before it wraps."""
        found = self._vt.cursor
        column = min(found.col, self._size[0] - 1)
        return GridCursor(column, found.row, found.visible, self._listener.shape)

    @property
    def modes(self) -> TerminalModes:
        """What the program has asked for."""
        return self._listener.modes

    @property
    def title(self) -> str:
        """The window's title."""
        return self._listener.title

    @property
    def scrolled(self) -> int:
        """Rows that are kept above the screen."""
        return max(len(self._vt.lines()) - self._size[1], 0)

    def feed(self, data: bytes) -> bytes:
        """Take what the program has written; returns what has to be written back to it."""
        answers: list[bytes] = []
        for piece, query in self._listener.split(data.replace(b"\x7f", b"")):
            if text := self._decoder.decode(piece):
                self._unfinished.take(text)
                self._run(lambda vt, text=text: vt.feed_str(text))
            if query is not None:
                answers.append(self._listener.answer(query, self._size, self.cursor))
        return b"".join(answers)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size."""
        columns, rows = min(max(columns, 1), 1000), min(max(rows, 1), 1000)
        if (columns, rows) == self._size:
            return
        drawn = self._rows.rows
        self._size = columns, rows
        self._rows.resize(rows)
        self._run(lambda vt: vt.resize(columns, rows), drawn)
        self._stale = set(range(rows))

    def rows(self) -> tuple[GridRow, ...]:
        """Every row, from the top."""
        self._refresh()
        return tuple(self._rows.rows)

    def above(self, first: int, count: int) -> tuple[GridRow, ...]:
        """Rows that are kept above the screen."""
        first = max(first, 0)
        last = min(first + max(count, 0), self.scrolled)
        return tuple(_row(line) for line in self._vt.lines()[first:last])

    def wraps(self, first: int, count: int) -> tuple[int, ...]:
        """Of rows from the ``first``: where each is wrapped.

        It does not show whether the last column is blank or had no room for a wide character.
        """
        first = max(first, 0)
        unwrapper = TextUnwrapper()
        lines = self._vt.lines()[first : first + max(count, 0)]
        return tuple(self._size[0] if unwrapper.push(line) is None else 0 for line in lines)

    def changes(self, since: int = 0) -> GridChange:
        """What is new since a revision."""
        self._refresh()
        is_whole, rows = self._rows.since(since)
        revision = self._rows.revision
        return GridChange(revision=revision, is_whole=is_whole, rows=rows, cursor=self.cursor)

    def mark(self) -> RowMark:
        """Remember the row at the top of the screen."""
        return _AvtMark(self._dropped + self.scrolled)

    def text(self, since: RowMark | None = None) -> list[str]:
        """Lines as they were written, wrapped ones whole."""
        lines = self._vt.lines()
        if isinstance(since, _AvtMark):
            first = since.row - self._dropped
            lines = lines[first:] if 0 <= first < len(lines) else lines
        unwrapped = _unwrapped(lines)
        while unwrapped and not unwrapped[-1]:
            unwrapped.pop()
        return unwrapped

    def snapshot(self, history: int = 2000) -> bytes:
        """Bytes that draw the same on an empty terminal of the same size.

        On the alternate screen without what is above: avt does not expose it then.
        """
        parts = [] if self.modes.alternate_screen else self._drawn_above(history)
        # It writes some orders in one byte, which means something else to others.
        parts.append(self._vt.dump().replace("\x9b", "\x1b["))
        modes = self._listener.on - {1, 6, 7, 25, 47, 1047, 1048, 1049}
        parts += [f"\x1b[?{number}h" for number in sorted(modes)]
        parts += [self._listener.keyboard, self._listener.shaped]
        if self.title:
            parts.append(f"\x1b]2;{self.title}\x07")
        parts.append(self._unfinished.text)
        return "".join(parts).encode("utf-8", "replace") + self._decoder.getstate()[0]

    def close(self) -> None:
        """Nothing is held."""

    def _run(self, job: _Job, drawn: Sequence[GridRow] | None = None) -> None:
        """Do something to it; where that breaks it, begin anew with what was seen last."""
        try:
            changed, dropped = job(self._vt)
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # what Rust raises; it has no other name
                raise
            _log.warning("the emulator failed and was reset: %s", error)
            columns, rows = self._size
            self._vt = Vt(columns, rows, self._scrollback)
            lines = [row.text[:columns] for row in (drawn or self._rows.rows)[:rows]]
            self._vt.feed_str("\r\n".join(lines))
            changed, dropped = range(rows), list[Line]()
        self._stale.update(changed)
        self._dropped += len(dropped)

    def _drawn_above(self, history: int) -> list[str]:
        """Rows above the screen, drawn and moved there."""
        drawn: list[str] = []
        room = _MOST_BYTES
        for line in reversed(self._vt.lines()[: self.scrolled][-history:] if history > 0 else []):
            text = line_of(_row(line))
            room -= len(text) + 2
            if room < 0:
                break
            drawn.append(f"{text}\r\n")
        if not drawn:
            return []
        return [*reversed(drawn), "\r\n" * (self._size[1] - 1), "\x1b[H"]

    def _refresh(self) -> None:
        if not self._stale:
            return
        view = self._vt.view()
        self._rows.replace({index: _row(view[index]) for index in self._stale if index < len(view)})
        self._stale = set()


def _unwrapped(lines: list[Line]) -> list[str]:
    unwrapper = TextUnwrapper()
    found = [text.rstrip(" ") for line in lines if (text := unwrapper.push(line)) is not None]
    if (rest := unwrapper.flush()) is not None:
        found.append(rest.rstrip(" "))
    return found


def _row(line: Line) -> GridRow:
    spans: list[GridSpan] = []
    text: list[str] = []
    style = PLAIN
    for cell in line.cells:
        if cell.width == 0:  # behind a wide one
            continue
        pen = cell.pen
        this = PLAIN if pen.is_default() else _style(pen)
        if this != style:
            if text:
                spans.append(GridSpan("".join(text), style))
                text = []
            style = this
        text.append(cell.char)
    rest = "".join(text).rstrip(" ") if style is PLAIN else "".join(text)
    if rest:
        spans.append(GridSpan(rest, style))
    if not spans:
        return BLANK
    return GridRow(tuple(spans), "".join([span.text for span in spans]).rstrip(" "))


def _style(pen: Pen) -> Style:
    return Style(
        foreground=_color(pen.foreground),
        background=_color(pen.background),
        bold=pen.bold,
        faint=pen.faint,
        italic=pen.italic,
        underline=pen.underline,
        blink=pen.blink,
        inverse=pen.inverse,
        strikethrough=pen.strikethrough,
    )


def _color(color: AvtColor | None) -> Color:
    match color:
        case AvtColor.RGB():
            return color[0], color[1], color[2]
        case AvtColor.Indexed():
            return color[0]
        case _:
            return None


if TYPE_CHECKING:
    from .api import Emulator

    _screen: Emulator = cast("AvtEmulator", None)
