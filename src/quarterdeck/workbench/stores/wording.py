"""The words of a block, for those who search in it or copy it."""

from collections.abc import Iterator

from .blocks import Block, EndBlock, NoteBlock, PlanBlock, PromptBlock, TextBlock, ToolBlock
from .contents import as_json

__all__ = ["text_of_block"]


def text_of_block(block: Block) -> str:
    """What the block says, as it was said; a tool call with all of its parts."""
    match block:
        case PromptBlock() | TextBlock() | NoteBlock():
            return block.text
        case ToolBlock():
            return "\n".join(_tool(block))
        case PlanBlock():
            return "\n".join(entry.content for entry in block.entries)
        case EndBlock():
            return block.reason or ""


def _tool(block: ToolBlock) -> Iterator[str]:
    yield " ".join(filter(None, (block.name, block.title or block.asked)))
    if block.raw_input is not None:
        yield as_json(block.raw_input)
    for place in block.locations:
        yield place.path
    for diff in block.diffs:
        yield from (diff.path, diff.new_text)
    yield from block.texts
    if block.output:
        yield block.output
    if block.raw_output is not None and not (block.texts or block.diffs or block.output):
        yield as_json(block.raw_output)
    if block.decision:
        yield block.decision
    if block.reason:
        yield block.reason
