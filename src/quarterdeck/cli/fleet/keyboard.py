"""Lines that a person types, or that come from a file or a pipe, without blocking the loop."""

import asyncio
import os
import stat
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager

__all__ = ["Keyboard"]

_CHUNK = 65_536


class Keyboard:
    """Standard input as lines. Reading is left to the loop, so that leaving needs no thread."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._rest = b""
        # As long as the input, which a person typed or a file holds: nobody floods themselves.
        self._lines: deque[str | None] = deque()
        self._came = asyncio.Event()

    @contextmanager
    def listening(self) -> Generator["Keyboard"]:
        """Listen for lines; the terminal stays as it is."""
        loop = asyncio.get_running_loop()
        if stat.S_ISREG(os.fstat(self._fd).st_mode):  # a file is always ready, and cannot be polled
            while self._take():
                pass
            yield self
            return
        try:
            loop.add_reader(self._fd, self._ready)
        except OSError:  # such as /dev/null, which some systems cannot poll
            self._put(None)
            yield self
            return
        try:
            yield self
        finally:
            loop.remove_reader(self._fd)

    async def lines(self) -> AsyncGenerator[str]:
        """Each line without its end, until the end of the input."""
        while True:
            while not self._lines:
                self._came.clear()
                await self._came.wait()
            line = self._lines.popleft()
            if line is None:
                return
            yield line

    def _ready(self) -> None:
        if not self._take():
            asyncio.get_running_loop().remove_reader(self._fd)

    def _take(self) -> bool:
        try:
            data = os.read(self._fd, _CHUNK)
        except OSError:
            data = b""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            whole, self._rest = [self._rest], b""
        for line in whole:
            self._put(line.decode("utf-8", "replace").rstrip("\r"))
        if not data:
            self._put(None)
        return bool(data)

    def _put(self, line: str | None) -> None:
        self._lines.append(line)
        self._came.set()
