"""Each vendor's format: counted as its server sent it, refused as its server would."""

import asyncio
import json
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.fleet.meter.api import CallRefusal
from quarterdeck.fleet.meter.calls import describe_call, find_wire, narrow_codings
from quarterdeck.fleet.meter.upstream import Upstream, UpstreamError
from quarterdeck.models.answer_usage import MOST_BODY, AnswerUsage
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.usage import TokenUsage
from tests.support.http_server import Exchange, serving
from tests.support.metered import Rig, metering

WORDS = "scene:text hello"
TURN = [{"role": "user", "content": WORDS}]
GOOGLE = {"contents": [{"role": "user", "parts": [{"text": WORDS}]}]}
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "anthropic": ("anthropic", "/v1/messages?beta=true", {"max_tokens": 9, "messages": TURN}),
    "chat": (
        "openai-chat",
        "/v1/chat/completions",
        {"messages": TURN, "stream_options": {"include_usage": True}},
    ),
    "responses": ("openai", "/v1/responses", {"input": TURN, "max_output_tokens": 9}),
    "google": ("google", "/v1beta/models/m-1:streamGenerateContent?alt=sse", GOOGLE),
}


def counted(wire: str, body: str) -> TokenUsage:
    """What the server says in its own words, the last figure of each kind."""
    found: dict[str, int] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                if isinstance(one, int) and not isinstance(one, bool):
                    found[key] = one
                walk(one)
        elif isinstance(value, list):
            for one in value:
                walk(one)

    for line in body.splitlines():
        text = line.removeprefix("data: ")
        if text.startswith(("{", "[{")):
            walk(json.loads(text))
    if wire == "anthropic":
        cached = found.get("cache_read_input_tokens", 0)
        written = found.get("cache_creation_input_tokens", 0)
        return TokenUsage(
            input=found["input_tokens"] + cached + written,
            output=found["output_tokens"],
            cached=cached,
            cache_written=written,
        )
    if wire == "google":
        return TokenUsage(
            input=found["promptTokenCount"],
            output=found["candidatesTokenCount"] + found.get("thoughtsTokenCount", 0),
            cached=found.get("cachedContentTokenCount", 0),
            thought=found.get("thoughtsTokenCount", 0),
        )
    names = ("prompt_tokens", "completion_tokens")
    read, wrote = names if wire == "openai-chat" else ("input_tokens", "output_tokens")
    return TokenUsage(
        input=found[read],
        output=found[wrote],
        cached=found.get("cached_tokens", 0),
        thought=found.get("reasoning_tokens", 0),
    )


def request(name: str, is_streamed: bool) -> tuple[str, str, bytes]:
    wire, path, body = CALLS[name]
    if name == "google":
        path = path if is_streamed else "/v1beta/models/m-1:generateContent"
        return wire, path, json.dumps(body).encode()
    return wire, path, json.dumps({"model": "m-1", "stream": is_streamed, **body}).encode()


def text_of(raw: bytes) -> str:
    head, _, body = raw.partition(b"\r\n\r\n")
    if b"chunked" not in head.lower():
        return body.decode()
    plain = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        plain, body = plain + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return plain.decode()


async def ask_directly(url: str, rig: Rig, path: str, body: bytes) -> bytes:
    port = int(url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = rig.head(path, "Connection: close", length=len(body)).replace(rig.path.encode(), b"", 1)
    writer.write(head.replace(str(rig.server.port).encode(), str(port).encode(), 1) + body)
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("name", CALLS)
async def test_each_format_is_counted_as_its_server_sent_it(name: str, is_streamed: bool):
    wire, path, body = request(name, is_streamed)
    async with ModelServer() as server, metering(server.url) as rig:
        got = await rig.call(path, body)
        assert got.startswith(b"HTTP/1.1 200 ")
        usage, status, reason = await rig.seat.finished.get()
        assert (status, reason) == (200, None)
        assert usage == counted(wire, text_of(got))
        assert usage is not None and usage.input and usage.output
        (asked,) = rig.seat.begun
        assert (asked.wire, asked.model) == (wire, "m-1")
        direct = await ask_directly(server.url, rig, path, body)
        assert len(text_of(direct)) == len(text_of(got))


REFUSALS = {
    "anthropic": lambda error: (error["type"], error["error"]["message"]),
    "chat": lambda error: ("error", error["error"]["message"]),
    "responses": lambda error: ("error", error["error"]["message"]),
    "google": lambda error: ("error", error["error"]["message"]),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_refusal_has_the_form_of_the_vendor_and_nothing_goes_out(name: str):
    _, path, body = request(name, True)
    async with ModelServer() as server, metering(server.url) as rig:
        rig.seat.refusal = CallRefusal(reason="the budget “day” is used: 5.00 of 5.00 USD")
        got = await rig.call(path, body)
        head, _, answer = got.partition(b"\r\n\r\n")
        status = b"402" if name in ("anthropic", "chat") else b"400"
        assert head.startswith(b"HTTP/1.1 %s " % status)
        assert b"x-should-retry: false" in head
        assert REFUSALS[name](json.loads(answer)) == ("error", rig.seat.refusal.reason)
        if name == "google":
            assert json.loads(answer)["error"]["status"] == "FAILED_PRECONDITION"
        assert list(server.requests) == []
        assert rig.seat.finished.empty()


def test_only_paths_of_model_calls_are_calls():
    assert find_wire("POST", "/x/v1/messages") == "anthropic"
    assert find_wire("POST", "/v1/responses/compact") == "openai"
    for path in ("/v1/messages/count_tokens", "/v1/models/m:countTokens", "/v1/embeddings", ""):
        assert find_wire("POST", path) is None
    assert find_wire("GET", "/v1/responses") is None


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=60) | st.recursive(st.none() | st.text(), st.lists).map(repr))
def test_any_body_of_a_call_is_described(body: bytes | str):
    raw = body if isinstance(body, bytes) else body.encode()
    assert describe_call("openai", "/v1/responses", raw).size == len(raw)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=40)), st.sampled_from(["text/event-stream", "application/json"]))
