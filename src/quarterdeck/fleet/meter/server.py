"""The endpoint on loopback, for the agents that are behind the meter."""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.models.http_client import tls_context
from quarterdeck.wire.tasks import BackgroundTasks

from .connection import MeterClient, fail_request
from .exchange import MeterSeat
from .upstream import READ_SIZE, Upstream, UpstreamConnection, open_upstream

if TYPE_CHECKING:
    from .connection import MeterGate

__all__ = ["MeterServer", "find_user", "serve_meter"]

_log = logging.getLogger(__name__)

_ADDRESS = "127.0.0.1"
_MOST_CONNECTIONS = 1024
_TABLES = (
    (Path("/proc/net/tcp"), "0100007F"),
    (Path("/proc/net/tcp6"), "0000000000000000FFFF00000100007F"),
)
"""The connections of this machine, and 127.0.0.1 as each table writes it."""


class MeterServer:
    """The meter while it listens."""

    def __init__(
        self,
        seat_of: Callable[[str], MeterSeat | None],
        environment: Mapping[str, str],
        tls: Callable[[], ssl.SSLContext],
    ) -> None:
        self.port = 0
        self._seat_of = seat_of
        self._environment = environment
        self._tls = tls
        self._connections = BackgroundTasks()

    def seat_of(self, token: str) -> MeterSeat | None:
        """Whose secret this is; None: no one's."""
        return self._seat_of(token)

    @property
    def address(self) -> str:
        """Where it listens, without a secret."""
        return f"http://{_ADDRESS}:{self.port}"

    async def open(self, upstream: Upstream) -> UpstreamConnection:
        """Connect to an upstream. Raises UpstreamError."""
        return await open_upstream(upstream, self._environment, tls=self._tls)

    async def is_own_user(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the program at the other end is known to run as this user."""
        port: int = writer.get_extra_info("peername")[1]
        return await asyncio.to_thread(find_user, port, self.port) == os.getuid()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection in the background."""
        is_full = len(self._connections) >= _MOST_CONNECTIONS
        self._connections.start(self._serve(reader, writer, is_full), name="meter: connection")

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_full: bool
    ) -> None:
        connection = MeterClient(self, reader, writer)
        try:
            if is_full:
                await connection.answer(fail_request(503, "too many connections are open").answer)
            else:
                await connection.serve()
        except ConnectionError:
            pass  # the agent is gone
        except Exception as error:
            # Not with its text, in which parts of a request may be.
            _log.error("a connection at the meter failed: %s", type(error).__name__)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def close(self) -> None:
        """End every connection."""
        await self._connections.close()


@asynccontextmanager
async def serve_meter(
    seat_of: Callable[[str], MeterSeat | None],
    environment: Mapping[str, str],
    *,
    tls: Callable[[], ssl.SSLContext] = tls_context,
) -> AsyncGenerator[MeterServer]:
    """Listen on loopback, at a port that the system chooses.

    ``environment``: where proxies are looked up. ``tls``: makes the context that verifies.

    Raises:
        OSError: there is no loopback to listen at.
    """
    server = MeterServer(seat_of, environment, tls)
    listener = await asyncio.start_server(server.accept, _ADDRESS, 0, limit=READ_SIZE)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.close()


def find_user(port: int, at: int) -> int | None:
    """The user of the program that has a connection from one port of loopback to another.

    None: there is none, or the system does not tell. Blocks.
    """
    for table, address in _TABLES:
        try:
            lines = table.read_text().splitlines()
        except OSError:
            continue
        ends = [f"{address}:{port:04X}", f"{address}:{at:04X}"]
        for line in lines:
            fields = line.split()
            if fields[1:3] == ends and len(fields) > 7 and fields[7].isdigit():
                return int(fields[7])
    return None


if TYPE_CHECKING:
    from typing import cast

    _gate: MeterGate = cast("MeterServer", None)
