"""The log tail: follows the end of a file; every line once, in order, within bounds.

The file may be missing at first, be renamed away and begun anew, or be cut. What cannot be seen:
a file that is cut and written beyond its old length between two looks, and one that is renamed
away twice between two looks (the one in the middle is never seen).
"""

import asyncio
import os
import re
import stat as modes
from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from quarterdeck.wire.terminal_text import count_noun

from ..rendering.lines import Line, Span, clip
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.lines_view import LineCanvas
from .components import AskBar, HeadLine, PolledPanel, empty_lines
from .panel import PanelOptions
from .paths import format_path, make_absolute

__all__ = [
    "MOST_BYTES",
    "MOST_LINES",
    "Tail",
    "TailOptions",
    "TailPanel",
    "TailState",
    "strip_colours",
]

MOST_LINES = 20_000
MOST_BYTES = 8_000_000
"""What is kept; older lines go."""
LONGEST = 16_384
"""Bytes after which a line is broken."""
_FIRST = 512 * 1024
_PIECE = 262_144

_COLOURS = re.compile("\x1b\\[[0-9;:]*[mK]")

TailState: TypeAlias = Literal["missing", "reading", "unreadable"]


class Tail:
    r"""Follows a file by name.

    ``poll`` reads what came since the last time. A line ends with ``\n``; what stands after the
    last one is ``partial``. Bytes that are no UTF-8 are shown as ``\xNN``; colours are left out,
    every other sequence stays.

    Args:
        path: absolute.
        first: how many bytes of a file that is there already are read; None: all that is kept.
    """

    def __init__(
        self,
        path: str,
        *,
        most_lines: int = MOST_LINES,
        most_bytes: int = MOST_BYTES,
        first: int | None = _FIRST,
    ) -> None:
        self.path = path
        self.state: TailState = "missing"
        self.reason = ""
        self.lines: deque[str] = deque()
        self.taken = 0
        """Lines that ever came; those that are not in ``lines`` any more included."""
        self.skipped = 0
        """Bytes that were not read, because more came than is kept."""
        self.is_from_start = True
        """The first line that came was the first of the file."""
        self._most_lines = most_lines
        self._most_bytes = most_bytes
        self._first: int | None = first
        self._held_bytes = 0
        self._open_line = bytearray()
        self._descriptor: int | None = None
        self._offset = 0
        self._has_polled = False

    @property
    def partial(self) -> str:
        """The line that has not ended."""
        return _text(bytes(self._open_line))

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def poll(self) -> bool:
        """Read what is new; whether anything changed. Blocks."""
        before = (self.state, self.reason, self.taken, len(self._open_line), self.skipped)
        if self._descriptor is not None:
            self._read_on()
            if not self._is_same():
                # The one who wrote the old file may have written after the first reading.
                self._read_on()
                self._end_line()
                self.close()
        if self._descriptor is None:
            self._open()
        self._has_polled = True
        after = (self.state, self.reason, self.taken, len(self._open_line), self.skipped)
        return before != after

    def clear(self) -> None:
        """Forget the lines that came; what comes later is shown."""
        self.lines.clear()
        self._held_bytes = 0

    def _is_same(self) -> bool:
        assert self._descriptor is not None
        ours = os.fstat(self._descriptor)
        try:
            there = os.stat(self.path)  # noqa: PTH116
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _open(self) -> None:
        try:
            found = os.stat(self.path)  # noqa: PTH116
            if not modes.S_ISREG(found.st_mode):
                self.state, self.reason = "unreadable", "it is not a regular file"
                return
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            self.state, self.reason = "missing", ""
            return
        except (OSError, ValueError) as error:
            self.state = "unreadable"
            self.reason = getattr(error, "strerror", None) or str(error)
            return
        self.state, self.reason, self._offset = "reading", "", 0
        if not self._has_polled and self._first is not None:
            self._go_to_last(os.fstat(self._descriptor).st_size, self._first)
        self._read_on()

    def _read_on(self) -> None:
        """Read to the end; of very much only the last part."""
        assert self._descriptor is not None
        try:
            size = os.fstat(self._descriptor).st_size
            if size < self._offset:
                self._end_line()
                self._offset = 0
            if size - self._offset > 2 * self._most_bytes:
                at = self._offset
                self._go_to_last(size, self._most_bytes)
                self.skipped += self._offset - at
            # Not beyond the size that was seen: a fast writer would hold us here for ever.
            while self._offset < size:
                data = os.pread(self._descriptor, min(_PIECE, size - self._offset), self._offset)
                if not data:
                    break
                self._offset += len(data)
                self._take(data)
        except OSError as error:
            self.state, self.reason = "unreadable", error.strerror or str(error)

    def _go_to_last(self, size: int, bytes_: int) -> None:
        """Move to the first line that begins within the last bytes."""
        assert self._descriptor is not None
        at = size - bytes_
        if at <= 0:
            return
        data = os.pread(self._descriptor, bytes_, at - 1)
        begin = data.find(b"\n")
        self._end_line()
        self._offset = at if begin < 0 else at + begin
        self.is_from_start = False

    def _take(self, data: bytes) -> None:
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._open_line += part
            self._end_line(is_ended=True)
        self._open_line += rest
        while len(self._open_line) > LONGEST:
            self._break_line()

    def _break_line(self) -> None:
        """End a line that is too long, not within a character."""
        end = LONGEST
        while end > LONGEST - 4 and self._open_line[end] & 0xC0 == 0x80:
            end -= 1
        self._add(bytes(self._open_line[:end]))
        del self._open_line[:end]

    def _end_line(self, *, is_ended: bool = False) -> None:
        while len(self._open_line) > LONGEST:
            self._break_line()
        if self._open_line or is_ended:
            line = bytes(self._open_line)
            self._open_line.clear()
            self._add(line.removesuffix(b"\r"))

    def _add(self, line: bytes) -> None:
        text = _text(line)
        self.taken += 1
        self.lines.append(text)
        self._held_bytes += len(text) + 1
        while len(self.lines) > self._most_lines or self._held_bytes > self._most_bytes:
            self._held_bytes -= len(self.lines.popleft()) + 1


