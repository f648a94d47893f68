"""The result of a call: sent to the model, shown to people, kept."""

import asyncio
import base64
import binascii
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET

from quarterdeck.wire.content import ImageContent, text
from quarterdeck.wire.conversation import ImagePart, ResultPart, TextPart
from quarterdeck.wire.tool_calls import ContentItem, ToolCallContent

from ..tools.bash.shell import OutputFiles
from ..tools.read import IMAGE_BYTES, image_type
from ..tools.tool import ToolOutcome
from ..tools.truncation import keep_ends, size_of
from ..tools.workspace import ToolWorkspace
from .protocol import CallResult

__all__ = ["outcome_of"]

_MOST_RAW = 200_000
"""Bytes of structured content that are kept in the log."""


async def outcome_of(result: CallResult, workspace: ToolWorkspace) -> ToolOutcome:
    """Make an outcome of a result; a text that is too long is cut, and whole in a file."""
    parts = [part for block in result.content if (part := _part(block)) is not None]
    has_text = any(isinstance(part, TextPart) for part in parts)
    structured = result.structured_content
    if not has_text and structured is not UNSET:
        parts.insert(0, TextPart(text=msgspec.json.encode(structured).decode()))
    shown = await _bounded(parts, workspace)
    if not shown:
        shown = (TextPart(text="(no output)"),)
    return ToolOutcome(
        result=shown,
        content=tuple(_shown(part) for part in shown),
        raw_output=_raw(structured),
        is_error=result.is_error,
    )


def _part(block: Any) -> ResultPart | None:
    """A block of content in our words; what cannot be shown is described."""
    if not isinstance(block, dict):
        return None
    fields = cast("dict[str, Any]", block)
    match fields.get("type"):
        case "text":
            return TextPart(text=str(fields.get("text", "")))
        case "image":
            return _image(fields.get("data"), fields.get("mimeType"))
        case "audio":
            size = len(str(fields.get("data", ""))) * 3 // 4
            return TextPart(
                text=f"[Audio ({fields.get('mimeType')}, {size} bytes): it cannot be played here.]"
            )
        case "resource_link":
            return TextPart(text=_link(fields))
        case "resource":
            return _resource(fields.get("resource"))
        case other:
            return TextPart(text=f"[Content of unknown type {str(other)[:40]!r}.]")


def _image(data: Any, kind: Any) -> ResultPart:
    try:
        raw = base64.b64decode(str(data), validate=True)
    except (binascii.Error, ValueError):
        return TextPart(text=f"[An image ({kind}) that cannot be read.]")
    found = image_type(raw[:16])
    if not found:
        return TextPart(
            text=(f"[An image ({kind}, {len(raw)} bytes) of a type that cannot be shown here.]")
        )
    if len(raw) > IMAGE_BYTES:
        return TextPart(text=f"[An image ({found}, {len(raw)} bytes): too large to show.]")
    # The bytes decide the type: a vendor refuses an image whose declared type is another.
    return ImagePart(data=str(data), mime_type=found)


def _link(fields: dict[str, Any]) -> str:
    facts = [f"uri: {fields.get('uri')}"]
    facts += [
        f"{word}: {fields[key]}"
        for key, word in (("name", "name"), ("description", "about"), ("mimeType", "type"))
        if fields.get(key)
    ]
    return f"[A resource on the server; {'; '.join(facts)}]"


def _resource(resource: Any) -> ResultPart:
    fields = cast("dict[str, Any]", resource) if isinstance(resource, dict) else {}
    uri, kind = fields.get("uri"), fields.get("mimeType")
    if isinstance(content := fields.get("text"), str):
        return TextPart(text=f'<resource uri="{uri}">\n{content}\n</resource>')
    if isinstance(blob := fields.get("blob"), str):
        if str(kind).startswith("image/"):
            return _image(blob, kind)
        return TextPart(text=f"[A resource, {uri} ({kind}, {len(blob) * 3 // 4} bytes)]")
    return TextPart(text=f"[A resource, {uri}]")


async def _bounded(parts: list[ResultPart], workspace: ToolWorkspace) -> tuple[ResultPart, ...]:
    """Cut the texts together to the limit for one call's result."""
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    most = workspace.options.output_bytes
    if sum(map(size_of, texts)) <= most:
        return tuple(parts)
    whole = "\n".join(texts)
    outputs = workspace.get_kept(OutputFiles)
    file = await outputs.new_file()
    await asyncio.to_thread(_write, file, whole)
    cut = f"{keep_ends(whole, most).text}\n[The full output is in {file}, {size_of(whole)} bytes.]"
    images = tuple(part for part in parts if isinstance(part, ImagePart))
    return (TextPart(text=cut), *images)


def _write(file: str, whole: str) -> None:
    path = Path(file)
    path.touch(0o600)
    path.write_text(whole, "utf-8", "replace")


def _shown(part: ResultPart) -> ToolCallContent:
    if isinstance(part, ImagePart):
        return ContentItem(content=ImageContent(data=part.data, mime_type=part.mime_type))
    return ContentItem(content=text(part.text))


def _raw(structured: Any) -> Any:
    if structured is UNSET:
        return None
    size = len(msgspec.json.encode(structured))
    return structured if size <= _MOST_RAW else {"dropped_bytes": size}
