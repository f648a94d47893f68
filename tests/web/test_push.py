"""Notifications for closed pages, against a push service on loopback that verifies and decrypts."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from quarterdeck.config.schema import WebSettings
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.notifications import PersonNotification
from quarterdeck.web.push import (
    PushError,
    PushKeys,
    PushSender,
    PushStore,
    PushSubscription,
    decode_key,
    encode_key,
    encrypt_push,
    make_senders,
    sign_push,
)
from quarterdeck.wire.rpc import connect_unix
from tests.support.browser import ask_to_edit
from tests.support.web_rig import WebRig

CURVE = ec.SECP256R1()


class FakePushService:
    """Takes pushes, and reads them as the browser with these keys does."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(CURVE)
        self.secret = b"0123456789abcdef"
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 201
        self.arrived = asyncio.Event()
        self.url = ""

    def keys(self) -> PushKeys:
        public = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return PushKeys(p256dh=encode_key(public), auth=encode_key(self.secret))

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((first, headers, body))
        writer.write(f"HTTP/1.1 {self.status} x\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        self.arrived.set()

    def decrypt(self, body: bytes) -> Any:
        salt, size, ours = body[:16], body[20], body[21 : 21 + body[20]]
        assert (size, int.from_bytes(body[16:20], "big")) == (65, 4096)
        point = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, ours)
        mine = decode_key(self.keys().p256dh)
        shared = self.key.exchange(ec.ECDH(), point)
        material = derive(shared, self.secret, b"WebPush: info\0" + mine + ours, 32)
        key = derive(material, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = derive(material, salt, b"Content-Encoding: nonce\0", 12)
        padded = AESGCM(key).decrypt(nonce, body[21 + size :], None)
        assert padded.endswith(b"\x02")
        return json.loads(padded[:-1])

    def verify(self, headers: dict[str, str], our_key: str) -> dict[str, Any]:
        """The claims of a signature that is good."""
        scheme, _, rest = headers["authorization"].partition(" ")
        fields = dict(part.strip().split("=", 1) for part in rest.split(","))
        assert (scheme, fields["k"]) == ("vapid", our_key)
        head, claims, signature = fields["t"].split(".")
        raw = decode_key(signature)
        numbers = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
        public = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, decode_key(our_key))
        signed = f"{head}.{claims}".encode()
        public.verify(encode_dss_signature(*numbers), signed, ec.ECDSA(SHA256()))
        assert json.loads(decode_key(head)) == {"typ": "JWT", "alg": "ES256"}
        return json.loads(decode_key(claims))


def derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(secret)


