"""An HTTP request as far as the tool server needs one, read from a stream with bounds.

One request for each connection: on loopback another connection costs nothing, and what a client
does while it waits for the answer can only mean that it went away.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["MOST_BODY", "Refusal", "Request", "read_request"]

_MOST_HEAD = 32 * 1024
MOST_BODY = 4 * 1024 * 1024
"""Bytes of a message, at the most."""


class Refusal(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request without its body."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Their names in small letters; where one came twice the last."""

    @property
    def length(self) -> int:
        """Bytes of the body. Raises Refusal."""
        if "transfer-encoding" in self.headers:
            raise Refusal(411, "say how long the message is: Content-Length")
        text = self.headers.get("content-length", "0")
        if not (text.isascii() and text.isdigit()) or len(text) > 12:
            raise Refusal(400, "Content-Length is no number")
        if int(text) > MOST_BODY:
            raise Refusal(413, f"a message has {MOST_BODY} bytes at the most")
        return int(text)


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Read the head of a request. ``reader`` must hold back heads that are too long.

    Raises:
        Refusal: it is none that we take.
        IncompleteReadError: the client went away.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refusal(431, f"the headers have {_MOST_HEAD} bytes at the most") from None
    if len(head) > _MOST_HEAD:
        raise Refusal(431, f"the headers have {_MOST_HEAD} bytes at the most")
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise Refusal(400, "this is no request of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
            raise Refusal(400, "a header cannot be read")
        lower = name.lower()
        if lower in headers and lower in ("content-length", "host", "authorization", "origin"):
            raise Refusal(400, f"there is more than one {lower}")
        headers[lower] = value.strip()
    return Request(method=words[0], path=words[1].partition("?")[0], headers=headers)
