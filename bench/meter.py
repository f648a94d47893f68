"""What the meter costs: a request and a piece of a stream through it, against a direct connection.

Client, server and meter share one process, so the figures are CPU of all that takes part, and the
difference is the meter's. mitmproxy, which passes on and counts nothing here, is a process of its
own between the same client and server; its CPU is compared with that difference.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from quarterdeck.fleet.meter.api import CallEnd, CallRefusal, MeteredRequest
from quarterdeck.fleet.meter.server import serve_meter
from quarterdeck.fleet.meter.upstream import Upstream

from .size import Size
from .table import Row, Table

__all__ = ["run"]

_MITMDUMP = Path(__file__).parents[1] / "build" / "mitmproxy" / "bin" / "mitmdump"

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
    recorder = None
    player = None

    def __init__(self, upstream: Upstream) -> None:
        self.upstreams: Mapping[str, Upstream] = {"it": upstream}

    async def begin(self, request: MeteredRequest) -> CallRefusal | None:
        return None

    def finish(self, request: MeteredRequest, end: CallEnd) -> None:
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


@dataclass
class _Figures:
    """Microseconds of CPU: a request and a piece of a stream."""

    direct: tuple[float, float]
    metered: tuple[float, float]
    other: tuple[float, float] | None
    """Of mitmproxy alone; None: it is not there."""


async def _measure(requests: int, chunks: int, streams: int, mitmdump: str | None) -> _Figures:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer(reader, writer, chunks)

    async def both(at: int, before: str) -> tuple[float, float]:
        request = min([await _ask(at, before, requests, _WHOLE) for _ in range(3)])
        path = f"{before}/stream"
        stream = min([await _ask(at, path, streams, b"\r\n0\r\n\r\n") for _ in range(3)])
        return request / requests * 1e6, stream / streams / chunks * 1e6

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    seat = _Seat(Upstream.parse(f"http://127.0.0.1:{port}"))
    async with server, serve_meter(lambda _: seat, {}) as meter:
        direct = await both(port, "")
        metered = await both(meter.port, "/secret/it")
        other = None
        if mitmdump is not None:
            other = await _measure_mitmproxy(mitmdump, port, requests, streams, chunks)
    return _Figures(direct, metered, other)


async def _measure_mitmproxy(
    mitmdump: str, port: int, requests: int, streams: int, chunks: int
) -> tuple[float, float]:
    figures: list[float] = []
    async with _mitmproxy(mitmdump, port) as (at, pid):
        for path, times, pieces, end in (
            ("", requests, requests, _WHOLE),
            ("/stream", streams, streams * chunks, b"\r\n0\r\n\r\n"),
        ):
            used: list[float] = []
            for _ in range(3):
                before = _read_cpu(pid)
                await _ask(at, path, times, end)
                used.append(_read_cpu(pid) - before)
            figures.append(min(used) / pieces * 1e6)
    return figures[0], figures[1]


@asynccontextmanager
async def _mitmproxy(program: str, port: int) -> AsyncGenerator[tuple[int, int]]:
    """Where it listens, and its process; it passes streams on as they come."""
    taken = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    at = taken.sockets[0].getsockname()[1]
    taken.close()
    await taken.wait_closed()
    with tempfile.TemporaryDirectory() as place:
        command = [program, "--quiet", "--mode", f"reverse:http://127.0.0.1:{port}"]
        command += ["--listen-host", "127.0.0.1", "--listen-port", str(at)]
        command += ["--set", "stream_large_bodies=1", "--set", f"confdir={place}"]
        environment = {"HOME": place, "PATH": os.environ["PATH"]}
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            await _wait_for(at)
            yield at, process.pid
        finally:
            process.kill()
            await process.wait()


async def _wait_for(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


def _read_cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _find_mitmdump() -> str | None:
    if not Path("/proc/self/stat").exists():
        return None
    return str(_MITMDUMP) if _MITMDUMP.exists() else shutil.which("mitmdump")


def run(size: Size) -> Iterator[Table]:
    """A request with 36 kB, and a piece of a stream."""
    requests, chunks, streams = size.choose((500, 5_000, 10), (300, 2_000, 5), (3, 20, 1))
    mitmdump = size.choose(_find_mitmdump(), _find_mitmdump(), None)
    found = asyncio.run(_measure(requests, chunks, streams, mitmdump))
    rows: list[Row] = []
    others: list[Row] = []
    names = ("request", "piece of a stream")
    for name, direct, metered, other in zip(
        names, found.direct, found.metered, found.other or (None, None), strict=True
    ):
        rows.append(Row(f"{name}, direct", f"{direct:.1f} µs"))
        ratio = f"{metered / direct:.1f}×"
        rows.append(Row(f"{name}, through the meter", f"{metered:.1f} µs", ratio))
        if other is not None:
            ours = max(metered - direct, 0.1)
            ratio = f"{other / ours:.1f}×"
            others.append(Row(f"{name}, the meter alone", f"{ours:.1f} µs"))
            others.append(Row(f"{name}, mitmproxy alone", f"{other:.1f} µs", ratio))
    yield Table(
        "a model call through the meter, CPU of client, server and meter together",
        rows,
        ("Of the pieces of one stream, those that arrive together are passed on together.",),
    )
    missing = Row("mitmproxy", "skipped: not installed, `make build/mitmproxy/.done`")
    yield Table("the meter against mitmproxy, CPU of the proxy", others or [missing])
