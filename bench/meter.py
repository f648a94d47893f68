"""What the meter costs: a request and a piece of a stream through it, against a direct connection.

Client, server and meter share one process, so the figures are CPU of all that takes part, and the
difference is the meter's.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping

from quarterdeck.fleet.meter.api import CallRefusal, MeteredRequest
from quarterdeck.fleet.meter.server import serve_meter
from quarterdeck.fleet.meter.upstream import Upstream
from quarterdeck.wire.usage import TokenUsage

from .size import Size
from .table import Row, Table

__all__ = ["run"]

_BODY = b'{"model": "m", "stream": true, "messages": [' + b'{"role": "user"}, ' * 2_000 + b"{}]}"
_PIECE = (
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, '
    b'"delta": {"type": "text_delta", "text": "some words of an answer"}}\n\n'
)
_CHUNK = b"%x\r\n%s\r\n" % (len(_PIECE), _PIECE)
_WHOLE = b'{"usage": {"input_tokens": 10, "output_tokens": 2}}'
_JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_WHOLE),
    _WHOLE,
)
_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class _Seat:
    is_exposed = False

    def __init__(self, upstream: Upstream) -> None:
        self.upstreams: Mapping[str, Upstream] = {"it": upstream}

    async def begin(self, request: MeteredRequest) -> CallRefusal | None:
        return None

    def finish(
        self,
        request: MeteredRequest,
        usage: TokenUsage | None,
        status: int | None,
        reason: str | None,
    ) -> None:
        pass

    def pass_other(self) -> None:
        pass


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chunks: int) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(_BODY))
            if b"/stream/" not in head:
                writer.write(_JSON)
                continue
            writer.write(_STREAM)
            for _ in range(chunks):
                writer.write(_CHUNK)
                await writer.drain()
                await asyncio.sleep(0)  # each piece is a write of its own, as of a model
            writer.write(b"0\r\n\r\n")
    except asyncio.IncompleteReadError:
        writer.close()


async def _ask(port: int, path: str, times: int, end: bytes) -> float:
    """CPU seconds of so many requests on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path}/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    raw = f"{head}Content-Length: {len(_BODY)}\r\n\r\n".encode() + _BODY
    begun = 0.0
    for number in range(times + 1):
        if number == 1:
            begun = time.process_time()  # the first opens the connection
        writer.write(raw)
        await _read_until(reader, end)
    used = time.process_time() - begun
    writer.close()
    await writer.wait_closed()
    return used


async def _read_until(reader: asyncio.StreamReader, end: bytes) -> None:
    tail = b""
    while not tail.endswith(end):
        piece = await reader.read(65_536)
        if not piece:
            raise ConnectionResetError("the answer broke off")
        tail = (tail + piece)[-len(end) :]


async def _measure(requests: int, chunks: int) -> tuple[float, float, float, float]:
    """A request and a piece: direct, and through the meter; microseconds of CPU."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer(reader, writer, chunks)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    seat = _Seat(Upstream.parse(f"http://127.0.0.1:{port}"))
    async with server, serve_meter(lambda _: seat, {}) as meter:
        figures: list[float] = []
        for path, times, end in (("", requests, _WHOLE), ("/stream", 3, b"\r\n0\r\n\r\n")):
            pieces = times * (chunks if path else 1)
            for at, before in ((port, ""), (meter.port, "/secret/it")):
                best = min([await _ask(at, before + path, times, end) for _ in range(3)])
                figures.append(best / pieces * 1e6)
    direct, metered, piece, metered_piece = figures
    return direct, metered, piece, metered_piece


def run(size: Size) -> Iterator[Table]:
    """A request with 36 kB, and a piece of a stream."""
    requests, chunks = size.choose((500, 5_000), (100, 2_000), (3, 20))
    direct, metered, piece, metered_piece = asyncio.run(_measure(requests, chunks))
    yield Table(
        "a model call through the meter, CPU of client, server and meter together",
        [
            Row("request, direct", f"{direct:.0f} µs"),
            Row("request, through the meter", f"{metered:.0f} µs", f"{metered / direct:.1f}×"),
            Row("piece of a stream, direct", f"{piece:.1f} µs"),
            Row(
                "piece of a stream, through the meter",
                f"{metered_piece:.1f} µs",
                f"{metered_piece / piece:.1f}×",
            ),
        ],
        ("Of the pieces of one stream, those that arrive together are passed on together.",),
    )
