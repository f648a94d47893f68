"""The transcript of an agent: what is in view is drawn, and nothing else."""

import asyncio
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from quarterdeck.wire.clock import WallClock, format_local_time, read_wall_clock
from quarterdeck.wire.errors import LinkError, QuarterdeckError

from ..rendering.block_layout import BlockLayout
from ..rendering.lines import Line, find_url_at, mark_matches
from ..sanitize import sanitize_line, sanitize_text
from ..stores.blocks import Block, PromptBlock, RunBlock, ShownBlock, ToolBlock, images_of
from ..stores.images import BlockImage, list_images
from ..stores.transcript import TranscriptChange, TranscriptSpot, TranscriptStore
from . import transcript_position
from .lines_view import LineCanvas
from .transcript_position import ScrollAnchor, ScrollAnchors
from .transcript_search import SearchController

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from textual.strip import Strip

    from quarterdeck.wire.ids import SessionId

__all__ = ["TranscriptView"]

_CLOCK = 6
"""Cells of the column of times."""
_TITLE_ROWS = 6
"""Rows from which on the first may be the title of what is read."""


class _ImageLoader:
    """Reads the images that are looked at from the log, one after the other, beside the loop.

    Args:
        run: does something in the background.
    """

    def __init__(
        self, run: "Callable[[Callable[[], Coroutine[object, object, object]]], None]"
    ) -> None:
        self._run = run
        self._wanted: list[tuple[TranscriptStore, Block, BlockImage]] = []
        self._is_busy = False

    def want(self, store: TranscriptStore, block: ShownBlock) -> None:
        """See that the images of a block are drawn soon."""
        if isinstance(block, RunBlock):
            return
        for image in images_of(block):
            is_open = image.raster is None and not image.problem
            if is_open and not (image.is_wanted or image.is_away):
                image.is_wanted = True
                self._wanted.append((store, block, image))
        if self._wanted and not self._is_busy:
            self._is_busy = True
            self._run(self._load)

    def want_again(self, store: TranscriptStore) -> None:
        """The host is back: what it could not give is wanted when someone looks."""
        for block in store.blocks:
            away = [image for image in images_of(block) if image.is_away]
            for image in away:
                image.is_away = False
            if away:
                store.redraw(block)

    async def _load(self) -> None:
        try:
            while self._wanted:
                store, block, image = self._wanted.pop(0)
                await _load_image(store, image)
                store.redraw(block)
        finally:
            for *_, image in self._wanted:  # someone else may still look at them
                image.is_wanted = False
            self._wanted.clear()
            self._is_busy = False


@cache
def _prepare() -> None:
    """Import what draws messages, and look which images can be read. Blocks."""
    from importlib import import_module

    from ..rasters import can_read_image
    from ..rendering.markdown import load_markdown

    import_module("quarterdeck.workbench.rendering.pieces")
    load_markdown()
    can_read_image("JPEG")


def _is_prepared() -> bool:
    return _prepare.cache_info().currsize > 0


# What draws blocks is imported with the first of them; see ``_prepare``.


def _can_fold(block: ShownBlock) -> bool:
    from ..rendering.blocks import can_fold

    return can_fold(block)


def _prompt_title(prompt: PromptBlock, width: int) -> Line:
    from ..rendering.blocks import prompt_title

    return prompt_title(prompt, width)


def _put_elapsed(line: Line, microseconds: int, width: int) -> Line:
    from ..rendering.calls import put_elapsed

    return put_elapsed(line, microseconds, width)


async def _load_image(store: TranscriptStore, image: BlockImage) -> None:
    from ..rasters import ImageError, can_read_image, load_raster

    if not can_read_image(image.facts.kind) or not (image.facts.width and image.facts.height):
        return
    try:
        records = await store.read(after=image.seq - 1, limit=1)
        images = [one for record in records for one in list_images(record.event)]
        if image.at >= len(images):
            image.problem = "no longer in the log"
        else:
            image.raster = await asyncio.to_thread(load_raster, images[image.at].data)
    except ImageError as error:
        image.problem = str(error)
    except QuarterdeckError as error:
        from quarterdeck.fleet.errors import HostError

        image.is_away = isinstance(error, LinkError | HostError)
        image.problem = "" if image.is_away else sanitize_line(str(error), 200)
    finally:
        image.is_wanted = False


_PagePlace: TypeAlias = Literal["first", "older", "newer", "end"]


