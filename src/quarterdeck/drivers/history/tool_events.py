"""Tool calls of agents that keep a name, an input and an output: as events."""

from collections.abc import Iterator, Mapping
from typing import Any

from quarterdeck.wire.content import ContentBlock, ImageContent, text
from quarterdeck.wire.events import ToolCallEnded, ToolCallStarted
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.toolcalls import Diff, ToolCallContent, ToolCallEnd, ToolCallLocation

from ..pipe.told import as_list, as_map, as_text, shown, tool_kind

__all__ = ["call_ended", "call_started", "content_of", "text_of_parts"]

_TITLE = 200
_PATHS = ("path", "file_path", "filePath", "absolute_path", "filename")
_REASON = 1_000


def call_started(call: str, name: str, given: Any) -> ToolCallStarted:
    """A call begins; its title is the command, or the tool and the file."""
    fields = as_map(given)
    path = next((found for key in _PATHS if (found := as_text(fields.get(key)))), "")
    command = as_text(fields.get("command")) or as_text(fields.get("cmd"))
    title = " ".join((command or f"{name} {path}").split()) or "a tool call"
    return ToolCallStarted(
        call=ToolCallId(call or "unnamed"),
        title=title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
        name=name or None,
        kind=tool_kind(name),
        status="in_progress",
        locations=(ToolCallLocation(path=path),) if path else (),
        raw_input=dict(fields) if fields else given,
    )


def call_ended(
    call: str, status: ToolCallEnd, output: str, diff: Mapping[str, Any] | None = None
) -> ToolCallEnded:
    """A call ends. ``diff``: ``path``, ``old`` and ``new`` of the file that it changed."""
    content: tuple[ToolCallContent, ...] = shown(output)
    if diff and as_text(diff.get("path")) and isinstance(diff.get("new"), str):
        old = as_text(diff.get("old")) or None
        content = (Diff(path=diff["path"], old_text=old, new_text=diff["new"]),)
    return ToolCallEnded(
        call=ToolCallId(call or "unnamed"),
        status=status,
        reason=output[:_REASON] or None if status != "completed" else None,
        content=content,
    )


def content_of(parts: Any) -> Iterator[ContentBlock]:
    """What a person said, of ``{"type": "text"|"image", …}``, or of a text alone."""
    if isinstance(parts, str):
        parts = [{"text": parts}]
    for part in map(as_map, as_list(parts)):
        data = as_text(part.get("data"))
        kind = as_text(part.get("mimeType")) or as_text(part.get("mime_type"))
        if said := as_text(part.get("text")):
            yield text(said)
        elif data and kind.startswith("image/"):
            yield ImageContent(data=data, mime_type=kind)


def text_of_parts(parts: Any) -> str:
    """The texts of such parts, a line each."""
    if isinstance(parts, str):
        return parts
    return "\n".join(said for one in as_list(parts) if (said := as_text(as_map(one).get("text"))))
