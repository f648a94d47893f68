"""The codex server of a session: started by us, or running already; its orphan processes."""

import asyncio
import signal
import sys

from quarterdeck.net.http1 import BadUrlError
from quarterdeck.system.errors import PathError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process import LocalProcess
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.system.process_tree import (
    ProcessInfo,
    ProcessTree,
    find_processes,
    list_processes,
    send_signal,
)
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError, LinkError
from quarterdeck.wire.rpc.stream import ByteStream

from ...agent_process import AgentProcess, AgentProcessStream, Launch
from ...driver import DriverSessionOptions
from ...errors import OpenFailedError, WrongProtocolError
from ...link import AgentExit
from .. import check_attached, password_of

__all__ = ["CodexServer", "OrphanProcesses"]

_LOOKS = (0.0, 0.05, 0.15)
"""Seconds before each look: one that is forked just now is seen by the next."""


class OrphanProcesses:
    """Ends what an interrupted command leaves behind.

    Codex, when stopped while the sandbox of a command is starting, kills the sandbox's first
    process and forgets the others, which run on as orphans (seen with 0.166.0, one time in ten).
    Orphans that were there before may be intended, and stay.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._before: set[tuple[int, str]] = set()

    async def remember(self) -> None:
        """Those that are there now stay."""
        self._before = {_name(one) for one in await asyncio.to_thread(self._find)}

    async def end(self) -> int:
        """End those that have come since ``remember``; how many there were."""
        ended: set[tuple[int, str]] = set()
        for pause in _LOOKS:
            await asyncio.sleep(pause)
            ended |= await asyncio.to_thread(self._kill)
        return len(ended)

    def _find(self) -> list[ProcessInfo]:
        if sys.platform != "linux":  # no other sandbox of codex has processes of its own
            return []
        table = list_processes()
        return [
            one for one in find_processes([self._tree], table) if not self._is_below(one, table)
        ]

    def _is_below(self, one: ProcessInfo, table: dict[int, ProcessInfo]) -> bool:
        """Whether the server is among its parents, or is it."""
        seen: set[int] = set()
        pid = one.pid
        while pid in table and pid not in seen:
            if pid == self._tree.pid:
                return True
            seen.add(pid)
            pid = table[pid].parent
        return False

    def _kill(self) -> set[tuple[int, str]]:
        found = [one for one in self._find() if _name(one) not in self._before]
        for one in found:
            send_signal(one, signal.SIGKILL)
        return {_name(one) for one in found}


def _name(one: ProcessInfo) -> tuple[int, str]:
    return one.pid, one.start


_FIXED = ("arguments", "environment")
"""Options that cannot be passed to a running server; tool servers belong to a thread."""


class CodexServer:
    """A server, the connections to it, and how it ends.

    Args:
        launch: how it is started, or where it is.
        stream: talk over this, and start no program.
    """

    def __init__(self, launch: Launch, stream: ByteStream | None = None) -> None:
        self._launch = launch
        self._stream = stream
        self._child: AgentProcess | None = None
        self._outlet: AgentProcessStream | None = None
        self._system: LocalSystem | None = None
        self._orphans: OrphanProcesses | None = None

    @property
    def is_shared(self) -> bool:
        """Whether it runs already: others use it too, and one may connect to it again."""
        return bool(self._launch.url) and self._stream is None

    async def connect(self, opening: DriverSessionOptions) -> ByteStream:
        """Start it, or connect to it; again, if it is shared.

        Raises:
            OpenFailedError, UnsupportedError: it did not start, or refuses us.
            LinkBrokenError: the server does not answer.
        """
        if self._stream is not None:
            return self._stream
        if self.is_shared:
            check_attached(self._launch, opening, _FIXED)
            return await self._attach(password_of(self._launch, opening))
        return await self._run(opening)

    async def _run(self, opening: DriverSessionOptions) -> ByteStream:
        self._system = LocalSystem(
            [opening.options.cwd, *opening.options.roots], guard=shared_guard()
        )
        try:
            self._child = await AgentProcess.start(self._launch, opening, self._system)
        except PathError as error:
            raise OpenFailedError(f"{self._launch.agent} could not be started: {error}") from error
        if isinstance(self._child.process, LocalProcess):
            self._orphans = OrphanProcesses(self._child.process.tree)
        self._outlet = AgentProcessStream(self._launch.agent, self._child)
        return self._outlet

    async def _attach(self, token: str) -> ByteStream:
        # Late: with websockets, which a server of our own does not need.
        from .websocket_stream import BadHandshakeError, connect

        agent, url = self._launch.agent, self._launch.url
        try:
            return await connect(url, token)
        except BadUrlError as error:
            raise OpenFailedError(f"{agent}: {error}") from error
        except LinkBrokenError as error:
            raise LinkBrokenError(f"{agent}: no server at {url!r}: {error}") from error
        except BadHandshakeError as error:
            if error.status not in (401, 403):
                raise WrongProtocolError(f"{agent}: no server at {url!r}: {error}") from error
            name = self._launch.password
            hint = f"the one in {name!r} is wrong" if name else "name its variable in `password`"
            raise OpenFailedError(f"{agent}: {url!r} requires a password; {hint}.") from error

    async def explain(self, ending: LinkError) -> LinkError:
        """What the end of a connection means; a process of ours may have more to say."""
        if self._outlet is not None:
            return await self._outlet.explain(ending)
        if isinstance(ending, LinkClosedError):
            return ending
        return LinkBrokenError(f"the server of {self._launch.agent} has ended: {ending}")

    async def remember_orphans(self) -> None:
        """Call it before a turn is interrupted."""
        if self._orphans is not None:
            await self._orphans.remember()

    async def end_orphans(self) -> int:
        """End what a server of our own has lost since then; how many there were."""
        return await self._orphans.end() if self._orphans is not None else 0

    async def end(self) -> AgentExit | None:
        """End a server of our own and all that it started; leave others alone."""
        try:
            if self._stream is not None:
                await self._stream.close()
            return await self._child.end() if self._child is not None else None
        finally:
            if self._system is not None:
                await self._system.close()