class TranscriptView(LineCanvas, can_focus=True):
    """Shows one transcript at a time; the place in each is kept while others are shown.

    It stays at the end while the agent writes, unless someone has scrolled up: then the line
    at the top of the view stays where it is, whatever comes or is measured.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "mark(1)", "next block"),
        Binding("k", "mark(-1)", "previous block"),
        Binding("enter,space", "fold", "expand or collapse"),
        Binding("right_square_bracket,alt+down", "jump(1)", "next prompt"),
        Binding("left_square_bracket,alt+up", "jump(-1)", "previous prompt"),
        Binding("home,g", "start", "to the start"),
        Binding("end,G", "follow", "to the end"),
        Binding("ctrl+f,slash", "search", "search"),
        Binding("n", "find(1)", "previous match"),
        Binding("N", "find(-1)", "next match"),
        Binding("escape", "end_search", "end the search", show=False),
        Binding("ctrl+y,y", "app.command('copy')", "copy the marked block, or the last answer"),
        Binding("c", "app.command('copy-code')", "copy the code of an answer; again: earlier code"),
        Binding("p", "app.command('jump')", "list of prompts"),
        Binding("t", "app.command('times')", "show or hide times"),
        Binding("v", "app.command('review')", "review what the agent changed"),
    ]

    class Wanted(Message):
        """A page beside the window is needed; the first around a place, if one is named."""

        def __init__(
            self, session: "SessionId", where: _PagePlace, spot: TranscriptSpot | None = None
        ) -> None:
            super().__init__()
            self.session, self.spot = session, spot
            self.where: _PagePlace = where

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._store: TranscriptStore | None = None
        self.places, self._place = ScrollAnchors(), ScrollAnchor()
        self._width, self._is_settling = 1, False
        self._unwatch = lambda: None
        self._looking = SearchController(self, lambda: self._store, self.go_to)
        self.empty: list[Line] = []
        """What is shown where there is nothing."""
        self.clock: WallClock = read_wall_clock
        self.is_at_work = False
        """The agent runs, and so does the time of its calls."""
        self.has_times = False
        """Each block has the time before it at which it came."""
        self.copied_code: tuple[int, int] = (0, 0)
        """The code that was copied last: the first record of its answer, and its number."""
        self._is_ticking = False
        self.images = _ImageLoader(self._do)

    @property
    def follows(self) -> bool:
        """Whether the end stays in view."""
        return self._place.follows

    @property
    def store(self) -> TranscriptStore | None:
        """What is shown."""
        return self._store

    @property
    def marked(self) -> ShownBlock | None:
        """The block under the cursor; None: there is no cursor."""
        return self._place.marked

    @property
    def top_seq(self) -> int:
        """The first record of what is at the top of the view; 0: there is nothing."""
        if not len(self._layout):
            return 0
        return self._layout.block(self._layout.locate(self.scroll_offset.y)[0]).first

    def show(self, store: TranscriptStore | None) -> None:
        """Show another transcript, at the place where it was left."""
        if store is self._store:
            return
        self._unwatch()
        self._looking.end()
        self._store = store
        left = self._place
        left.layout = BlockLayout(1)  # its lines are not needed while others are shown
        self._place = ScrollAnchor()
        self._unwatch = lambda: None
        if store is not None:
            self._place = self.places.of(store)
            self._unwatch = store.watch(self._changed)
        self._sync()

    def go_to(self, seq: int, words: str = "") -> None:
        """Go to a record, wherever it is in the log; to the line with these words if it has them.

        What is not in the window is read first; the window is then there.
        """
        store = self._store
        if store is None:
            return
        block = store.find(seq) if store.is_loaded else None
        if block is not None:
            self._stand_at(block, words)
        else:
            self._do(partial(self._open_at, store, seq, words))

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        if not len(self._layout):
            lines = self.empty if self._store is None or self._store.is_loaded else ()
            return (lines[y] if y < len(lines) else ()), False
        if y >= self._layout.total:
            return (), False
        at, offset = self._layout.locate(y)
        self._layout.measure(at)
        line = self._layout.line(at, offset)
        words = self._looking.pattern
        block = self._layout.block(at)
        if self._store is not None:
            self.images.want(self._store, block)
        is_first = not self._layout.part(at) and offset == self._layout.has_gap(at)
        line = mark_matches(line, words) if words is not None else line
        if is_first and self.is_at_work and isinstance(block, ToolBlock):
            line = self._with_elapsed(line, block)
        if self.has_times:
            clock = format_local_time(block.time, "%H:%M") if is_first and block.time else ""
            line = ((f"{clock:<{_CLOCK}}", "faint"), *line)
        return line, is_first and block is self._place.marked

    def render_line(self, y: int) -> "Strip":
        """Draw a line of the screen; the first is the prompt of what is read, if that is above."""
        prompt = self.prompt_above if not y else None
        if prompt is None:
            return super().render_line(y)
        return self.draw_line(_prompt_title(prompt, self.scrollable_content_region.width - 1))

    @property
    def prompt_above(self) -> PromptBlock | None:
        """The prompt whose turn is read, if the prompt itself is above what is in view."""
        store, layout = self._store, self._layout
        if store is None or self._rows < _TITLE_ROWS or not len(layout):
            return None
        top = layout.block(layout.locate(self.scroll_offset.y)[0])
        return None if isinstance(top, PromptBlock) else store.find_prompt(top.first)

    def on_mount(self) -> None:
        """Import what draws messages, after the first frame and beside the loop."""
        self.call_after_refresh(lambda: self._do(self._make_ready))
        self.set_interval(1, self._tick)

    def on_resize(self) -> None:
        """Measure anew for another width; the place stays."""
        column = _CLOCK if self.has_times else 0
        self._width = max(8, self.scrollable_content_region.width - 1 - column)
        self._sync()

    def toggle_times(self) -> bool:
        """Show when each block came, or show it no longer; whether it is shown now."""
        self.has_times = not self.has_times
        self.on_resize()
        return self.has_times

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Someone scrolls: note where they read."""
        super().watch_scroll_y(old_value, new_value)
        if self._is_settling or self._store is None:
            return
        y = round(new_value)
        at_end = y >= self._layout.total - self._rows
        self._place.follows = at_end and not self._store.has_newer
        self._place.note(y)
        self._settle()

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self._place.follows = True
        if self._store is not None and self._store.has_newer:
            self.post_message(self.Wanted(self._store.session, "end"))
        self._settle()

    def action_start(self) -> None:
        """Go to the start."""
        store = self._store
        if store is None:
            return
        if store.has_older:
            self._do(partial(self._open_start, store))
        elif store.blocks:
            self._stand_at(store.blocks[0])

    def action_mark(self, step: int) -> None:
        """Mark the next block that can be folded."""
        if not len(self._layout):
            return
        blocks = self._layout.blocks
        block = transcript_position.find_next_foldable(blocks, self._here(step), step)
        if block is None:
            return
        self.mark(block)
        if not self._place.is_in_view(block, self.scroll_offset.y, self._rows):
            self._place.put(block)
            self._settle()

    def action_fold(self) -> None:
        """Fold or unfold the marked block."""
        if self._place.marked is not None and _can_fold(self._place.marked):
            self._fold(self._place.marked)

    def action_jump(self, step: int) -> None:
        """Go to the next prompt, also where it has to be read first."""
        store = self._store
        if store is None or not store.blocks:
            return
        self._do(partial(self._jump, store, self._here(1 if self._place.marked else 0).first, step))

    def action_search(self, words: str = "") -> None:
        """Look for some words in all of the transcript; for none: ask which."""
        self._looking.begin(words)

    def action_find(self, step: int) -> None:
        """Go to another match."""
        self._looking.step(step)

    def action_end_search(self) -> None:
        """Look no further."""
        self._looking.end()

    def action_page_up(self) -> None:
        """Go up by what is in view, but for the lines at its edge."""
        self.scroll_relative(y=-max(1, self._rows - 2), animate=False)

    def action_page_down(self) -> None:
        """Go down likewise."""
        self.scroll_relative(y=max(1, self._rows - 2), animate=False)

    def mark(self, block: ShownBlock | None) -> None:
        """Put the cursor on a block."""
        self._place.marked = block
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on what was clicked, and fold or unfold it."""
        if not len(self._layout) or self._store is None or self.text_selection is not None:
            return
        if not event.y and (prompt := self.prompt_above) is not None:
            self._stand_at(prompt)
            return
        line, _ = self.line_at(self.scroll_offset.y + event.y)
        if (url := find_url_at(line, event.x)) is not None:
            self.app.copy_to_clipboard(url)  # pyright: ignore[reportUnknownMemberType]
            self.notify(f"copied {sanitize_text(url)}", markup=False)
            return
        at, _ = self._layout.locate(self.scroll_offset.y + event.y)
        block = self._layout.block(at)
        self.mark(block)
        if _can_fold(block):
            self._fold(block)

    def _tick(self) -> None:
        if self._is_ticking:
            self._is_ticking = False  # until it is drawn again
            self.refresh()

    def _with_elapsed(self, line: Line, block: ToolBlock) -> Line:
        if block.status != "in_progress" or not block.began:
            return line
        self._is_ticking = True
        return _put_elapsed(line, self.clock() - block.began, self._width)

    def _fold(self, block: ShownBlock) -> None:
        assert self._store is not None
        if self._place.follows:  # the line that was folded stays where it is
            self._place.follows = False
            self._place.note(self.scroll_offset.y)
        self._store.toggle(block)
        self._place.follows = self._layout.total <= self._rows

    @property
    def _rows(self) -> int:
        return max(1, self.scrollable_content_region.height)

    def _do(self, action: "Callable[[], Coroutine[object, object, object]]") -> None:
        async def run() -> None:
            try:
                await action()
            except QuarterdeckError as error:
                self.notify(sanitize_text(str(error)), severity="error", markup=False)

        self.run_worker(run)

    async def _open_at(self, store: TranscriptStore, seq: int, words: str = "") -> None:
        block = await transcript_position.move_window_to(store, seq)
        if block is not None and self._store is store:
            self._stand_at(block, words)

    async def _open_start(self, store: TranscriptStore) -> None:
        self._place.follows = False
        block = await transcript_position.move_window_to_start(store)
        if block is not None and self._store is store:
            self._stand_at(block)

    async def _jump(self, store: TranscriptStore, here: int, step: int) -> None:
        seq = await transcript_position.find_next_prompt(store, here, step)
        if self._store is not store:
            return
        if seq is not None:
            self.go_to(seq)
        elif step > 0:
            self.action_follow()
        else:
            self.action_start()

    def _stand_at(self, block: Block, words: str = "") -> None:
        """Put a block at the top of the view; of a line with these words some lines above it."""
        part, line = self._line_with(block, words)
        shown: ShownBlock = self._layout.find_holder(block) or block
        self._place.put(shown, part, line)
        self.mark(shown)
        self._settle()
        above = self._rows // 3 if line or part else self._is_covered(shown)
        if above:
            self._place.note(max(0, self.scroll_offset.y - above))
            self._settle()

    def _is_covered(self, block: ShownBlock) -> bool:
        """Whether the title of what is read would stand over the first line of a block."""
        at = self._layout.find(block)
        return at is not None and not self._layout.has_gap(at) and self.prompt_above is not None

    def _line_with(self, block: Block, words: str) -> tuple[int, int]:
        if not words or self._store is None:
            return 0, 0
        if self._layout.find(block) is None:
            self._store.uncover(block)
        if _can_fold(block) and not getattr(block, "expanded", True):
            self._store.toggle(block)
        self._place.sync(self._width)
        return self._looking.line_with(self._layout, block)

    def _here(self, step: int) -> ShownBlock:
        """The marked block if it is in view, else the one at the edge of the view."""
        block, y = self._place.marked, self.scroll_offset.y
        if block is not None and self._place.is_in_view(block, y, self._rows):
            return block
        edge = y + (self._rows if step < 0 else -1 if step else 0)
        return self._layout.block(self._layout.locate(edge)[0])

    @property
    def _layout(self) -> BlockLayout:
        return self._place.layout

    def _changed(self, change: TranscriptChange) -> None:
        self._sync()

    async def _make_ready(self) -> None:
        if not _is_prepared():
            await asyncio.to_thread(_prepare)
            self._sync()

    def _sync(self) -> None:
        if not _is_prepared():
            return
        self._place.sync(self._width)
        self._settle()

    def _settle(self) -> None:
        """Measure what is in view, and put the view where it belongs."""
        if self._is_settling or not self.is_mounted:
            return
        y = self._place.top(self.scroll_offset.y, self._rows)
        self._is_settling = True
        try:
            self.take_room(Size(self._layout.width, self._layout.total))
            self.scroll_to(y=y, animate=False, force=True, immediate=True)
        finally:
            self._is_settling = False
        self.refresh()
        self._want(y)

    def _is_at_first_block(self, y: int) -> bool:
        """Whether the window begins with what is read, so that its prompt is not in it."""
        layout = self._layout
        if self.follows or not len(layout):
            return False
        top = layout.block(layout.locate(y)[0])
        return top is layout.block(0) and not isinstance(top, PromptBlock)

    def _want(self, y: int) -> None:
        store = self._store
        if store is None or not store.is_loaded:
            return
        if store.has_older and (y < self._rows or self._is_at_first_block(y)):
            self.post_message(self.Wanted(store.session, "older"))
        if store.has_newer and y >= self._layout.total - 2 * self._rows:
            self.post_message(self.Wanted(store.session, "newer"))