def test_no_answer_can_break_the_counting(pieces: list[bytes], kind: str):
    for wire in ("anthropic", "openai", "openai-chat", "google"):
        for coding in ("", "gzip", "deflate", "br"):
            reading = AnswerUsage(wire, kind, coding)
            for piece in pieces:
                reading.feed(piece)
            reading.end()
            assert reading.usage is None


@pytest.mark.parametrize(
    "figures", ["-5", "null", "1e400", '"7"', "9" * 30, "[]", '{"input_tokens": -1}']
)
def test_figures_that_cannot_be_true_are_unknown_or_bounded(figures: str):
    reading = AnswerUsage("anthropic", "application/json", "")
    reading.feed(b'{"usage": {"input_tokens": %s, "output_tokens": 3}}' % figures.encode())
    reading.end()
    assert reading.usage is None or reading.usage.input in (0, 10**12)


def test_an_answer_beyond_all_measure_is_not_kept():
    reading = AnswerUsage("openai-chat", "application/json", "")
    for _ in range(MOST_BODY // 1_000_000 + 2):
        reading.feed(b" " * 1_000_000)
    reading.feed(b'{"usage": {"prompt_tokens": 1}}')
    reading.end()
    assert reading.usage is None


def test_codings_are_narrowed_to_those_that_can_be_read():
    assert narrow_codings(b"gzip, deflate, br, zstd") == b"gzip, deflate"
    assert narrow_codings(b"br") == b"identity"
    assert narrow_codings(b"*") == b"identity"


@pytest.mark.parametrize(
    "url", ["ftp://x/y", "nothing", "http://u:p@x/", "http://x/?q=1", "http://[x"]
)
def test_a_base_url_that_is_none_is_refused_without_its_password(url: str):
    with pytest.raises(UpstreamError) as raised:
        Upstream.parse(url)
    assert "u:p" not in str(raised.value)


# TLS and proxies

openssl = shutil.which("openssl")
with_tls = pytest.mark.skipif(openssl is None, reason="openssl is not installed")
BODY = b'{"model": "m"}'


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = [
        *(str(openssl), "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=vendor.example"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-addext", "subjectAltName=IP:127.0.0.1,DNS:vendor.example"),
        *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
    ]
    subprocess.run(command, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return both


def serverside(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def hello(exchange: Exchange) -> None:
    await exchange.reply(200, b"hello")


@with_tls
async def test_an_upstream_with_a_trusted_certificate_is_served_and_no_other(certificate: Path):
    async with serving(hello, tls=serverside(certificate)) as upstream:
        trusting = ssl.create_default_context(cafile=str(certificate))
        async with metering(upstream.url, tls=trusting) as rig:
            assert (await rig.call("/v1/messages", BODY)).endswith(b"hello")
        async with metering(upstream.url) as rig:
            got = await rig.call("/v1/messages", BODY)
            assert got.startswith(b"HTTP/1.1 502 ")
            assert b"not trusted" in got
    assert len(upstream.requests) == 1


@with_tls
async def test_a_proxy_of_the_environment_gets_a_tunnel_and_no_key(certificate: Path):
    seen: list[bytes] = []

    async with serving(hello, tls=serverside(certificate)) as upstream:

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            port = int(upstream.url.rpartition(":")[2])
            there = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

            async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                while piece := await source.read(4096):
                    target.write(piece)
                target.close()

            await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

        proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        trusting = ssl.create_default_context(cafile=str(certificate))
        environment = {"HTTPS_PROXY": f"http://me:p%40ss@127.0.0.1:{port}"}
        async with (
            proxy,
            metering("https://vendor.example", environment=environment, tls=trusting) as rig,
        ):
            got = await rig.call("/v1/messages", BODY, "x-api-key: sk-secret")
            assert got.endswith(b"hello")
    assert seen[0].startswith(b"CONNECT vendor.example:443 HTTP/1.1\r\n")
    assert b"Basic bWU6cEBzcw==" in seen[0]
    assert b"sk-secret" not in seen[0]
    assert upstream.requests[0].headers["x-api-key"] == "sk-secret"


async def test_a_plain_upstream_is_asked_for_at_the_proxy_and_a_refusal_of_it_is_named():
    async with serving(hello) as proxy:
        environment = {"HTTP_PROXY": proxy.url}
        async with metering("http://vendor.example/base", environment=environment) as rig:
            assert (await rig.call("/v1/messages", BODY)).endswith(b"hello")
        assert proxy.requests[0].target == "http://vendor.example/base/v1/messages"

        async with metering(
            "https://vendor.example", environment={"HTTPS_PROXY": proxy.url}
        ) as rig:
            proxy.handler = lambda exchange: exchange.reply(407, b"")
            got = await rig.call("/v1/messages", BODY)
            assert got.startswith(b"HTTP/1.1 502 ")
            assert b"status 407" in got


def test_a_path_of_a_base_url_is_written_as_http_wants_it():
    assert Upstream.parse("http://h/a b/é/%20/v1:x/").path == "/a%20b/%C3%A9/%20/v1:x"
