"""One agent's transcript: a window on the log, which grows at both ends by pages.

The window is bounded. What falls out of it at one end is read again when somebody goes there, so
that a transcript of any length takes the same memory.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record

from .blocks import Block, PromptBlock, TextBlock, ToolBlock
from .folding import Folding

__all__ = ["MOST_BLOCKS", "PAGE", "Change", "TranscriptStore"]

PAGE = 200
"""Records that are read at once."""
MOST_BLOCKS = 1_500
"""Blocks that are kept at the most."""

_MOST_EARLY = 5_000

Change: TypeAlias = Literal["end", "shape"]
"""``end``: blocks grew or came at the end. ``shape``: any block may have moved."""


class TranscriptStore:
    """The blocks of one session that are in memory, in the order of the log."""

    def __init__(self, session: SessionId) -> None:
        self.session = session
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
        for record in records:
            self._folding.take(record)
        if len(self._folding.blocks) > MOST_BLOCKS * 2:
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
        _join(before, self._folding)
        self._folding = before
        if len(before.blocks) > MOST_BLOCKS:
            self._forget_newer()
        self._tell("shape")

    def forget_older(self) -> None:
        """Let go of the oldest blocks beyond the bound."""
        blocks = self._folding.blocks
        if len(blocks) > MOST_BLOCKS:
            del blocks[: len(blocks) - MOST_BLOCKS]
            self._folding.first = blocks[0].first
            self.has_older = True
            _forget_gone(self._folding)
        self._tell("shape")

    def toggle(self, block: Block) -> bool:
        """Unfold a block or fold it; False if it has nothing to fold."""
        if not isinstance(block, ToolBlock | TextBlock):
            return False
        block.expanded = not block.expanded
        block.version += 1
        self._tell("shape")
        return True

    def unfold_all(self, expanded: bool) -> None:
        """Unfold every tool call and thought, or fold them."""
        for block in self.blocks:
            if isinstance(block, ToolBlock | TextBlock) and block.expanded != expanded:
                block.expanded = expanded
                block.version += 1
        self._tell("shape")

    def prompts(self) -> list[str]:
        """What people said to the agent in this window, oldest first."""
        return [b.text for b in self.blocks if isinstance(b, PromptBlock) and b.origin == "person"]

    def _forget_newer(self) -> None:
        blocks = self._folding.blocks
        gone = blocks[MOST_BLOCKS]
        del blocks[MOST_BLOCKS:]
        self._folding.last = gone.first - 1
        self.has_newer = True
        _forget_gone(self._folding)

    def _tell(self, change: Change) -> None:
        if change == "shape":
            self.revision += 1
        for watcher in list(self._watchers):
            watcher(change)


def _forget_gone(folding: Folding) -> None:
    kept = {id(block) for block in folding.blocks}
    folding.calls = {key: b for key, b in folding.calls.items() if id(b) in kept}
    folding.terminals = {key: b for key, b in folding.terminals.items() if id(b) in kept}


def _join(before: Folding, after: Folding) -> None:
    """Put the blocks of ``after`` behind those of ``before``, mending what the cut went through."""
    for call, later in list(after.calls.items()):
        earlier = before.calls.get(call)
        if earlier is not None:
            _merge(earlier, later)
            after.blocks.remove(later)
            del after.calls[call]
            for terminal, owner in after.terminals.items():
                if owner is later:
                    after.terminals[terminal] = earlier
    for terminal, output in after.stray.items():
        if (owner := before.terminals.get(terminal)) is not None:
            owner.output += output
            owner.version += 1
        else:
            before.stray[terminal] = before.stray.get(terminal, "") + output
    if before.blocks and after.blocks:
        _mend_text(before, after)
    before.blocks.extend(after.blocks)
    before.calls.update(after.calls)
    before.terminals.update(after.terminals)
    before.first = before.first or after.first
    before.last = max(before.last, after.last)


def _merge(earlier: ToolBlock, later: ToolBlock) -> None:
    """Let a call that began in one page go on as the next page tells."""
    later.title = later.title or earlier.title
    later.name = later.name or earlier.name
    later.asked = later.asked or earlier.asked
    later.kind = earlier.kind if later.kind == "other" else later.kind
    later.texts = later.texts or earlier.texts
    later.diffs = later.diffs or earlier.diffs
    later.terminals = later.terminals or earlier.terminals
    later.locations = later.locations or earlier.locations
    later.decision = later.decision or earlier.decision
    later.raw_input = earlier.raw_input if later.raw_input is None else later.raw_input
    for name in ("title", "name", "kind", "status", "reason", "texts", "diffs", "asked"):
        setattr(earlier, name, getattr(later, name))
    for name in (
        "terminals",
        "locations",
        "raw_input",
        "raw_output",
        "decision",
        "is_asking",
        "exit",
    ):
        setattr(earlier, name, getattr(later, name))
    earlier.output += later.output
    earlier.expanded = earlier.expanded or later.expanded
    earlier.last = max(earlier.last, later.last)
    earlier.version += later.version + 1


def _mend_text(before: Folding, after: Folding) -> None:
    tail, head = before.blocks[-1], after.blocks[0]
    if not isinstance(tail, TextBlock):
        return
    same = (
        isinstance(head, TextBlock)
        and head.is_cut
        and not tail.is_whole
        and tail.kind == head.kind
        and (head.message is None or tail.message in (None, head.message))
    )
    if same and isinstance(head, TextBlock):
        tail.parts.extend(head.parts)
        tail.is_whole, tail.last = head.is_whole, head.last
        tail.version += head.version + 1
        tail.expanded = head.expanded
        del after.blocks[0]
    elif not tail.is_whole:
        tail.is_whole = True
        tail.version += 1
