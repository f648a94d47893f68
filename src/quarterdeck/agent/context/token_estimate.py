"""How large a request is, in tokens: what the vendor counted last, and an estimate of the rest.

Bytes are counted exactly and cheaply; each answer of the vendor shows anew how many tokens a byte
is. Everything here follows from events, so that a session that goes on knows what it knew.
"""

import msgspec
from msgspec import Struct

from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)

__all__ = ["TokenEstimator", "bytes_of", "weigh"]

_GUESS = 0.3
"""Tokens a byte, as long as no vendor has counted."""
_LEAST_FOR_NEW = 0.25
"""Tokens a byte of what no vendor has counted yet: a result may be denser than what was before."""
_SCALE = (0.02, 1.5)
"""Bounds of what is believed of a vendor's counts."""
_IMAGE = 5_000
"""Bytes that stand for an image: vendors count its area, at most some 1,600 tokens."""
_FRAME = 24
"""Bytes around a part: roles, types, ids."""


def bytes_of(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def weigh(message: Message) -> int:
    """Bytes that a message takes in a request, about."""
    return sum(map(_weigh, message.parts))


def _weigh(part: Part) -> int:
    match part:
        case TextPart(text=text):
            return _FRAME + bytes_of(text)
        case ToolUsePart(name=name, arguments=arguments):
            return 2 * _FRAME + len(name) + bytes_of(arguments)
        case ToolResultPart(content=content):
            return 2 * _FRAME + sum(map(_weigh, content))
        case ImagePart():
            return _IMAGE
        case ThinkingPart(text=text, signature=signature, redacted=redacted):
            return _FRAME + bytes_of(text) + len(signature or "") + len(redacted or "")
        case OpaquePart(raw=raw):
            return _FRAME + len(msgspec.json.encode(raw, enc_hook=repr))


class _Count(Struct, frozen=True):
    """What a vendor counted."""

    model: str
    tokens: int
    size: int
    """Bytes of the conversation that were counted."""


class TokenEstimator:
    """Turns bytes into tokens by what the vendor counted last."""

    def __init__(self) -> None:
        self._asked = 0
        self._count: _Count | None = None
        self._is_base = False

    def asked(self, size: int) -> None:
        """A request with a conversation of so many bytes goes out."""
        self._asked = size

    def counted(self, model: str, tokens: int) -> None:
        """The vendor's count of that request; nought is none."""
        if tokens > 0:
            self._count = _Count(model, tokens, self._asked)
            self._is_base = True

    def rewritten(self) -> None:
        """What was counted is no longer the beginning of what will be sent."""
        self._is_base = False

    def tokens(self, size: int, overhead: int, model: str) -> int:
        """Tokens of a conversation of ``size`` bytes with ``overhead`` bytes before it."""
        scale = self.scale(overhead)
        count = self._count
        if count is None or not self._is_base or count.model != model or size < count.size:
            return round((size + overhead) * scale)
        added = (size - count.size) * max(scale, _LEAST_FOR_NEW)
        return round(count.tokens + added)

    def scale(self, overhead: int) -> float:
        """Tokens a byte."""
        if self._count is None:
            return _GUESS
        low, high = _SCALE
        return min(high, max(low, self._count.tokens / max(1, self._count.size + overhead)))
