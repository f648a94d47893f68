"""Lines over a WebSocket, against a peer that writes its bytes by hand."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.drivers.daemon.codex.websocket_stream import (
    BadHandshakeError,
    WebSocketStream,
    check_address,
    connect,
)
from quarterdeck.net.http1 import BadUrlError
from quarterdeck.testing.daemons.codex import (
    CLOSE,
    PING,
    PONG,
    TEXT,
    WebSocketServerConnection,
    handshake_accept,
    listen_websocket,
    server_frame,
)
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError
from quarterdeck.wire.rpc.stream import CHUNK
from tests.support.deadlines import SOON


class Peer:
    """The raw bytes at the other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def frame(self) -> tuple[int, bytes]:
        """The next frame of the client, unmasked."""
        first, second = await self.reader.readexactly(2)
        assert second & 0x80, "a client masks"
        size = second & 0x7F
        if size == 126:
            size = int.from_bytes(await self.reader.readexactly(2))
        mask, body = await self.reader.readexactly(4), await self.reader.readexactly(size)
        return first & 0xF, bytes(a ^ mask[i % 4] for i, a in enumerate(body))


def agree(head: bytes) -> bytes:
    """The head with which a server agrees to a request."""
    key = head.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
    start = "HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    return f"{start}sec-websocket-accept: {handshake_accept(key)}\r\n".encode()


@asynccontextmanager
async def pair(limit: int = 1 << 20) -> AsyncGenerator[tuple[WebSocketStream, Peer]]:
    """An open stream, and the raw bytes at its other end."""
    arrived: asyncio.Queue[Peer] = asyncio.Queue(1)
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(agree(head) + b"\r\n" + server_frame(TEXT, b"first"))
        await arrived.put(Peer(reader, writer))
        await over.wait()

    async with asyncio.timeout(SOON), listen_websocket("ws://127.0.0.1:0", serve) as address:
        stream = await connect(address, limit=limit)
        assert await stream.receive() == b"first\n"
        peer = await arrived.get()
        try:
            yield stream, peer
        finally:
            peer.writer.close()
            await stream.close()
            over.set()


async def receive(stream: WebSocketStream, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += await stream.receive()
    return found


async def test_each_line_is_a_message_and_each_message_a_line():
    async with pair() as (stream, theirs):
        await stream.send(b'{"a": 1}\n{"b": "\xc3\xa9"}\n')
        assert await theirs.frame() == (TEXT, b'{"a": 1}')
        assert await theirs.frame() == (TEXT, b'{"b": "\xc3\xa9"}')
        await theirs.send(server_frame(TEXT, b'{\r\n"a": 1}') + server_frame(TEXT, b"2"))
        assert await receive(stream, 13) == b'{  "a": 1}\n2\n'


async def test_parts_of_a_message_are_joined_and_may_have_a_ping_between():
    async with pair() as (stream, theirs):
        first, second = "é".encode()[:1], "é".encode()[1:]
        await theirs.send(b"\x01\x01" + first + server_frame(PING, b"p") + b"\x80\x01" + second)
        assert await stream.receive() == "é\n".encode()
        assert await theirs.frame() == (PONG, b"p")


async def test_a_long_message_comes_in_pieces():
    async with pair(limit=1 << 22) as (stream, theirs):
        body = b"x" * 3_000_000
        sending = asyncio.create_task(theirs.send(server_frame(TEXT, body)))
        found = bytearray()
        while len(found) <= len(body):
            piece = await stream.receive()
            assert 0 < len(piece) <= CHUNK
            found += piece
        assert found == body + b"\n"
        await sending


async def test_messages_may_follow_the_answer_at_once():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(agree(head) + b"\r\n" + server_frame(TEXT, b"x" * 200_000))
        await reader.read()

    async with asyncio.timeout(SOON), listen_websocket("ws://127.0.0.1:0", serve) as address:
        stream = await connect(address)
        assert await receive(stream, 200_001) == b"x" * 200_000 + b"\n"
        await stream.close()


async def test_pings_are_answered_before_anything_is_received():
    async with pair() as (stream, theirs):
        await theirs.send(server_frame(PING, b"1") + server_frame(PING, b"2"))
        assert [await theirs.frame(), await theirs.frame()] == [(PONG, b"1"), (PONG, b"2")]
        await theirs.send(server_frame(TEXT, b"x"))
        assert await stream.receive() == b"x\n"


@pytest.mark.parametrize("code", [b"\x03\xe8", b"\x03\xe9", b""])
async def test_a_peer_that_closes_in_order_has_ended(code: bytes):
    async with pair() as (stream, theirs):
        await theirs.send(
            server_frame(TEXT, b"last") + server_frame(CLOSE, code) + server_frame(TEXT, b"no")
        )
        assert await stream.receive() == b"last\n"
        assert await theirs.frame() == (CLOSE, code)
        theirs.writer.close()
        assert await stream.receive() == b""


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (server_frame(CLOSE, b"\x03\xf3oh no"), "1011 oh no"),
        (b"\xff\xff", "violated the protocol"),
        (b"\x81\x80", "violated the protocol"),  # masked
        (b"\x80\x00", "violated the protocol"),  # the end of nothing
        (b"\x81\x7f" + b"\x7f" * 8, "longer than 1048576 bytes"),
        (b"\x81\x05Hel", "was lost"),
        (b"", "was lost"),
    ],
)
async def test_any_other_end_is_broken(last: bytes, why: str):
    async with pair() as (stream, theirs):
        await theirs.send(server_frame(TEXT, b"before"))
        assert await stream.receive() == b"before\n"
        if last:
            await theirs.send(last)
        theirs.writer.close()
        with pytest.raises(LinkBrokenError, match=why):
            await stream.receive()
        with pytest.raises(LinkBrokenError):
            await stream.send(b"x\n")


