"""One small HTTP client for every wire: a request out, the bytes of the answer in as they arrive.

Direct connections use ``http1``; when the environment names a proxy for the host, httpx2 is
loaded and does the same. Redirects are never followed: a key must not travel to another host.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from .errors import ModelSetupError
from .http1 import Connection, Head, Origin, Stale

if TYPE_CHECKING:
    from .proxied import ProxyClient

__all__ = ["Answer", "Client", "Timeouts", "is_loopback", "proxy_for", "read_all"]

_KEEP_SECONDS = 50.0
"""Less than the idle limit of the vendors' front ends, which is a minute or more."""
_KEEP_MOST = 4
_LOOPBACK = re.compile(r"127(?:\.\d{1,3}){3}")


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds."""

    connect: float = 15.0
    idle: float = 300.0
    """Without a single byte; models that think may be silent for minutes."""


class Answer(Protocol):
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
        """Give the body as it arrives; raises ``StreamBroken`` when it is cut or silent."""
        ...


class _DirectAnswer(Struct, frozen=True):
    head: Head
    connection: Connection
    idle: float

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.head.headers

    def pieces(self) -> AsyncGenerator[bytes, None]:
        return self.connection.body(self.head, self.idle)


class Client:
    """Sends requests and keeps a few connections for the next ones.

    ``environment`` is where ``HTTPS_PROXY`` and its like are looked up; nothing else is read.
    """

    def __init__(self, timeouts: Timeouts, environment: Mapping[str, str]) -> None:
        self._timeouts = timeouts
        self._environment = environment
        self._kept: list[Connection] = []
        self._live: set[Connection] = set()
        self._proxies: dict[str, ProxyClient] = {}
        self._lock = asyncio.Lock()

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> AbstractAsyncContextManager[Answer]:
        """Send a request; leaving the block before the body's end closes the connection at once.

        Raises:
            ModelSetupError: the URL or a header cannot be sent.
            CallError: ``Unreachable`` or ``StreamBroken``; a status is not an error here.
        """
        if proxy := proxy_for(url, self._environment):
            return self._proxied(proxy, method, url, headers, body)
        return self._direct(method, url, headers, body)

    async def close(self) -> None:
        """Close every connection; answers under way end with ``StreamBroken``."""
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
    ) -> AsyncGenerator[Answer, None]:
        async with self._lock:
            if proxy not in self._proxies:
                self._proxies[proxy] = await asyncio.to_thread(_proxy_client, proxy, self._timeouts)
        async with self._proxies[proxy].send(method, url, headers, body) as answer:
            yield answer

    @asynccontextmanager
    async def _direct(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[Answer, None]:
        parts = urlsplit(url)
        origin = Origin.of(parts)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = _request_head(method, target, origin, headers, len(body))
        connection, answer = await self._exchange(origin, head, body)
        try:
            yield _DirectAnswer(answer, connection, self._timeouts.idle)
        finally:
            self._live.discard(connection)
            self._keep(connection)

    async def _exchange(self, origin: Origin, head: bytes, body: bytes) -> tuple[Connection, Head]:
        while True:
            connection = self._take(origin)
            if connection is None:
                connection = await Connection.open(origin, self._timeouts.connect)
            self._live.add(connection)
            try:
                return connection, await connection.exchange(head, body, self._timeouts.idle)
            except Stale:
                self._drop(connection)
            except BaseException:
                self._drop(connection)
                raise

    def _take(self, origin: Origin) -> Connection | None:
        now = asyncio.get_running_loop().time()
        kept, self._kept = self._kept, []
        found: Connection | None = None
        for connection in kept:
            if not connection.is_fit or now - connection.kept_since > _KEEP_SECONDS:
                connection.abort()
            elif found is None and connection.origin == origin:
                found = connection
            else:
                self._kept.append(connection)
        return found

    def _keep(self, connection: Connection) -> None:
        if connection.is_fit and len(self._kept) < _KEEP_MOST:
            connection.kept_since = asyncio.get_running_loop().time()
            self._kept.append(connection)
        else:
            connection.abort()

    def _drop(self, connection: Connection) -> None:
        self._live.discard(connection)
        connection.abort()


def _proxy_client(proxy: str, timeouts: Timeouts) -> "ProxyClient":
    from .proxied import ProxyClient

    return ProxyClient(proxy, connect=timeouts.connect, idle=timeouts.idle)


def _request_head(
    method: str, target: str, origin: Origin, headers: Mapping[str, str], length: int
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {origin.host_header}"]
    fields = {"Accept-Encoding": "identity", "Content-Length": str(length), **headers}
    for name, value in fields.items():
        if any(char in name + value for char in "\r\n\0"):
            raise ModelSetupError(f"the value of header {name!r} holds a line break: mend it")
        lines.append(f"{name}: {value}")
    try:
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    except UnicodeEncodeError as error:
        line = next(line for line in lines if not line.isascii())
        reason = f"header {line.partition(':')[0]!r} holds a character that HTTP cannot carry"
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


async def read_all(answer: Answer, limit: int = 1024 * 1024) -> bytes:
    """Read a whole body, but no more than ``limit`` bytes of it."""
    body = bytearray()
    async for piece in answer.pieces():
        body += piece
        if len(body) >= limit:
            break
    return bytes(body[:limit])
