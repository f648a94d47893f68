"""Where each piece stands: heights that are measured when someone looks, and guessed before.

Only pieces in view are ever rendered, and only the lines of those looked at last are kept. Heights
are kept for one width. What renders is imported with the first block: an empty transcript, as the
first frame shows it, needs nothing of it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ..stores.blocks import (
    Block,
    EndBlock,
    NoteBlock,
    PromptBlock,
    RunBlock,
    ShownBlock,
    TextBlock,
    ToolBlock,
    can_join_run,
)
from . import glyphs
from .lines import Line, Span, width_of

if TYPE_CHECKING:
    import re

    from .pieces import BlockPiece, BlockPieces

__all__ = ["BlockLayout"]

_MOST_LINES = 4_000
"""Lines that are kept rendered."""
_LONGEST_RUN = 100
"""Calls that are folded into one line at the most."""
_PLAN_TOOLS = frozenset(("plan", "update_plan", "todowrite", "todo_write"))
_DEEPEST = 4
_BAR: Span = (f"{glyphs.WALL} ", "faint")
"""Stands before what a sub-agent does."""
_STEP: Span = ("  ", "text")
"""Stands before the calls of a run that is unfolded."""


class _Item(Struct, eq=False):
    """A piece at its place."""

    group: "_Group"
    piece: "BlockPiece"
    has_gap: bool
    height: int
    version: int = -1
    lines: list[Line] | None = None


class _Group(Struct, eq=False):
    """The pieces of a block; a long one is split when someone looks at it."""

    block: ShownBlock
    pieces: "BlockPieces"
    version: int = -1
    is_open: bool = False
    has_gap: bool = False
    before: Line = ()
    """Stands before each of its lines."""
    items: list[_Item] = field(default_factory=list["_Item"])
    _had_gap: bool = False

    def update(self, width: int) -> int:
        """Take the block as it is now; how many items from the first on stayed as they were."""
        from .pieces import BlockPiece, is_long_block

        width = self.room(width)
        stable = 0
        if self.is_open or not is_long_block(self.block):
            self.pieces.update()
            pieces = self.pieces.items
            if self.has_gap == self._had_gap and self._is_beginning(stable := self.pieces.stable):
                pieces = pieces[stable:]
            else:
                stable = 0
        else:
            pieces = [BlockPiece(self.block)]
        self._had_gap = self.has_gap
        known = {id(item.piece): item for item in self.items[stable:]}
        items = self.items[:stable]
        for at, piece in enumerate(pieces, stable):
            has_gap = self.has_gap if not at else piece.has_gap
            item = known.get(id(piece))
            if item is None:
                item = _Item(self, piece, has_gap, piece.guess(width) + has_gap)
            item.height += has_gap - item.has_gap
            item.has_gap = has_gap
            items.append(item)
        self.items = items
        self.version = self.block.version
        return stable

    def _is_beginning(self, count: int) -> bool:
        """Whether that many of the pieces are those of the items that are there."""
        if not 0 < count <= len(self.items):
            return False
        return self.items[count - 1].piece is self.pieces.items[count - 1]

    def room(self, width: int) -> int:
        """The cells for its lines."""
        return max(8, width - width_of(self.before))

    def lines(self, piece: "BlockPiece", width: int) -> list[Line]:
        """The lines of one of its pieces."""
        lines = piece.lines(self.room(width))
        return [(*self.before, *line) for line in lines] if self.before else lines


class _Shown:
    """Which blocks are shown where: what a sub-agent does below its call, calls of a run as one.

    A unit is what belongs to one block of the log that no other holds: that block alone, a run,
    or a call with all that its sub-agent did. Units stand in the order of the log.
    """

    def __init__(self) -> None:
        self._known: list[Block] = []
        self._versions: list[int] = []
        self._units: list[int] = []
        """Of each block the place of the first block of its unit."""
        self._groups: list[int] = []
        """Of each block the place of the first group of its unit."""
        self._calls: dict[str, int] = {}

    def changed(self, blocks: Sequence[Block]) -> tuple[int, int] | None:
        """The first block to arrange anew and its group; None: nothing changed."""
        same = 0
        for block, known, version in zip(blocks, self._known, self._versions, strict=False):
            if block is not known or version != block.version:
                break
            same += 1
        if same == len(blocks) == len(self._known):
            return None
        start = self._units[same] if same < len(self._units) else same
        if start:  # what comes may join the run before
            start = self._units[start - 1]
        low = self._lowest(blocks, start, same)
        while low < start:
            start, low = low, self._lowest(blocks, low, same)
        return start, self._groups[start] if start < len(self._groups) else 0

    def _lowest(self, blocks: Sequence[Block], start: int, same: int) -> int:
        """The first block of all units that blocks from one on belong to."""
        low = min(self._units[start:same], default=start)
        for block in blocks[max(start, same) :]:
            card = self._calls.get(getattr(block, "parent", None) or "")
            if card is not None and card < same:
                low = min(low, self._units[card])
        return low

    def arrange(
        self, blocks: Sequence[Block], start: int, group: int
    ) -> list[tuple[ShownBlock, Line]]:
        """The blocks to show from one on, each with what stands before its lines."""
        for block in self._known[start:]:
            if isinstance(block, ToolBlock) and self._calls.get(block.call, -1) >= start:
                del self._calls[block.call]
        for kept in (self._known, self._versions, self._units, self._groups):
            del kept[start:]
        tops, inner = self._sort(blocks, start)
        shown: list[tuple[ShownBlock, Line]] = []
        at = 0
        while at < len(tops):
            run = _take_run(blocks, tops, at)
            places = tops[at : at + run]
            begin = group + len(shown)
            _put(blocks, places, inner, (), shown)
            for place in places:
                self._mark(place, places[0], begin, inner)
            at += run
        return shown

    def card_of(self, block: Block) -> Block | None:
        """The call whose sub-agent did it, if that is there."""
        at = self._calls.get(getattr(block, "parent", None) or "")
        return self._known[at] if at is not None else None

    def _sort(self, blocks: Sequence[Block], start: int) -> tuple[list[int], dict[int, list[int]]]:
        """Blocks that stand alone, and by their call those of a sub-agent."""
        tops: list[int] = []
        inner: dict[int, list[int]] = {}
        for at in range(start, len(blocks)):
            block = blocks[at]
            card = self._calls.get(getattr(block, "parent", None) or "")
            if card is not None and card >= start:
                inner.setdefault(card, []).append(at)
            else:
                tops.append(at)
            if isinstance(block, ToolBlock):
                self._calls.setdefault(block.call, at)
            self._known.append(block)
            self._versions.append(block.version)
            self._units.append(at)
            self._groups.append(0)
        return tops, inner

    def _mark(self, at: int, unit: int, group: int, inner: dict[int, list[int]]) -> None:
        self._units[at], self._groups[at] = unit, group
        for child in inner.get(at, ()):
            self._mark(child, unit, group, inner)


def _take_run(blocks: Sequence[Block], places: Sequence[int], at: int) -> int:
    """How many blocks from a place on are shown as one; 1: it stands alone."""
    if at + 1 < len(places) and _find_end(blocks[places[at]], blocks[places[at + 1]]) is not None:
        return 2
    end = at
    parent = getattr(blocks[places[at]], "parent", None)
    while end < len(places) and end - at < _LONGEST_RUN:
        block = blocks[places[end]]
        if not can_join_run(block) or getattr(block, "parent", None) != parent:
            break
        end += 1
    return max(1, end - at)


def _is_plan_update(block: Block) -> bool:
    """Whether a call only wrote down a plan: the plan itself is shown."""
    return (
        isinstance(block, ToolBlock)
        and (block.name or "").lower() in _PLAN_TOOLS
        and block.status == "completed"
        and not (block.is_asking or block.reason or block.inner)
    )


def _find_end(one: Block, other: Block) -> EndBlock | None:
    """The end of a turn that says what a note beside it says: how many files changed."""
    for end, note in ((one, other), (other, one)):
        if isinstance(end, EndBlock) and isinstance(note, NoteBlock):
            return end if end.edits and note.is_checkpoint else None
    return None


def _put(
    blocks: Sequence[Block],
    places: Sequence[int],
    inner: dict[int, list[int]],
    before: Line,
    shown: list[tuple[ShownBlock, Line]],
) -> None:
    """Show some neighbours; runs among them as one, and what is unfolded below its line."""
    at = 0
    while at < len(places):
        length = _take_run(blocks, places, at)
        block = blocks[places[at]]
        if length > 1 and isinstance(block, ToolBlock):
            calls = tuple(
                b for p in places[at : at + length] if isinstance(b := blocks[p], ToolBlock)
            )
            block.run = block.run or RunBlock(first=block.first, last=block.last, calls=calls)
            block.run.update(calls)
            own = before or _orphan(block)
            shown.append((block.run, own))
            shown += [(call, (*own, _STEP)) for call in calls] if block.run.expanded else []
        elif length > 1 and (end := _find_end(block, blocks[places[at + 1]])) is not None:
            shown.append((end, before or _orphan(end)))
        elif not _is_plan_update(block):
            shown.append((block, before or _orphan(block)))
            children = inner.get(places[at])
            if children and getattr(block, "expanded", False):
                deeper = (*before, _BAR) if len(before) < _DEEPEST else before
                _put(blocks, children, inner, deeper, shown)
        at += length


def _orphan(block: Block) -> Line:
    """A bar before what a sub-agent did whose call is not there."""
    return (_BAR,) if getattr(block, "parent", None) is not None else ()


def _needs_gap(before: ShownBlock | None, block: ShownBlock) -> bool:
    """Whether an empty line parts a block from the one before, or from the head above it."""
    if before is None:
        return isinstance(block, PromptBlock)  # on the same ground as the head
    if _is_persons(before) is not _is_persons(block):
        return True
    return not (_is_small(before) and _is_small(block))


def _is_persons(block: ShownBlock) -> bool:
    return isinstance(block, ToolBlock) and block.is_persons


def _is_small(block: ShownBlock) -> bool:
    thought = isinstance(block, TextBlock) and block.kind == "thought"
    return thought or isinstance(block, ToolBlock | RunBlock | NoteBlock)


class BlockLayout:
    """Blocks below each other at one width, each in one piece or more."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._shown = _Shown()
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
        changed = self._shown.changed(blocks)
        if changed is None:
            return
        from .pieces import BlockPieces

        start, first = changed
        items = sum(len(group.items) for group in self._groups[:first])
        old = self._groups[first:]
        known = {id(group.block): group for group in old}
        moved: int | None = None
        """The first item that is not where it was."""
        del self._groups[first:]
        del self._items[items:]
        before = self._groups[-1].block if self._groups else None
        for block, prefix in self._shown.arrange(blocks, start, first):
            group = known.get(id(block)) or _Group(block, BlockPieces(block))
            above = self._groups[-1] if self._groups else None
            is_first = above is not None and len(prefix) > len(above.before)
            has_gap = _needs_gap(before, block) and not is_first  # right below its card
            if group.before != prefix:
                group.before, group.items, group.pieces = prefix, [], BlockPieces(block)
                group.version = -1
            stable, at = len(group.items), len(self._groups) - first
            is_there = at < len(old) and old[at] is group
            if group.version != block.version or group.has_gap != has_gap:
                group.has_gap = has_gap
                stable = group.update(self.width)
            if moved is None and (not is_there or stable < len(group.items)):
                moved = len(self._items) + (stable if is_there else 0)
            self._groups.append(group)
            self._items += group.items
            before = block
        self._dirty(len(self._items) if moved is None else moved)

    def open(self, at: int) -> None:
        """Split the block at a place if it is long; places after it may be others then."""
        from .pieces import is_long_block

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
        item.lines = item.group.lines(item.piece, self.width)
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
        from .pieces import is_long_block

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
        if offset < 0:
            return item.group.before
        if item.lines is None or offset >= len(item.lines):
            return ()
        return item.lines[offset]

    def has_gap(self, at: int) -> bool:
        """Whether the first line of a piece is an empty one that parts it from what is before."""
        return self._items[at].has_gap

    def block(self, at: int) -> ShownBlock:
        """The block at a place."""
        return self._items[at].group.block

    @property
    def blocks(self) -> list[ShownBlock]:
        """The blocks that are shown, from the first to the last."""
        return [group.block for group in self._groups]

    def part(self, at: int) -> int:
        """Which piece of its block stands at a place."""
        return self._items[at].group.items.index(self._items[at])

    def find(self, block: ShownBlock, part: int = 0) -> int | None:
        """The place of a piece of a block, if the block is shown."""
        at = 0
        for group in self._groups:
            if group.block is block:
                return at + min(part, len(group.items) - 1)
            at += len(group.items)
        return None

    def find_holder(self, block: Block) -> ShownBlock | None:
        """What hides a block: the run it is in, or the last call above it that is shown."""
        shown = {id(group.block) for group in self._groups}
        runs = [one for group in self._groups if isinstance(one := group.block, RunBlock)]
        held: Block | None = block
        for _ in range(_DEEPEST * 2):
            if held is None or id(held) in shown:
                return held
            for run in runs:
                if any(call is held for call in run.calls):
                    return run
            held = self._shown.card_of(held)
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
