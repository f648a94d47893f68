"""The servers of one session: each lives by itself; between two steps their tools join or leave."""

import asyncio
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from quarterdeck.wire.events import Event, Notice

from ..tools.toolbox import Toolbox
from .server import Server
from .tool import ServerTool

__all__ = ["McpServers"]

_CATCH_UP = 2.0
"""Seconds that a step waits for the list of a server that has said that it changed."""


class McpServers:
    """All servers of a session. ``start`` once; ``close`` ends every one.

    A server that is slow, silent or dead costs the others nothing, and the session no more than
    ``wait`` seconds before its first model call.

    Args:
        servers: those of the session.
        wait: seconds from ``start`` that the first step waits for those still being started.
        wanted: the only tools to lend, with ``*`` for anything; None: all.
    """

    def __init__(
        self, servers: tuple[Server, ...], *, wait: float, wanted: tuple[str, ...] | None = None
    ) -> None:
        self.servers = tuple(sorted(servers, key=lambda server: server.name))
        self._wait = wait
        self._wanted = wanted
        self._deadline: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: tuple[int, ...] = ()
        self._late: set[str] = set()

    def start(self) -> None:
        """Begin to reach them, in the background."""
        self._deadline = asyncio.get_running_loop().time() + self._wait
        self._tasks = [
            asyncio.create_task(server.keep(), name=f"MCP server {server.name}")
            for server in self.servers
        ]

    async def settle(self, toolbox: Toolbox, emit: Callable[[Event], Awaitable[None]]) -> None:
        """See ``ToolServers``."""
        await self._wait_for_start()
        if self._tasks:
            await asyncio.gather(*(server.caught_up(_CATCH_UP) for server in self.servers))
        seen = tuple(server.changes for server in self.servers)
        if seen != self._seen:
            self._seen = seen
            toolbox.bring(tool for tool in self._tools() if self._is_wanted(tool.name))
        for notice in self._notices():
            await emit(notice)

    async def close(self) -> None:
        """End them all at once; may be called again."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _wait_for_start(self) -> None:
        """Wait for those that are being started, but not beyond the deadline, and only once."""
        if self._deadline is None:
            return
        deadline, self._deadline = self._deadline, None
        waiting = [
            asyncio.ensure_future(server.settled.wait())
            for server in self.servers
            if not server.settled.is_set()
        ]
        if waiting:
            left = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait(waiting, timeout=max(left, 0))
            finally:
                for each in waiting:
                    each.cancel()
        self._late = {server.name for server in self.servers if not server.settled.is_set()}

    def _tools(self) -> list[ServerTool]:
        return [
            ServerTool(lent, server) for server in self.servers for lent in server.listing.tools
        ]

    def _is_wanted(self, name: str) -> bool:
        return self._wanted is None or any(fnmatchcase(name, each) for each in self._wanted)

    def _notices(self) -> list[Notice]:
        """What is worth telling now, each once."""
        told: list[Notice] = []
        for server in self.servers:
            if server.name in self._late and server.state == "ready":
                self._late.discard(server.name)
                count = len(server.listing.tools)
                told.append(Notice(title=f"MCP server {server.name!r} has joined: {count} tools"))
            told += server.notices
            server.notices.clear()
        return told


if TYPE_CHECKING:
    from ..servers import ToolServers

    _servers: ToolServers = McpServers((), wait=0)
