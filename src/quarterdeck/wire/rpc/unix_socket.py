"""Streams over Unix sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import LinkBrokenError, LinkBusyError
from quarterdeck.wire.rpc.pipes import TransportStream
from quarterdeck.wire.tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    from quarterdeck.wire.rpc.stream import ByteStream

__all__ = ["connect_unix", "serve_unix"]

log = logging.getLogger(__name__)

_BACKLOG = 128


async def connect_unix(path: str | os.PathLike[str]) -> ByteStream:
    """Connect to the socket at ``path``.

    Raises:
        LinkBrokenError: nobody listens there, or we may not connect.
    """
    loop = asyncio.get_running_loop()
    try:
        _, stream = await loop.create_unix_connection(TransportStream, os.fspath(path))
    except OSError as error:
        raise LinkBrokenError(f"cannot connect to {os.fspath(path)!r}: {error}") from error
    return stream


@asynccontextmanager
async def serve_unix(
    path: str | os.PathLike[str], serve: Callable[[ByteStream], Awaitable[None]]
) -> AsyncGenerator[None]:
    """Listen at ``path`` and run ``serve`` with each stream, in a task of its own.

    Only this user may connect. The stream is closed when ``serve`` returns; if it raises, that
    is logged and the others go on. At the end every task is cancelled and the path is removed.

    Raises:
        Busy: another process listens there.
        LinkBrokenError: the operating system refuses the path.
    """
    from pathlib import Path  # late: an agent on a pipe starts without it

    place = Path(path)
    listener, inode = await asyncio.to_thread(_bind, place)
    tasks = BackgroundTasks()

    def accept() -> TransportStream:
        return _AcceptedStream(begin)

    def begin(stream: TransportStream) -> None:
        tasks.start(_serve(stream, serve), name=f"serve {place.name}")

    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(accept, sock=listener, backlog=_BACKLOG)
    try:
        yield
    finally:
        server.close()
        await tasks.close()
        await asyncio.to_thread(_remove, place, inode)


class _AcceptedStream(TransportStream):
    def __init__(self, begin: Callable[[TransportStream], None]) -> None:
        super().__init__()
        self._begin = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._begin(self)


async def _serve(stream: ByteStream, serve: Callable[[ByteStream], Awaitable[None]]) -> None:
    try:
        await serve(stream)
    except Exception:
        log.exception("serving a connection failed")
    finally:
        await stream.close()


def _bind(path: Path) -> tuple[socket.socket, int]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            _remove_if_dead(path)
        listener.bind(os.fspath(path))
        # Nobody can connect before listen(), so there is no moment when others may.
        path.chmod(0o600)
        return listener, path.stat().st_ino
    except OSError as error:
        listener.close()
        raise LinkBrokenError(f"cannot listen at {os.fspath(path)!r}: {error}") from error
    except BaseException:
        listener.close()
        raise


def _remove_if_dead(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise LinkBusyError(f"another process listens at {os.fspath(path)!r}; connect to it or stop it")


def _remove(path: Path, inode: int) -> None:
    with suppress(OSError):
        if path.stat().st_ino == inode:
            path.unlink()
