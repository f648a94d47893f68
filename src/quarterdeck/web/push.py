"""Notifications for pages that are closed: Web Push, ntfy, and a webhook.

A push service carries what it cannot read: the text is encrypted for the browser (RFC 8291) and
the sender proves itself with a key of its own (RFC 8292). When a person is notified, and that they
are notified once, is the business of ``Notifier``.
"""

import asyncio
import base64
import logging
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec.structs import replace

from quarterdeck.config.places import Places, make_private
from quarterdeck.config.schema import WebSettings
from quarterdeck.fleet.notifications import NotificationSender, PersonNotification
from quarterdeck.net.http1 import HttpConnection, HttpError, HttpOrigin
from quarterdeck.wire.clock import WallClock, read_wall_clock
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.filelock import hold_lock
from quarterdeck.wire.private_files import write_private
from quarterdeck.wire.values import Value

from .errors import WebError

if TYPE_CHECKING:
    import ssl

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from quarterdeck.fleet.client import HostClient

__all__ = [
    "PushError",
    "PushKeys",
    "PushSender",
    "PushStore",
    "PushSubscription",
    "encrypt_push",
    "make_senders",
    "sign_push",
]

_VERSION = 1
_MOST_SUBSCRIPTIONS = 200
_SECONDS = 20.0
_LIFETIME = 12 * 3600
"""Seconds for which a signature is good."""
_KEPT = 4 * 3600
"""Seconds for which a push service keeps what it cannot deliver."""
_RECORD = 4096
_LONGEST_TEXT = 300
_GONE = (404, 410)

T = TypeVar("T")
log = logging.getLogger(__name__)


class PushError(WebError):
    """A notification could not be sent."""


class PushKeys(Value, frozen=True, kw_only=True):
    """The keys of a subscription, as browsers give them: base 64 for URLs."""

    p256dh: str
    auth: str


class PushSubscription(Value, frozen=True, kw_only=True):
    """Where one browser receives notifications."""

    endpoint: str
    keys: PushKeys
    device: str = ""
    """The id of the device; set by the server."""


class PushFile(Value, frozen=True, kw_only=True):
    """The form of the file."""

    v: int
    key: str
    """Our private key, base 64 for URLs."""
    subscriptions: tuple[PushSubscription, ...] = ()