def strip_colours(text: str) -> str:
    """A text without the sequences that only colour it or clear the rest of its line."""
    return _COLOURS.sub("", text)


def _text(line: bytes) -> str:
    return strip_colours(line.decode("utf-8", "backslashreplace"))


_LONGEST = 4_000
"""Characters of a line that are drawn; the rest is said to be there."""


class TailOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a log tail can be given."""

    path: str | None = None
    """A file, which need not be there yet."""
    filter: str = ""
    """Only lines with this in them."""


class _Lines(LineCanvas):
    """The lines of the tail that pass the filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", "up", show=False),
        Binding("j", "scroll_down", "down", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The person moved; at the end, or away from it."""

        at_end: bool

    def __init__(self) -> None:
        super().__init__(id="lines")
        self._lines: list[str] = []
        self._partial = ""
        self.instead: tuple[str, list[tuple[str, str]]] = ("", [])
        """What is said where there are no lines, and keys."""

    def show(self, lines: list[str], partial: str, *, follows: bool, gone: int) -> None:
        """Show these; ``gone`` lines are no more at the top, and the others stay where they are."""
        self._lines, self._partial = lines, partial
        count = len(lines) + bool(partial)
        self.virtual_size = Size(self.scrollable_content_region.width, count)
        if follows:
            self.scroll_to(y=max(0, count - self.size.height), animate=False, force=True)
        elif gone:
            self.scroll_to(y=max(0, self.scroll_offset.y - gone), animate=False, force=True)
        self.refresh()

    def action_scroll_up(self) -> None:
        """Go back a line, and stay there."""
        super().action_scroll_up()
        self._moved()

    def action_page_up(self) -> None:
        """Go back a page, and stay there."""
        super().action_page_up()
        self._moved()

    def action_scroll_home(self) -> None:
        """Go to the first line that is kept, and stay there."""
        super().action_scroll_home()
        self._moved()

    def action_scroll_down(self) -> None:
        """Go on a line; at the end follow again."""
        super().action_scroll_down()
        self._moved()

    def action_page_down(self) -> None:
        """Go on a page; at the end follow again."""
        super().action_page_down()
        self._moved()

    def action_scroll_end(self) -> None:
        """Go to the end and follow."""
        self.post_message(self.Moved(True))

    def on_mouse_scroll_up(self) -> None:
        """Who looks back does not want to be pulled to the end."""
        self._moved()

    def on_mouse_scroll_down(self) -> None:
        """At the end follow again."""
        self._moved()

    def _moved(self) -> None:
        self.call_after_refresh(
            lambda: self.post_message(self.Moved(self.scroll_offset.y >= self.max_scroll_y))
        )

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        if not self._lines and not self._partial and self.instead[0]:
            lines = empty_lines(*self.instead, self.scrollable_content_region.width)
            return (lines[y] if y < len(lines) else ()), False
        if y < len(self._lines):
            text, role = self._lines[y], "text"
        elif y == len(self._lines) and self._partial:
            text, role = self._partial, "faint"
        else:
            return (), False
        shown = sanitize_text(text[:_LONGEST]).replace("\n", "\\n")
        return clip(((shown, role),), self.scrollable_content_region.width), False


class TailPanel(PolledPanel):
    """Shows each line once, in order; keeps the last thousands."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = TailOptions
    EVERY: ClassVar[float | None] = 0.5
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f,space", "follow", "follow or pause"),
        Binding("slash", "filter", "filter lines"),
        Binding("escape", "clear_filter", "clear the filter", show=False),
        Binding("c", "clear", "clear"),
        Binding("r", "reload", "read the file again"),
    ]

    def __init__(self, context: Any, options: TailOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.tail: Tail | None = self._tail_of(options.path)
        self.words = options.filter
        self.follows = True
        self._shown: tuple[int, int, str] = (0, 0, "")
        self._shown_lines: list[str] = []
        self._polling = asyncio.Lock()
        self.head: HeadLine = HeadLine()
        self.view = _Lines()
        self.bar = AskBar()

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.view, self.bar)

    def on_mount(self) -> None:
        """Say what is looked at."""
        self._head()
        self._update()

    async def on_unmount(self) -> None:
        """Let go of the file."""
        async with self._polling:
            if self.tail is not None:
                self.tail.close()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        if self.tail is None:
            return "tail"
        return "tail " + sanitize_line(os.path.basename(self.tail.path), 60)  # noqa: PTH119

    def focus_target(self) -> LineCanvas:
        """See ``PolledPanel``."""
        return self.view

    def change(self, options: Any) -> bool:
        """See ``Panel``."""
        if options.path != self.options.path:
            return False
        self.options = options
        self._filter(options.filter)
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        return {"filter": self.words, "follows": self.follows}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        if isinstance(state.get("filter"), str):
            self.words = state["filter"]
        if isinstance(state.get("follows"), bool):
            self.follows = state["follows"]

    async def look(self) -> None:
        """Read what is new."""
        tail = self.tail
        if tail is None:
            return
        async with self._polling:
            if not self.is_mounted:
                return
            has_changed = await asyncio.to_thread(tail.poll)
        if has_changed:
            self._update()

    def action_follow(self, follows: bool | None = None) -> None:
        """Stay at the end, or where the page is."""
        self.follows = not self.follows if follows is None else follows
        self._update()

    def action_filter(self) -> None:
        """Type what lines must hold."""
        self.bar.ask("filter", "words", self.words, back=self.focus_target())

    def action_clear_filter(self) -> None:
        """Clear the filter."""
        self._filter("")

    async def action_reload(self) -> None:
        """Start again with the end of the file."""
        path = self.tail.path if self.tail is not None else None
        async with self._polling:
            if self.tail is not None:
                self.tail.close()
            self.tail = self._tail_of(path)
        self._update()
        self.look_now()

    def action_clear(self) -> None:
        """Forget what came so far."""
        if self.tail is not None:
            self.tail.clear()
            self._update()

    @on(AskBar.Typed)
    def _typed(self, event: AskBar.Typed) -> None:
        event.stop()
        self._filter(event.text)

    @on(AskBar.Given)
    def _given(self, event: AskBar.Given) -> None:
        event.stop()
        self._filter(event.text or "")

    @on(_Lines.Moved)
    def _moved(self, event: _Lines.Moved) -> None:
        event.stop()
        if event.at_end != self.follows:
            self.action_follow(event.at_end)

    def on_resize(self) -> None:
        """Stay at the end."""
        self._update()

    def _tail_of(self, path: str | None) -> Tail | None:
        return None if path is None else Tail(make_absolute(self.context.cwd, path))

    def _filter(self, words: str) -> None:
        self.words = words
        self._update()

    def _update(self) -> None:
        tail = self.tail
        if not self.is_mounted:
            return
        self.view.instead = self._instead()
        if tail is None:
            self.view.show([], "", follows=False, gone=0)
            return
        lines, words = list(tail.lines), self.words.casefold()
        if words:
            lines = [line for line in lines if words in line.casefold()]
        before, gone = self._shown_lines, 0
        if not self.follows and before and lines:
            # Lines that left the ring: by so many the page moves up, and seems not to move.
            gone = next((n for n, line in enumerate(before) if line is lines[0]), 0)
        self._shown_lines = lines
        self.view.show(lines, tail.partial, follows=self.follows, gone=gone)
        self._head()

    def _instead(self) -> tuple[str, list[tuple[str, str]]]:
        """What is said where there are no lines, and the keys that change that."""
        tail = self.tail
        if tail is None:
            return "No file is followed.", [("/tail PATH", "follows one")]
        if tail.state == "missing":
            return "The file does not exist yet.", [("r", "looks again; it does so by itself")]
        if self.words and tail.lines:
            return "No line has these words.", [("esc", "clears the filter")]
        return "No lines yet.", [("r", "reads the file again")]

    def _head(self) -> None:
        tail = self.tail
        if tail is None:
            self.head.show("tail")
            return
        is_unreadable = tail.state == "unreadable"
        self.head.show_problem(f"cannot read: {tail.reason}" if is_unreadable else None)
        state: Span = ("following", "running") if self.follows else ("paused, f follows", "warning")
        if tail.state != "reading":
            state = ("" if is_unreadable else "waits for the file", "warning")
        parts = [f"filter: {sanitize_text(self.words)}"] if self.words else []
        parts.append(count_noun(tail.taken, "line"))
        if tail.taken > len(tail.lines):
            parts.append(f"last {len(tail.lines):,} shown")
        if tail.skipped:
            parts.append(f"{tail.skipped:,} bytes skipped")
        path = format_path(self.context.cwd, tail.path)
        self.head.show(path, state, *((part, "faint") for part in parts))
