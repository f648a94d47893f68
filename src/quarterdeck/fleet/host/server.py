"""A fleet at a Unix socket: any number of clients, none of which can hurt another."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.rpc import ByteStream, Peer, serve_unix
from quarterdeck.wire.tasks import race_tasks

from ..api import Fleet
from ..permissions.approvers import ClientCredentials
from .client_handler import ClientHandler, PendingChanges, SharedHostState, identify_user
from .lock import make_socket_directory
from .methods import LIMITS
from .peer_credentials import PeerCredentials, read_peer_credentials

__all__ = ["GREETING_SECONDS", "FleetServer"]

log = logging.getLogger(__name__)

GREETING_SECONDS = 10.0
"""Who has not said hello by then is sent away."""
MOST_CLIENTS = 256
FINISH_SECONDS = 10.0


class FleetServer:
    """Serves a fleet to clients of this user.

    The socket and its directory are closed to others; the one who connects all the same, such as
    someone with the rights of root, is looked at and sent away. A client that does not read is
    held back alone; one that sends garbage gets an error for each piece of it.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        stop: Callable[[], None],
        credentials: Callable[[ByteStream], PeerCredentials] = read_peer_credentials,
        identify: Callable[[PeerCredentials], ClientCredentials] = identify_user,
        greeting_seconds: float = GREETING_SECONDS,
    ) -> None:
        """Args:
        fleet: what is served; stays open.
        stop: called when a client asks the host to stop.
        credentials: tells who is behind a stream.
        identify: by which credentials a client is a person.
        greeting_seconds: how long a client may take to say hello.
        """
        self._state = SharedHostState(
            fleet=fleet, work=PendingChanges(), stop=stop, identify=identify
        )
        self._credentials = credentials
        self._greeting_seconds = greeting_seconds

    @property
    def clients(self) -> int:
        """How many are connected."""
        return self._state.clients

    @asynccontextmanager
    async def serve(self, path: Path) -> AsyncGenerator[None]:
        """Listen at ``path``; at the end changes under way are finished and clients sent away.

        Raises:
            UnusablePlaceError: the socket's directory is not ours alone.
            LinkBusyError: another process listens there.
            LinkBrokenError: the operating system refuses the path.
        """
        await asyncio.to_thread(make_socket_directory, path)
        async with serve_unix(path, self.attend):
            try:
                yield
            finally:
                await self._state.work.finish(FINISH_SECONDS)

    async def attend(self, stream: ByteStream) -> None:
        """Serve one client until it goes."""
        who = self._check(stream)
        if who is None:
            return
        connection = ClientHandler(self._state, who)
        self._state.clients += 1
        try:
            async with Peer(stream, connection, limits=LIMITS, name="client") as peer:
                try:
                    await self._attend(peer, connection)
                finally:
                    await connection.close()
        finally:
            self._state.clients -= 1

    async def _attend(self, peer: Peer, connection: ClientHandler) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._greeting_seconds):
                await race_tasks(peer.wait_closed(), connection.greeted.wait())
        if connection.greeted.is_set():
            log.info("a client left: %s", await peer.wait_closed())
        elif peer.ending is None:
            log.warning("client rejected: it did not send hello")

    def _check(self, stream: ByteStream) -> PeerCredentials | None:
        try:
            who = self._credentials(stream)
        except LinkBrokenError as error:
            log.warning("client rejected: %s", error)
            return None
        if who.uid != os.getuid():
            log.warning("client rejected: it belongs to user %d", who.uid)
            return None
        if self._state.clients >= MOST_CLIENTS:
            log.warning("client rejected: %d are connected", self._state.clients)
            return None
        return who
