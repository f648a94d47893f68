"""Where each block stands: heights that are measured when somebody looks, and guessed before.

Only blocks in view are ever rendered. Heights are kept for one width.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ..stores.blocks import Block
from .blocks import block_lines, guess_height, needs_gap
from .lines import Line
from .messages import MessageLines

__all__ = ["BlockLayout"]


@dataclass(slots=True)
class _Item:
    block: Block
    has_gap: bool
    height: int
    message: MessageLines
    version: int = -1
    lines: list[Line] | None = None


class BlockLayout:
    """Blocks below each other at one width."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._items: list[_Item] = []
        self._tops: list[int] = [0]
        """Where each item begins, then the end of all; right up to ``_right``."""
        self._right = 0

    def __len__(self) -> int:
        return len(self._items)

    def sync(self, blocks: Sequence[Block]) -> None:
        """Take the blocks as they are now; what was measured of those that stay is kept."""
        same = 0
        for item, block in zip(self._items, blocks, strict=False):
            if item.block is not block:
                break
            same += 1
        known = {id(item.block): item for item in self._items[same:]}
        del self._items[same:]
        for at in range(same, len(blocks)):
            block = blocks[at]
            has_gap = needs_gap(blocks[at - 1] if at else None, block)
            item = known.get(id(block)) or self._new(block, has_gap)
            item.height += has_gap - item.has_gap
            item.has_gap = has_gap
            self._items.append(item)
        self._dirty(same)

    def measure(self, at: int) -> int:
        """Render a block if it changed; how many lines it has more than was thought."""
        item = self._items[at]
        if item.lines is not None and item.version == item.block.version:
            return 0
        item.lines = block_lines(item.block, self.width, item.message)
        item.version = item.block.version
        height = len(item.lines) + item.has_gap
        grown = height - item.height
        if grown:
            item.height = height
            self._dirty(at)
        return grown

    def top(self, at: int) -> int:
        """The first line of a block; of the one after the last: the end."""
        self._place(at)
        return self._tops[at]

    def height(self, at: int) -> int:
        """The lines of a block, with the empty one before it."""
        return self._items[at].height

    @property
    def total(self) -> int:
        """The lines of all blocks."""
        return self.top(len(self._items))

    def locate(self, y: int) -> tuple[int, int]:
        """The block at a line, and which of its lines that is; the nearest beyond the ends."""
        if not self._items:
            return 0, 0
        self._place(len(self._items))
        y = max(0, min(y, self._tops[-1] - 1))
        at = bisect_right(self._tops, y) - 1
        at = min(at, len(self._items) - 1)
        return at, y - self._tops[at]

    def line(self, at: int, offset: int) -> Line:
        """A line of a block that has been measured."""
        item = self._items[at]
        offset -= item.has_gap
        if item.lines is None or offset < 0 or offset >= len(item.lines):
            return ()
        return item.lines[offset]

    def block(self, at: int) -> Block:
        """The block at a place."""
        return self._items[at].block

    def find(self, block: Block) -> int | None:
        """The place of a block, if it is there."""
        for at, item in enumerate(self._items):
            if item.block is block:
                return at
        return None

    def _new(self, block: Block, has_gap: bool) -> _Item:
        height = guess_height(block, self.width) + has_gap
        return _Item(block, has_gap, height, MessageLines(self.width))

    def _dirty(self, at: int) -> None:
        self._right = min(self._right, at)

    def _place(self, upto: int) -> None:
        tops, items = self._tops, self._items
        del tops[self._right + 1 :]
        for at in range(self._right, max(upto, self._right)):
            tops.append(tops[at] + items[at].height)
        self._right = max(self._right, upto)
