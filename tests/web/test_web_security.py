"""What attackers try: foreign names and pages, keys that were revoked, codes used again."""

import asyncio
import json
import re
import socket
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from quarterdeck.web.app import PairingLimit
from quarterdeck.web.devices import PAIRING_SECONDS, DeviceKey, DeviceStore
from quarterdeck.web.errors import PairingError, WebError
from quarterdeck.web.page_files import PAGE_FOLDER, PageFiles
from quarterdeck.web.protection import MOST_BODY_BYTES, SiteNames
from quarterdeck.web.server import WebServerOptions
from tests.support.web_rig import WebRig, serving_web


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "", "localhost.", "a@localhost"]
)
async def test_a_foreign_host_is_refused(rig: WebRig, host: str):
    client = await rig.paired()
    answer = await client.get("/api/v1/session", headers={"host": host})
    assert answer.status_code in (400, 421)


@pytest.mark.parametrize(
    "host", ["localhost:{}", "127.0.0.1:{}", "quarterdeck.localhost:{}", "localhost:9999"]
)
async def test_names_of_this_machine_are_accepted_with_any_port(rig: WebRig, host: str):
    name = host.format(rig.url.rpartition(":")[2])
    client = await rig.paired()
    headers = {"host": name, "origin": f"http://{name}"}
    assert (await client.get("/api/v1/session", headers=headers)).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://"])
async def test_a_page_of_another_site_can_do_nothing(rig: WebRig, origin: str):
    session = await rig.spawn("ann")
    client = await rig.paired()
    headers = {"origin": origin}
    for answer in (
        await client.post("/api/v1/fleet/kill", json={"agent": "ann"}, headers=headers),
        await client.get("/api/v1/session", headers=headers),
    ):
        assert answer.status_code == 403
    assert rig.fleet.infos[session].is_live
    with pytest.raises(InvalidStatus):
        async with rig.tab(client, origin=origin):
            pass


async def test_a_form_of_another_site_cannot_be_a_call(rig: WebRig):
    await rig.spawn("ann")
    client = await rig.paired()
    body = json.dumps({"agent": "ann"})
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
    for kind in kinds:
        answer = await client.post(
            "/api/v1/fleet/kill", content=body, headers={"content-type": kind}
        )
        assert answer.status_code == 415
    del client.headers["origin"]
    assert (await client.post("/api/v1/fleet/kill", json={"agent": "ann"})).status_code == 403
    client.headers["sec-fetch-site"] = "cross-site"
    assert (await client.get("/api/v1/session")).status_code == 403
    assert (await client.get("/")).status_code == 200


async def test_without_or_with_a_wrong_key_nothing_is_read(rig: WebRig):
    await rig.paired()
    (device,) = await asyncio.to_thread(rig.store.devices)
    stranger = rig.client()
    for cookie in ("", "x", f"{device.id}.", f"{device.id}.wrong", f"{device.id}.{device.digest}"):
        headers = {"cookie": f"quarterdeck={cookie}"}
        for path in ("session", "devices", "records", "records/1", "agents"):
            assert (await stranger.get(f"/api/v1/{path}", headers=headers)).status_code == 401
        answer = await stranger.post("/api/v1/fleet/agents", json={}, headers=headers)
        assert answer.status_code == 401


async def test_the_cookie_cannot_be_read_or_sent_by_other_pages(rig: WebRig):
    code = await asyncio.to_thread(rig.store.start_pairing, "viewer", "ann")
    answer = await rig.client().post("/api/v1/pair", json={"code": code, "name": "x"})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    key = DeviceKey.parse(cookie.partition("=")[2].partition(";")[0])
    assert key is not None and key.secret not in answer.text


async def test_behind_a_proxy_the_cookie_is_for_https_alone(tmp_path: Path):
    urls = ("https://box.example",)
    async with serving_web(tmp_path, behind_proxy=True, urls=urls) as rig:
        code = await asyncio.to_thread(rig.store.start_pairing, "viewer", "ann")
        client = rig.client(host="box.example")
        client.base_url = f"http://127.0.0.1:{rig.port}"
        answer = await client.post("/api/v1/pair", json={"code": code})
        assert "secure" in answer.headers["set-cookie"].lower()
        client.headers["origin"] = "http://box.example"
        assert (await client.post("/api/v1/pair", json={"code": code})).status_code == 403


async def test_a_code_works_once(rig: WebRig):
    code = await asyncio.to_thread(rig.store.start_pairing, "operator", "ann")
    answers = await asyncio.gather(
        *(rig.client().post("/api/v1/pair", json={"code": code}) for _ in range(5))
    )
    assert sorted(one.status_code for one in answers) == [200, 403, 403, 403, 403]


def test_a_code_expires_and_a_clock_set_back_does_not_help(tmp_path: Path):
    now = 1_000_000_000_000_000
    store = DeviceStore(tmp_path / "d.json", lambda: now)
    for shift in (PAIRING_SECONDS + 1, -PAIRING_SECONDS):
        code = store.start_pairing("viewer", "ann")
        before, now = now, now + shift * 1_000_000
        with pytest.raises(PairingError):
            store.finish_pairing(code, "x")
        now = before


def test_the_file_of_devices_holds_no_key_and_is_private(tmp_path: Path):
    path = tmp_path / "web" / "d.json"
    store = DeviceStore(path)
    code = store.start_pairing("viewer", "ann")
    assert code not in path.read_text()
    device, key = store.finish_pairing(code, "phone\x1b[31m\n" + "n" * 100)
    assert key.secret not in path.read_text() and code not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert device.name == "phone [31m " + "n" * 49
    assert DeviceStore(path).sign_in(key) == device
    store.revoke("phone [31m " + "n" * 49)
    assert store.sign_in(key) is None