@pytest.fixture
async def service() -> AsyncIterator[FakePushService]:
    made = FakePushService()
    server = await asyncio.start_server(made.take, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> PushStore:
    return PushStore(tmp_path / "web" / "push.json")


def note(**fields: Any) -> PersonNotification:
    given = {"key": "k", "occasion": "needed", "agent": "ann", "session": "s", "text": "ls /"}
    return PersonNotification(**{**given, **fields})


def test_the_example_of_the_standard():
    number = int.from_bytes(decode_key("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"), "big")
    keys = PushKeys(
        p256dh="BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        auth="BTBZMqHH6r4Tts7J_aSIgg",
    )
    made = encrypt_push(
        b"When I grow up, I want to be a watermelon",
        keys,
        sender=ec.derive_private_key(number, CURVE),
        salt=decode_key("DGv6ra1nlYgDCS1FRnbzlw"),
    )
    assert encode_key(made) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w"
        "EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


def make_sender(
    rig: WebRig, store: PushStore, client: HostClient, kinds: tuple[Any, ...] = ()
) -> PushSender:
    return PushSender(
        store,
        client,
        lambda: frozenset(one.id for one in rig.store.devices()),
        WebSettings(decide_in_notifications=kinds),
        is_plain_allowed=True,
    )


@pytest.fixture
async def client(rig: WebRig) -> AsyncIterator[HostClient]:
    made = HostClient.create(lambda: connect_unix(rig.host.path))
    yield made
    await made.disconnect()


async def test_a_request_is_pushed_signed_and_readable_by_the_browser_alone(
    rig: WebRig, service: FakePushService, store: PushStore, client: HostClient
):
    device, _ = await asyncio.to_thread(rig.store.add_device, "phone", "ann", "approver")
    given = PushSubscription(
        endpoint=f"{service.url}/push/1?x=y", keys=service.keys(), device=device.id
    )
    await asyncio.to_thread(store.add, given)
    session = await rig.spawn("ann")
    await ask_to_edit(rig.fleet, session)
    (item,) = await rig.fleet.inbox()
    wanted = note(key=item.request, request=item.request, text="Edit ✓ src/app.py")
    await make_sender(rig, store, client).send(wanted)
    await make_sender(rig, store, client, ("edit",)).send(wanted)
    (first, headers, body), (_, _, other) = service.requests
    assert first == "POST /push/1?x=y HTTP/1.1"
    assert b"Edit" not in body and headers["content-encoding"] == "aes128gcm"
    claims = service.verify(headers, await asyncio.to_thread(store.public_key))
    assert claims["aud"] == service.url and claims["exp"] > 1_700_000_000
    read = service.decrypt(body)
    assert read["title"] == "ann needs you" and read["body"] == "Edit ✓ src/app.py"
    assert "request" not in read, "only kinds that the settings name are decided from there"
    assert service.decrypt(other)["request"] == item.request


@pytest.mark.parametrize(("status", "left"), [(201, 1), (410, 0), (404, 0), (500, 1)])
async def test_a_subscription_that_is_gone_is_removed(
    rig: WebRig, service: FakePushService, store: PushStore, client: HostClient, status, left
):
    device, _ = await asyncio.to_thread(rig.store.add_device, "phone", "ann", "viewer")
    given = PushSubscription(endpoint=service.url, keys=service.keys(), device=device.id)
    await asyncio.to_thread(store.add, given)
    service.status = status
    await make_sender(rig, store, client).send(note())
    assert len(await asyncio.to_thread(store.subscriptions)) == left


async def test_a_revoked_device_gets_nothing_and_an_unreachable_service_stops_no_other(
    rig: WebRig, service: FakePushService, store: PushStore, client: HostClient
):
    kept, _ = await asyncio.to_thread(rig.store.add_device, "phone", "ann", "viewer")
    keys = service.keys()
    for path, device in (("/a", "revoked"), ("/b", kept.id)):
        given = PushSubscription(endpoint=service.url + path, keys=keys, device=device)
        await asyncio.to_thread(store.add, given)
    closed = PushSubscription(endpoint="http://127.0.0.1:9", keys=keys, device=kept.id)
    await asyncio.to_thread(store.add, closed)
    await make_sender(rig, store, client).send(note())
    assert [first.split()[1] for first, _, _ in service.requests] == ["/b"]


def test_the_key_stays_the_same_and_is_private(store: PushStore, tmp_path: Path):
    key = store.public_key()
    assert PushStore(tmp_path / "web" / "push.json").public_key() == key
    assert (tmp_path / "web" / "push.json").stat().st_mode & 0o077 == 0
    assert len(decode_key(key)) == 65
    signed = sign_push("https://push.example/x", store.private_key(), "mailto:a@b.example")
    assert signed.startswith("vapid t=")


@pytest.mark.parametrize(
    ("endpoint", "key", "auth"),
    [
        ("ftp://a", "", ""),
        ("https://a\r\nX: y", "BA", "AA"),
        ("https://a/", "not base 64!", "AA"),
        ("https://a/", "BAAA", "AA"),
        ("https://user:secret@a/", "BA", "AA"),
    ],
)
def test_what_is_no_subscription_is_refused(store: PushStore, endpoint, key, auth):
    with pytest.raises(PushError):
        store.add(PushSubscription(endpoint=endpoint, keys=PushKeys(p256dh=key, auth=auth)))


async def test_a_service_without_tls_is_refused(
    rig: WebRig, service: FakePushService, store: PushStore, client: HostClient
):
    device, _ = await asyncio.to_thread(rig.store.add_device, "phone", "ann", "viewer")
    given = PushSubscription(endpoint=service.url, keys=service.keys(), device=device.id)
    await asyncio.to_thread(store.add, given)
    paired = frozenset((device.id,))
    await PushSender(store, client, lambda: paired, WebSettings()).send(note())
    assert service.requests == []


async def test_ntfy_and_a_webhook_get_the_same(
    rig: WebRig, service: FakePushService, store: PushStore, client: HostClient
):
    settings = WebSettings(ntfy=f"{service.url}/topic", webhook=f"{service.url}/hook")
    senders = make_senders(settings, make_sender(rig, store, client))
    for send in senders:
        await send(note(agent="ännchen"))
    ntfy, hook = service.requests
    title = ntfy[1]["title"].removeprefix("=?UTF-8?B?").removesuffix("?=")
    assert base64.b64decode(title).decode() == "ännchen needs you" and ntfy[2] == b"ls /"
    assert json.loads(hook[2])["title"] == "ännchen needs you"
    service.status = 403
    with pytest.raises(PushError):
        await senders[1](note())


async def test_a_device_subscribes_and_is_forgotten(rig: WebRig, service: FakePushService):
    phone = await rig.paired("viewer")
    key = (await phone.get("/api/v1/push")).json()["key"]
    assert len(decode_key(key)) == 65
    keys = service.keys()
    body = {
        "endpoint": "https://push.example/1",
        "keys": {"p256dh": keys.p256dh, "auth": keys.auth},
    }
    assert (await phone.post("/api/v1/push", json=body)).status_code == 200
    bad = {"endpoint": "nothing", "keys": body["keys"]}
    assert (await phone.post("/api/v1/push", json=bad)).status_code == 409
    assert (await phone.post("/api/v1/push/remove")).status_code == 200
    stranger = await rig.client().post("/api/v1/push", json=body)
    assert stranger.status_code == 401
