"""Where a search runs: in a thread, or in a process that can be stopped."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from quarterdeck.system.api import CommandSpec, EndingDeadlines, Process, System
from quarterdeck.system.errors import SpawnError
from quarterdeck.wire.errors import LinkError

from ..tool import ToolError
from . import search as program
from .search import FileMatches, GrepLine, GrepQuery, Searcher, frame, is_quick

__all__ = ["SearchEngine", "open_engine"]

_AT_ONCE = EndingDeadlines(ask=0, terminate=0)


class SearchEngine(Protocol):
    """Searches the content of files, one batch after the other."""

    async def search(self, batch: Sequence[bytes]) -> list[FileMatches]:
        """Search each content; one result for each, in order.

        Raises:
            ToolError: the search broke down.
        """
        ...


@asynccontextmanager
async def open_engine(query: GrepQuery, system: System) -> AsyncGenerator[SearchEngine, None]:
    """Open the engine for a query; cancelling a search ends what it runs in.

    Raises:
        ToolError: The pattern is not valid.
    """
    try:
        searcher = Searcher(query)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(f"The pattern {query.pattern!r} is not valid: {error}.") from error
    process = None if is_quick(query.pattern) else await _spawn(system)
    if process is None:
        yield _ThreadEngine(searcher)
        return
    try:
        yield _ProcessEngine(process, query)
    finally:
        await process.end(_AT_ONCE)


async def _spawn(system: System) -> Process | None:
    """Start the program; None where there is no Python to run it with."""
    if not sys.executable or not program.__file__:
        return None
    try:
        # Isolated and without site: it starts in a few milliseconds and imports nothing of ours.
        argv = (sys.executable, "-I", "-S", program.__file__)
        return await system.processes.spawn(CommandSpec(argv=argv))
    except SpawnError:
        return None


class _ThreadEngine:
    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    async def search(self, batch: Sequence[bytes]) -> list[FileMatches]:
        return await asyncio.to_thread(self._all, batch)

    def _all(self, batch: Sequence[bytes]) -> list[FileMatches]:
        return [self._searcher.search(data) for data in batch]


class _ProcessEngine:
    def __init__(self, process: Process, query: GrepQuery) -> None:
        self._process = process
        self._unsent = frame(json.dumps(query).encode())
        self._received = bytearray()

    async def search(self, batch: Sequence[bytes]) -> list[FileMatches]:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send(batch))
            receiving = group.create_task(self._receive(len(batch)))
        found = receiving.result()
        if found is None:
            raise ToolError(f"The search failed: {self._process.stderr()[-500:]}")
        return found

    async def _send(self, batch: Sequence[bytes]) -> None:
        try:
            for data in batch:
                await self._process.send(self._unsent + frame(data))
                self._unsent = b""
        except LinkError:
            return  # it is gone: receiving sees that too, and says so

    async def _receive(self, count: int) -> list[FileMatches] | None:
        found: list[FileMatches] = []
        while len(found) < count:
            data = await self._frame()
            if data is None:
                return None
            matches, rows, is_binary = json.loads(data)
            found.append(FileMatches(matches, tuple(GrepLine(*row) for row in rows), is_binary))
        return found

    async def _frame(self) -> bytes | None:
        while len(self._received) < 4 or len(self._received) < 4 + self._wanted:
            try:
                piece = await self._process.receive()
            except LinkError:
                return None
            if not piece:
                return None
            self._received += piece
        end = 4 + self._wanted
        data = bytes(self._received[4:end])
        del self._received[:end]
        return data

    @property
    def _wanted(self) -> int:
        return int.from_bytes(self._received[:4], "big")
