"""Images as the model is shown them."""

import base64

from quarterdeck.wire.content import ImageContent
from quarterdeck.wire.conversation import ImagePart, TextPart
from quarterdeck.wire.toolcalls import ContentItem

from ..targets import Target
from ..tool import Outcome, ToolError
from ..workspace import Workspace

__all__ = ["IMAGE_BYTES", "image_outcome", "image_type"]

IMAGE_BYTES = 3_750_000
"""The largest image: vendors take 5 MB of base 64."""


def image_type(head: bytes) -> str:
    """The MIME type that the first bytes of a file tell; empty for anything but an image."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


async def image_outcome(workspace: Workspace, target: Target, size: int, mime_type: str) -> Outcome:
    """Read an image whole. Raises ToolError if it is too large."""
    content = await workspace.system.files.read(target.real, limit=IMAGE_BYTES + 1)
    if len(content.data) > IMAGE_BYTES:
        raise ToolError(
            f"{target.shown!r} is an image of {size} bytes; at most {IMAGE_BYTES} can be shown. "
            "Make a smaller copy first."
        )
    workspace.seen.note(target.real, content.identity)
    data = base64.b64encode(content.data).decode()
    told = f"{target.shown} ({mime_type}, {len(content.data)} bytes)"
    return Outcome(
        result=(TextPart(text=told), ImagePart(data=data, mime_type=mime_type)),
        content=(ContentItem(content=ImageContent(data=data, mime_type=mime_type)),),
    )
