"""The tool ``read``: lines of a file with their numbers, or an image."""

import asyncio
import base64
from typing import Annotated

from msgspec import Meta

from quarterdeck.system.api import FileLines, Files, FileStat
from quarterdeck.wire.content import ImageContent
from quarterdeck.wire.conversation import ImagePart, TextPart
from quarterdeck.wire.tool_calls import ContentItem, ToolCallLocation, ToolKind

from ..file_access import HEAD_BYTES, FileTarget, binary_reason, expect_unmoved, look_up_file
from ..tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    ToolError,
    ToolOutcome,
    read_description,
    text_outcome,
)
from ..truncation import LINE_BYTES, RESULT_BYTES, shorten, size_of
from ..workspace import ToolWorkspace

__all__ = ["IMAGE_BYTES", "ReadArguments", "ReadTool", "image_outcome", "image_type"]

IMAGE_BYTES = 3_750_000
"""The largest image: vendors take 5 MB of base 64."""


def image_type(head: bytes) -> str:
    """The MIME type by the first bytes of a file; empty for anything but an image."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


async def image_outcome(
    workspace: ToolWorkspace, target: FileTarget, size: int, mime_type: str
) -> ToolOutcome:
    """Read an image whole. Raises ToolError if it is too large."""
    content = await workspace.system.files.read(target.real, limit=IMAGE_BYTES + 1)
    if len(content.data) > IMAGE_BYTES:
        raise ToolError(
            f"{target.shown!r} is an image of {size} bytes; at most {IMAGE_BYTES} can be shown. "
            "Make a smaller copy first."
        )
    workspace.seen.note(target.real, content.identity)
    data = base64.b64encode(content.data).decode()
    text = f"{target.shown} ({mime_type}, {len(content.data)} bytes)"
    return ToolOutcome(
        result=(TextPart(text=text), ImagePart(data=data, mime_type=mime_type)),
        content=(ContentItem(content=ImageContent(data=data, mime_type=mime_type)),),
    )


_DEFAULT_LINES = 2000
_WINDOW_BYTES = 1_048_576
_PIECE = 1_048_576


class ReadArguments(Arguments, frozen=True, kw_only=True):
    """What to read."""

    path: Annotated[
        str, Meta(description="The file, relative to the working directory or absolute.")
    ]
    line: Annotated[int, Meta(ge=1, description="First line to read, starting at 1.")] = 1
    limit: Annotated[int, Meta(ge=1, description="Number of lines to read.")] = _DEFAULT_LINES


class ReadTool:
    """Reads text in windows of lines, in memory that does not depend on the file's size.

    What was read is noted, so that the file may be changed as it was seen.
    """

    name = "read"
    kind: ToolKind = "read"
    arguments = ReadArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__name__)

    async def prepare(self, arguments: ReadArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Look at the file. Raises NoSuchPathError, OutsideRootsError, ToolError."""
        target, stat = await look_up_file(workspace, arguments.path, "read")

        async def run(live: LiveCall) -> ToolOutcome:
            return await _read(arguments, workspace, target, stat)

        return PreparedCall(
            title=f"Read {target.shown}{_range(arguments)}",
            call=workspace.call(self.name, self.kind, paths=(target.use,)),
            run=run,
            locations=(ToolCallLocation(path=target.path, line=arguments.line),),
        )


def _range(arguments: ReadArguments) -> str:
    if arguments.line == 1 and arguments.limit == _DEFAULT_LINES:
        return ""
    return f" ({arguments.line}–{arguments.line + arguments.limit - 1})"


async def _read(
    arguments: ReadArguments, workspace: ToolWorkspace, target: FileTarget, stat: FileStat
) -> ToolOutcome:
    files = workspace.system.files
    await expect_unmoved(files, target)
    head = (await files.read(target.real, limit=HEAD_BYTES)).data
    if mime_type := image_type(head):
        return await image_outcome(workspace, target, stat.size, mime_type)
    if reason := binary_reason(head):
        raise ToolError(
            f"{target.shown!r} ({stat.size} bytes) cannot be read as text: {reason}. Inspect it "
            "with a command for this file type."
        )
    lines = await files.read_lines(
        target.real,
        line=arguments.line,
        limit=min(arguments.limit, _DEFAULT_LINES),
        max_bytes=_WINDOW_BYTES,
    )
    workspace.seen.note(target.real, lines.identity)
    if not lines.count:
        return _nothing(target, lines)
    longest = await _line_bytes(files, target.real, lines.first) if lines.is_cut else None
    text = await asyncio.to_thread(_numbered, target, lines, longest)
    return ToolOutcome(result=(TextPart(text=text),))


def _nothing(target: FileTarget, lines: FileLines) -> ToolOutcome:
    if not lines.total:
        return text_outcome(f"{target.shown} is empty (0 bytes).")
    raise ToolError(
        f"{target.shown!r} has {lines.total} lines; line {lines.first} is after its end. "
        f"Give a line up to {lines.total}."
    )


def _numbered(target: FileTarget, lines: FileLines, line_bytes: int | None) -> str:
    """The window as the model sees it: numbers, lines, and how to go on."""
    rows = lines.text.removesuffix("\n").split("\n")
    if lines.first == 1:
        rows[0] = rows[0].removeprefix("\ufeff")
    kept: list[str] = []
    room = RESULT_BYTES
    for number, row in enumerate(rows, lines.first):
        line = f"{number:>5}\t" + _shown_line(row.removesuffix("\r"), line_bytes)
        room -= size_of(line) + 1
        if kept and room < 0:
            break
        kept.append(line)
    notes = [*_position(lines, len(kept)), *_oddities(lines)]
    return "\n".join([*kept, *(f"({note})" for note in notes)])


def _shown_line(row: str, line_bytes: int | None) -> str:
    """A line, cut where it is too long; ``line_bytes`` is its length if the window cut it too."""
    if line_bytes is None:
        return shorten(row)
    kept = row.encode()[:LINE_BYTES].decode("utf-8", "ignore")
    return f"{kept} … [{line_bytes - size_of(kept)} more bytes in this line]"


def _position(lines: FileLines, shown: int) -> list[str]:
    following = lines.first + shown
    if lines.total is not None and following > lines.total:
        return [] if lines.first == 1 else [f"end of the file, {lines.total} lines"]
    of = "" if lines.total is None else f" of {lines.total}"
    return [f"lines {lines.first}–{following - 1}{of}; continue with line={following}"]


def _oddities(lines: FileLines) -> list[str]:
    notes: list[str] = []
    if b"\r\n" in lines.data:
        notes.append("lines end in CR LF; edit and write preserve that")
    try:
        lines.data.decode("utf-8")
    except UnicodeDecodeError:
        notes.append("not UTF-8: bytes that cannot be shown are �, and the file cannot be edited")
    return notes


async def _line_bytes(files: Files, path: str, line: int) -> int:
    """The exact length of one very long line, found piece by piece."""
    offset, ends, length = 0, 0, 0
    while True:
        content = await files.read(path, offset=offset, limit=_PIECE)
        for index, part in enumerate(content.data.split(b"\n")):
            ends += index > 0
            if ends == line - 1:
                length += len(part)
        offset += len(content.data)
        if ends >= line or content.at_end or not content.data:
            return length
