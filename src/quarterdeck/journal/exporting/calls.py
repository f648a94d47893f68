"""A tool call in an exported session: its input, its output, what it changed."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.events import ToolCallEnded, ToolCallStarted, ToolCallUpdated
from quarterdeck.wire.ids import TerminalId
from quarterdeck.wire.record import Record
from quarterdeck.wire.toolcalls import ContentItem, Diff, TerminalItem, ToolCallContent

from ..text import block_text
from .passages import Block, Passage

__all__ = ["OpenCall", "as_text"]

_MOST_DIFFED = 200_000
"""Characters beyond which the new text is shown whole: comparing takes quadratic time."""


class OpenCall:
    """A call between its start and its end."""

    def __init__(self, record: Record, started: ToolCallStarted) -> None:
        self._record = record
        self._title = started.title
        self._name = started.name
        self._input: Any = started.raw_input
        self._output: Any = None
        self._content: tuple[ToolCallContent, ...] = started.content

    def update(self, event: ToolCallUpdated) -> None:
        """Take what changed."""
        self._title = self._title if event.title is UNSET else event.title
        self._name = self._name if event.name is UNSET else event.name
        self._input = self._input if event.raw_input is UNSET else event.raw_input
        self._output = self._output if event.raw_output is UNSET else event.raw_output
        self._content = self._content if event.content is UNSET else event.content

    def passage(
        self, ended: ToolCallEnded | None, terminals: Mapping[TerminalId, list[str]]
    ) -> Passage:
        """The whole call; ``ended`` is None where the log ends before it did."""
        how = "did not end"
        told = ""
        if ended is not None:
            how = ended.status + (f": {ended.reason}" if ended.reason else "")
            self._output = self._output if ended.raw_output is UNSET else ended.raw_output
            self._content = self._content if ended.content is UNSET else ended.content
            parts = ended.result.content if ended.result is not None else ()
            told = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        blocks = [block for item in self._content for block in _shown(item, terminals)]
        if not any(block.kind == "output" for block in blocks):
            blocks.append(Block(kind="output", text=as_text(self._output) or told))
        name = f"{self._name}: " if self._name and self._name != self._title else ""
        title = f"{name}{self._title} ({how})"
        given = Block(kind="input", text=as_text(self._input))
        return Passage.of(self._record, "tool", title, given, *blocks)


def as_text(value: Any) -> str:
    """A JSON value for people: a text as it is, all else indented."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _shown(item: ToolCallContent, terminals: Mapping[TerminalId, list[str]]) -> Iterator[Block]:
    match item:
        case ContentItem(content=content):
            text = block_text(content) or f"[{type(content).__name__}]"
            yield Block(kind="output", text=text)
        case Diff(path=path):
            yield Block(kind="diff", label=path, text=_diff(item))
        case TerminalItem(terminal_id=terminal):
            yield Block(kind="output", text="".join(terminals.get(TerminalId(terminal), ())))


def _diff(diff: Diff) -> str:
    old, new = diff.old_text or "", diff.new_text
    if len(old) + len(new) > _MOST_DIFFED:
        return new
    lines = difflib.unified_diff(
        old.splitlines(),
        new.splitlines(),
        fromfile="/dev/null" if diff.old_text is None else diff.path,
        tofile=diff.path,
        lineterm="",
    )
    return "\n".join(lines)
