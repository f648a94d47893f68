"""The whole output of a command in a file, written from a thread, some pieces at a time."""

import asyncio
import os

from quarterdeck.system.paths import fault_of
from quarterdeck.system.port import PathLike

__all__ = ["Spill"]

_FULL = 262_144
_LIMIT = 256 * 1_048_576


class Spill:
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
    async def open(cls, path: PathLike, *, limit: int = _LIMIT) -> "Spill":
        """Create the file, readable by us alone.

        Raises:
            PathFault: It exists, or cannot be created.
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
            self.problem = "the limit of the file is reached"
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
        raise fault_of(path, error) from error


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
