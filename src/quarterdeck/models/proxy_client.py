"""Model calls through a proxy: httpx2, imported only when the environment names a proxy."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2

from .errors import StreamBrokenError, VendorUnreachableError

__all__ = ["ProxiedResponse", "ProxyClient"]


@dataclass(frozen=True, slots=True)
class ProxiedResponse:
    """An answer that came through a proxy; the same face as ``http.Answer``."""

    status: int
    headers: Mapping[str, str]
    _response: httpx2.Response

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Give the body in the pieces in which it arrives.

        Raises:
            StreamBrokenError: the body is cut short or stays silent.
        """
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except httpx2.ReadTimeout:
            raise StreamBrokenError("the stream was silent for too long") from None
        except httpx2.HTTPError as error:
            raise StreamBrokenError(f"the stream was interrupted: {error}") from None


class ProxyClient:
    """Sends requests through one proxy."""

    def __init__(self, proxy: str, *, connect: float, idle: float) -> None:
        self._client = httpx2.AsyncClient(
            proxy=proxy,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(idle, connect=connect),
        )

    @asynccontextmanager
    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[ProxiedResponse, None]:
        """Send a request; leaving the block closes the answer.

        Raises:
            VendorUnreachableError: the proxy or the host behind it cannot be reached.
            StreamBrokenError: the answer stopped before its head was there.
        """
        request = self._client.build_request(method, url, headers=dict(headers), content=body)
        try:
            response = await self._client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            raise VendorUnreachableError(
                f"no connection to {request.url.host!r}: {error}"
            ) from None
        except httpx2.TimeoutException:
            raise StreamBrokenError(f"{request.url.host!r} was silent for too long") from None
        except httpx2.HTTPError as error:
            raise StreamBrokenError(
                f"{request.url.host!r} closed the connection: {error}"
            ) from None
        try:
            lowered = {name.lower(): value for name, value in response.headers.items()}
            yield ProxiedResponse(response.status_code, lowered, response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()
