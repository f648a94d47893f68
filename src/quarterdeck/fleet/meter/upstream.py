"""A connection to the server that an agent's call is for: verified TLS, through a proxy if the
environment names one.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, quote, unquote, urlsplit

import h11
from msgspec import Struct

from quarterdeck.models.errors import CallError, ModelSetupError
from quarterdeck.models.http_client import VendorOrigin, proxy_for, tls_context
from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["READ_SIZE", "Upstream", "UpstreamConnection", "UpstreamError", "open_upstream"]

READ_SIZE = 64 * 1024
_CONNECT_SECONDS = 15.0
_MOST_HEAD = 64 * 1024
_PATH = "/%:@!$&'()*+,;="
"""What may stand in a path as it is, beside letters and digits."""


class UpstreamError(QuarterdeckError):
    """The server of a call cannot be reached."""


class Upstream(Struct, frozen=True):
    """Where the calls of an agent go: scheme, host, port, and the path before every request's."""

    origin: VendorOrigin
    path: str

    @classmethod
    def parse(cls, url: str) -> "Upstream":
        """From a base URL.

        Raises:
            UpstreamError: it is none; names the host alone, since a URL may hold a password.
        """
        try:
            parts = urlsplit(url)
            origin = VendorOrigin.of(parts)
        except (ValueError, ModelSetupError):
            raise UpstreamError(
                "the base URL of the agent is not one of http:// or https://"
            ) from None
        if parts.query or parts.fragment or parts.username is not None:
            reason = f"the base URL for {origin.host!r} may have neither user, query nor fragment"
            raise UpstreamError(reason)
        return cls(origin, quote(parts.path.rstrip("/"), safe=_PATH))

    @property
    def address(self) -> str:
        """For people."""
        return f"{'https' if self.origin.is_secure else 'http'}://{self.origin.host_header}"


class UpstreamConnection:
    """A connection for one request after another, in bytes; ``close`` it.

    ``prefix``: what stands before the target of each request, for a proxy without a tunnel.
    """

    def __init__(
        self,
        upstream: Upstream,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        prefix: str = "",
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.upstream = upstream
        self.prefix = prefix
        self.headers = headers
        """For the proxy."""
        self.reader = reader
        self.writer = writer

    @property
    def is_fit(self) -> bool:
        """Whether another request may be sent."""
        return not (self.reader.at_eof() or self.writer.is_closing())

    def close(self) -> None:
        """Close at once, whatever is under way."""
        self.writer.transport.abort()


async def open_upstream(
    upstream: Upstream,
    environment: Mapping[str, str],
    *,
    tls: Callable[[], ssl.SSLContext] = tls_context,
) -> UpstreamConnection:
    """Connect. ``environment`` is where ``HTTPS_PROXY`` and its like are looked up.

    Raises:
        UpstreamError: there is no connection; names host and reason.
    """
    origin = upstream.origin
    proxy = proxy_for(upstream.address, environment)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            if proxy is not None:
                return await _open_proxied(upstream, urlsplit(proxy), tls)
            context = await asyncio.to_thread(tls) if origin.is_secure else None
            reader, writer = await _connect(origin, context)
            return UpstreamConnection(upstream, reader, writer)
    except TimeoutError:
        reason = f"no connection to {origin.host!r} within {_CONNECT_SECONDS:g} s"
        raise UpstreamError(reason) from None
    except ssl.SSLCertVerificationError as error:
        reason = f"the certificate of {origin.host!r} is not trusted: {error.verify_message}"
        raise UpstreamError(reason) from None
    except (OSError, UnicodeError, ValueError) as error:
        reason = f"no connection to {origin.host!r} port {origin.port}: {error}"
        raise UpstreamError(reason) from None


async def _connect(
    origin: VendorOrigin, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        origin.host,
        origin.port,
        limit=READ_SIZE,
        ssl=context,
        server_hostname=origin.host if context else None,
        happy_eyeballs_delay=0.25,
    )


async def _open_proxied(
    upstream: Upstream, proxy: SplitResult, tls: Callable[[], ssl.SSLContext]
) -> UpstreamConnection:
    try:
        address = VendorOrigin.of(proxy)
    except (CallError, ModelSetupError):
        raise UpstreamError(
            "the proxy in the environment must begin with http:// or https://"
        ) from None
    headers = _proxy_headers(proxy)
    context = await asyncio.to_thread(tls)
    reader, writer = await _connect(address, context if address.is_secure else None)
    try:
        if not upstream.origin.is_secure:
            return UpstreamConnection(
                upstream, reader, writer, prefix=upstream.address, headers=headers
            )
        await _open_tunnel(upstream.origin, headers, reader, writer)
        await writer.start_tls(context, server_hostname=upstream.origin.host)
    except BaseException:
        writer.transport.abort()
        raise
    return UpstreamConnection(upstream, reader, writer)


def _proxy_headers(proxy: SplitResult) -> tuple[tuple[bytes, bytes], ...]:
    if proxy.username is None:
        return ()
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return ((b"Proxy-Authorization", b"Basic " + base64.b64encode(pair)),)


async def _open_tunnel(
    origin: VendorOrigin,
    headers: tuple[tuple[bytes, bytes], ...],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    target = f"{host}:{origin.port}"
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)
    request = h11.Request(
        method="CONNECT", target=target, headers=[(b"Host", target.encode("latin-1")), *headers]
    )
    writer.write((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
    await writer.drain()
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            raise UpstreamError("the proxy does not speak HTTP/1.1") from None
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(READ_SIZE))
        elif isinstance(event, h11.Response):
            if event.status_code // 100 != 2:
                reason = f"the proxy refuses {target!r} with status {event.status_code}"
                raise UpstreamError(reason)
            return
        elif not isinstance(event, h11.InformationalResponse):
            raise UpstreamError("the proxy closed the connection")
