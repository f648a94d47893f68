"""A reply while it arrives, and the token counts that a server reports with it.

A server that counts wrongly costs no answer: a value that is no count is taken as unknown.
"""

import os
from collections.abc import Hashable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field

from quarterdeck.wire.conversation import (
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolUsePart,
)
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.usage import TokenUsage

from .history_repair import seal_signature

__all__ = [
    "UNSAID",
    "DraftKind",
    "PartDraft",
    "Reply",
    "bound_counts",
    "encode",
    "json_object",
    "new_call_id",
    "read_counts",
]

T = TypeVar("T")

UNSAID = msgspec.Raw(b"null")
"""In place of counts that were not sent."""
_MOST = 10**12
"""Tokens; more is a mistake, and would not fit where counts are stored."""


def read_counts(raw: msgspec.Raw, form: type[T]) -> T | None:
    """Read a server's counts in its own form; None when it sent none, or nothing of that form."""
    try:
        return decode_json(raw, form | None)
    except msgspec.DecodeError:
        return None


def bound_counts(usage: TokenUsage) -> TokenUsage:
    """The counts within their bounds: none below nought, no part larger than its whole."""
    most_in, most_out = _within(usage.input, _MOST), _within(usage.output, _MOST)
    cached = _within(usage.cached, most_in)
    return TokenUsage(
        input=most_in,
        output=most_out,
        cached=cached,
        cache_written=_within(usage.cache_written, most_in - cached),
        thought=_within(usage.thought, most_out),
    )


def _within(count: int, most: int) -> int:
    return max(0, min(count, most))


DraftKind: TypeAlias = Literal["text", "thinking", "tool", "opaque"]


class PartDraft(Struct, eq=False):
    """One part of the reply as far as it has arrived."""

    kind: DraftKind
    pieces: list[str] = field(default_factory=list[str])
    id: str = ""
    name: str = ""
    signature: str | None = None
    redacted: str | None = None
    raw: Any = None

    @property
    def text(self) -> str:
        """The pieces so far."""
        return "".join(self.pieces)

    def part(self, owner: str) -> Part:
        """The part as it is stored; ``owner`` is the model that wrote it."""
        sealed = seal_signature(owner, self.signature) if self.signature else None
        match self.kind:
            case "text":
                return TextPart(text=self.text, signature=sealed)
            case "thinking":
                return ThinkingPart(
                    text=self.text,
                    vendor=owner,
                    signature=self.signature,
                    redacted=self.redacted,
                )
            case "tool":
                arguments = self.text if self.text.strip() else "{}"
                return ToolUsePart(
                    id=self.id, name=self.name, arguments=arguments, signature=sealed
                )
            case "opaque":
                return OpaquePart(vendor=owner, raw=self.raw)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing worth keeping."""
        if self.kind in ("tool", "opaque"):
            return False
        return not (self.text or self.signature or self.redacted)


class Reply:
    """The parts of a reply in their order, found by whatever key the wire gives them."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._drafts: dict[Hashable, PartDraft] = {}

    def add(self, key: Hashable, draft: PartDraft) -> PartDraft:
        """Begin a part."""
        self._drafts[key] = draft
        return draft

    def get(self, key: Hashable) -> PartDraft | None:
        """The part with that key, if it has begun."""
        return self._drafts.get(key)

    @property
    def last(self) -> PartDraft | None:
        """The part that began last."""
        return next(reversed(self._drafts.values()), None)

    @property
    def size(self) -> int:
        """How many parts have begun."""
        return len(self._drafts)

    @property
    def has_calls(self) -> bool:
        """Whether a tool call is among the parts."""
        return any(draft.kind == "tool" for draft in self._drafts.values())

    def message(self) -> Message:
        """The whole reply."""
        parts = [draft.part(self._owner) for draft in self._drafts.values() if not draft.is_empty]
        return Message(role="assistant", parts=tuple(parts))

    def partial(self) -> Message | None:
        """The text and thinking so far, if any; calls are left out, as one may be half-written."""
        kinds = ("text", "thinking")
        drafts = (d for d in self._drafts.values() if d.kind in kinds and not d.is_empty)
        parts = tuple(draft.part(self._owner) for draft in drafts)
        return Message(role="assistant", parts=parts) if parts else None


def new_call_id() -> str:
    """An id for a tool call whose server gave it none."""
    return f"call_{os.urandom(8).hex()}"


def json_object(text: str) -> msgspec.Raw:
    """The text as it is when it holds a JSON object, else ``{}``: safe to put into a request."""
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return msgspec.Raw(b"{}")
    return msgspec.Raw(text.encode() if isinstance(value, dict) else b"{}")


def encode(body: dict[str, Any]) -> bytes:
    """The body's JSON, its keys in the order in which they are.

    Half a surrogate pair, which no UTF-8 can carry, becomes ``?``.
    """
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(body))


def _clean(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_clean(k): _clean(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [_clean(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
