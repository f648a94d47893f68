"""Searching all of a session's log, also what is in no window, from its end to its beginning."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from .block_builder import BlockBuilder
from .blocks import Block, TextBlock, ToolBlock, text_of_block
from .transcript import TranscriptReader, join_pages

__all__ = ["MOST_FOUND", "STEP", "BlockMatch", "TranscriptSearch", "read_whole_text"]

STEP = 400
"""Records that are read and searched at once."""
MOST_FOUND = 2_000
"""Blocks after which no one looks further."""
_END = 2**62


class BlockMatch(Struct, frozen=True, kw_only=True):
    """A block that has the words."""

    seq: int
    """Where it begins."""
    count: int
    """How often it has them."""


class TranscriptSearch:
    """Looks for words; what is found is there at once, while the rest is still searched.

    Small letters find capitals too, as long as no capital is typed. Words are found across the
    pieces in which a message came, and across pages.
    """

    def __init__(self, words: str, read: TranscriptReader) -> None:
        self.words = words
        self.found: list[BlockMatch] = []
        """The newest first."""
        self.searched = 0
        """Records so far."""
        self.is_done = False
        self._read = read
        self._lower = words == words.lower()

    @property
    def total(self) -> int:
        """How often the words were found."""
        return sum(found.count for found in self.found)

    async def run(self, changed: Callable[[], None]) -> None:
        """Search everything; ``changed`` is called after each step. Cancel it to stop.

        Raises:
            QuarterdeckError: the log cannot be read.
        """
        before = _END
        rest = BlockBuilder(most=None)
        while not self.is_done:
            page = await self._read(before=before, limit=STEP)
            self.searched += len(page)
            folding = BlockBuilder(most=None)
            for record in page:
                folding.take(record)
            join_pages(folding, rest)
            is_last = len(page) < STEP
            rest = BlockBuilder(most=None) if is_last else _unfinished(folding)
            kept = {id(block) for block in rest.blocks}
            self._look([block for block in folding.blocks if id(block) not in kept])
            self.is_done = is_last or len(self.found) >= MOST_FOUND
            before = page[0].seq if page else 0
            changed()
            await asyncio.sleep(0)

    def _look(self, blocks: list[Block]) -> None:
        for block in reversed(blocks):
            text = text_of_block(block)
            count = (text.lower() if self._lower else text).count(self.words)
            if count:
                self.found.append(BlockMatch(seq=block.first, count=count))


def _unfinished(folding: BlockBuilder) -> BlockBuilder:
    """What may have begun in an older page."""
    rest = BlockBuilder(most=None, stray=folding.stray, first=folding.first, last=folding.last)
    for at, block in enumerate(folding.blocks):
        if isinstance(block, ToolBlock) and block.is_cut:
            rest.blocks.append(block)
            rest.calls[block.call] = block
            rest.terminals.update(dict.fromkeys(block.terminals, block))
        elif not at and isinstance(block, TextBlock) and block.is_cut:
            rest.blocks.append(block)
    return rest


async def read_whole_text(read: TranscriptReader, block: Block) -> str:
    """All that a block says, read from the log: also what is not kept in memory.

    Raises:
        QuarterdeckError: the log cannot be read.
    """
    folding = BlockBuilder(most=None)
    after = block.first - 1
    while after < block.last:
        page = [r for r in await read(after=after, limit=STEP) if r.seq <= block.last]
        if not page:
            break
        for record in page:
            folding.take(record)
        after = page[-1].seq
    found = next((b for b in folding.blocks if b.first == block.first), None)
    return text_of_block(found if found is not None else block)
