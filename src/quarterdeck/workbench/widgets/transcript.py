"""The transcript of an agent: what is in view is drawn, and nothing else."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from ..rendering.layout import BlockLayout
from ..rendering.lines import Line
from ..stores.blocks import Block, PromptBlock, TextBlock, ToolBlock
from ..stores.transcript import Change, TranscriptStore
from .lined import Lined

if TYPE_CHECKING:
    from quarterdeck.wire.ids import SessionId

__all__ = ["TranscriptView"]


@dataclass(slots=True)
class _Place:
    """Where somebody reads."""

    follows: bool = True
    block: Block | None = None
    """The block at the top of the view."""
    offset: int = 0
    """Which of its lines is the first in view."""
    marked: Block | None = None


class TranscriptView(Lined, can_focus=True):
    """Shows one transcript at a time; the place in each is kept while others are shown.

    It stays at the end while the agent writes, unless somebody has scrolled up: then the line
    at the top of the view stays where it is, whatever comes or is measured.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "mark(1)", "next fold"),
        Binding("k", "mark(-1)", "previous fold"),
        Binding("enter,space", "fold", "fold, unfold"),
        Binding("right_square_bracket", "jump(1)", "next prompt"),
        Binding("left_square_bracket", "jump(-1)", "previous prompt"),
        Binding("end,G", "follow", "to the end"),
    ]

    @dataclass
    class Wanted(Message):
        """A page beside the window is needed."""

        session: "SessionId"
        where: Literal["first", "older", "newer", "end"]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._store: TranscriptStore | None = None
        self._places: dict[str, _Place] = {}
        self._place = _Place()
        self._layout = BlockLayout(1)
        self._unwatch = lambda: None
        self._is_settling = False
        self.empty: list[Line] = []
        """What is shown where there is nothing."""

    @property
    def follows(self) -> bool:
        """Whether the end stays in view."""
        return self._place.follows

    def show(self, store: TranscriptStore | None) -> None:
        """Show another transcript, at the place where it was left."""
        if store is self._store:
            return
        self._unwatch()
        self._store = store
        self._layout = BlockLayout(self._layout.width)
        self._place = _Place()
        self._unwatch = lambda: None
        if store is not None:
            self._place = self._places.setdefault(store.session, self._place)
            self._unwatch = store.watch(self._changed)
        self._sync()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``Lined``."""
        if not len(self._layout):
            return (self.empty[y] if y < len(self.empty) else ()), False
        if y >= self._layout.total:
            return (), False
        at, offset = self._layout.locate(y)
        self._layout.measure(at)
        block = self._layout.block(at)
        is_head = offset == self._layout.height(at) - self._body(at)
        return self._layout.line(at, offset), block is self._place.marked and is_head

    def _body(self, at: int) -> int:
        """The lines of a block without the empty one before it."""
        gap = not self._layout.line(at, 0) and self._layout.height(at) > 1
        return self._layout.height(at) - gap

    def on_resize(self) -> None:
        """Measure anew for another width; the place stays."""
        width = max(8, self.scrollable_content_region.width - 1)
        if width != self._layout.width:
            self._layout = BlockLayout(width)
        self._sync()

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Somebody scrolls: note where they read."""
        super().watch_scroll_y(old_value, new_value)
        if self._is_settling or self._store is None:
            return
        y = round(new_value)
        at_end = y >= self._layout.total - self._rows
        self._place.follows = at_end and not self._store.has_newer
        self._note(y)
        self._settle()

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self._place.follows = True
        if self._store is not None and self._store.has_newer:
            self.post_message(self.Wanted(self._store.session, "end"))
        self._settle()

    def action_mark(self, step: int) -> None:
        """Mark the next block that can be folded."""
        foldable = [n for n in range(len(self._layout)) if self._can_fold(self._layout.block(n))]
        if not foldable:
            return
        marked = self._place.marked
        here = self._layout.find(marked) if marked is not None else None
        if here is None:
            here = self._layout.locate(self.scroll_offset.y + (self._rows if step < 0 else -1))[0]
        ahead = [n for n in foldable if (n > here if step > 0 else n < here)]
        at = (ahead[0] if step > 0 else ahead[-1]) if ahead else foldable[-1 if step > 0 else 0]
        self._place.marked = self._layout.block(at)
        self._bring(at)
        self.refresh()

    def action_fold(self) -> None:
        """Fold or unfold the marked block."""
        if self._place.marked is not None and self._store is not None:
            self._fold(self._place.marked)

    def action_jump(self, step: int) -> None:
        """Go to the next prompt."""
        here = self._layout.locate(self.scroll_offset.y)[0]
        order = range(here + 1, len(self._layout)) if step > 0 else range(here - 1, -1, -1)
        for at in order:
            if isinstance(self._layout.block(at), PromptBlock):
                self._place.follows = False
                self._place.block, self._place.offset = self._layout.block(at), 0
                self._settle()
                return

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold what was clicked."""
        if not len(self._layout) or self._store is None:
            return
        at, _ = self._layout.locate(self.scroll_offset.y + event.y)
        block = self._layout.block(at)
        if self._can_fold(block):
            self._place.marked = block
            self._fold(block)

    def _fold(self, block: Block) -> None:
        assert self._store is not None
        if self._place.follows:  # the line that was folded stays where it is
            self._place.follows = False
            self._note(self.scroll_offset.y)
        self._store.toggle(block)
        self._place.follows = self._layout.total <= self._rows

    @staticmethod
    def _can_fold(block: Block) -> bool:
        thought = isinstance(block, TextBlock) and block.kind == "thought"
        return thought or isinstance(block, ToolBlock)

    @property
    def _rows(self) -> int:
        return max(1, self.scrollable_content_region.height)

    def _changed(self, change: Change) -> None:
        self._sync()

    def _sync(self) -> None:
        self._layout.sync(self._store.blocks if self._store is not None else ())
        self._settle()

    def _note(self, y: int) -> None:
        if not len(self._layout):
            return
        at, offset = self._layout.locate(y)
        # A block that is measured now may be of another height: its lower end stays.
        offset = max(0, offset + self._layout.measure(at)) if offset else 0
        self._place.block, self._place.offset = self._layout.block(at), offset

    def _bring(self, at: int) -> None:
        """Make sure that a block is in view."""
        self._layout.measure(at)
        top = self._layout.top(at)
        y = self.scroll_offset.y
        if not y <= top < y + self._rows:
            self._place.follows = False
            self._place.block, self._place.offset = self._layout.block(at), 0
            self._settle()

    def _settle(self) -> None:
        """Measure what is in view, and put the view where it belongs."""
        if self._is_settling or not self.is_mounted:
            return
        y = self._end() if self._place.follows else self._reading()
        self._is_settling = True
        try:
            self.virtual_size = Size(self._layout.width, self._layout.total)
            self.scroll_to(y=y, animate=False, force=True, immediate=True)
        finally:
            self._is_settling = False
        self.refresh()
        self._want(y)

    def _end(self) -> int:
        room = self._rows
        for at in range(len(self._layout) - 1, -1, -1):
            self._layout.measure(at)
            room -= self._layout.height(at)
            if room <= 0:
                break
        return max(0, self._layout.total - self._rows)

    def _reading(self) -> int:
        first = self._layout.find(self._place.block) if self._place.block is not None else None
        if first is None:
            first, self._place.offset = self._layout.locate(self.scroll_offset.y)
        room = self._rows + self._place.offset
        for at in range(first, len(self._layout)):
            self._layout.measure(at)
            room -= self._layout.height(at)
            if room <= 0:
                break
        most = max(0, self._layout.total - self._rows)
        return min(most, self._layout.top(first) + self._place.offset) if len(self._layout) else 0

    def _want(self, y: int) -> None:
        store = self._store
        if store is None or not store.is_loaded:
            return
        if store.has_older and y < self._rows:
            self.post_message(self.Wanted(store.session, "older"))
        if store.has_newer and y >= self._layout.total - 2 * self._rows:
            self.post_message(self.Wanted(store.session, "newer"))
