"""Ways to places of a transcript that may not be in its window."""

from collections.abc import Sequence

from quarterdeck.wire.events import Prompted

from ..rendering.blocks import can_fold
from ..stores.blocks import Block, PromptBlock
from ..stores.transcript import PAGE, TranscriptStore

__all__ = ["find_next_foldable", "find_next_prompt", "move_window_to", "move_window_to_start"]

_STEP = 400
_MOST_STEPS = 500
"""How far it is looked for: 200,000 records."""


def find_next_foldable(blocks: Sequence[Block], here: int, step: int) -> Block | None:
    """The next block that can be folded, or the one before; at the end the last there is."""
    foldable = [block for block in blocks if can_fold(block)]
    if not foldable:
        return None
    if step > 0:
        return next((block for block in foldable if block.first > here), foldable[-1])
    return next((block for block in reversed(foldable) if block.first < here), foldable[0])


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
