"""Where each piece stands: heights that are measured when someone looks, and guessed before.

Only pieces in view are ever rendered, and only the lines of those looked at last are kept. Heights
are kept for one width.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..stores.blocks import Block
from .blocks import needs_gap
from .lines import Line
from .pieces import BlockPiece, BlockPieces, is_long_block

if TYPE_CHECKING:
    import re

__all__ = ["BlockLayout"]

_MOST_LINES = 4_000
"""Lines that are kept rendered."""


@dataclass(slots=True, eq=False)
class _Item:
    """A piece at its place."""

    group: "_Group"
    piece: BlockPiece
    has_gap: bool
    height: int
    version: int = -1
    lines: list[Line] | None = None


@dataclass(slots=True, eq=False)
class _Group:
    """The pieces of a block; a long one is split when someone looks at it."""

    block: Block
    pieces: BlockPieces
    version: int = -1
    is_open: bool = False
    has_gap: bool = False
    items: list[_Item] = field(default_factory=list["_Item"])

    def update(self, width: int) -> None:
        """Take the block as it is now."""
        if self.is_open or not is_long_block(self.block):
            self.pieces.update()
            pieces = self.pieces.items
        else:
            pieces = [BlockPiece(self.block)]
        known = {id(item.piece): item for item in self.items}
        items: list[_Item] = []
        for at, piece in enumerate(pieces):
            has_gap = self.has_gap if not at else piece.has_gap
            item = known.get(id(piece))
            if item is None:
                item = _Item(self, piece, has_gap, piece.guess(width) + has_gap)
            item.height += has_gap - item.has_gap
            item.has_gap = has_gap
            items.append(item)
        self.items = items
        self.version = self.block.version


class BlockLayout:
    """Blocks below each other at one width, each in one piece or more."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._groups: list[_Group] = []
        self._items: list[_Item] = []
        self._tops: list[int] = [0]
        """Where each item begins, then the end of all; right up to ``_right``."""
        self._right = 0
        self._rendered: dict[_Item, int] = {}
        self._lines = 0

    def __len__(self) -> int:
        return len(self._items)

    def sync(self, blocks: Sequence[Block]) -> None:
        """Take the blocks as they are now; what was measured of those that stay is kept."""
        same = items = 0
        for group, block in zip(self._groups, blocks, strict=False):
            if group.block is not block or group.version != block.version:
                break
            same += 1
            items += len(group.items)
        if same == len(blocks) == len(self._groups):
            return
        known = {id(group.block): group for group in self._groups[same:]}
        del self._groups[same:]
        del self._items[items:]
        for at in range(same, len(blocks)):
            block = blocks[at]
            group = known.get(id(block)) or _Group(block, BlockPieces(block))
            has_gap = needs_gap(blocks[at - 1] if at else None, block)
            if group.version != block.version or group.has_gap != has_gap:
                group.has_gap = has_gap
                group.update(self.width)
            self._groups.append(group)
            self._items += group.items
        self._dirty(items)

    def open(self, at: int) -> None:
        """Split the block at a place if it is long; places after it may be others then."""
        group = self._items[at].group
        if group.is_open or not is_long_block(group.block):
            return
        group.is_open = True
        group.update(self.width)
        self._items[at : at + 1] = group.items
        self._dirty(at)

    def measure(self, at: int) -> int:
        """Render a piece if it changed; how many lines it has more than was thought."""
        self.open(at)
        item = self._items[at]
        if item.lines is not None and item.version == item.piece.version:
            return 0
        self._forget(item)
        item.lines = item.piece.lines(self.width)
        item.version = item.piece.version
        self._rendered[item] = len(item.lines)
        self._lines += len(item.lines)
        while self._lines > _MOST_LINES and len(self._rendered) > 1:
            self._forget(next(iter(self._rendered)))
        height = len(item.lines) + item.has_gap
        grown = height - item.height
        if grown:
            item.height = height
            self._dirty(at)
        return grown

    def reveal(self, first: int, rows: int) -> None:
        """Measure so many rows from a piece on."""
        at = first
        while rows > 0 and at < len(self._items):
            self.measure(at)
            rows -= self._items[at].height
            at += 1

    def reveal_end(self, rows: int) -> None:
        """Measure the last rows."""
        at = len(self._items) - 1
        while rows > 0 and at >= 0:
            group = self._items[at].group
            if not group.is_open and is_long_block(group.block):
                self.open(at)
                at += len(group.items) - 1
            self.measure(at)
            rows -= self._items[at].height
            at -= 1

    def pin(self, y: int) -> tuple[int, int]:
        """The piece at a line and which of its lines that is, measured.

        Where measuring shows that there are more lines or fewer, what is below stays.
        """
        at, offset = self.locate(y)
        if not offset:
            self.measure(at)
            return at, 0
        below = self.top(at + 1) - y
        if self._items[at].group.is_open:
            self.measure(at)
            return at, max(0, self._items[at].height - below)
        return self.above_end(at, below)

    def below(self, at: int) -> int:
        """The lines from a piece to the end of its block."""
        group = self._items[at].group
        return sum(item.height for item in group.items[self.part(at) :])

    def above_end(self, first: int, below: int) -> tuple[int, int]:
        """The piece and line of a block that is ``below`` lines before its end, measured."""
        self.open(first)
        at = first + len(self._items[first].group.items) - 1
        self.measure(at)
        while below > self._items[at].height and at > first:
            below -= self._items[at].height
            at -= 1
            self.measure(at)
        return at, max(0, self._items[at].height - below)

    def may_have(self, at: int, words: "re.Pattern[str]") -> bool:
        """Whether a piece can have these words; decided without rendering it."""
        cut = self._items[at].piece.cut
        return cut is None or words.search(cut.text) is not None

    def top(self, at: int) -> int:
        """The first line of a piece; of the one after the last: the end."""
        self._place(at)
        return self._tops[at]

    def height(self, at: int) -> int:
        """The lines of a piece, with the empty one before it."""
        return self._items[at].height

    @property
    def total(self) -> int:
        """The lines of all pieces."""
        return self.top(len(self._items))

    def locate(self, y: int) -> tuple[int, int]:
        """The piece at a line, and which of its lines that is; the nearest beyond the ends."""
        if not self._items:
            return 0, 0
        self._place(len(self._items))
        y = max(0, min(y, self._tops[-1] - 1))
        at = bisect_right(self._tops, y) - 1
        at = min(at, len(self._items) - 1)
        return at, y - self._tops[at]

    def line(self, at: int, offset: int) -> Line:
        """A line of a piece that has been measured."""
        item = self._items[at]
        offset -= item.has_gap
        if item.lines is None or offset < 0 or offset >= len(item.lines):
            return ()
        return item.lines[offset]

    def has_gap(self, at: int) -> bool:
        """Whether the first line of a piece is an empty one that parts it from what is before."""
        return self._items[at].has_gap

    def block(self, at: int) -> Block:
        """The block at a place."""
        return self._items[at].group.block

    def part(self, at: int) -> int:
        """Which piece of its block stands at a place."""
        return self._items[at].group.items.index(self._items[at])

    def find(self, block: Block, part: int = 0) -> int | None:
        """The place of a piece of a block, if the block is there."""
        at = 0
        for group in self._groups:
            if group.block is block:
                return at + min(part, len(group.items) - 1)
            at += len(group.items)
        return None

    def _forget(self, item: _Item) -> None:
        self._lines -= self._rendered.pop(item, 0)
        item.lines = None

    def _dirty(self, at: int) -> None:
        self._right = min(self._right, at)

    def _place(self, upto: int) -> None:
        tops, items = self._tops, self._items
        del tops[self._right + 1 :]
        for at in range(self._right, max(upto, self._right)):
            tops.append(tops[at] + items[at].height)
        self._right = max(self._right, upto)
