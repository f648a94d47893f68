"""From an address to its page, over redirects that stay on the host."""

import asyncio
import zlib
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import urldefrag, urljoin, urlsplit

import quarterdeck
from quarterdeck.models.errors import CallError
from quarterdeck.models.http1 import Connection, Head
from quarterdeck.policy.domains import Target, parse_target
from quarterdeck.wire.http1 import Origin

from ..tool import ToolError
from .addresses import Resolve, connect
from .body import Page, check_type

__all__ = ["Moved", "get"]

_MOST_HOPS = 10
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_COMPRESSIONS = frozenset(("gzip", "x-gzip", "deflate"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The page is on another host, for which there may be no leave."""

    url: str
    to: str


async def get(
    url: str,
    target: Target,
    resolve: Resolve,
    *,
    allow_private: bool,
    timeout: float,
    limit: int,
) -> Page | Moved:
    """Get a page of at most ``limit`` bytes; the rest is not read.

    Raises:
        ToolError: It cannot be had, or is not text.
    """
    for _ in range(_MOST_HOPS + 1):
        reader, writer = await connect(target, resolve, allow_private=allow_private)
        connection = Connection(
            Origin(target.scheme == "https", target.host, target.port), reader, writer
        )
        try:
            found = await _ask(connection, url, timeout, limit)
        except (CallError, asyncio.LimitOverrunError, zlib.error) as error:
            raise ToolError(f"{target} did not answer properly: {error}.") from error
        finally:
            connection.abort()
        if isinstance(found, Page):
            return found
        following = parse_target(found)
        if isinstance(following, str):
            raise ToolError(f"{url} redirects to {found!r}, which cannot be fetched: {following}.")
        if not _stays(target, following):
            return Moved(url=url, to=found)
        url, target = found, following
    raise ToolError(f"More than {_MOST_HOPS} redirects; the last led to {url}.")


def _stays(here: Target, there: Target) -> bool:
    """Whether a redirect leads to the host, and port, that leave was given for."""
    if here.host != there.host:
        return False
    if here.scheme == there.scheme:
        return here.port == there.port
    is_upgrade = (here.scheme, there.scheme) == ("http", "https")
    return is_upgrade and here.has_default_port and there.has_default_port


async def _ask(connection: Connection, url: str, timeout: float, limit: int) -> Page | str:
    """The page, or where it went."""
    head = await connection.exchange(_request(connection.origin, url), b"", timeout)
    location = head.headers.get("location")
    if head.status in _REDIRECTS and location:
        try:
            return urldefrag(urljoin(url, location)).url
        except ValueError:
            raise ToolError(f"{url} redirects to {location!r}, which is no address.") from None
    length = head.headers.get("content-length", "")
    size = int(length) if length.isdecimal() else None
    kind = head.headers.get("content-type", "")
    check_type(kind, size)
    data, is_cut = await _body(connection, head, timeout, limit)
    return Page(url=url, status=head.status, type=kind, data=data, is_cut=is_cut, length=size)


def _request(origin: Origin, url: str) -> bytes:
    parts = urlsplit(url)
    path = _escaped(parts.path or "/") + (f"?{_escaped(parts.query)}" if parts.query else "")
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {origin.host_header}",
        f"User-Agent: quarterdeck/{quarterdeck.__version__}",
        "Accept: text/html, text/*, application/json, */*;q=0.5",
        "Accept-Encoding: identity",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _escaped(text: str) -> str:
    """The text with everything but visible ASCII escaped."""
    return "".join(
        chr(byte) if 0x21 <= byte <= 0x7E else f"%{byte:02X}"
        for byte in text.encode("utf-8", "replace")
    )


async def _body(
    connection: Connection, head: Head, timeout: float, limit: int
) -> tuple[bytes, bool]:
    """The body, unpacked, and whether it goes on after ``limit`` bytes."""
    if head.status in (204, 304):
        return b"", False
    packing = head.headers.get("content-encoding", "identity").lower().strip()
    if packing not in ("", "identity", *_COMPRESSIONS):
        raise ToolError(f"The page is packed with {packing!r} though that was not asked for.")
    unpacker = zlib.decompressobj(wbits=47) if packing in _COMPRESSIONS else None
    data = bytearray()
    async with aclosing(connection.body(head, timeout)) as pieces:
        async for piece in pieces:
            # One byte more than the limit tells a page that fits from one that does not.
            room = limit + 1 - len(data)
            data += unpacker.decompress(piece, room) if unpacker else piece[:room]
            if len(data) > limit:
                return bytes(data[:limit]), True
    return bytes(data), False
