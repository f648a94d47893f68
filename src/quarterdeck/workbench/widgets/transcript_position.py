"""Positions in a transcript: the one that is being read, and the way to one outside the window."""

from collections.abc import AsyncIterator, Mapping, Sequence

from msgspec import Struct, field

from quarterdeck.wire.events import Prompted
from quarterdeck.wire.record import Record

from ..rendering.block_layout import BlockLayout
from ..stores.block_builder import BlockBuilder
from ..stores.blocks import Block, PromptBlock, RunBlock, ShownBlock
from ..stores.transcript import PAGE, TranscriptSpot, TranscriptStore

__all__ = [
    "ScrollAnchor",
    "ScrollAnchors",
    "find_next_foldable",
    "find_next_prompt",
    "move_window_to",
    "move_window_to_start",
    "read_prompts",
]

_MOST_SAVED = 50


class ScrollAnchor(Struct):
    """A place that stays where it is while blocks come, go, grow, are measured or become one."""

    store: TranscriptStore | None = None
    follows: bool = True
    """At the end, wherever that is."""
    expected: TranscriptSpot | None = None
    """Where it was in an earlier run; counts when the blocks there are read."""
    marked: ShownBlock | None = None
    """The block under the cursor."""
    layout: BlockLayout = field(default_factory=lambda: BlockLayout(1))
    _block: ShownBlock | None = None
    """The block at the top of the view."""
    _part: int = 0
    """Which of its pieces."""
    _offset: int = 0
    """Which of the piece's lines is the first in view."""
    _gap: int = 0
    """Lines of it that are there only because something is before the block."""
    _below: int = 0
    """How many lines of the block are from there on; it may become one with the block before."""

    def sync(self, width: int) -> None:
        """Take the blocks as they are now, at a width."""
        if width != self.layout.width:
            self.layout = BlockLayout(width)
        self.layout.sync(self.store.blocks if self.store is not None else ())
        if self.expected is not None and self.store is not None and self.store.is_loaded:
            spot, self.expected = self.expected, None
            if (block := self.store.find(spot.first)) is not None:
                self.put(block, spot.part, spot.offset + self._gap_of(block, spot.part))

    @property
    def spot(self) -> TranscriptSpot | None:
        """What to keep of it over a restart; None: it is at the end."""
        if self.expected is not None or self.follows or self._block is None:
            return self.expected
        offset = max(0, self._offset - self._gap)
        return TranscriptSpot(self._block.first, self._block.last, self._part, offset)

    def put(self, block: ShownBlock, part: int = 0, offset: int = 0) -> None:
        """Be at a line of a block."""
        self.follows = False
        self._block, self._part, self._offset = block, part, offset
        self._gap = self._gap_of(block, part)

    def note(self, y: int) -> None:
        """Be at a line of the whole."""
        if not len(self.layout):
            return
        at, self._offset = self.layout.pin(y)
        self._block, self._part = self.layout.block(at), self.layout.part(at)
        self._below = self.layout.below(at) - self._offset
        self._gap = self._gap_of(self._block, self._part)

    def top(self, y: int, rows: int) -> int:
        """The first line to show of so many; what is in view then is measured.

        ``y``: the line that is the first now.
        """
        if not len(self.layout):
            return 0
        if self.follows:
            self.layout.reveal_end(rows)
            return max(0, self.layout.total - rows)
        first, offset = self._found(y)
        self.layout.reveal(first, rows + offset)
        self._below = self.layout.below(first) - offset
        return min(max(0, self.layout.total - rows), self.layout.top(first) + offset)

    def is_in_view(self, block: ShownBlock | None, y: int, rows: int) -> bool:
        """Whether the first line of a block is among those."""
        at = self.layout.find(block) if block is not None else None
        return at is not None and y <= self.layout.top(at) < y + rows

    def _gap_of(self, block: ShownBlock, part: int) -> int:
        first = self.layout.find(block)
        return int(self.layout.has_gap(first)) if first is not None and not part else 0

    def _found(self, y: int) -> tuple[int, int]:
        """Where the place is now: the piece, and which of its lines."""
        block, layout = self._block, self.layout
        first = layout.find(block) if block is not None else None
        if first is None and block is not None:
            held = block.calls[-1] if isinstance(block, RunBlock) else block
            holder = layout.find_holder(held)
            if holder is not None:  # it is folded into one line with others
                self._block, self._part, self._offset = holder, 0, 0
                self._gap = self._gap_of(holder, 0)
                return layout.find(holder) or 0, 0
        if first is None and block is not None and self.store is not None:
            # It is one with another block now, and their ends are the same.
            joined = self.store.find(block.last)
            first = layout.find(joined) if joined is not None else None
            if first is not None:
                at, self._offset = layout.above_end(first, self._below)
                self._block, self._part = joined, layout.part(at)
                self._gap = self._gap_of(joined, self._part) if joined is not None else 0
        if first is None or self._block is None:
            return layout.locate(y)
        layout.open(first)
        at = layout.find(self._block, self._part)
        gap = self._gap_of(self._block, self._part)
        if gap != self._gap:  # something is before the block now, or no longer
            self._offset, self._gap = max(0, self._offset + gap - self._gap), gap
        return first if at is None else at, self._offset


