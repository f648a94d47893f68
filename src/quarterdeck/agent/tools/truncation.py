"""The limits of what is sent to the model, and the one way to keep them.

Everything that is left out is counted exactly and reported. Sizes are bytes of UTF-8.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = [
    "LINE_BYTES",
    "RESULT_BYTES",
    "TruncatedText",
    "keep_ends",
    "keep_head",
    "shorten",
    "size_of",
]

LINE_BYTES = 2000
"""The longest line that is shown whole."""
RESULT_BYTES = 50_000
"""The most bytes that one call of a file tool sends to the model."""

Limit: TypeAlias = Literal["lines", "bytes"]


class TruncatedText(Struct, frozen=True, kw_only=True):
    """What is left of a text, and exactly how much is not."""

    text: str
    lines: int
    """Lines that were kept."""
    dropped_lines: int = 0
    dropped_bytes: int = 0
    limit: Limit | None = None
    """Which limit was reached first; None when everything was kept."""

    @property
    def is_whole(self) -> bool:
        """Nothing is missing."""
        return self.limit is None


def size_of(text: str) -> int:
    """The size of a text in bytes; a lone surrogate counts as three."""
    return len(text.encode("utf-8", "surrogatepass"))


def shorten(line: str, limit: int = LINE_BYTES) -> str:
    """Return one line, cut after ``limit`` bytes with the exact number of those left out."""
    if len(line) * 4 <= limit or (size := size_of(line)) <= limit:
        return line
    kept = _whole(line.encode("utf-8", "replace")[:limit])
    return f"{kept} … [{size - size_of(kept)} more bytes in this line]"


def keep_head(
    lines: Iterable[str], *, max_lines: int, max_bytes: int = RESULT_BYTES
) -> TruncatedText:
    """Keep whole lines from the beginning, until one of the limits is reached.

    The lines come without line ends and are joined with them. Goes through all lines, to count.
    """
    kept: list[str] = []
    size = dropped_lines = dropped_bytes = 0
    limit: Limit | None = None
    for line in lines:
        cost = size_of(line) + 1
        if limit is None and len(kept) >= max_lines:
            limit = "lines"
        elif limit is None and size + cost > max_bytes:
            limit = "bytes"
        if limit is None:
            kept.append(line)
            size += cost
        else:
            dropped_lines += 1
            dropped_bytes += cost
    return TruncatedText(
        text="\n".join(kept),
        lines=len(kept),
        dropped_lines=dropped_lines,
        dropped_bytes=dropped_bytes,
        limit=limit,
    )


def keep_ends(text: str, max_bytes: int) -> TruncatedText:
    """Keep the beginning and the end of a text, with the exact number of bytes left out between.

    The end gets two thirds: that is where commands say what went wrong.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return TruncatedText(text=text, lines=text.count("\n") + 1)
    head = _whole(data[: max_bytes // 3])
    tail = data[len(data) - (max_bytes - max_bytes // 3) :].decode("utf-8", "ignore")
    dropped = len(data) - size_of(head) - size_of(tail)
    whole = f"{head}\n[… {dropped} bytes omitted …]\n{tail}"
    return TruncatedText(
        text=whole, lines=whole.count("\n") + 1, dropped_bytes=dropped, limit="bytes"
    )


def _whole(data: bytes) -> str:
    """Decode bytes that may end within a character; that character is left out."""
    return data.decode("utf-8", "ignore")
