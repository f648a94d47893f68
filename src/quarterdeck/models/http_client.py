"""One small HTTP client for every vendor: a request out, the bytes of the response in as they
arrive.

Direct connections use ``net.http1`` with TLS; when the environment names a proxy for the host,
httpx2 is loaded instead. Redirects are never followed: a key must not travel to another host.
Failures are those of this room.
"""

import asyncio
import functools
import re
import ssl
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from quarterdeck.net import http1, sse
from quarterdeck.net.http1 import ResponseHead, StaleConnectionError
from quarterdeck.net.sse import EVENT_LIMIT, ServerEvent

from .errors import ModelSetupError, StreamBrokenError, VendorUnreachableError

if TYPE_CHECKING:
    from .proxy_client import ProxyClient

__all__ = [
    "EVENT_LIMIT",
    "HttpClient",
    "HttpResponse",
    "HttpTimeouts",
    "ResponseHead",
    "ServerEvent",
    "StaleConnectionError",
    "VendorConnection",
    "VendorEventDecoder",
    "VendorOrigin",
    "is_loopback",
    "proxy_for",
    "read_all",
    "tls_context",
]


class VendorEventDecoder(sse.EventDecoder):
    """Collects bytes into events; see ``wire.sse.EventDecoder``."""

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Take bytes and give the events that they complete.

        Raises:
            StreamBrokenError: an event is larger than the limit.
        """
        try:
            return super().feed(piece)
        except sse.EventTooLargeError as error:
            raise StreamBrokenError(str(error)) from None


class VendorOrigin(http1.HttpOrigin, frozen=True):
    """The server that a connection is with."""

    @classmethod
    def of(cls, url: SplitResult) -> Self:
        """The origin of a URL.

        Raises:
            ModelSetupError: the URL is not one of HTTP.
        """
        try:
            return super().of(url)
        except http1.BadUrlError as error:
            raise ModelSetupError(str(error)) from None


@functools.cache
def tls_context() -> "ssl.SSLContext":
    """The context of every TLS connection; loading the certificates takes about 50 ms."""
    if sys.platform == "darwin":
        # Python from python.org has no root certificates; httpx2 asks the system's keychain.
        from httpx2 import create_ssl_context

        return create_ssl_context()
    return ssl.create_default_context()


class VendorConnection(http1.HttpConnection):
    """A connection to one origin, for one request at a time."""

    @classmethod
    async def open(
        cls, origin: http1.HttpOrigin, timeout: float, tls: "ssl.SSLContext | None" = None
    ) -> Self:
        """Connect within ``timeout`` seconds.

        Raises:
            VendorUnreachableError: the server does not answer, or has no certificate that we
                trust.
        """
        if origin.is_secure and tls is None:
            tls = await asyncio.to_thread(tls_context)
        try:
            return await super().open(origin, timeout, tls)
        except http1.NoConnectionError as error:
            raise VendorUnreachableError(str(error)) from None

    async def exchange(self, head: bytes, body: bytes, timeout: float) -> ResponseHead:
        """Send a request and wait for the head of its answer.

        Raises:
            StaleConnectionError: the connection had been kept and the peer has closed it; ask anew
                on another.
            StreamBrokenError: the peer closed, kept silent for ``timeout`` seconds, or spoke no
                HTTP.
        """
        try:
            return await super().exchange(head, body, timeout)
        except http1.BrokenResponseError as error:
            raise StreamBrokenError(str(error)) from None

    async def body(self, head: ResponseHead, timeout: float) -> AsyncGenerator[bytes, None]:
        """Give the body in the pieces in which it arrives.

        Raises:
            StreamBrokenError: no byte for ``timeout`` seconds, or the body is cut short.
        """
        try:
            async with aclosing(super().body(head, timeout)) as pieces:
                async for piece in pieces:
                    yield piece
        except http1.BrokenResponseError as error:
            raise StreamBrokenError(str(error)) from None


_KEEP_SECONDS = 50.0
"""Less than the idle limit of the vendors' front ends, which is a minute or more."""
_KEEP_MOST = 4
_LOOPBACK = re.compile(r"127(?:\.\d{1,3}){3}")


