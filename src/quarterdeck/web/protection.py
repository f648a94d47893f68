"""What every request must pass before anything reads it, and what every answer carries.

- The name in ``Host`` must be ours: a foreign name that resolves to this machine (DNS rebinding) is
  refused.
- ``Origin``, where there is one, must be the address that the request came to. A request that
  changes something, and a WebSocket, must have one, unless it signs in by a header that no foreign
  page can send. The cookie is ``SameSite=Strict`` besides, and bodies are JSON: no form of another
  site can make such a request.
- Bodies are bounded.
- The content policy allows our own scripts alone, no inline ones, no frames and no other host.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from .errors import WebError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOOPBACK_NAMES", "MOST_BODY_BYTES", "OversizedBodyError", "RequestGuard", "SiteNames"]

MOST_BODY_BYTES = 4_000_000
"""Images in prompts fit; a patch that is pasted does too."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]", "quarterdeck.localhost")
"""Names of this machine for itself. The last one has cookies of its own: cookies do not know ports,
so those of ``localhost`` are sent to every local server that a browser visits."""

_CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types quarterdeck",
    )
)
_HEADERS = (
    (b"content-security-policy", _CONTENT_POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
_SAFE_METHODS = ("GET", "HEAD")
_POLICY_VIOLATION = 1008


class OversizedBodyError(WebError):
    """A request has a longer body than is read."""

    def __init__(self) -> None:
        super().__init__(f"the request is longer than {MOST_BODY_BYTES} bytes")


@dataclass(frozen=True, slots=True)
class SiteNames:
    """The names under which browsers reach this server.

    Loopback names are accepted with any port: an SSH tunnel has a port of its own.
    """

    netlocs: frozenset[str]
    """Names with their ports, of the addresses that the person gave; lower case."""
    schemes: frozenset[str]
    """What their pages are loaded by."""

    @classmethod
    def of(cls, urls: Iterable[str]) -> "SiteNames":
        """From the addresses that people use."""
        parts = [urlsplit(url) for url in urls]
        return cls(
            frozenset(part.netloc.lower() for part in parts),
            frozenset(part.scheme for part in parts),
        )

    def accepts_host(self, host: str) -> bool:
        """Whether ``Host`` names this server."""
        host = host.lower()
        return host in self.netlocs or _without_port(host) in LOOPBACK_NAMES

    def accepts_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin is the one that we served under this ``Host``."""
        scheme, separator, netloc = origin.lower().partition("://")
        if not separator or netloc != host.lower():
            return False
        if _without_port(netloc) in LOOPBACK_NAMES:
            return scheme in ("http", "https")
        return scheme in self.schemes


class RequestGuard:
    """The application behind the checks; an ASGI application itself."""

    def __init__(self, app: "ASGIApp", names: SiteNames) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Check a request, then pass it on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if (refusal := self._refusal(scope)) is not None:
            await _refuse(scope, receive, send, *refusal)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        await self._app(scope, _BoundedBody(receive).receive, _with_headers(send))

    def _refusal(self, scope: "Scope") -> tuple[int, str] | None:
        headers = _headers_of(scope)
        host = headers.get("host", "")
        if not self._names.accepts_host(host):
            return 421, (
                f"this server is not {host!r}; start it with --url for each name under which "
                "browsers reach it"
            )
        origin = headers.get("origin")
        if origin is not None and not self._names.accepts_origin(origin, host):
            return 403, f"a page of {origin!r} may not use this server"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and _is_api(scope):
            return 403, "a page of another site may not use this server"
        if origin is None and _needs_origin(scope) and "authorization" not in headers:
            return 403, "the request names no origin; programs sign in with `Authorization: Bearer`"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            return 413, f"the request is longer than {MOST_BODY_BYTES} bytes"
        return None


class _BoundedBody:
    """Counts what is read of a body that did not say how long it is."""

    def __init__(self, receive: "Receive") -> None:
        self._receive = receive
        self._read = 0

    async def receive(self) -> "Message":
        message = await self._receive()
        self._read += len(message.get("body", b""))
        if self._read > MOST_BODY_BYTES:
            raise OversizedBodyError
        return message


def _headers_of(scope: "Scope") -> dict[str, str]:
    """By name; of one that is given twice nothing is taken, since programs differ in which."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in found:
            twice.add(key)
        found[key] = value.decode("latin-1")
    for key in twice & {"host", "origin", "content-length"}:
        found[key] = ""
    return found


def _is_api(scope: "Scope") -> bool:
    return scope["type"] == "websocket" or scope["path"].startswith("/api/")


def _needs_origin(scope: "Scope") -> bool:
    return scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS


def _without_port(netloc: str) -> str:
    name, colon, port = netloc.rpartition(":")
    return name if colon and port.isdecimal() else netloc


def _with_headers(send: "Send") -> "Send":
    async def send_with(message: "Message") -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return send_with


async def _refuse(
    scope: "Scope", receive: "Receive", send: "Send", status: int, message: str
) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    from starlette.responses import Response

    error: dict[str, Any] = {"error": "RequestRefused", "message": message}
    response = Response(msgspec.json.encode(error), status, media_type="application/json")
    await response(scope, receive, _with_headers(send))
