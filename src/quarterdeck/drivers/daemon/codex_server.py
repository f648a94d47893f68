"""The server of codex that a session talks with: one of its own, or one that runs already."""

from quarterdeck.system.errors import PathFault
from quarterdeck.system.guard import shared_guard
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process import LocalProcess
from quarterdeck.wire.errors import Broken, Closed, LinkError
from quarterdeck.wire.http1 import BadUrl
from quarterdeck.wire.rpc.stream import ByteStream
from quarterdeck.wire.websocket import BadAnswer

from ..acp.departing import Outlet
from ..child import Child, Launch
from ..driver import Opening
from ..errors import OpenFailed, WrongProtocol
from ..link import Departure
from .attached import check_attached, password_of
from .strays import Strays
from .websocket import connect

__all__ = ["CodexServer"]

_FIXED = ("arguments", "environment")
"""Options that a server which runs already cannot be told; tool servers are a thread's own."""


class CodexServer:
    """A server, the connections to it, and how it ends.

    Args:
        launch: how it is started, or where it is.
        stream: talk over this, and start no program.
    """

    def __init__(self, launch: Launch, stream: ByteStream | None = None) -> None:
        self._launch = launch
        self._stream = stream
        self._child: Child | None = None
        self._outlet: Outlet | None = None
        self._system: LocalSystem | None = None
        self._strays: Strays | None = None

    @property
    def is_shared(self) -> bool:
        """Whether it runs already: others use it too, and one may connect to it again."""
        return bool(self._launch.url) and self._stream is None

    async def connect(self, opening: Opening) -> ByteStream:
        """Start it, or connect to it; again, if it is shared.

        Raises:
            OpenFailed, Unsupported: it did not start, or lets us not in.
            Broken: nobody is there.
        """
        if self._stream is not None:
            return self._stream
        if self.is_shared:
            check_attached(self._launch, opening, _FIXED)
            return await self._attach(password_of(self._launch, opening))
        return await self._run(opening)

    async def _run(self, opening: Opening) -> ByteStream:
        self._system = LocalSystem([opening.cwd, *opening.roots], guard=shared_guard())
        try:
            self._child = await Child.start(self._launch, opening, self._system)
        except PathFault as error:
            raise OpenFailed(f"{self._launch.agent} could not be started: {error}") from error
        if isinstance(self._child.process, LocalProcess):
            self._strays = Strays(self._child.process.tree)
        self._outlet = Outlet(self._launch.agent, self._child)
        return self._outlet

    async def _attach(self, token: str) -> ByteStream:
        agent, url = self._launch.agent, self._launch.url
        try:
            return await connect(url, token)
        except BadUrl as error:
            raise OpenFailed(f"{agent}: {error}") from error
        except Broken as error:
            raise Broken(f"{agent}: no server at {url!r}: {error}") from error
        except BadAnswer as error:
            if error.status not in (401, 403):
                raise WrongProtocol(f"{agent}: no server at {url!r}: {error}") from error
            name = self._launch.password
            hint = f"the one in {name!r} is wrong" if name else "name its variable as `password`"
            raise OpenFailed(f"{agent}: {url!r} wants a password; {hint}.") from error

    async def explain(self, ending: LinkError) -> LinkError:
        """What the end of a connection means; a process of ours may have more to say."""
        if self._outlet is not None:
            return await self._outlet.explain(ending)
        if isinstance(ending, Closed):
            return ending
        return Broken(f"the server of {self._launch.agent} is gone: {ending}")

    async def remember_strays(self) -> None:
        """Call it before a turn is interrupted."""
        if self._strays is not None:
            await self._strays.remember()

    async def end_strays(self) -> int:
        """End what a server of our own has lost since then; how many there were."""
        return await self._strays.end() if self._strays is not None else 0

    async def end(self) -> Departure | None:
        """End a server of our own and all that it started; leave others alone."""
        try:
            if self._stream is not None:
                await self._stream.close()
            return await self._child.end() if self._child is not None else None
        finally:
            if self._system is not None:
                await self._system.close()
