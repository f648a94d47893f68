"""From a URL to its page as text: which addresses are allowed, redirects that stay on the host.

A name is looked up once. Every address it has must be allowed, and the connection is made to one
of these addresses, not to the name: a second lookup could answer differently.
"""

import asyncio
import codecs
import re
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urldefrag, urljoin, urlsplit

import quarterdeck
from quarterdeck.models.errors import CallError
from quarterdeck.models.http_client import ResponseHead, VendorConnection, tls_context
from quarterdeck.net.http1 import HttpOrigin
from quarterdeck.policy.domains import UrlTarget, address_class, parse_target

from ..tool import ToolError
from .markdown import to_markdown

__all__ = [
    "FetchedPage",
    "MovedPage",
    "Resolve",
    "Streams",
    "check_name",
    "check_type",
    "connect",
    "decoded",
    "download_page",
    "readable",
    "resolve_by_system",
]

_TEXT_TYPES = re.compile(
    r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-ndjson"
    r"|x-sh|sql|graphql|typescript|x-httpd-php|ld\+json)|image/svg\+xml|message/.+"
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    """An answer with its body, or the beginning of it."""

    url: str
    status: int
    type: str
    """The ``Content-Type`` as it came; may be empty."""
    data: bytes
    is_cut: bool = False
    length: int | None = None
    """Bytes of the whole body, where the server sent it."""

    @property
    def is_html(self) -> bool:
        """Whether it is HTML, by its type or, without one, by its first characters."""
        kind = _kind(self.type)
        if kind:
            return kind in ("text/html", "application/xhtml+xml")
        return self.data.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html"))


def check_type(content_type: str, size: int | None) -> None:
    """Refuse what is not text, before its body is read.

    Raises:
        ToolError: The type is another; the text says which and how large the body is.
    """
    kind = _kind(content_type)
    if kind and not _TEXT_TYPES.fullmatch(kind) and kind != "application/xhtml+xml":
        length = "of unknown size" if size is None else f"of {size} bytes"
        raise ToolError(
            f"The page is {kind!r} {length}, not text. Download it with a command if you need it."
        )


def readable(page: FetchedPage, format: Literal["markdown", "text", "html"]) -> str:
    """The page as text in a format. Works long on large pages: call it in a thread.

    Raises:
        ToolError: It has no type and looks binary.
    """
    if not page.type and b"\0" in page.data[:4096]:
        raise ToolError(f"The page has no type and is not text ({len(page.data)} bytes).")
    text = decoded(page)
    if format == "html" or not page.is_html:
        return text
    return to_markdown(text, base=page.url, is_plain=format == "text")


def decoded(page: FetchedPage) -> str:
    """The body as text: by its mark, its header, its ``meta`` tag, or as UTF-8. Never raises."""
    for mark, name in _MARKS:
        if page.data.startswith(mark):
            return _decode(page.data[len(mark) :], name, page.is_cut)
    names = [found[1] for found in [_CHARSET.search(page.type)] if found]
    if page.is_html:
        names += [
            found[1].decode("ascii", "replace")
            for found in [_META.search(page.data[:4096])]
            if found
        ]
    for name in names:
        if (known := _known(name)) is not None:
            return _decode(page.data, known, page.is_cut)
    return _decode(page.data, "utf-8", page.is_cut)


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _known(name: str) -> str | None:
    """The codec of a web page's charset; browsers read Latin-1 as Windows-1252."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    if not getattr(codec, "_is_text_encoding", True):
        return None
    return "cp1252" if codec.name in ("iso8859-1", "ascii") else codec.name


def _decode(data: bytes, name: str, is_cut: bool) -> str:
    """Decode; a character that the cut went through is left out."""
    try:
        return codecs.getincrementaldecoder(name)("replace").decode(data, not is_cut)
    except (LookupError, TypeError, ValueError):  # a codec that has no incremental form
        return data.decode("utf-8", "replace")


Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the IP addresses of a host; raises OSError if it has none."""
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_HEAD_LIMIT = 65_536
_PATIENCE = 5.0
"""Seconds for one address, if there are more to try."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Look a host up as every program of this machine does."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def check_name(target: UrlTarget, *, allow_private: bool) -> None:
    """Refuse a host that is not public by its text alone.

    Raises:
        ToolError: It is not, and that was not allowed.
    """
    if target.address_class != "public" and not allow_private:
        raise _refusal(target.host, target.host, target.address_class)


async def connect(target: UrlTarget, resolve: Resolve, *, allow_private: bool) -> Streams:
    """Connect to a checked address of the target.

    Raises:
        ToolError: An address is not allowed, or does not answer.
    """
    check_name(target, allow_private=allow_private)
    try:
        addresses = await resolve(target.host, target.port)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"The host {target.host!r} cannot be found: {error}.") from error
    if not addresses:
        raise ToolError(f"The host {target.host!r} has no address.")
    for address in addresses:
        where = address_class(address)
        if where != "public" and not allow_private:
            raise _refusal(target.host, address, where)
    return await _connect_one(target, addresses)


async def _connect_one(target: UrlTarget, addresses: Sequence[str]) -> Streams:
    context = await asyncio.to_thread(tls_context) if target.scheme == "https" else None
    problem = "no address"
    for number, address in enumerate(addresses, start=1):
        patience = _PATIENCE if number < len(addresses) else None
        try:
            async with asyncio.timeout(patience):
                return await asyncio.open_connection(
                    address,
                    target.port,
                    limit=_HEAD_LIMIT,
                    ssl=context,
                    server_hostname=target.host if context else None,
                    flags=socket.AI_NUMERICHOST,
                )
        except TimeoutError:
            problem = f"no answer within {_PATIENCE:g} s"
        except ssl.SSLCertVerificationError as error:
            problem = f"its certificate is not trusted: {error.verify_message}"
        except OSError as error:
            problem = error.strerror or str(error)
    raise ToolError(f"No connection to {target}: {problem}.")


def _refusal(host: str, address: str, where: str) -> ToolError:
    leads = "" if host == address else f" leads to {address}, which"
    return ToolError(
        f"{host!r}{leads} is a {where} address; fetch may not access those. The person can allow "
        "it with the setting tools.fetch.allow_private."
    )


_MOST_HOPS = 10
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_COMPRESSIONS = frozenset(("gzip", "x-gzip", "deflate"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedPage:
    """The page is on another host, which may not be permitted."""

    url: str
    to: str


async def download_page(
    url: str,
    target: UrlTarget,
    resolve: Resolve,
    *,
    allow_private: bool,
    timeout: float,
    limit: int,
) -> FetchedPage | MovedPage:
    """Get a page of at most ``limit`` bytes; the rest is not read.

    Raises:
        ToolError: It cannot be had, or is not text.
    """
    for _ in range(_MOST_HOPS + 1):
        reader, writer = await connect(target, resolve, allow_private=allow_private)
        connection = VendorConnection(
            HttpOrigin(target.scheme == "https", target.host, target.port), reader, writer
        )
        try:
            found = await _ask(connection, url, timeout, limit)
        except (CallError, asyncio.LimitOverrunError, zlib.error) as error:
            raise ToolError(f"{target} sent an invalid response: {error}.") from error
        finally:
            connection.abort()
        if isinstance(found, FetchedPage):
            return found
        following = parse_target(found)
        if isinstance(following, str):
            raise ToolError(f"{url} redirects to {found!r}, which cannot be fetched: {following}.")
        if not _stays(target, following):
            return MovedPage(url=url, to=found)
        url, target = found, following
    raise ToolError(f"More than {_MOST_HOPS} redirects; the last led to {url}.")


def _stays(here: UrlTarget, there: UrlTarget) -> bool:
    """Whether a redirect leads to the host, and port, that was permitted."""
    if here.host != there.host:
        return False
    if here.scheme == there.scheme:
        return here.port == there.port
    is_upgrade = (here.scheme, there.scheme) == ("http", "https")
    return is_upgrade and here.has_default_port and there.has_default_port


async def _ask(
    connection: VendorConnection, url: str, timeout: float, limit: int
) -> FetchedPage | str:
    """The page, or where it went."""
    head = await connection.exchange(_request(connection.origin, url), b"", timeout)
    location = head.headers.get("location")
    if head.status in _REDIRECTS and location:
        try:
            return urldefrag(urljoin(url, location)).url
        except ValueError:
            raise ToolError(f"{url} redirects to {location!r}, which is not a valid URL.") from None
    length = head.headers.get("content-length", "")
    size = int(length) if length.isdecimal() else None
    kind = head.headers.get("content-type", "")
    check_type(kind, size)
    data, is_cut = await _body(connection, head, timeout, limit)
    return FetchedPage(
        url=url, status=head.status, type=kind, data=data, is_cut=is_cut, length=size
    )


def _request(origin: HttpOrigin, url: str) -> bytes:
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
    connection: VendorConnection, head: ResponseHead, timeout: float, limit: int
) -> tuple[bytes, bool]:
    """The body, unpacked, and whether it goes on after ``limit`` bytes."""
    if head.status in (204, 304):
        return b"", False
    packing = head.headers.get("content-encoding", "identity").lower().strip()
    if packing not in ("", "identity", *_COMPRESSIONS):
        raise ToolError(f"The page is compressed with {packing!r}, which was not requested.")
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