class HttpTimeouts(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds."""

    connect: float = 15.0
    idle: float = 300.0
    """Without a single byte; models that think may be silent for minutes."""


class HttpResponse(Protocol):
    """Status, headers (names in lower case) and body of an answer."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""
        ...

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """Give the body as it arrives; raises ``StreamBrokenError`` when it is cut or silent."""
        ...


class _DirectResponse(Struct, frozen=True):
    head: ResponseHead
    connection: VendorConnection
    idle: float

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.head.headers

    def pieces(self) -> AsyncGenerator[bytes, None]:
        return self.connection.body(self.head, self.idle)


class HttpClient:
    """Sends requests and keeps a few connections for the next ones.

    ``environment`` is where ``HTTPS_PROXY`` and its like are looked up; nothing else is read.
    """

    def __init__(self, timeouts: HttpTimeouts, environment: Mapping[str, str]) -> None:
        self._timeouts = timeouts
        self._environment = environment
        self._kept: list[VendorConnection] = []
        self._live: set[VendorConnection] = set()
        self._proxies: dict[str, ProxyClient] = {}
        self._lock = asyncio.Lock()

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request; leaving the block before the body's end closes the connection at once.

        Raises:
            ModelSetupError: the URL or a header cannot be sent.
            CallError: ``Unreachable`` or ``StreamBrokenError``; a status is not an error here.
        """
        if proxy := proxy_for(url, self._environment):
            return self._proxied(proxy, method, url, headers, body)
        return self._direct(method, url, headers, body)

    async def close(self) -> None:
        """Close every connection; answers under way end with ``StreamBrokenError``."""
        for connection in (*self._kept, *self._live):
            connection.abort()
        self._kept.clear()
        proxies, self._proxies = list(self._proxies.values()), {}
        for proxy in proxies:
            await proxy.close()
        await asyncio.sleep(0)  # the transports close in the loop's next round

    @asynccontextmanager
    async def _proxied(
        self, proxy: str, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[HttpResponse, None]:
        async with self._lock:
            if proxy not in self._proxies:
                self._proxies[proxy] = await asyncio.to_thread(_proxy_client, proxy, self._timeouts)
        async with self._proxies[proxy].send(method, url, headers, body) as answer:
            yield answer

    @asynccontextmanager
    async def _direct(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[HttpResponse, None]:
        parts = urlsplit(url)
        origin = VendorOrigin.of(parts)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = _request_head(method, target, origin, headers, len(body))
        connection, answer = await self._exchange(origin, head, body)
        try:
            yield _DirectResponse(answer, connection, self._timeouts.idle)
        finally:
            self._live.discard(connection)
            self._keep(connection)

    async def _exchange(
        self, origin: VendorOrigin, head: bytes, body: bytes
    ) -> tuple[VendorConnection, ResponseHead]:
        while True:
            connection = self._take(origin)
            if connection is None:
                connection = await VendorConnection.open(origin, self._timeouts.connect)
            self._live.add(connection)
            try:
                return connection, await connection.exchange(head, body, self._timeouts.idle)
            except StaleConnectionError:
                self._drop(connection)
            except BaseException:
                self._drop(connection)
                raise

    def _take(self, origin: VendorOrigin) -> VendorConnection | None:
        now = asyncio.get_running_loop().time()
        kept, self._kept = self._kept, []
        found: VendorConnection | None = None
        for connection in kept:
            if not connection.is_fit or now - connection.kept_since > _KEEP_SECONDS:
                connection.abort()
            elif found is None and connection.origin == origin:
                found = connection
            else:
                self._kept.append(connection)
        return found

    def _keep(self, connection: VendorConnection) -> None:
        if connection.is_fit and len(self._kept) < _KEEP_MOST:
            connection.kept_since = asyncio.get_running_loop().time()
            self._kept.append(connection)
        else:
            connection.abort()

    def _drop(self, connection: VendorConnection) -> None:
        self._live.discard(connection)
        connection.abort()


def _proxy_client(proxy: str, timeouts: HttpTimeouts) -> "ProxyClient":
    from .proxy_client import ProxyClient

    return ProxyClient(proxy, connect=timeouts.connect, idle=timeouts.idle)


def _request_head(
    method: str, target: str, origin: VendorOrigin, headers: Mapping[str, str], length: int
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {origin.host_header}"]
    fields = {"Accept-Encoding": "identity", "Content-Length": str(length), **headers}
    for name, value in fields.items():
        if any(char in name + value for char in "\r\n\0"):
            raise ModelSetupError(f"the value of header {name!r} contains a line break: remove it")
        lines.append(f"{name}: {value}")
    try:
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    except UnicodeEncodeError as error:
        line = next(line for line in lines if not line.isascii())
        reason = f"header {line.partition(':')[0]!r} contains a character that HTTP does not allow"
        raise ModelSetupError(reason) from error


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return host == "::1" or _LOOPBACK.fullmatch(host) is not None


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy that the environment names for a URL; never one for loopback."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    names = (f"{parts.scheme}_proxy", "all_proxy")
    found = (environment.get(n) or environment.get(n.upper()) for n in names)
    proxy = next((value for value in found if value), None)
    if proxy is None or is_loopback(host):
        return None
    exempt = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    for entry in (item.strip().lower() for item in exempt.split(",")):
        name = entry.partition(":")[0].removeprefix("*").removeprefix(".")
        if entry == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return None
    return proxy if "://" in proxy else f"http://{proxy}"


async def read_all(answer: HttpResponse, limit: int = 1024 * 1024) -> bytes:
    """Read a whole body, but no more than ``limit`` bytes of it."""
    body = bytearray()
    async for piece in answer.pieces():
        body += piece
        if len(body) >= limit:
            break
    return bytes(body[:limit])
