"""A peer under test, and the bare bytes on its other side."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from quarterdeck.wire.rpc import (
    ByteStream,
    MethodNotFoundError,
    Observer,
    Peer,
    RequestContext,
    RpcLimits,
    memory_pair,
)


class Recorder:
    """Answers ``echo`` with its params, hands other methods to functions, keeps notifications."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.requests: dict[str, Callable[[Any, RequestContext], Awaitable[Any]]] = {}
        self.notifications: dict[str, Callable[[Any], Awaitable[None] | None]] = {}

    async def on_request(
        self, method: str, params: msgspec.Raw | None, context: RequestContext
    ) -> Any:
        value = None if params is None else msgspec.json.decode(params)
        if method == "echo":
            return value
        if method not in self.requests:
            raise MethodNotFoundError(method)
        return await self.requests[method](value, context)

    def on_notification(self, method: str, params: msgspec.Raw | None) -> Awaitable[None] | None:
        value = None if params is None else msgspec.json.decode(params)
        self.seen.append((method, value))
        if method.startswith("unknown"):
            raise MethodNotFoundError(method)
        if method in self.notifications:
            return self.notifications[method](value)
        return None


class BareEnd:
    """The other side of a peer as lines of bytes."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self._buffer = b""

    async def send(self, *messages: Any) -> None:
        """Send each message as a line, all in one chunk; bytes go as they are."""
        await self.stream.send(
            b"".join(
                m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages
            )
        )

    async def read(self) -> Any:
        """Return the next message, or None at the end."""
        while b"\n" not in self._buffer:
            chunk = await self.stream.receive()
            if not chunk:
                return None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)


class Link:
    """A peer, its handler and the bare end it talks to."""

    def __init__(self, peer: Peer, handler: Recorder, bare: BareEnd) -> None:
        self.peer = peer
        self.handler = handler
        self.bare = bare

    async def settle(self) -> None:
        """Wait until the peer has handled everything sent so far."""
        await self.bare.send({"jsonrpc": "2.0", "id": "settle", "method": "echo"})
        while (await self.bare.read())["id"] != "settle":
            pass


@pytest.fixture
def recorder() -> Recorder:
    """A handler that answers ``echo`` and keeps notifications."""
    return Recorder()


OpenLink = Callable[..., Any]


@pytest.fixture
def open_link() -> OpenLink:
    """Return a context manager that opens a peer against a bare end."""

    @asynccontextmanager
    async def open_link(
        *,
        limits: RpcLimits | None = None,
        observers: tuple[Observer, ...] = (),
        answer_malformed: bool = True,
        capacity: int = 256 * 1024,
    ) -> AsyncIterator[Link]:
        near, far = memory_pair(capacity)
        handler = Recorder()
        peer = Peer(
            near,
            handler,
            limits=limits or RpcLimits(grace_seconds=0.2),
            observers=observers,
            answer_malformed=answer_malformed,
            name="bare",
        )
        try:
            async with peer:
                yield Link(peer, handler, BareEnd(far))
        finally:
            await far.close()

    return open_link


@pytest.fixture
async def two_peers() -> AsyncIterator[tuple[Peer, Recorder, Peer, Recorder]]:
    """Two peers that talk with each other in memory."""
    left, right = memory_pair()
    here, there = Recorder(), Recorder()
    limits = RpcLimits(grace_seconds=0.2)
    async with (
        Peer(left, here, limits=limits, name="right") as near,
        Peer(right, there, limits=limits, name="left") as far,
    ):
        yield near, here, far, there


@pytest.fixture
async def link(open_link: OpenLink) -> AsyncIterator[Link]:
    """A peer with default settings and the bare end it talks to."""
    async with open_link() as link:
        yield link


@pytest.fixture
def no_pending_tasks() -> Callable[[], list[str]]:
    """Return a function that names the tasks that still run, besides the caller."""

    def names() -> list[str]:
        return [t.get_name() for t in asyncio.all_tasks() if t is not asyncio.current_task()]

    return names
