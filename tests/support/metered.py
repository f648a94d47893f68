"""A meter on loopback with one seat, and a raw client: what arrives is compared byte for byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quarterdeck.fleet.meter.api import (
    CallEnd,
    CallPlayer,
    CallRecorder,
    CallRefusal,
    MeteredRequest,
)
from quarterdeck.fleet.meter.server import MeterServer, serve_meter
from quarterdeck.fleet.meter.upstream import Upstream
from quarterdeck.models.http_client import tls_context

if TYPE_CHECKING:
    from quarterdeck.wire.usage import TokenUsage

SECRET = "s3cret"


@dataclass
class Seat:
    """Notes what the meter says about calls."""

    upstreams: Mapping[str, Upstream]
    refusal: CallRefusal | None = None
    is_exposed: bool = False
    begun: list[MeteredRequest] = field(default_factory=list[MeteredRequest])
    finished: "asyncio.Queue[tuple[TokenUsage | None, int | None, str | None]]" = field(
        default_factory=asyncio.Queue
    )
    ends: list[CallEnd] = field(default_factory=list[CallEnd])
    others: int = 0
    recorder: CallRecorder | None = None
    player: CallPlayer | None = None

    async def begin(self, request: MeteredRequest) -> CallRefusal | None:
        self.begun.append(request)
        return self.refusal

    def finish(self, request: MeteredRequest, end: CallEnd) -> None:
        self.ends.append(end)
        self.finished.put_nowait((end.usage, end.status, end.reason))

    def pass_other(self) -> None:
        self.others += 1


@dataclass
class Rig:
    server: MeterServer
    seat: Seat

    @property
    def path(self) -> str:
        return f"/{SECRET}/it"

    def head(self, path: str, *fields: str, method: str = "POST", length: int | None = 0) -> bytes:
        lines = [f"{method} {self.path}{path} HTTP/1.1", f"Host: 127.0.0.1:{self.server.port}"]
        lines += [*fields, *([f"Content-Length: {length}"] if length is not None else [])]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.server.port)

    async def ask(self, raw: bytes) -> bytes:
        """Send bytes and give all that comes until the connection ends."""
        reader, writer = await self.connect()
        writer.write(raw)
        try:
            return await reader.read()
        finally:
            writer.close()

    async def call(self, path: str, body: bytes, *fields: str) -> bytes:
        """A model call on a connection of its own."""
        return await self.ask(
            self.head(path, "Connection: close", *fields, length=len(body)) + body
        )


@asynccontextmanager
async def metering(
    url: str,
    *,
    environment: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    is_exposed: bool = False,
) -> AsyncIterator[Rig]:
    seat = Seat({"it": Upstream.parse(url)}, is_exposed=is_exposed)
    async with serve_meter(
        lambda secret: seat if secret == SECRET else None,
        environment or {},
        tls=(lambda: tls) if tls is not None else tls_context,
    ) as server:
        yield Rig(server, seat)