class ScrollAnchors:
    """Where someone reads in each of several transcripts."""

    def __init__(self) -> None:
        self._anchors: dict[str, ScrollAnchor] = {}

    def of(self, store: TranscriptStore) -> ScrollAnchor:
        """The place in a transcript; at its end at first."""
        anchor = self._anchors.pop(store.session, None) or ScrollAnchor()
        anchor.store = store
        self._anchors[store.session] = anchor
        return anchor

    def expected(self, session: str) -> TranscriptSpot | None:
        """Where a transcript was read in an earlier run, if not yet in this one."""
        return self._anchors[session].expected if session in self._anchors else None

    def remember(self) -> dict[str, TranscriptSpot]:
        """Places that are not at the end, by session."""
        spots = {session: one.spot for session, one in self._anchors.items()}
        saved = {session: spot for session, spot in spots.items() if spot is not None}
        return dict(list(saved.items())[-_MOST_SAVED:])

    def recall(self, saved: Mapping[str, TranscriptSpot]) -> None:
        """Take what ``remember`` gave in an earlier run."""
        self._anchors |= {session: ScrollAnchor(expected=spot) for session, spot in saved.items()}


_STEP = 400
_MOST_STEPS = 500
"""How far it is looked for: 200,000 records."""
_MOST_WORDS = 500
"""Characters of a prompt in a list of them."""


def find_next_foldable(
    blocks: Sequence[ShownBlock], here: ShownBlock, step: int
) -> ShownBlock | None:
    """The next block that can be folded, or the one before; at the end the last there is."""
    from ..rendering.blocks import can_fold

    foldable = [at for at, block in enumerate(blocks) if can_fold(block)]
    place = next((at for at, block in enumerate(blocks) if block is here), None)
    if not foldable or place is None:
        return None
    if step > 0:
        return blocks[next((at for at in foldable if at > place), foldable[-1])]
    return blocks[next((at for at in reversed(foldable) if at < place), foldable[0])]


async def move_window_to(store: TranscriptStore, seq: int) -> Block | None:
    """Move the window to a record; the block of it.

    Raises:
        QuarterdeckError: the log cannot be read.
    """
    half = PAGE // 2
    older = await store.read(before=seq, limit=half)
    newer = await store.read(after=seq - 1, limit=half)
    store.open_at(older, newer, most=half)
    return store.find(seq) or (store.blocks[0] if store.blocks else None)


async def move_window_to_start(store: TranscriptStore) -> Block | None:
    """Move the window to the beginning; the first block. Raises like ``move_window_to``."""
    store.open_at((), await store.read(after=0), most=PAGE)
    return store.blocks[0] if store.blocks else None


async def find_next_prompt(store: TranscriptStore, here: int, step: int) -> int | None:
    """The sequence number of the next prompt (``step`` 1) or the one before (-1); None: none.

    Raises:
        QuarterdeckError: the log cannot be read.
    """
    known = [b.first for b in store.blocks if isinstance(b, PromptBlock)]
    if step > 0:
        found = next((seq for seq in known if seq > here), None)
        return found if found is not None or not store.has_newer else await _after(store)
    found = next((seq for seq in reversed(known) if seq < here), None)
    return found if found is not None or not store.has_older else await _before(store)


async def read_prompts(store: TranscriptStore) -> AsyncIterator[list[PromptBlock]]:
    """The prompts of a transcript: those of the window, then earlier ones, then later ones.

    Raises:
        QuarterdeckError: the log cannot be read.
    """
    yield [block for block in store.blocks if isinstance(block, PromptBlock)]
    before, after = store.first, store.last
    for _ in range(_MOST_STEPS if store.has_older else 0):
        page = await store.read(before=before, limit=_STEP)
        yield _prompts_of(page)
        if len(page) < _STEP:
            break
        before = page[0].seq
    for _ in range(_MOST_STEPS if store.has_newer else 0):
        page = await store.read(after=after, limit=_STEP)
        yield _prompts_of(page)
        if len(page) < _STEP:
            break
        after = page[-1].seq


def _prompts_of(page: Sequence[Record]) -> list[PromptBlock]:
    builder = BlockBuilder(most=_MOST_WORDS)
    for record in page:
        if isinstance(record.event, Prompted):
            builder.take(record)
    return [block for block in builder.blocks if isinstance(block, PromptBlock)]


async def _before(store: TranscriptStore) -> int | None:
    before = store.first
    for _ in range(_MOST_STEPS):
        page = await store.read(before=before, limit=_STEP)
        for record in reversed(page):
            if isinstance(record.event, Prompted):
                return record.seq
        if len(page) < _STEP:
            return None
        before = page[0].seq
    return None


async def _after(store: TranscriptStore) -> int | None:
    after = store.last
    for _ in range(_MOST_STEPS):
        page = await store.read(after=after, limit=_STEP)
        for record in page:
            if isinstance(record.event, Prompted):
                return record.seq
        if len(page) < _STEP:
            return None
        after = page[-1].seq
    return None
