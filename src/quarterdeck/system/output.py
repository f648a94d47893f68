"""The output of a command: its beginning and end in bounded memory, all of it in a file.

Bytes are kept as they came and decoded only when they are read, so that a byte that is no UTF-8
costs one replacement character and never a later line.
"""

import asyncio
import codecs
import os

from msgspec import Struct

from quarterdeck.system.api import PathLike
from quarterdeck.system.paths import path_error

__all__ = [
    "OutputFile",
    "OutputRing",
    "RetainedOutput",
    "Utf8Decoder",
    "whole_characters",
    "without_cut_start",
]


class RetainedOutput(Struct, frozen=True, kw_only=True):
    """What a ring holds: ``len(head) + dropped + len(tail)`` is all that was written."""

    head: bytes
    dropped: int
    tail: bytes

    def at_characters(self) -> "RetainedOutput":
        """The same, cut at borders of UTF-8 characters; what that costs is counted as dropped."""
        if not self.dropped:
            return self
        head, tail = whole_characters(self.head), without_cut_start(self.tail)
        lost = len(self.head) - len(head) + len(self.tail) - len(tail)
        return RetainedOutput(head=head, dropped=self.dropped + lost, tail=tail)


class OutputRing:
    """Keeps the first ``head`` and the last ``tail`` bytes of what is written to it.

    ``total`` is the exact number of bytes ever written. Holds at most ``head + 2 * tail`` bytes
    plus one written piece.
    """

    def __init__(self, *, head: int = 0, tail: int) -> None:
        if head < 0 or tail < 0:
            raise ValueError(f"A ring buffer cannot hold {min(head, tail)} bytes.")
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

    def kept(self) -> RetainedOutput:
        """What is held now, to the byte."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._tail_limit) :])
        return RetainedOutput(
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


class Utf8Decoder:
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


_FULL = 262_144
_LIMIT = 256 * 1_048_576


class OutputFile:
    """A new file that takes output. Made by ``open``; ``close`` it.

    A full disk, or ``limit`` bytes, end the writing and not the command: ``problem`` says so.
    """

    def __init__(self, descriptor: int, path: str, limit: int) -> None:
        self.path = path
        self.problem = ""
        self._descriptor = descriptor
        self._room = limit
        self._waiting = bytearray()
        self._lock = asyncio.Lock()

    @classmethod
    async def open(cls, path: PathLike, *, limit: int = _LIMIT) -> "OutputFile":
        """Create the file, readable by us alone.

        Raises:
            PathError: It exists, or cannot be created.
        """
        text = os.fspath(path)
        return cls(await asyncio.to_thread(_create, text), text, limit)

    @property
    def is_full(self) -> bool:
        """So much waits to be written that ``flush`` is due."""
        return len(self._waiting) >= _FULL

    def append(self, data: bytes) -> None:
        """Take output in; it is in the file after the next ``flush``."""
        if self.problem:
            return
        if len(data) > self._room:
            data = data[: self._room]
            self.problem = "the size limit of the file is reached"
        self._room -= len(data)
        self._waiting += data

    async def flush(self) -> None:
        """Write what waits."""
        async with self._lock:
            data, self._waiting = bytes(self._waiting), bytearray()
            if not data or self._descriptor < 0:
                return
            try:
                await asyncio.to_thread(_write, self._descriptor, data)
            except OSError as error:
                self.problem = (error.strerror or str(error)).lower()

    async def close(self) -> None:
        """Write what waits and close the file; may be called again."""
        await self.flush()
        async with self._lock:
            if self._descriptor >= 0:
                descriptor, self._descriptor = self._descriptor, -1
                await asyncio.to_thread(os.close, descriptor)


def _create(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except (OSError, ValueError) as error:
        raise path_error(path, error) from error


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
