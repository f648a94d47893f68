"""What servers say they used, as far as it can be believed.

A server that counts wrongly costs nobody an answer: what is no count is taken as unknown.
"""

from typing import TypeVar

import msgspec

from quarterdeck.wire.usage import TokenUsage

__all__ = ["UNSAID", "plausible", "read_counts"]

T = TypeVar("T")

UNSAID = msgspec.Raw(b"null")
"""In place of counts that were not sent."""
_MOST = 10**12
"""Tokens; more is a mistake, and would not fit where counts are stored."""


def read_counts(raw: msgspec.Raw, form: type[T]) -> T | None:
    """Read a server's counts in its own form; None when it sent none, or nothing of that form."""
    try:
        return msgspec.json.decode(raw, type=form | None)
    except msgspec.DecodeError:
        return None


def plausible(usage: TokenUsage) -> TokenUsage:
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
