"""What records about tool calls, terminals and permissions do to blocks."""

from typing import TYPE_CHECKING

from msgspec import UNSET

from quarterdeck.wire.content import ImageContent
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.event_text import describe_content
from quarterdeck.wire.events import (
    PermissionAnswered,
    PermissionAsked,
    TerminalExited,
    TerminalOutput,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
)
from quarterdeck.wire.permissions import Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem, ToolCallContent

from .blocks import ToolBlock, truncate_text

if TYPE_CHECKING:
    from .block_builder import BlockBuilder

__all__ = [
    "MOST_OUTPUT",
    "apply_call",
    "apply_exit",
    "apply_output",
    "apply_permission",
    "cut_output",
]

MOST_OUTPUT = 64_000
"""Characters of a terminal's output that are kept in memory; the log has all of it."""
_PLAIN = ("title", "name", "kind", "status", "locations", "raw_input", "raw_output")


def apply_call(
    folding: "BlockBuilder",
    record: Record,
    event: ToolCallStarted | ToolCallUpdated | ToolCallEnded,
) -> None:
    """A call begins, goes on or ends."""
    block = _block(folding, event.call, record.seq, record.parent)
    if isinstance(event, ToolCallStarted):
        block.is_cut = False
    for name in _PLAIN:
        value = getattr(event, name, UNSET)
        if value is not UNSET:
            setattr(block, name, value)
    if isinstance(event, ToolCallEnded):
        block.reason = event.reason
        block.is_asking = False
        if event.result is not None and not block.texts and not block.diffs:
            block.texts = tuple(
                truncate_text(part.text, folding.most)
                if isinstance(part, TextPart)
                else describe_content(ImageContent(data=part.data, mime_type=part.mime_type))
                for part in event.result.content
            )
    if event.content is not UNSET:
        _content(folding, block, event.content)
    folding.touch(block, record.seq)


def apply_output(folding: "BlockBuilder", event: TerminalOutput, seq: int) -> None:
    """A terminal wrote something."""
    block = folding.terminals.get(event.terminal)
    if block is None:
        known = folding.stray.get(event.terminal, "")
        folding.stray[event.terminal] = cut_output(known + event.data, folding)
        return
    if seq <= block.last:
        return
    block.output = cut_output(block.output + event.data, folding)
    folding.touch(block, seq)


def cut_output(apply_output: str, folding: "BlockBuilder") -> str:
    """As much of a terminal's output as is kept."""
    return apply_output if folding.most is None else apply_output[-MOST_OUTPUT:]


def apply_exit(folding: "BlockBuilder", event: TerminalExited, seq: int) -> None:
    """A terminal's command is over."""
    block = folding.terminals.get(event.terminal)
    if block is not None:
        block.exit = event.signal or (None if event.exit_code is None else str(event.exit_code))
        folding.touch(block, seq)


def apply_permission(
    folding: "BlockBuilder", event: PermissionAsked | PermissionAnswered, seq: int
) -> None:
    """Leave is asked for, given or refused."""
    block = _block(folding, event.call, seq, None)
    if isinstance(event, PermissionAsked):
        block.is_asking = True
        block.asked = event.title
        block.name = block.name or event.name
        block.kind = event.kind if block.kind == "other" else block.kind
        block.raw_input = event.raw_input if block.raw_input is None else block.raw_input
        if not (block.texts or block.diffs or block.terminals):
            _content(folding, block, event.content)
    else:
        block.is_asking = False
        block.decision = _decision(event)
    folding.touch(block, seq)


def _decision(event: PermissionAnswered) -> str:
    chosen = isinstance(event.outcome, Selected)
    what = (event.kind or "answered").replace("_", " ") if chosen else "cancelled"
    who = event.by.kind + (f" {event.by.name}" if event.by.name else "")
    return f"{what} by {who}" + (f": {event.feedback}" if event.feedback else "")


def _block(folding: "BlockBuilder", id_: str, seq: int, parent: str | None) -> ToolBlock:
    block = folding.calls.get(id_)
    if block is None:
        block = ToolBlock(first=seq, last=seq - 1, call=id_, is_cut=True, parent=parent)
        folding.calls[id_] = block
        folding.add(block)
    return block


def _content(folding: "BlockBuilder", block: ToolBlock, items: tuple[ToolCallContent, ...]) -> None:
    block.diffs = tuple(item for item in items if isinstance(item, Diff))
    block.texts = tuple(
        truncate_text(describe_content(item.content), folding.most)
        for item in items
        if isinstance(item, ContentItem)
    )
    block.terminals = tuple(item.terminal_id for item in items if isinstance(item, TerminalItem))
    for terminal in block.terminals:
        folding.terminals[terminal] = block
