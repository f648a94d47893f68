import asyncio
import subprocess
import sys
from contextlib import aclosing

import pytest

from quarterdeck.models.errors import ModelSetupError, StreamBrokenError, VendorUnreachableError
from quarterdeck.models.http_client import (
    HttpClient,
    HttpTimeouts,
    is_loopback,
    proxy_for,
    read_all,
)
from tests.support.http_server import Exchange, serving


def client(idle: float = 5.0) -> HttpClient:
    return HttpClient(HttpTimeouts(connect=2.0, idle=idle), {})


async def fetched(client: HttpClient, url: str, body: bytes = b"{}") -> bytes:
    async with client.send("POST", url, {"X-Test": "1"}, body) as answer:
        return await read_all(answer)


async def test_request_arrives_as_it_was_meant():
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, b"ok")

    async with serving(handler) as server:
        sender = client()
        assert await fetched(sender, f"{server.url}/v1/x?alt=sse", b"payload") == b"ok"
        await sender.close()
    (seen,) = server.requests
    assert (seen.method, seen.target, seen.body) == ("POST", "/v1/x?alt=sse", b"payload")
    assert seen.headers["host"] == server.url.removeprefix("http://")
    assert seen.headers["accept-encoding"] == "identity"
    assert seen.headers["x-test"] == "1"


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello",
    ],
)
async def test_every_way_to_frame_a_body_is_read(raw: bytes):
    async def handler(exchange: Exchange) -> None:
        for byte in raw:
            await exchange.send(bytes([byte]))

    async with serving(handler, is_keeping=False) as server:
        sender = client()
        assert await fetched(sender, server.url) == b"hello"
        await sender.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"HTTP/1.1 200",
        b"",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_an_answer_that_is_cut_or_garbage_is_a_broken_stream(raw: bytes):
    async def handler(exchange: Exchange) -> None:
        await exchange.send(raw)

    async with serving(handler, is_keeping=False) as server:
        sender = client()
        with pytest.raises(StreamBrokenError):
            await fetched(sender, server.url)
        await sender.close()


async def test_silence_before_the_headers_is_noticed():
    async def handler(exchange: Exchange) -> None:
        await exchange.gone()

    async with serving(handler) as server:
        sender = client(idle=0.05)
        with pytest.raises(StreamBrokenError, match=r"silent for 0\.05 s"):
            await fetched(sender, server.url)
        await sender.close()


async def test_silence_in_mid_stream_is_noticed():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(b"data: x\n\n", is_ended=False)
        await exchange.gone()

    async with serving(handler) as server:
        sender = client(idle=0.05)
        with pytest.raises(StreamBrokenError, match=r"silent for 0\.05 s"):
            await fetched(sender, server.url)
        await sender.close()


async def test_nobody_there_is_unreachable():
    async with serving(lambda exchange: exchange.gone()) as server:
        url = server.url
    sender = client()
    with pytest.raises(VendorUnreachableError, match="no connection"):
        await fetched(sender, url)


async def test_an_unknown_host_is_unreachable():
    sender = client()
    with pytest.raises(VendorUnreachableError, match=r"nowhere\.invalid"):
        await fetched(sender, "http://nowhere.invalid/")


async def test_connection_is_used_again():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(b"data: x\n\n")

    async with serving(handler) as server:
        sender = client()
        for _ in range(3):
            await fetched(sender, server.url)
        await sender.close()
    assert [seen.connection for seen in server.requests] == [1, 1, 1]


async def test_a_kept_connection_that_the_server_closed_is_replaced():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(b"data: x\n\n")
        if exchange.request.connection == 1:
            exchange.writer.transport.abort()

    async with serving(handler) as server:
        sender = client()
        for _ in range(3):
            await fetched(sender, server.url)
        await sender.close()
    assert [seen.connection for seen in server.requests] == [1, 2, 2]


async def test_a_kept_connection_that_dies_with_the_request_is_replaced():
    async def handler(exchange: Exchange) -> None:
        if len(server.requests) == 2:
            exchange.writer.transport.abort()
        else:
            await exchange.stream(b"data: x\n\n")

    async with serving(handler) as server:
        sender = client()
        for _ in range(2):
            assert await fetched(sender, server.url) == b"data: x\n\n"
        await sender.close()
    assert [seen.connection for seen in server.requests] == [1, 1, 2]


