"""One agent's transcript: a window on the log that grows at both ends by pages, and how two
pages are joined.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from quarterdeck.wire.event_text import NameFinder
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record

from .block_builder import (
    BlockBuilder,
    collect_edits,
    count_inner_calls,
    end_command,
    interrupt_calls,
)
from .blocks import (
    Block,
    EndBlock,
    PlanBlock,
    PromptBlock,
    RunBlock,
    ShownBlock,
    TextBlock,
    ToolBlock,
    weigh_block,
)

__all__ = [
    "MOST_BLOCKS",
    "MOST_WEIGHT",
    "PAGE",
    "TranscriptChange",
    "TranscriptReader",
    "TranscriptSpot",
    "TranscriptStore",
    "join_pages",
]


def join_pages(before: BlockBuilder, after: BlockBuilder) -> None:
    """Put the blocks of ``after`` behind those of ``before``, joining what the cut went through."""
    if after.has_new_run:
        interrupt_calls(before)
        before.has_new_run = True
    for call, later in list(after.calls.items()):
        earlier = before.calls.get(call)
        if earlier is not None:
            _merge(earlier, later)
            earlier.output = before.cut_output(earlier.output)
            after.blocks.remove(later)
            del after.calls[call]
            for terminal, owner in after.terminals.items():
                if owner is later:
                    after.terminals[terminal] = earlier
    _join_terminals(before, after)
    if before.blocks and after.blocks:
        _repair_text(before, after)
    _repair_plan(before, after)
    _repair_turn(before, after)
    before.blocks.extend(after.blocks)
    before.calls.update(after.calls)
    before.terminals.update(after.terminals)
    before.first = before.first or after.first
    before.last = max(before.last, after.last)
    before.cwd = before.cwd or after.cwd
    count_inner_calls(before)
    if (end := after.unbegun) is not None:
        since = end.began[0] if end.began is not None else 0
        end.edits = collect_edits(before.blocks[: before.blocks.index(end)], since)


def _join_terminals(before: BlockBuilder, after: BlockBuilder) -> None:
    """Give output and ends of commands that began in the page before to their blocks."""
    for terminal, output in after.stray.items():
        if (owner := before.terminals.get(terminal)) is not None:
            owner.output = before.cut_output(owner.output + output)
            owner.version += 1
        else:
            known = before.stray.get(terminal, "")
            before.stray[terminal] = before.cut_output(known + output)
    for terminal, exited in after.stray_exits.items():
        if (owner := before.terminals.get(terminal)) is not None:
            end_command(owner, exited)
            owner.version += 1
        else:
            before.stray_exits[terminal] = exited


def _merge(earlier: ToolBlock, later: ToolBlock) -> None:
    """Let a call that began in one page go on as the next page tells."""
    later.title = later.title or earlier.title
    later.name = later.name or earlier.name
    later.asked = later.asked or earlier.asked
    later.kind = earlier.kind if later.kind == "other" else later.kind
    if later.status == "pending":  # nothing said more
        later.status, later.is_interrupted = earlier.status, earlier.is_interrupted
    later.texts = later.texts or earlier.texts
    later.images = later.images or earlier.images
    later.diffs = later.diffs or earlier.diffs
    later.terminals = later.terminals or earlier.terminals
    later.locations = later.locations or earlier.locations
    later.decision = later.decision or earlier.decision
    later.exit = later.exit or earlier.exit
    later.began = later.began or earlier.began
    later.ended = later.ended or earlier.ended
    later.raw_input = earlier.raw_input if later.raw_input is None else later.raw_input
    for name in ("title", "name", "kind", "status", "reason", "texts", "images", "diffs", "asked"):
        setattr(earlier, name, getattr(later, name))
    for name in (
        "terminals",
        "locations",
        "raw_input",
        "raw_output",
        "decision",
        "is_asking",
        "is_interrupted",
        "exit",
        "began",
        "ended",
    ):
        setattr(earlier, name, getattr(later, name))
    earlier.output += later.output
    earlier.expanded = earlier.expanded or later.expanded
    earlier.is_run_open = earlier.is_run_open or later.is_run_open
    earlier.time = earlier.time or later.time
    earlier.cwd = earlier.cwd or later.cwd
    earlier.last = max(earlier.last, later.last)
    earlier.version += later.version + 1


def _repair_text(before: BlockBuilder, after: BlockBuilder) -> None:
    tail, head = before.blocks[-1], after.blocks[0]
    if not isinstance(tail, TextBlock):
        return
    same = (
        isinstance(head, TextBlock)
        and head.is_cut
        and not tail.is_whole
        and (tail.kind, tail.parent) == (head.kind, head.parent)
        and (head.message is None or tail.message in (None, head.message))
    )
    if same and isinstance(head, TextBlock):
        for part in head.parts:
            tail.add(part, before.most)
        tail.left += head.left
        tail.is_whole, tail.last, tail.ended = head.is_whole, head.last, head.ended
        tail.version += head.version + 1
        tail.expanded = head.expanded
        del after.blocks[0]
    elif not tail.is_whole:
        tail.is_whole = True
        tail.version += 1


def _repair_plan(before: BlockBuilder, after: BlockBuilder) -> None:
    """Let a plan that is reported anew within one turn stay at its place."""
    for block in list(after.blocks):
        if isinstance(block, PromptBlock):
            return
        if not isinstance(block, PlanBlock):
            continue
        earlier = before.plan(block.parent)
        if earlier is not None:
            earlier.entries, earlier.last = block.entries, block.last
            earlier.version += block.version + 1
            after.blocks.remove(block)


def _repair_turn(before: BlockBuilder, after: BlockBuilder) -> None:
    if after.unbegun is not None:
        after.unbegun.began = before.began
        after.unbegun.version += 1
        if before.is_before_turns:
            before.unbegun = after.unbegun
    if not after.is_before_turns:
        before.began, before.is_before_turns = after.began, False


PAGE = 200
"""Records that are read at once."""
MOST_BLOCKS = 1_500
"""Blocks that are kept at the most."""
MOST_WEIGHT = 6_000_000
"""Characters of all blocks that are kept; one block is kept whatever it weighs."""

_MOST_EARLY = 5_000
_DEEPEST = 8
_FARTHEST = 600
"""Blocks before one among which its prompt is looked for, each time a line is drawn."""
_RECENT = 16
"""Blocks at the end that may still grow."""

TranscriptChange: TypeAlias = Literal["end", "shape"]
"""``end``: blocks grew or came at the end. ``shape``: any block may have moved."""


class TranscriptSpot(NamedTuple):
    """A line of a transcript that can be found again in another run."""

    first: int
    """The sequence number of the first record of its block."""
    last: int
    """Of the last one, as the block was then."""
    part: int
    offset: int


class TranscriptReader(Protocol):
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
        find_name: returns the name of another agent.
    """

    def __init__(
        self,
        session: SessionId,
        read: TranscriptReader = _nothing,
        find_name: NameFinder = lambda _: None,
    ) -> None:
        self.session = session
        self.read = read
        self._find_name = find_name
        self.cwd = ""
        """Where the agent works: paths are shown from there on; empty: not known."""
        self.has_older = True
        """There may be records before the window."""
        self.has_newer = False
        """There are records after the window; what comes live is not taken in."""
        self.is_loaded = False
        """The first page is here."""
        self.revision = 0
        """Counts changes of shape."""
        self._folding = BlockBuilder(find_name=self._find_name, cwd=self.cwd)
        self._early: list[Record] = []
        self._added = 0
        """About how many characters came live since the window was last weighed."""
        self._seen = 0
        self._watchers: list[Callable[[TranscriptChange], None]] = []

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

    def watch(self, watcher: Callable[[TranscriptChange], None]) -> Callable[[], None]:
        """Call a function after each change; returns what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def start(self, page: Sequence[Record], *, is_end: bool) -> None:
        """Begin anew with the last page of the log, or with its first."""
        self._folding = BlockBuilder(find_name=self._find_name, cwd=self.cwd)
        self.is_loaded = True
        self.has_newer = not is_end
        self.has_older = len(page) >= PAGE if is_end else False
        for record in [*page, *(self._early if is_end else ())]:
            self._folding.take(record)
        self._early.clear()
        self._notify_watchers("shape")

    def open_at(
        self, older: Sequence[Record] | None, newer: Sequence[Record], *, most: int
    ) -> None:
        """Begin anew somewhere within the log: with what is before a place, and what is after.

        ``older``: None where it was not asked for. ``most``: how many records were asked for on
        either side.
        """
        self._folding = BlockBuilder(find_name=self._find_name, cwd=self.cwd)
        self.is_loaded = True
        self._early.clear()
        for record in (*(older or ()), *newer):
            self._folding.take(record)
        self.has_older = older is None or len(older) >= most
        self.has_newer = len(newer) >= most or self._seen > self.last
        self._notify_watchers("shape")

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
        before = sum(map(weigh_block, self.blocks[recent:]))
        for record in records:
            self._folding.take(record)
        self._added += sum(map(weigh_block, self.blocks[recent:])) - before
        if len(self._folding.blocks) > MOST_BLOCKS * 2 or self._added > MOST_WEIGHT // 2:
            self.forget_older()
            return
        self._notify_watchers("end")

    def newer(self, page: Sequence[Record]) -> None:
        """Take in the page after the window."""
        for record in page:
            self._folding.take(record)
        self.has_newer = len(page) >= PAGE or self._seen > self.last
        self.forget_older()

    def older(self, page: Sequence[Record]) -> None:
        """Take in the page before the window."""
        self.has_older = len(page) >= PAGE
        before = BlockBuilder(find_name=self._find_name, cwd=self.cwd)
        for record in page:
            before.take(record)
        join_pages(before, self._folding)
        self._folding = before
        self._forget_newer()
        self._notify_watchers("shape")

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
        self._notify_watchers("shape")

    def toggle(self, block: ShownBlock) -> bool:
        """Unfold a block or fold it; False if it has nothing to fold."""
        if isinstance(block, EndBlock):
            return False
        if isinstance(block, RunBlock):
            block.toggle()
        else:
            block.expanded = not block.expanded
            block.version += 1
        self._notify_watchers("shape")
        return True

    def redraw(self, block: Block) -> None:
        """Draw a block anew, of which more is known now than its records say."""
        block.version += 1
        self._notify_watchers("shape")

    def unfold_all(self, expanded: bool) -> None:
        """Unfold every tool call and thought, or fold them."""
        for block in self.blocks:
            if isinstance(block, EndBlock) or block.expanded == expanded:
                continue
            block.expanded = expanded
            block.version += 1
            if isinstance(block, ToolBlock):
                block.is_run_open = expanded
        self._notify_watchers("shape")

    def uncover(self, block: Block) -> None:
        """Unfold what hides a block: the call whose sub-agent did it, and the run it is in."""
        calls = {one.call: one for one in self.blocks if isinstance(one, ToolBlock)}
        hidden: Block | None = block
        for _ in range(_DEEPEST):
            if isinstance(hidden, ToolBlock) and not hidden.is_run_open:
                hidden.is_run_open = True
                hidden.version += 1
            parent = getattr(hidden, "parent", None)
            hidden = calls.get(parent) if parent is not None else None
            if hidden is None:
                break
            if not hidden.expanded:
                hidden.expanded = True
                hidden.version += 1
        self._notify_watchers("shape")

    def prompts(self) -> list[str]:
        """What people typed in this window, oldest first: prompts, and commands after ``!``."""
        typed: list[str] = []
        for block in self.blocks:
            if isinstance(block, PromptBlock) and block.origin == "person" and not block.left:
                typed.append(block.text)
            elif isinstance(block, ToolBlock) and block.is_persons:
                typed.append(f"!{block.title}")
        return typed

    def persons_commands(self) -> list[ToolBlock]:
        """The commands that the person ran in this window, the latest first."""
        blocks = reversed(self.blocks)
        return [b for b in blocks if isinstance(b, ToolBlock) and b.is_persons]

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

    def find_prompt(self, seq: int) -> PromptBlock | None:
        """The prompt of the turn that a record belongs to, if it is in the window."""
        blocks = self._folding.blocks
        at = bisect_right(blocks, seq, key=lambda block: block.first)
        for block in reversed(blocks[max(0, at - _FARTHEST) : at]):
            if isinstance(block, PromptBlock) and not block.steers:
                return block
        return None

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

    def _notify_watchers(self, change: TranscriptChange) -> None:
        if change == "shape":
            self.revision += 1
        for watcher in list(self._watchers):
            watcher(change)


def _forget_gone(folding: BlockBuilder) -> None:
    kept = {id(block) for block in folding.blocks}
    folding.calls = {key: b for key, b in folding.calls.items() if id(b) in kept}
    folding.terminals = {key: b for key, b in folding.terminals.items() if id(b) in kept}


def _fitting(blocks: Iterable[Block]) -> int:
    """How many of these, from the first on, are within the bounds; at least one."""
    kept = room = 0
    for block in blocks:
        room += weigh_block(block)
        if kept and (kept == MOST_BLOCKS or room > MOST_WEIGHT):
            return kept
        kept += 1
    return kept
