"""Two pages that follow each other, made one: what the cut went through is mended."""

from .blocks import PlanBlock, PromptBlock, TextBlock, ToolBlock
from .calls import end_of
from .folding import Folding

__all__ = ["join"]


def join(before: Folding, after: Folding) -> None:
    """Put the blocks of ``after`` behind those of ``before``, mending what the cut went through."""
    for call, later in list(after.calls.items()):
        earlier = before.calls.get(call)
        if earlier is not None:
            _merge(earlier, later)
            earlier.output = end_of(earlier.output, before)
            after.blocks.remove(later)
            del after.calls[call]
            for terminal, owner in after.terminals.items():
                if owner is later:
                    after.terminals[terminal] = earlier
    for terminal, output in after.stray.items():
        if (owner := before.terminals.get(terminal)) is not None:
            owner.output = end_of(owner.output + output, before)
            owner.version += 1
        else:
            known = before.stray.get(terminal, "")
            before.stray[terminal] = end_of(known + output, before)
    if before.blocks and after.blocks:
        _mend_text(before, after)
    _mend_plan(before, after)
    _mend_turn(before, after)
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
        and (tail.kind, tail.parent) == (head.kind, head.parent)
        and (head.message is None or tail.message in (None, head.message))
    )
    if same and isinstance(head, TextBlock):
        for part in head.parts:
            tail.add(part, before.most)
        tail.left += head.left
        tail.is_whole, tail.last = head.is_whole, head.last
        tail.version += head.version + 1
        tail.expanded = head.expanded
        del after.blocks[0]
    elif not tail.is_whole:
        tail.is_whole = True
        tail.version += 1


def _mend_plan(before: Folding, after: Folding) -> None:
    """Let a plan that is told anew within one turn stay at its place."""
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


def _mend_turn(before: Folding, after: Folding) -> None:
    if after.unbegun is not None:
        after.unbegun.began = before.began
        after.unbegun.version += 1
        if before.is_before_turns:
            before.unbegun = after.unbegun
    if not after.is_before_turns:
        before.began, before.is_before_turns = after.began, False
