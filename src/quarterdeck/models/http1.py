"""The HTTP/1.1 of ``wire.http1`` with TLS and with the failures of this room."""

import asyncio
import functools
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Self
from urllib.parse import SplitResult

from quarterdeck.wire import http1
from quarterdeck.wire.http1 import Head, Stale

from .errors import ModelSetupError, StreamBroken, Unreachable

__all__ = ["Connection", "Head", "Origin", "Stale", "tls_context"]


class Origin(http1.Origin, frozen=True):
    """Whom a connection is with."""

    @classmethod
    def of(cls, url: SplitResult) -> Self:
        """The origin of a URL.

        Raises:
            ModelSetupError: the URL is not one of HTTP.
        """
        try:
            return super().of(url)
        except http1.BadUrl as error:
            raise ModelSetupError(str(error)) from None


@functools.cache
def tls_context() -> ssl.SSLContext:
    """The context of every TLS connection; loading the certificates takes about 50 ms."""
    if sys.platform == "darwin":
        # Python from python.org has no root certificates; httpx2 asks the system's keychain.
        from httpx2 import create_ssl_context

        return create_ssl_context()
    return ssl.create_default_context()


class Connection(http1.Connection):
    """A connection to one origin, for one request at a time."""

    @classmethod
    async def open(
        cls, origin: http1.Origin, timeout: float, tls: ssl.SSLContext | None = None
    ) -> Self:
        """Connect within ``timeout`` seconds.

        Raises:
            Unreachable: nobody answers there, or not with a certificate that we trust.
        """
        if origin.is_secure and tls is None:
            tls = await asyncio.to_thread(tls_context)
        try:
            return await super().open(origin, timeout, tls)
        except http1.NoConnection as error:
            raise Unreachable(str(error)) from None

    async def exchange(self, head: bytes, body: bytes, timeout: float) -> Head:
        """Send a request and wait for the head of its answer.

        Raises:
            Stale: the connection had been kept and the peer has closed it; ask anew on another.
            StreamBroken: the peer closed, kept silent for ``timeout`` seconds, or spoke no HTTP.
        """
        try:
            return await super().exchange(head, body, timeout)
        except http1.BrokenOff as error:
            raise StreamBroken(str(error)) from None

    async def body(self, head: Head, timeout: float) -> AsyncGenerator[bytes, None]:
        """Give the body in the pieces in which it arrives.

        Raises:
            StreamBroken: no byte for ``timeout`` seconds, or the body is cut short.
        """
        try:
            async with aclosing(super().body(head, timeout)) as pieces:
                async for piece in pieces:
                    yield piece
        except http1.BrokenOff as error:
            raise StreamBroken(str(error)) from None
