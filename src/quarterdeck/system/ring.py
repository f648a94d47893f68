"""Output of a command in bounded memory: its beginning and its end, and how much is missing.

Bytes are kept as they came and decoded only when somebody looks, so that a byte that is no UTF-8
costs one replacement character and never a later line.
"""

import codecs

from msgspec import Struct

__all__ = ["Decoder", "Kept", "Ring", "whole_characters", "without_cut_start"]


class Kept(Struct, frozen=True, kw_only=True):
    """What a ring holds: ``len(head) + dropped + len(tail)`` is all that was written."""

    head: bytes
    dropped: int
    tail: bytes

    def at_characters(self) -> "Kept":
        """The same, cut at borders of UTF-8 characters; what that costs is counted as dropped."""
        if not self.dropped:
            return self
        head, tail = whole_characters(self.head), without_cut_start(self.tail)
        lost = len(self.head) - len(head) + len(self.tail) - len(tail)
        return Kept(head=head, dropped=self.dropped + lost, tail=tail)


class Ring:
    """Keeps the first ``head`` and the last ``tail`` bytes of what is written to it.

    ``total`` is the exact number of bytes ever written. Holds at most ``head + 2 * tail`` bytes
    plus one written piece.
    """

    def __init__(self, *, head: int = 0, tail: int) -> None:
        if head < 0 or tail < 0:
            raise ValueError(f"A ring cannot keep {min(head, tail)} bytes.")
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def write(self, data: bytes) -> None:
        """Take the next bytes in."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_limit:  # trimming seldom keeps writing cheap
            del self._tail[: len(self._tail) - self._tail_limit]

    def kept(self) -> Kept:
        """What is held now, to the byte."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._tail_limit) :])
        return Kept(
            head=bytes(self._head),
            dropped=self.total - len(self._head) - len(tail),
            tail=tail,
        )

    def since(self, position: int) -> tuple[int, bytes]:
        """What was written after the first ``position`` bytes, and how much of it is missing.

        The missing bytes, if any, come before the returned ones.
        """
        tail_start = self.total - len(self._tail)
        if position >= tail_start:
            return 0, bytes(self._tail[position - tail_start :])
        from_head = bytes(self._head[position:])
        missing = tail_start - position - len(from_head)
        if missing:
            return missing + len(from_head), bytes(self._tail)
        return 0, from_head + bytes(self._tail)


class Decoder:
    """Turns pieces of bytes into text as they come; a character may span two pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, data: bytes, *, final: bool = False) -> str:
        """The text that is certain so far; ``final`` gives up waiting for the rest."""
        return self._decoder.decode(data, final)


def whole_characters(data: bytes) -> bytes:
    """``data`` without a UTF-8 character that its end cuts; other invalid bytes stay."""
    for back in range(1, min(5, len(data) + 1)):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needed > back else data
    return data


def without_cut_start(data: bytes) -> bytes:
    """``data`` without the rest of a UTF-8 character at its beginning (three bytes at most)."""
    for index, byte in enumerate(data[:4]):
        if byte & 0b1100_0000 != 0b1000_0000:
            return data[index:]
    return data if len(data) > 3 else b""
