"""Keys as they are pressed: bytes from a terminal in raw mode, and the one that leaves."""

import asyncio
import os
import re
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager, suppress

__all__ = ["LeaveKey", "RawKeys"]

_LEAVE = re.compile(rb"\x1c|\x1b\[92;5(?::1)?u")
"""Ctrl and a backslash, also as the keyboard protocol of kitty tells it."""
_BEGIN, _END = b"\x1b[200~", b"\x1b[201~"
_CHUNK = 65_536


class LeaveKey:
    """Looks for the key that leaves, outside of what is pasted."""

    def __init__(self) -> None:
        self._tail: bytes | None = None
        """Within a paste: its last bytes, which may be the first of its end."""

    def take(self, data: bytes) -> tuple[bytes, bool]:
        """What came before the key, and whether it came."""
        place = 0
        while True:
            if self._tail is not None:
                seen = self._tail + data[place:]
                end = seen.find(_END)
                if end < 0:
                    self._tail = seen[-len(_END) + 1 :]
                    return data, False
                place += end + len(_END) - len(self._tail)
                self._tail = None
            found = _LEAVE.search(data, place)
            begin = data.find(_BEGIN, place)
            if found is not None and not 0 <= begin < found.start():
                return data[: found.start()], True
            if begin < 0:
                return data, False
            place, self._tail = begin + len(_BEGIN), b""


class RawKeys:
    """A terminal's keys. What is not fetched waits in the terminal itself."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._leave = LeaveKey()
        self._data = b""
        self._came = asyncio.Event()
        self.has_left = False
        """The key that leaves was pressed, or nobody can press any more."""

    @contextmanager
    def listening(self) -> Generator["RawKeys"]:
        """Have the terminal in raw mode; it is set back at the end, whatever happens."""
        loop = asyncio.get_running_loop()
        before = termios.tcgetattr(self._fd)
        try:
            tty.setraw(self._fd, termios.TCSANOW)
            loop.add_reader(self._fd, self._read)
            yield self
        finally:
            loop.remove_reader(self._fd)
            with suppress(termios.error):  # it is gone
                termios.tcsetattr(self._fd, termios.TCSANOW, before)

    async def next(self) -> bytes:
        """What was pressed since the last time; empty when ``has_left``."""
        while not self._data and not self.has_left:
            self._came.clear()
            await self._came.wait()
        data, self._data = self._data, b""
        if not self.has_left:
            asyncio.get_running_loop().add_reader(self._fd, self._read)
        return data

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _CHUNK)
        except OSError:
            data = b""
        kept, is_leaving = self._leave.take(data)
        self._data += kept
        self.has_left = is_leaving or not data
        if self.has_left or len(self._data) >= _CHUNK:
            asyncio.get_running_loop().remove_reader(self._fd)
        self._came.set()