def test_a_damaged_file_of_devices_is_named(tmp_path: Path):
    path = tmp_path / "d.json"
    for damage in ("{", '{"v": 2}', "[]", '{"v":1,"devices":[{"id":1}]}'):
        path.write_text(damage)
        with pytest.raises(WebError, match=re.escape(str(path))):
            DeviceStore(path).devices()


async def test_tries_to_pair_are_limited(rig: WebRig):
    client = rig.client()
    answers = [await client.post("/api/v1/pair", json={"code": "no"}) for _ in range(12)]
    assert [one.status_code for one in answers] == [403] * 10 + [429] * 2


def test_the_limit_forgets_after_a_minute_and_stays_small():
    now = 0.0
    limit = PairingLimit(lambda: now, most=2)
    assert [limit.accepts("a") for _ in range(3)] == [True, True, False]
    assert limit.accepts("b")
    now = 61.0
    assert limit.accepts("a")
    for number in range(5_000):
        limit.accepts(str(number))
    assert len(vars(limit)["_tries"]) <= 1_000


@pytest.mark.parametrize(
    "path",
    [
        "/../devices.py",
        "/%2e%2e/devices.py",
        "/..%2fdevices.py",
        "//etc/passwd",
        "/vendor/../../../errors.py",
        "/index.html%00.js",
        "/%c0%ae%c0%ae/errors.py",
        "/.git/config",
    ],
)
async def test_only_files_of_the_page_are_served(rig: WebRig, path: str):
    host, _, port = rig.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:60]
    assert b"class " not in answer and b"root:" not in answer


async def test_every_answer_carries_the_policy(rig: WebRig):
    client = rig.client()
    for path in ("/", "/nothing", "/api/v1/session", "/api/v1/openapi.json"):
        headers = (await client.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and "require-trusted-types-for" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
    refused = await client.get("/", headers={"host": "evil.example"})
    assert "content-security-policy" in refused.headers


async def test_oversized_bodies_are_refused_with_and_without_a_length(rig: WebRig):
    client = await rig.paired()
    large = b'{"agent": "' + b"x" * MOST_BODY_BYTES + b'"}'
    kind = {"content-type": "application/json"}
    answer = await client.post("/api/v1/fleet/agent", content=large, headers=kind)
    assert answer.status_code == 413

    async def pieces():
        for start in range(0, len(large), 65_536):
            yield large[start : start + 65_536]

    answer = await client.post("/api/v1/fleet/agent", content=pieces(), headers=kind)
    assert answer.status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b'{"agent": 1}', b"[" * 5000])
async def test_bad_bodies_are_errors_of_the_caller(rig: WebRig, body: bytes):
    client = await rig.paired()
    kind = {"content-type": "application/json"}
    answer = await client.post("/api/v1/fleet/agent", content=body, headers=kind)
    assert answer.status_code == 400 and "message" in answer.json()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"address": "0.0.0.0"}, "HTTPS"),
        ({"address": "192.0.2.1", "urls": ("http://box",)}, "HTTPS"),
        ({"address": "::", "behind_proxy": True}, "--url"),
        ({"address": "0.0.0.0", "certificate": "c", "key": "k"}, "--url"),
        ({"certificate": "c"}, "--key"),
        ({"urls": ("box.example",)}, "address"),
        ({"urls": ("https://box/path",)}, "address"),
    ],
)
def test_what_would_send_keys_in_the_clear_is_refused(options, words: str):
    with pytest.raises(WebError, match=words):
        WebServerOptions(**options).check()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"address": "::1"},
        {"address": "localhost"},
        {"behind_proxy": True, "urls": ("https://box.example",)},
        {"address": "0.0.0.0", "certificate": "c", "key": "k", "urls": ("https://box:8347",)},
    ],
)
def test_what_is_safe_is_accepted(options):
    WebServerOptions(**options).check()


def test_origins_must_be_the_address_that_was_asked():
    names = SiteNames.of(["https://box.example"])
    assert names.accepts_host("box.example") and not names.accepts_host("box.example:81")
    assert names.accepts_origin("https://box.example", "box.example")
    assert not names.accepts_origin("http://box.example", "box.example")
    assert not names.accepts_origin("https://box.example", "localhost:1")
    assert names.accepts_origin("http://[::1]:80", "[::1]:80")
    assert not names.accepts_origin("box.example", "box.example")


def test_the_page_asks_no_other_host_and_makes_no_html_of_texts():
    files = PageFiles.load()
    assert "/index.html" in files.paths()
    foreign = re.compile(r"(?:src|href|from|import|url\()\s*=?\s*\(?[\"']?(?:https?:)?//", re.I)
    for path in PAGE_FOLDER.rglob("*"):
        if path.suffix not in (".js", ".html", ".css", ".webmanifest") or "vendor" in path.parts:
            continue
        text = path.read_text()
        assert not foreign.search(text), path
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySet", "eval("):
            assert word not in text, (path, word)
        assert "document.write" not in text and "style=" not in text, path


async def test_a_connection_that_sends_nothing_does_not_keep_others_out(rig: WebRig):
    host, _, port = rig.url.removeprefix("http://").partition(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(50)]
    try:
        assert (await (await rig.paired()).get("/api/v1/session")).status_code == 200
    finally:
        for one in idle:
            one.close()
