"""Lines over a WebSocket, against a peer that is a few bytes in memory."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.drivers.daemon.codex.websocket_stream import (
    WebSocketStream,
    check_address,
    connect,
)
from quarterdeck.net.http1 import BadUrlError
from quarterdeck.net.websocket import CLOSE, PING, PONG, TEXT, BadHandshakeError, handshake_accept
from quarterdeck.testing.daemons.codex import (
    WebSocketServerConnection,
    listen_websocket,
    server_frame,
)
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError
from quarterdeck.wire.rpc.stream import CHUNK, ByteStream, memory_pair


@asynccontextmanager
async def pair(limit: int = 1 << 20) -> AsyncGenerator[tuple[WebSocketStream, ByteStream]]:
    """An open stream, and the raw bytes at its other end."""
    ours, theirs = memory_pair()
    stream = WebSocketStream(ours, limit=limit)
    opening = asyncio.create_task(stream.open("localhost", "/", {}))
    head = (await theirs.receive()).decode()
    key = head.partition("Sec-WebSocket-Key: ")[2].partition("\r\n")[0]
    accept = handshake_accept(base64.b64decode(key))
    told = f"HTTP/1.1 101 x\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
    await theirs.send(told.encode() + server_frame(TEXT, b"first"))
    await opening
    assert await stream.receive() == b"first\n"
    try:
        yield stream, theirs
    finally:
        await theirs.close()
        await stream.close()


def sent(data: bytes) -> list[tuple[int, bytes]]:
    """The frames of a client, unmasked."""
    found: list[tuple[int, bytes]] = []
    while data:
        size, start = data[1] & 0x7F, 2
        assert data[1] & 0x80, "a client masks"
        if size == 126:
            size, start = int.from_bytes(data[2:4]), 4
        mask, body = data[start : start + 4], data[start + 4 : start + 4 + size]
        found.append((data[0] & 0xF, bytes(a ^ mask[i % 4] for i, a in enumerate(body))))
        data = data[start + 4 + size :]
    return found


async def test_each_line_is_a_message_and_each_message_a_line():
    async with pair() as (stream, theirs):
        await stream.send(b'{"a": 1}\n{"b": "\xc3\xa9"}\n')
        assert sent(await theirs.receive()) == [(TEXT, b'{"a": 1}'), (TEXT, b'{"b": "\xc3\xa9"}')]
        await theirs.send(server_frame(TEXT, b'{\r\n"a": 1}') + server_frame(TEXT, b"2"))
        assert await stream.receive() == b'{  "a": 1}\n2\n'


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


async def test_pings_are_answered_the_last_at_least():
    async with pair() as (stream, theirs):
        await theirs.send(b"".join(server_frame(PING, b"%d" % n) for n in range(50)))
        receiving = asyncio.create_task(stream.receive())
        answers = sent(await theirs.receive())
        assert answers[-1] == (PONG, b"49") and len(answers) < 50
        await theirs.send(server_frame(TEXT, b"x"))
        assert await receiving == b"x\n"


async def test_a_peer_that_says_goodbye_has_ended():
    async with pair() as (stream, theirs):
        await theirs.send(
            server_frame(TEXT, b"last")
            + server_frame(CLOSE, b"\x03\xe8")
            + server_frame(TEXT, b"no")
        )
        assert await stream.receive() == b"last\n"
        assert await stream.receive() == b""


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (server_frame(CLOSE, b"\x03\xf3oh no"), "1011 oh no"),
        (b"\xff\xff", "violated the protocol"),
        (b"\x81\x7f" + b"\xff" * 8, "longer than"),
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
        await theirs.close()
        with pytest.raises(LinkBrokenError, match=why):
            await stream.receive()


async def test_closing_says_goodbye_and_ends_who_waits():
    async with pair() as (stream, theirs):
        receiving = asyncio.create_task(stream.receive())
        await asyncio.sleep(0)
        await stream.close()
        assert sent(await theirs.receive()) == [(CLOSE, b"\x03\xe8")]
        with pytest.raises(LinkClosedError):
            await receiving


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
        "url",
        [
            *("wss://127.0.0.1:1", "ws://example.org:80", "ws://127.0.0.1", "unix:relative"),
            *("unix://host/path", "http://127.0.0.1:1", "ws://127.0.0.1:x", "", "unix://"),
        ],
    )
    def test_other_addresses_are_refused(self, url: str):
        with pytest.raises(BadUrlError):
            check_address(url)