async def test_closing_is_announced_and_ends_a_receive():
    async with pair() as (stream, theirs):
        receiving = asyncio.create_task(stream.receive())
        await asyncio.sleep(0)
        closing = asyncio.create_task(stream.close())
        assert await theirs.frame() == (CLOSE, b"\x03\xe8")
        theirs.writer.close()
        await closing
        with pytest.raises(LinkClosedError):
            await receiving
        with pytest.raises(LinkClosedError):
            await stream.send(b"x\n")


async def test_closing_does_not_wait_long_for_a_silent_peer():
    async with pair() as (stream, _theirs):
        async with asyncio.timeout(5):
            await stream.close()
        with pytest.raises(LinkClosedError):
            await stream.receive()


class TestConnecting:
    @pytest.mark.parametrize("scheme", ["unix", "ws"])
    async def test_over_a_socket(self, scheme: str, tmp_path: Path):
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = WebSocketServerConnection(reader, writer, None)
            if await there.greet("secret"):
                async for message in there.messages():
                    there.send(message * 2)

        url = f"unix://{tmp_path}/s" if scheme == "unix" else "ws://127.0.0.1:0"
        async with listen_websocket(url, serve) as address:
            stream = await connect(address, "secret")
            await stream.send(b"1" * 70_000 + b"\n")
            found = b""
            while not found.endswith(b"\n"):
                found += await stream.receive()
            assert found == b"1" * 140_000 + b"\n"
            await stream.close()
            with pytest.raises(BadHandshakeError, match="401"):
                await connect(address, "wrong")

    async def test_nobody_there(self, tmp_path: Path):
        with pytest.raises(LinkBrokenError, match="cannot connect"):
            await connect(f"unix://{tmp_path}/s")
        with pytest.raises(LinkBrokenError, match="cannot connect"):
            await connect("ws://127.0.0.1:1")

    @pytest.mark.parametrize(
        "first", [b"", b"HTTP/1.1 404 Not\r\n\r\n", b"SSH-2.0\r\n\r\n", b"x" * 70_000]
    )
    async def test_what_speaks_something_else(self, first: bytes):
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(first)
            with contextlib.suppress(ConnectionError):
                await writer.drain()

        async with listen_websocket("ws://127.0.0.1:0", serve) as address:
            with pytest.raises((BadHandshakeError, LinkBrokenError)):
                await connect(address)

    @pytest.mark.parametrize(
        ("change", "status"),
        [
            ((b" 101 x", b" 200 OK"), 200),
            ((b"upgrade: websocket", b"upgrade: h2c"), 101),
            ((b"accept: ", b"accept: x"), 101),
            ((b" 101 x", b" 101 x\r\nsec-websocket-extensions: permessage-deflate"), 101),
            ((b" 101 x", b" 101 x\r\nsec-websocket-protocol: chat"), 101),
            ((b" 101 x", b" 302 x\r\nlocation: ws://127.0.0.1:1/"), 302),
        ],
    )
    async def test_what_agrees_to_something_else(self, change: tuple[bytes, bytes], status: int):
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answer = agree(await reader.readuntil(b"\r\n\r\n")).replace(*change)
            writer.write(answer + b"content-length: 0\r\n\r\n")
            await writer.drain()

        async with listen_websocket("ws://127.0.0.1:0", serve) as address:
            with pytest.raises(BadHandshakeError) as failure:
                await connect(address)
        assert failure.value.status == status

    @pytest.mark.parametrize(
        "url",
        [
            *("wss://127.0.0.1:1", "ws://example.org:80", "ws://127.0.0.1", "unix:relative"),
            *("unix://host/path", "http://127.0.0.1:1", "ws://127.0.0.1:x", "", "unix://"),
        ],
    )
    def test_other_addresses_are_refused(self, url: str):
        with pytest.raises(BadUrlError):
            check_address(url)
