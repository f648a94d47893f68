"""The contract of a wire: how a question is read and how an answer is put in bytes."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

import msgspec

from quarterdeck.models.model import ModelStop
from quarterdeck.models.script import ScriptFailure, ScriptFault
from quarterdeck.models.script.performance import (
    TextBeat,
    ThinkingBeat,
    ToolInputBeat,
    ToolStartBeat,
)
from quarterdeck.models.script.question import ScriptQuestion
from quarterdeck.wire.conversation import Part
from quarterdeck.wire.usage import TokenUsage

__all__ = ["ReplyEncoder", "ServerWire", "event", "media_type", "objects", "table", "text_of"]


class ReplyEncoder(Protocol):
    """Puts one reply in the bytes of a stream of server-sent events, in order."""

    def begin(self, input_tokens: TokenUsage) -> bytes:
        """What comes before the first beat; of the usage only the input is known."""
        ...

    def beat(self, beat: TextBeat | ThinkingBeat | ToolStartBeat | ToolInputBeat) -> bytes:
        """One beat."""
        ...

    def end(self, usage: TokenUsage, stop: ModelStop) -> bytes:
        """What comes after the last beat, with the end marker."""
        ...

    def fail(self, fault: ScriptFault) -> bytes:
        """The vendor's event for a failure in the middle of a reply."""
        ...


class ServerWire(Protocol):
    """One vendor's form."""

    @property
    def name(self) -> str:
        """The name of the form, as logs have it."""
        ...

    def read(self, path: str, body: dict[str, Any]) -> tuple[ScriptQuestion, bool]:
        """What is asked, and whether the answer is to be streamed."""
        ...

    def encoder(self, question: ScriptQuestion, body: dict[str, Any]) -> ReplyEncoder:
        """The voice for one streamed reply."""
        ...

    def whole(
        self, question: ScriptQuestion, parts: tuple[Part, ...], usage: TokenUsage, stop: ModelStop
    ) -> dict[str, Any]:
        """A reply that is not streamed."""
        ...

    def failure(self, failure: ScriptFailure) -> dict[str, Any]:
        """The vendor's body for an error."""
        ...


_encode = msgspec.json.Encoder().encode


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """One server-sent event."""
    if name is None:
        return b"data: " + _encode(data) + b"\n\n"
    return b"event: " + name.encode() + b"\ndata: " + _encode(data) + b"\n\n"


def objects(value: object) -> Iterable[dict[str, Any]]:
    """The objects of a list; of anything else, none."""
    if not isinstance(value, list):
        return ()
    items = cast("list[object]", value)
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def table(value: object) -> dict[str, Any]:
    """An object as it is; of anything else, an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def media_type(url: object) -> str:
    """The media type that a ``data:`` address names; of any other, plainly an image."""
    return url[5:].partition(";")[0] if isinstance(url, str) and url[:5] == "data:" else "image"


def text_of(content: object) -> str:
    """The text in a message's content, whether that is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(str(b["text"]) for b in objects(content) if isinstance(b.get("text"), str))
