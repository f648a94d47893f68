"""A server of an agent on this machine, over HTTP: requests of JSON, and its stream of events."""

import base64
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from quarterdeck.net.http1 import (
    BadUrlError,
    BrokenResponseError,
    HttpConnection,
    HttpOrigin,
    ResponseHead,
)
from quarterdeck.net.sse import EventDecoder, EventTooLargeError
from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "OpencodeAnswerError",
    "OpencodeClient",
    "OpencodeStatusError",
    "check_server_url",
    "path_of",
]

_ANSWER = 60.0
"""Seconds that an answer may take; a server that is just starting needs some."""
_CONNECT = 5.0
_LARGEST = 256 * 1024 * 1024
"""Bytes of an answer; a whole session's messages may be long."""
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class OpencodeStatusError(QuarterdeckError):
    """The server answered with a status that is no success."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(f"status {status}" + (f": {told}" if told else ""))
        self.status = status
        self.told = told


class OpencodeAnswerError(QuarterdeckError):
    """The server answered with what is no JSON: it is another server."""


def check_server_url(url: str) -> HttpOrigin:
    """Whom to talk with at this address.

    Raises:
        BadUrlError: it is no address of HTTP, or one of another machine: passwords go there
            unhidden.
    """
    parts = urlsplit(url)
    origin = HttpOrigin.of(parts)
    if origin.is_secure or origin.host not in _LOOPBACK:
        raise BadUrlError(
            f"{url!r} must be http:// and on this machine, such as http://127.0.0.1:4096"
        )
    return origin


def path_of(*steps: str) -> str:
    """A path of these steps, each escaped."""
    return "".join(f"/{quote(step, safe='')}" for step in steps)


class OpencodeClient:
    """One server. Each request has a connection of its own, so that none waits for another.

    Args:
        url: where the server is, on this machine.
        user: for its password.
        password: what it wants to be told; empty: nothing.
        query: added to every address.
    """

    def __init__(self, url: str, *, user: str, password: str, query: Mapping[str, str]) -> None:
        self._origin = check_server_url(url)
        self._query = dict(query)
        self._login = ""
        if password:
            self._login = base64.b64encode(f"{user}:{password}".encode()).decode()

    async def get(self, path: str, **query: str) -> Any:
        """Ask for something. Raises as ``send``."""
        return await self.send("GET", path, None, query)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Have something done. Raises as ``send``."""
        return await self.send("POST", path, {} if body is None else body)

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request and return the JSON of its answer; None for an empty one.

        Raises:
            Refused: a status that is no success.
            OpencodeAnswerError: the answer is no JSON.
            HttpError: nobody answers there, or not in time, or not in HTTP.
        """
        connection = await HttpConnection.open(self._origin, _CONNECT)
        try:
            head, answer = await self._exchange(connection, method, path, body, query or {})
        finally:
            connection.abort()
        if not 200 <= head.status < 300:
            raise OpencodeStatusError(head.status, _told(answer))
        try:
            return _decode(answer) if answer.strip() else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise OpencodeAnswerError(
                f"the answer to {method} {path} is not JSON: {error}"
            ) from None

    async def events(self, path: str, silence: float) -> AsyncGenerator[str, None]:
        """The data of each event of a stream, until it ends; the first may wait for ``silence``.

        Raises:
            Refused: a status that is no success.
            HttpError: nobody answers, or there was no byte for ``silence`` seconds.
        """
        connection = await HttpConnection.open(self._origin, _CONNECT)
        try:
            head = await connection.exchange(self._head("GET", path, b"", {}), b"", silence)
            if head.status != 200:
                raise OpencodeStatusError(head.status, "")
            decoder = EventDecoder()
            async with aclosing(connection.body(head, silence)) as pieces:
                async for piece in pieces:
                    for event in decoder.feed(piece):
                        yield event.data
        except EventTooLargeError as error:
            raise BrokenResponseError(str(error)) from None
        finally:
            connection.abort()

    async def _exchange(
        self,
        connection: HttpConnection,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
    ) -> tuple[ResponseHead, bytes]:
        data = b"" if body is None else _encode(body)
        head = await connection.exchange(self._head(method, path, data, query), data, _ANSWER)
        if head.status == 204:
            return head, b""
        answer = bytearray()
        async with aclosing(connection.body(head, _ANSWER)) as pieces:
            async for piece in pieces:
                answer += piece
                if len(answer) > _LARGEST:
                    raise BrokenResponseError(f"the answer to {method} {path} has too many bytes")
        return head, bytes(answer)

    def _head(self, method: str, path: str, body: bytes, query: Mapping[str, str]) -> bytes:
        asked = urlencode({**self._query, **query})
        lines = [
            f"{method} {path}?{asked} HTTP/1.1",
            f"Host: {self._origin.host_header}",
            "Accept-Encoding: identity",
            "Connection: close",
            f"Content-Length: {len(body)}",
        ]
        if body:
            lines.append("Content-Type: application/json")
        if self._login:
            lines.append(f"Authorization: Basic {self._login}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _told(answer: bytes) -> str:
    """What an answer that is no success says, in a few words."""
    return answer[:500].decode("utf-8", "replace").strip()
