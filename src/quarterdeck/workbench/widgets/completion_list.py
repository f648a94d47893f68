"""What can be completed, in a list above the input; beside files the first lines of one."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from textual import on
from textual.content import Content
from textual.geometry import Offset

from ..completion import CompletionChoice
from ..rendering.code import highlight_file
from ..rendering.lines import Line, Span, clip, plain, width_of
from ..sanitize import sanitize_line, sanitize_text
from .lines_view import LinesView
from .picker import Picker

__all__ = ["PREVIEW_WIDTH", "CompletionList", "FilePreview", "read_preview"]

PREVIEW_WIDTH = 100
"""Cells of a screen from which on the first lines of a file are shown beside the list."""
_MOST_ROWS = 8
_MOST_FILES = 14
"""Rows beside a preview, which needs some."""
_WIDEST_LIST = 48
_WIDEST_PREVIEW = 76
_READ = 16_000
"""Bytes of a file that are read for a preview."""


def read_preview(path: str, most: int) -> list[Line]:
    """The first lines of a file in its colours, or why there are none. Blocks."""
    from quarterdeck.system.file_reader import read_regular_file

    try:
        data = read_regular_file(path, _READ)
    except OSError as error:
        return [plain(f"cannot be read: {error.strerror or error}", "faint")]
    if not data:
        return [plain("empty", "faint")]
    if b"\0" in data:
        return [plain("a binary file", "faint")]
    text = sanitize_text(data.decode("utf-8", "replace").replace("\r\n", "\n"))
    lines = text.split("\n")[:most]
    return highlight_file(path, lines) or [plain(line) for line in lines]


class FilePreview(LinesView, can_focus=False):
    """The first lines of the file under the cursor of a list."""

    def __init__(self) -> None:
        super().__init__(classes="completion")
        self._shown: list[Line] = []
        self.path = ""
        """The file that is wanted."""
        self.display = False

    def want(self, path: str, rows: int) -> None:
        """Show a file as soon as it is read; what is shown stays until then."""
        if path != self.path:
            self.path = path
            self.run_worker(partial(self._read, path, rows), exclusive=True)

    async def _read(self, path: str, rows: int) -> None:
        lines = await asyncio.to_thread(read_preview, path, rows)
        if path == self.path:
            self._shown = lines
            self.border_title = Content(sanitize_line(path.rpartition("/")[2], 60))
            self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        return [clip(line, width) for line in self._shown]


class CompletionList(Picker, can_focus=False):
    """Offers to choose from; the input keeps the keys, and a click chooses too."""

    def __init__(self) -> None:
        super().__init__(classes="completion")
        self.offers: Sequence[CompletionChoice] = ()
        self.offer_to: Callable[[CompletionChoice], None] = lambda _: None
        """Called with what was clicked."""
        self.preview = FilePreview()
        """Shown beside a list of files where there is room."""
        self.display = False
        self._above = Offset()

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
        self._place(above)
        if offers:
            self.update()
            self.scroll_to(y=0, animate=False)

    def follow(self, above: Offset) -> None:
        """Stay above what they are for, wherever that is now."""
        if self.display and above != self._above:
            self._place(above)

    def _place(self, above: Offset) -> None:
        self._above = above
        offers, size = self.offers, self.screen.size
        self.preview.display = has_preview = (
            bool(offers) and bool(offers[0].path) and size.width >= PREVIEW_WIDTH
        )
        if not offers:
            self.preview.path = ""
            return
        most = _MOST_FILES if has_preview else _MOST_ROWS
        rows = max(1, min(len(offers), most, above.y))
        widest = max(width_of(_line(offer)) for offer in offers) + 2
        width = min(widest, _WIDEST_LIST if has_preview else size.width)
        beside = min(_WIDEST_PREVIEW, size.width - width) if has_preview else 0
        self.styles.height, self.styles.width = rows, width
        x = max(0, min(above.x, size.width - width - beside))
        self.absolute_offset = Offset(x, max(0, above.y - rows))
        if has_preview:
            self._place_preview(Offset(x + width, above.y), beside, min(most, above.y))

    def _place_preview(self, below: Offset, width: int, rows: int) -> None:
        preview = self.preview
        if not preview.is_attached:
            self.screen.mount(preview)
        preview.styles.height, preview.styles.width = max(1, rows), width
        preview.absolute_offset = Offset(below.x, max(0, below.y - rows))
        self._show_file()

    def _show_file(self) -> None:
        if self.preview.display and (chosen := self.chosen) is not None:
            self.preview.want(chosen.path, _MOST_FILES)

    def hide(self) -> None:
        """Offer nothing."""
        self.show((), Offset())

    def leave(self) -> None:
        """Be removed, with the preview."""
        if self.preview.is_attached:
            self.preview.remove()
        self.remove()

    @on(Picker.Chosen)
    def _clicked(self, event: Picker.Chosen) -> None:
        event.stop()
        if (chosen := self.chosen) is not None:
            self.offer_to(chosen)

    @on(Picker.Moved)
    def _moved(self, event: Picker.Moved) -> None:
        event.stop()
        self._show_file()

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [(str(at), _line(offer)) for at, offer in enumerate(self.offers)]


def _line(offer: CompletionChoice) -> Line:
    if offer.path:
        folder, _, base = offer.name.rpartition("/")
        where = f"  {sanitize_line(folder, 200)}" if folder else ""
        return ((sanitize_line(base, 200), "key"), (where, "faint"))
    spans: list[Span] = [(sanitize_line(offer.name, 200), "key")]
    if offer.origin:
        spans.append((f" ({sanitize_line(offer.origin, 30)})", "faint"))
    if offer.help:
        spans.append((f"  {sanitize_line(offer.help, 200)}", "text"))
    return tuple(spans)