class PushStore:
    """Our key and the subscriptions, in a private file. Blocks: use it in a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, places: Places) -> "PushStore":
        """That of a home."""
        return cls(places.state / "web" / "push.json")

    def public_key(self) -> str:
        """Our key, as browsers want it; made when it is first asked for."""
        return encode_key(_public_bytes(self.private_key()))

    def private_key(self) -> "EllipticCurvePrivateKey":
        """Our key. Raises PushError."""
        from cryptography.hazmat.primitives.asymmetric import ec

        file = self._change(lambda old: (old, old))
        number = int.from_bytes(decode_key(file.key), "big")
        return ec.derive_private_key(number, ec.SECP256R1())

    def subscriptions(self) -> tuple[PushSubscription, ...]:
        """All of them. Raises PushError."""
        return self._load().subscriptions if self._path.exists() else ()

    def add(self, subscription: PushSubscription) -> None:
        """Add one, or replace the one with the same endpoint.

        Raises:
            PushError: its keys are none, or the file cannot be written.
        """
        check_subscription(subscription)

        def change(old: PushFile) -> tuple[PushFile, None]:
            others = [one for one in old.subscriptions if one.endpoint != subscription.endpoint]
            kept = (*others, subscription)[-_MOST_SUBSCRIPTIONS:]
            return replace(old, subscriptions=kept), None

        self._change(change)

    def remove(self, is_gone: Callable[[PushSubscription], bool]) -> None:
        """Remove some."""
        if not any(is_gone(one) for one in self.subscriptions()):
            return

        def change(old: PushFile) -> tuple[PushFile, None]:
            kept = tuple(one for one in old.subscriptions if not is_gone(one))
            return replace(old, subscriptions=kept), None

        self._change(change)

    def _load(self) -> PushFile:
        try:
            file = decode_json(self._path.read_bytes(), PushFile)
        except FileNotFoundError:
            return PushFile(v=_VERSION, key=_make_key())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PushError(f"cannot use {str(self._path)!r}: {error}; delete it") from error
        if file.v != _VERSION:
            raise PushError(f"{str(self._path)!r} is of form {file.v}, not {_VERSION}")
        return file

    def _change(self, change: Callable[[PushFile], tuple[PushFile, T]]) -> T:
        make_private(self._path.parent)
        try:
            with hold_lock(self._path.with_suffix(".lock")):
                old = self._load()
                new, result = change(old)
                if new is not old or not self._path.exists():
                    write_private(self._path, msgspec.json.encode(new).decode() + "\n")
        except OSError as error:
            raise PushError(f"cannot write {str(self._path)!r}: {error}") from error
        return result


def encrypt_push(
    text: bytes,
    keys: PushKeys,
    *,
    sender: "EllipticCurvePrivateKey | None" = None,
    salt: bytes | None = None,
) -> bytes:
    """Encrypt a notification for one browser: a body in the coding ``aes128gcm``.

    ``sender`` and ``salt`` are made anew for each message; a test gives its own.

    Raises:
        PushError: the keys are none.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    receiver, secret = decode_key(keys.p256dh), decode_key(keys.auth)
    sender = sender or ec.generate_private_key(ec.SECP256R1())
    salt = salt or os.urandom(16)
    try:
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), receiver)
    except ValueError as error:
        raise PushError("the key of the subscription is not a point of the curve") from error
    ours = _public_bytes(sender)
    shared = sender.exchange(ec.ECDH(), point)
    material = _derive(shared, secret, b"WebPush: info\0" + receiver + ours, 32)
    key = _derive(material, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(material, salt, b"Content-Encoding: nonce\0", 12)
    sealed = AESGCM(key).encrypt(nonce, text + b"\x02", None)
    return salt + _RECORD.to_bytes(4, "big") + bytes([len(ours)]) + ours + sealed


def sign_push(
    endpoint: str, key: "EllipticCurvePrivateKey", contact: str, now: WallClock = read_wall_clock
) -> str:
    """The value of ``Authorization`` for a push service."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    parts = urlsplit(endpoint)
    claims = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": now() // 1_000_000 + _LIFETIME,
        "sub": contact,
    }
    head = encode_key(msgspec.json.encode({"typ": "JWT", "alg": "ES256"}))
    signed = f"{head}.{encode_key(msgspec.json.encode(claims))}"
    first, second = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(SHA256())))
    signature = encode_key(first.to_bytes(32, "big") + second.to_bytes(32, "big"))
    return f"vapid t={signed}.{signature}, k={encode_key(_public_bytes(key))}"


class PushSender:
    """Sends notifications to every browser that wants them.

    Args:
        store: who wants them.
        client: the fleet, for what a request is about.
        devices: the ids of the devices that are still paired.
        settings: which requests can be decided from a notification.
        is_plain_allowed: a push service may be reached without TLS; for tests.
    """

    def __init__(
        self,
        store: PushStore,
        client: "HostClient",
        devices: Callable[[], frozenset[str]],
        settings: WebSettings,
        *,
        is_plain_allowed: bool = False,
    ) -> None:
        self._store = store
        self._client = client
        self._devices = devices
        self._settings = settings
        self._is_plain_allowed = is_plain_allowed

    async def send(self, note: PersonNotification) -> None:
        """Send one to all; what a push service refuses for good is removed."""
        paired = await asyncio.to_thread(self._devices)
        found = await asyncio.to_thread(self._store.subscriptions)
        wanted = [one for one in found if one.device in paired]
        if not wanted:
            return
        body = msgspec.json.encode(await self._describe(note))
        key = await asyncio.to_thread(self._store.private_key)
        gone: set[str] = set()
        for one in wanted:
            try:
                if await self._deliver(one, body, key) in _GONE:
                    gone.add(one.endpoint)
            except (HttpError, PushError) as error:
                log.warning("could not push to %s: %s", urlsplit(one.endpoint).netloc, error)
        if gone or len(wanted) < len(found):
            await asyncio.to_thread(
                self._store.remove, lambda one: one.endpoint in gone or one.device not in paired
            )

    async def _describe(self, note: PersonNotification) -> dict[str, object]:
        described: dict[str, object] = {
            "title": note.title,
            "body": note.text[:_LONGEST_TEXT],
            "tag": note.key,
            "route": "#/inbox" if note.request else f"#/agent/{note.session}",
        }
        if note.request is not None and await self._is_safe(note.request):
            described["request"] = note.request
        return described

    async def _is_safe(self, request: str) -> bool:
        """Whether a request may be decided without seeing more than its title."""
        for item in await self._client.inbox():
            if item.request == request and item.permission is not None:
                return item.permission.kind in self._settings.decide_in_notifications
        return False

    async def _deliver(
        self, to: PushSubscription, text: bytes, key: "EllipticCurvePrivateKey"
    ) -> int:
        headers = {
            "Authorization": sign_push(to.endpoint, key, "https://quarterdeck.invalid"),
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(_KEPT),
            "Urgency": "high",
        }
        body = encrypt_push(text, to.keys)
        return await post(to.endpoint, headers, body, is_plain_allowed=self._is_plain_allowed)


def make_senders(settings: WebSettings, push: PushSender) -> list[NotificationSender]:
    """Every way in which a person is notified from here."""
    senders: list[NotificationSender] = [push.send]
    if settings.ntfy is not None:
        senders.append(_NtfySender(settings.ntfy).send)
    if settings.webhook is not None:
        senders.append(_WebhookSender(settings.webhook).send)
    return senders


class _NtfySender:
    def __init__(self, url: str) -> None:
        self._url = url

    async def send(self, note: PersonNotification) -> None:
        """To an ntfy topic: the text as the body, the title in a header."""
        # Headers hold Latin letters only; ntfy reads this form of others.
        title = "=?UTF-8?B?" + base64.b64encode(note.title.encode()).decode() + "?="
        headers = {"Title": title, "Tags": note.occasion, "Content-Type": "text/plain"}
        await _post_or_raise(self._url, headers, note.text.encode())


class _WebhookSender:
    def __init__(self, url: str) -> None:
        self._url = url

    async def send(self, note: PersonNotification) -> None:
        """To any server, as JSON."""
        body = msgspec.json.encode({"title": note.title, **msgspec.to_builtins(note)})
        await _post_or_raise(self._url, {"Content-Type": "application/json"}, body)


async def _post_or_raise(url: str, headers: dict[str, str], body: bytes) -> None:
    status = await post(url, headers, body, is_plain_allowed=True)
    if status >= 300:
        raise PushError(f"{urlsplit(url).netloc!r} answered {status}")


async def post(
    url: str, headers: dict[str, str], body: bytes, *, is_plain_allowed: bool = False
) -> int:
    """Send a request; returns the status.

    Raises:
        PushError: the address is none.
        HttpError: the server does not answer.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not (is_plain_allowed and parts.scheme == "http"):
        raise PushError(f"{url[:80]!r} is not an address of HTTPS")
    origin = HttpOrigin.of(parts)
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (
        f"?{parts.query}" if parts.query else ""
    )
    lines = [f"POST {target} HTTP/1.1", f"Host: {origin.host_header}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1")
    tls = await asyncio.to_thread(_tls) if parts.scheme == "https" else None
    connection = await HttpConnection.open(origin, _SECONDS, tls)
    try:
        answer = await connection.exchange(head, body, _SECONDS)
        async with aclosing(connection.body(answer, _SECONDS)) as pieces:
            async for _ in pieces:
                break
        return answer.status
    finally:
        connection.abort()


def check_subscription(subscription: PushSubscription) -> None:
    """Make sure that something can be sent to it. Raises PushError."""
    parts = urlsplit(subscription.endpoint)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username:
        raise PushError(f"{subscription.endpoint[:80]!r} is not the address of a push service")
    if len(subscription.endpoint) > 2_000 or any(not 32 < ord(x) < 127 for x in parts.geturl()):
        raise PushError("the address of the push service is not one")
    encrypt_push(b"", subscription.keys)


def encode_key(data: bytes) -> str:
    """Bytes in base 64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_key(text: str) -> bytes:
    """What ``encode_key`` wrote. Raises PushError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise PushError("a key of the subscription is not base 64") from error


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(secret)


def _public_bytes(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _make_key() -> str:
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    return encode_key(key.private_numbers().private_value.to_bytes(32, "big"))


def _tls() -> "ssl.SSLContext":
    from ssl import create_default_context

    return create_default_context()