async def test_leaving_early_closes_the_connection_at_once():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(b"data: x\n\n", is_ended=False)
        await exchange.gone()

    async with serving(handler) as server:
        sender = client()
        async with (
            sender.send("POST", server.url, {}, b"") as answer,
            aclosing(answer.pieces()) as pieces,
        ):
            assert await anext(pieces) == b"data: x\n\n"
        async with asyncio.timeout(45):
            await server.closed.wait()


async def test_cancelling_closes_the_connection_before_the_headers_came():
    arrived = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        arrived.set()
        await exchange.gone()

    async with serving(handler) as server:
        sender = client()
        task = asyncio.ensure_future(fetched(sender, server.url))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(45):
            await server.closed.wait()


async def test_closing_ends_answers_under_way():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(b"data: x\n\n", is_ended=False)
        await exchange.gone()

    async with serving(handler) as server:
        sender = client()
        async with (
            sender.send("POST", server.url, {}, b"") as answer,
            aclosing(answer.pieces()) as pieces,
        ):
            await anext(pieces)
            await sender.close()
            with pytest.raises(StreamBrokenError):
                await anext(pieces)


async def test_a_large_request_arrives_whole():
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, str(len(exchange.request.body)).encode())

    async with serving(handler) as server:
        sender = client()
        assert await fetched(sender, server.url, b"x" * 5_000_000) == b"5000000"
        await sender.close()


@pytest.mark.parametrize("url", ["ftp://x/", "nonsense", "http://", "http://x:99999/"])
async def test_a_url_that_is_none_is_a_setup_error(url: str):
    with pytest.raises(ModelSetupError):
        await fetched(client(), url)


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\nb", "ключ"])
async def test_a_header_that_cannot_be_sent_is_a_setup_error_without_its_value(value: str):
    with pytest.raises(ModelSetupError) as caught:
        async with client().send("POST", "http://127.0.0.1:9/", {"X-Key": value}, b""):
            pass
    assert "X-Key" in str(caught.value)
    assert value not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://api.x.com/", {}, None),
        ("https://api.x.com/", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.x.com/", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://api.x.com/", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://api.x.com/", {"ALL_PROXY": "socks5://p:1"}, "socks5://p:1"),
        ("https://api.x.com/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x.com"}, None),
        ("https://api.x.com/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".x.com,y"}, None),
        ("https://api.x.com/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("https://api.xx.com/", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x.com"}, "http://p:1"),
        ("http://127.0.0.1:1/", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://localhost:1/", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://[::1]:1/", {"ALL_PROXY": "http://p:1"}, None),
    ],
)
def test_proxy_is_the_environments(url: str, environment: dict[str, str], proxy: str | None):
    assert proxy_for(url, environment) == proxy


async def test_a_proxy_is_used_where_the_environment_names_one():
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(b"data: a\n\n", b"data: b\n\n")

    async with serving(handler) as proxy:
        sender = HttpClient(HttpTimeouts(), {"HTTP_PROXY": proxy.url})
        body = await fetched(sender, "http://api.example.com/v1/x")
        await sender.close()
    assert body == b"data: a\n\ndata: b\n\n"
    assert proxy.requests[0].target == "http://api.example.com/v1/x"


async def test_a_dead_proxy_is_unreachable():
    async with serving(lambda exchange: exchange.gone()) as proxy:
        url = proxy.url
    sender = HttpClient(HttpTimeouts(), {"HTTP_PROXY": url})
    with pytest.raises(VendorUnreachableError, match=r"api\.example\.com"):
        await fetched(sender, "http://api.example.com/v1/x")
    await sender.close()


def test_loopback_is_told_apart():
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.9.9.9", "::1", "a.localhost"]))
    assert not any(map(is_loopback, ["10.0.0.1", "localhost.evil.com", "0.0.0.0", "x", ""]))


def test_importing_the_room_loads_neither_a_general_http_client_nor_a_vendors_library():
    program = (
        "import sys\n"
        "from quarterdeck.models import (anthropic, catalogue, google, history_repair,\n"
        "    http_client, openai_chat, openai_responses, pydantic_ai_bridge, registry, retry)\n"
        "heavy = {'httpx2', 'anyio', 'openai', 'google.genai', 'pydantic', 'pydantic_ai'}\n"
        "print(sorted(heavy & set(sys.modules)), 'anthropic' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={}
    )
    assert done.stdout.strip() == "[] False"
