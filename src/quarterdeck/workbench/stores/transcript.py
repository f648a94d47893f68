"""One agent's transcript: a window on the log, which grows at both ends by pages.

The window is bounded. What falls out of it at one end is read again when somebody goes there, so
that a transcript of any length takes the same memory.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record

from .blocks import Block, EndBlock, NoteBlock, PromptBlock, TextBlock, ToolBlock, weight
from .folding import Folding
from .joining import join

__all__ = ["MOST_BLOCKS", "MOST_WEIGHT", "PAGE", "Change", "Read", "Spot", "TranscriptStore"]

PAGE = 200
"""Records that are read at once."""
MOST_BLOCKS = 1_500
"""Blocks that are kept at the most."""
MOST_WEIGHT = 6_000_000
"""Characters of all blocks that are kept; one block is kept whatever it weighs."""

_MOST_EARLY = 5_000
_RECENT = 16
"""Blocks at the end that may still grow."""

Change: TypeAlias = Literal["end", "shape"]
"""``end``: blocks grew or came at the end. ``shape``: any block may have moved."""


class Spot(NamedTuple):
    """A line of a transcript that can be found again in another run."""

    first: int
    """The sequence number of the first record of its block."""
    last: int
    """Of the last one, as the block was then."""
    part: int
    offset: int


class Read(Protocol):
    """Reads records of a session in order; see ``Fleet.read``."""

    async def __call__(
        self, *, after: int = 0, before: int | None = None, limit: int = PAGE
    ) -> list[Record]:
        """Those after ``after``, or the last before ``before``."""
        ...


async def _nothing(*, after: int = 0, before: int | None = None, limit: int = PAGE) -> list[Record]:
    del after, before, limit
    return []


class TranscriptStore:
    """The blocks of one session that are in memory, in the order of the log.

    Args:
        session: whose transcript it is.
        read: where its records come from, for those who look for something in all of it.
    """

    def __init__(self, session: SessionId, read: Read = _nothing) -> None:
        self.session = session
        self.read = read
        self.has_older = True
        """There may be records before the window."""
        self.has_newer = False
        """There are records after the window; what comes live is not taken in."""
        self.is_loaded = False
        """The first page is here."""
        self.revision = 0
        """Counts changes of shape."""
        self._folding = Folding()
        self._early: list[Record] = []
        self._added = 0
        """About how many characters came live since the window was last weighed."""
        self._seen = 0
        self._watchers: list[Callable[[Change], None]] = []

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks of the window."""
        return self._folding.blocks

    @property
    def first(self) -> int:
        """The sequence number of the first record of the window; 0: it is empty."""
        return self._folding.first

    @property
    def last(self) -> int:
        """The sequence number of the last record of the window."""
        return self._folding.last

    def watch(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Call somebody after each change; returns what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def start(self, page: Sequence[Record], *, is_end: bool) -> None:
        """Begin anew with the last page of the log, or with its first."""
        self._folding = Folding()
        self.is_loaded = True
        self.has_newer = not is_end
        self.has_older = len(page) >= PAGE if is_end else False
        for record in [*page, *(self._early if is_end else ())]:
            self._folding.take(record)
        self._early.clear()
        self._tell("shape")

    def open_at(
        self, older: Sequence[Record] | None, newer: Sequence[Record], *, most: int
    ) -> None:
        """Begin anew somewhere within the log: with what is before a place, and what is after.

        ``older``: None where it was not asked for. ``most``: how many records were asked for on
        either side.
        """
        self._folding = Folding()
        self.is_loaded = True
        self._early.clear()
        for record in (*(older or ()), *newer):
            self._folding.take(record)
        self.has_older = older is None or len(older) >= most
        self.has_newer = len(newer) >= most or self._seen > self.last
        self._tell("shape")

    def live(self, records: Sequence[Record]) -> None:
        """Take in what has just happened, unless the window is elsewhere."""
        if records:
            self._seen = records[-1].seq
        if not self.is_loaded:
            self._early.extend(records)  # they may be missing from the page that is on its way
            del self._early[:-_MOST_EARLY]
            return
        if self.has_newer:
            return
        recent = max(0, len(self._folding.blocks) - _RECENT)
        before = sum(map(weight, self.blocks[recent:]))
        for record in records:
            self._folding.take(record)
        self._added += sum(map(weight, self.blocks[recent:])) - before
        if len(self._folding.blocks) > MOST_BLOCKS * 2 or self._added > MOST_WEIGHT // 2:
            self.forget_older()
            return
        self._tell("end")

    def newer(self, page: Sequence[Record]) -> None:
        """Take in the page after the window."""
        for record in page:
            self._folding.take(record)
        self.has_newer = len(page) >= PAGE or self._seen > self.last
        self.forget_older()

    def older(self, page: Sequence[Record]) -> None:
        """Take in the page before the window."""
        self.has_older = len(page) >= PAGE
        before = Folding()
        for record in page:
            before.take(record)
        join(before, self._folding)
        self._folding = before
        self._forget_newer()
        self._tell("shape")

    def forget_older(self) -> None:
        """Let go of the oldest blocks beyond the bounds."""
        blocks = self._folding.blocks
        kept = _fitting(reversed(blocks))
        self._added = 0
        if kept < len(blocks):
            del blocks[: len(blocks) - kept]
            self._folding.first = blocks[0].first
            self.has_older = True
            _forget_gone(self._folding)
        self._tell("shape")

    def toggle(self, block: Block) -> bool:
        """Unfold a block or fold it; False if it has nothing to fold."""
        if not isinstance(block, ToolBlock | TextBlock | PromptBlock | NoteBlock):
            return False
        block.expanded = not block.expanded
        block.version += 1
        self._tell("shape")
        return True

    def unfold_all(self, expanded: bool) -> None:
        """Unfold every tool call and thought, or fold them."""
        for block in self.blocks:
            foldable = isinstance(block, ToolBlock | TextBlock | PromptBlock | NoteBlock)
            if foldable and block.expanded != expanded:
                block.expanded = expanded
                block.version += 1
        self._tell("shape")

    def prompts(self) -> list[str]:
        """What people said to the agent in this window, oldest first."""
        mine = (b for b in self.blocks if isinstance(b, PromptBlock) and b.origin == "person")
        return [prompt.text for prompt in mine if not prompt.left]

    def find(self, seq: int) -> Block | None:
        """The block of a record in the window; of one that shows nothing the block before it."""
        if not self.first <= seq <= self.last:
            return None
        found: Block | None = None
        for block in self.blocks:
            if block.first > seq:
                break
            found = block if found is None or block.last >= seq or found.last < seq else found
        return found or (self.blocks[0] if self.blocks else None)

    def _forget_newer(self) -> None:
        folding = self._folding
        kept = _fitting(folding.blocks)
        if kept == len(folding.blocks):
            return
        gone = folding.blocks[kept:]
        del folding.blocks[kept:]
        folding.last = gone[0].first - 1
        ends = (block.began for block in gone if isinstance(block, EndBlock))
        began = next(ends, folding.began)
        folding.began = began if began is not None and began[0] <= folding.last else None
        self.has_newer = True
        _forget_gone(folding)

    def _tell(self, change: Change) -> None:
        if change == "shape":
            self.revision += 1
        for watcher in list(self._watchers):
            watcher(change)


def _forget_gone(folding: Folding) -> None:
    kept = {id(block) for block in folding.blocks}
    folding.calls = {key: b for key, b in folding.calls.items() if id(b) in kept}
    folding.terminals = {key: b for key, b in folding.terminals.items() if id(b) in kept}


def _fitting(blocks: Iterable[Block]) -> int:
    """How many of these, from the first on, are within the bounds; at least one."""
    kept = room = 0
    for block in blocks:
        room += weight(block)
        if kept and (kept == MOST_BLOCKS or room > MOST_WEIGHT):
            return kept
        kept += 1
    return kept
