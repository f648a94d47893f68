"""What there is to search in an event: pure functions from events to text."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

from msgspec import UNSET

from quarterdeck.wire.content import ContentBlock, EmbeddedResource, ResourceLink, TextContent
from quarterdeck.wire.conversation import TextPart, ToolResultPart
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    MessagePinned,
    NoticePosted,
    Prompted,
    QuestionAsked,
    SessionChanged,
    SessionOpened,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
)
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem, ToolCallContent

__all__ = ["block_text", "cut_into_pieces", "output_text", "own_text"]


def own_text(event: Event) -> str:
    """The text that an event carries by itself; chunks and tool output are treated apart."""
    match event:
        case Prompted() | MessagePinned():
            parts = [block_text(block) for block in event.content]
        case ToolCallStarted():
            parts = [event.title, event.name, *_strings(event.raw_input), *_output(event.content)]
        case ToolCallUpdated():
            title = None if event.title is UNSET else event.title
            parts = [title, *_strings(event.raw_input)]
        case NoticePosted():
            parts = [event.title, event.description]
        case QuestionAsked():
            parts = [event.text]
        case CompactionChanged():
            parts = [event.summary]
        case SessionOpened():
            parts = [event.title]
        case SessionChanged():
            parts = [None if event.title is UNSET else event.title]
        case _:
            parts = []
    return "\n".join(part for part in parts if part)


def output_text(event: Event) -> str:
    """What a tool call's event says of its output; the first source that has any."""
    if not isinstance(event, ToolCallUpdated | ToolCallEnded):
        return ""
    content = () if event.content is UNSET else event.content
    if found := "\n".join(_output(content)):
        return found
    if found := "\n".join(_strings(event.raw_output)):
        return found
    return _result_text(event.result) if isinstance(event, ToolCallEnded) else ""


def block_text(block: ContentBlock) -> str:
    """The text of a content block; pictures and sounds have none."""
    match block:
        case TextContent():
            return block.text
        case ResourceLink():
            return "\n".join(part for part in (block.title or block.name, block.uri) if part)
        case EmbeddedResource(resource=resource):
            return "\n".join((resource.uri, resource.text or ""))
        case _:
            return ""


def cut_into_pieces(text: str, size: int) -> list[str]:
    """Cut a text into pieces of at most ``size`` characters, at white space where there is any.

    The pieces joined are the text.
    """
    pieces: list[str] = []
    start = 0
    while len(text) - start > size:
        window = text[start : start + size]
        space = max(window.rfind(" "), window.rfind("\n"))
        end = start + (space + 1 if space > 0 else size)
        pieces.append(text[start:end])
        start = end
    pieces.append(text[start:])
    return pieces


def _output(content: Iterable[ToolCallContent]) -> Iterator[str]:
    for item in content:
        match item:
            case ContentItem():
                yield block_text(item.content)
            case Diff():
                yield "\n".join((item.path, item.old_text or "", item.new_text))
            case TerminalItem():
                continue


def _result_text(result: ToolResultPart | None) -> str:
    parts = result.content if result is not None else ()
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def _strings(value: Any) -> Iterator[str]:
    """All the texts inside a JSON value; its keys are structure, not text."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting.extend(reversed(list(cast("dict[str, Any]", item).values())))
        elif isinstance(item, list):
            waiting.extend(reversed(cast("list[Any]", item)))
