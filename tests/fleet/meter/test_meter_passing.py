"""What passes the meter is the same on both sides, whatever the server does."""

import asyncio
import gzip
import logging
import socket
import struct
import zlib

import msgspec
import pytest

from quarterdeck.fleet.meter.api import CallRefusal
from quarterdeck.fleet.meter.connection import MOST_REQUEST
from quarterdeck.fleet.meter.server import find_user
from quarterdeck.wire.usage import TokenUsage
from tests.support.http_server import Exchange, serving
from tests.support.metered import SECRET, metering

BODY = b'{"model": "m-1", "max_tokens": 99, "messages": []}'
USED = TokenUsage(input=12, output=3, cached=2)
ANSWER = (
    b'{"usage": {"prompt_tokens": 12, "completion_tokens": 3, '
    b'"prompt_tokens_details": {"cached_tokens": 2}}}'
)
CHAT = "/v1/chat/completions"
EVENTS = [b'data: {"choices": []}\n\n', b"data: " + ANSWER + b"\n\n", b"data: [DONE]\n\n"]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Odd:  kept \r\n"


def scripted(*pieces: bytes, ends: str = "close"):
    """A server that sends exactly these bytes, and then closes, resets or waits."""

    async def handle(exchange: Exchange) -> None:
        await exchange.send(*pieces)
        if ends == "wait":
            await exchange.gone()
        elif ends == "reset":
            linger = struct.pack("ii", 1, 0)
            exchange.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger
            )

    return serving(handle, is_keeping=ends == "keep")


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x;ext=1\r\n%s\r\n" % (len(one), one) for one in pieces)


def packed(body: bytes, coding: str) -> bytes:
    if coding == "gzip":
        return gzip.compress(body)
    squeezer = zlib.compressobj(wbits=-15 if coding == "raw" else 15)
    return squeezer.compress(body) + squeezer.flush()


ANSWERS = {
    "length": (
        b"HTTP/1.1 200 Fine\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (len(ANSWER), ANSWER)
    ),
    "chunked": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + chunked(*EVENTS)
    + b"0\r\nX-Trailer: yes\r\n\r\n",
    "until it closes": HEAD + b"Connection: close\r\n\r\n" + b"".join(EVENTS),
    "HTTP/1.0": HEAD.replace(b"1.1", b"1.0", 1) + b"\r\n" + b"".join(EVENTS),
    "after a notice": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + chunked(*EVENTS)
    + b"0\r\n\r\n",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("cut", [1, 7, 10_000])
async def test_an_answer_passes_byte_for_byte_and_is_counted(answer: bytes, cut: int):
    pieces = [answer[at : at + cut] for at in range(0, len(answer), cut)]
    async with scripted(*pieces) as upstream, metering(upstream.url + "/base") as rig:
        assert await rig.call(CHAT, BODY, "Authorization: Bearer k", "X-Case: Yes") == answer
        assert await rig.seat.finished.get() == (USED, 200, None)
    (seen,) = upstream.requests
    assert (seen.method, seen.target, seen.body) == ("POST", "/base" + CHAT, BODY)
    assert seen.headers["authorization"] == "Bearer k"
    assert seen.headers["x-case"] == "Yes"
    assert seen.headers["host"] == upstream.url.removeprefix("http://")
    (request,) = rig.seat.begun
    assert (request.wire, request.model, request.max_output) == ("openai-chat", "m-1", 99)
    assert request.size == len(BODY)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw", "br"])
async def test_a_packed_answer_passes_packed_and_a_copy_is_counted(coding: str):
    body = ANSWER if coding == "br" else packed(ANSWER, coding)
    name = {"raw": "deflate"}.get(coding, coding)
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: %s\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (name.encode(), len(body), body)
    )
    async with scripted(answer) as upstream, metering(upstream.url) as rig:
        got = await rig.call(CHAT, BODY, "Accept-Encoding: br;q=1, gzip, zstd, deflate;q=0.5")
        assert got == answer
        assert await rig.seat.finished.get() == (None if coding == "br" else USED, 200, None)
    assert upstream.requests[0].headers["accept-encoding"] == "gzip, deflate;q=0.5"


async def test_a_stream_arrives_piece_by_piece_and_not_at_its_end():
    go_on = asyncio.Event()

    async def handle(exchange: Exchange) -> None:
        await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(EVENTS[0]))
        await go_on.wait()
        await exchange.send(chunked(*EVENTS[1:]) + b"0\r\n\r\n")

    async with serving(handle) as upstream, metering(upstream.url) as rig:
        reader, writer = await rig.connect()
        writer.write(rig.head(CHAT, length=len(BODY)) + BODY)
        first = await reader.readuntil(EVENTS[0])
        assert first.startswith(HEAD)
        assert rig.seat.finished.empty()
        go_on.set()
        await reader.readuntil(b"0\r\n\r\n")
        assert await rig.seat.finished.get() == (USED, 200, None)
        writer.close()


@pytest.mark.parametrize("ends", ["close", "reset"])
async def test_a_stream_that_dies_is_seen_to_die(ends: str):
    start = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(EVENTS[0])
    async with scripted(start, ends=ends) as upstream, metering(upstream.url) as rig:
        reader, writer = await rig.connect()
        writer.write(rig.head(CHAT, length=len(BODY)) + BODY)
        got = bytearray()
        try:
            while piece := await reader.read(100):
                got += piece
        except ConnectionResetError:
            assert ends == "reset"
        assert start.startswith(bytes(got))
        assert ends == "reset" or got == start
        usage, status, reason = await rig.seat.finished.get()
        assert (usage, status) == (None, 200) or (ends == "reset" and status is None)
        assert reason is not None
        writer.close()


async def test_a_reset_of_a_stream_without_length_is_not_an_end():
    start = HEAD + b"Connection: close\r\n\r\n" + EVENTS[0]
    sent = asyncio.Event()

    async def handle(exchange: Exchange) -> None:
        await exchange.send(start)
        await sent.wait()
        exchange.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )

    async with serving(handle, is_keeping=False) as upstream, metering(upstream.url) as rig:
        reader, writer = await rig.connect()
        writer.write(rig.head(CHAT, length=len(BODY)) + BODY)
        await reader.readuntil(EVENTS[0])
        sent.set()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
async def test_an_error_of_the_server_passes_unchanged(status: int):
    body = b'{"type": "error", "usage": {"prompt_tokens": 5}}'
    answer = b"HTTP/1.1 %d Odd\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )
    async with scripted(answer) as upstream, metering(upstream.url) as rig:
        assert await rig.call(CHAT, BODY) == answer
        assert await rig.seat.finished.get() == (None, status, None)


async def test_what_is_no_http_passes_all_the_same():
    garbage = b"\x00\xff<html>502</html>\r\n\r\nmore" + b"x" * 300_000
    async with scripted(garbage) as upstream, metering(upstream.url) as rig:
        assert await rig.call(CHAT, BODY) == garbage
        usage, status, reason = await rig.seat.finished.get()
        assert (usage, status) == (None, None)
        assert reason is not None


async def test_an_agent_that_goes_away_ends_the_call_of_an_endless_stream():
    async def handle(exchange: Exchange) -> None:
        await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            await exchange.send(chunked(b": still here\n\n" * 100))

    async with serving(handle) as upstream, metering(upstream.url) as rig:
        reader, writer = await rig.connect()
        writer.write(rig.head(CHAT, length=len(BODY)) + BODY)
        await reader.readexactly(100_000)
        writer.close()
        await upstream.closed.wait()
        _, status, reason = await rig.seat.finished.get()
        assert (status, reason) == (200, "the agent closed the connection")


async def test_an_agent_that_goes_away_ends_the_call_of_a_silent_server():
    async with scripted(ends="wait") as upstream, metering(upstream.url) as rig:
        _, writer = await rig.connect()
        writer.write(rig.head(CHAT, length=len(BODY)) + BODY)
        while not upstream.requests:
            await asyncio.sleep(0.01)
        writer.close()
        await upstream.closed.wait()
        assert (await rig.seat.finished.get())[1] is None


async def test_an_agent_that_does_not_read_holds_the_server_back():
    sent = 0

    async def handle(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            await exchange.send(chunked(b"x" * 60_000))
            sent += 1

    async with serving(handle) as upstream, metering(upstream.url) as rig:
        _, writer = await rig.connect()
        writer.write(rig.head(CHAT, length=len(BODY)) + BODY)
        before = -1
        while before != sent or not sent:
            before = sent
            await asyncio.sleep(0.3)
        assert sent < 1_000  # the rest is in buffers of the system
        writer.close()
        await upstream.closed.wait()


async def test_a_connection_is_kept_on_both_sides_and_requests_may_come_early():
    async with scripted(ANSWERS["length"], ends="keep") as upstream, metering(upstream.url) as rig:
        reader, writer = await rig.connect()
        raw = rig.head(CHAT, length=len(BODY)) + BODY
        for count in (1, 2, 2):
            writer.write(raw * count)
            got = await reader.readexactly(len(ANSWERS["length"]) * count)
            assert got == ANSWERS["length"] * count
        assert upstream.connections == 1
        assert len(rig.seat.begun) == 5
        writer.close()


async def test_a_kept_connection_that_the_server_closed_is_opened_again():
    async with scripted(ANSWERS["length"]) as upstream, metering(upstream.url) as rig:
        reader, writer = await rig.connect()
        for _ in range(3):
            upstream.closed.clear()
            writer.write(rig.head(CHAT, length=len(BODY)) + BODY)
            assert await reader.readexactly(len(ANSWERS["length"])) == ANSWERS["length"]
            await upstream.closed.wait()
        assert upstream.connections == 3
        writer.close()


async def test_a_chunked_request_and_one_that_waits_for_leave_to_go_on():
    async def handle(exchange: Exchange) -> None:
        body = b""
        while size := int(await exchange.reader.readline(), 16):
            body += await exchange.reader.readexactly(size)
            await exchange.reader.readexactly(2)
        await exchange.reader.readexactly(2)
        await exchange.reply(200, body)

    async with serving(handle, is_keeping=False) as upstream, metering(upstream.url) as rig:
        for path in (CHAT, "/v1/files"):
            fields = ("Transfer-Encoding: chunked", "Expect: 100-continue", "Connection: close")
            reader, writer = await rig.connect()
            writer.write(rig.head(path, *fields, length=None))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
            writer.write(chunked(b"one", b"two" * 40_000) + b"0\r\n\r\n")
            assert (await reader.read()).endswith(b"\r\n\r\none" + b"two" * 40_000)
            writer.close()
    assert (len(rig.seat.begun), rig.seat.others) == (1, 1)
    assert all("expect" not in seen.headers for seen in upstream.requests)


async def test_other_requests_pass_uncounted_and_unasked():
    async with scripted(ANSWERS["length"]) as upstream, metering(upstream.url) as rig:
        rig.seat.refusal = CallRefusal(reason="no more")
        for method, path in (
            ("GET", "/v1/models?limit=2"),
            ("POST", "/v1/messages/count_tokens"),
            ("GET", "/v1/messages"),
        ):
            raw = rig.head(path, "Connection: close", method=method)
            assert await rig.ask(raw) == ANSWERS["length"]
        assert (rig.seat.begun, rig.seat.others) == ([], 3)
    assert upstream.requests[0].target == "/v1/models?limit=2"


async def test_a_server_that_is_not_there_is_named():
    async with serving(lambda _: asyncio.sleep(0)) as upstream:
        url = upstream.url
    async with metering(url) as rig:
        got = await rig.call(CHAT, BODY)
        assert got.startswith(b"HTTP/1.1 502 ")
        assert "no connection to '127.0.0.1'" in _error(got)["message"]
        assert (await rig.seat.finished.get())[:2] == (None, None)


async def test_bad_requests_are_refused_before_anything_goes_out(caplog):
    async with scripted(ANSWERS["length"]) as upstream, metering(upstream.url) as rig:
        good = rig.head(CHAT, "Connection: close", length=len(BODY)) + BODY
        port = str(rig.server.port).encode()
        refused = {
            431: rig.head(CHAT, "X: " + "y" * 70_000),
            400: b"key-in-garbage \xff\r\n\r\n",
            403: good.replace(SECRET.encode(), b"other"),
            404: good.replace(b"/it/", b"/that/"),
            505: good.replace(b"HTTP/1.1", b"HTTP/1.0"),
            426: rig.head(CHAT, "Connection: Upgrade", "Upgrade: websocket"),
            413: rig.head(CHAT, length=MOST_REQUEST + 1) + b"x" * (MOST_REQUEST + 1),
        }
        for status, raw in refused.items():
            assert (await rig.ask(raw)).startswith(b"HTTP/1.1 %d " % status), status
        for host in (b"evil.example", b"evil.example:" + port, b"127.0.0.1:1"):
            raw = good.replace(b"127.0.0.1:" + port, host)
            assert (await rig.ask(raw)).startswith(b"HTTP/1.1 403 ")
    assert upstream.requests == []
    assert rig.seat.begun == []
    assert caplog.records == []


async def test_fifty_streams_at_once_do_not_mix():
    async def handle(exchange: Exchange) -> None:
        mark = exchange.request.headers["x-mark"].encode()
        await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(40):
            await exchange.send(chunked(b"data: " + mark + b"\n\n"))
            await asyncio.sleep(0)
        await exchange.send(chunked(*EVENTS[1:]) + b"0\r\n\r\n")

    async with serving(handle) as upstream, metering(upstream.url) as rig:
        got = await asyncio.gather(
            *(rig.call(CHAT, BODY, f"X-Mark: n{number}") for number in range(50))
        )
        for number, one in enumerate(got):
            assert one.count(b"data: n%d\n\n" % number) == 40
            assert one.count(b"data: n") == 40
        ends = [await rig.seat.finished.get() for _ in got]
        assert ends == [(USED, 200, None)] * 50


async def test_keys_and_bodies_are_in_no_log(caplog):
    caplog.set_level(logging.DEBUG)
    async with scripted(b"HTTP/1.1 200 OK\r\n") as upstream, metering(upstream.url) as rig:
        await rig.call(CHAT, BODY, "Authorization: Bearer sk-very-secret")
        await rig.ask(b"GET / HTTP/1.1\r\nX-Api-Key: sk-very-secret\r\nbroken\r\n\r\n")
    assert "sk-very-secret" not in caplog.text
    assert SECRET not in caplog.text


async def test_a_secret_that_others_can_see_is_for_programs_of_this_user_alone(monkeypatch):
    async with (
        scripted(ANSWERS["length"]) as upstream,
        metering(upstream.url, is_exposed=True) as rig,
    ):
        assert await rig.call(CHAT, BODY) == ANSWERS["length"]
        monkeypatch.setattr("os.getuid", lambda: 4_242)
        assert (await rig.call(CHAT, BODY)).startswith(b"HTTP/1.1 403 ")
    assert await asyncio.to_thread(find_user, 1, 1) is None


def _error(raw: bytes) -> dict[str, object]:
    return msgspec.json.decode(raw.partition(b"\r\n\r\n")[2])["error"]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-", b"HTT", HEAD + b"\r\n"])
async def test_a_head_that_breaks_off_passes_as_far_as_it_got(head: bytes):
    async with scripted(head) as upstream, metering(upstream.url) as rig:
        assert await rig.call(CHAT, BODY) == head
        usage, _, reason = await rig.seat.finished.get()
        assert usage is None
        # Without a length the end of the connection is the end of the answer.
        assert (reason is None) == head.endswith(b"\r\n\r\n")


async def test_a_packed_stream_that_breaks_off_is_counted_as_far_as_it_got():
    first = b"data: " + ANSWER + b"\n\n" + b"data: {}\n\n" * 1_000
    squeezer = zlib.compressobj(wbits=31)
    packed_ = squeezer.compress(first) + squeezer.flush(zlib.Z_SYNC_FLUSH)
    start = (
        HEAD + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(packed_)
    )
    async with scripted(start) as upstream, metering(upstream.url) as rig:
        assert await rig.call(CHAT, BODY) == start
        assert await rig.seat.finished.get() == (USED, 200, "the server broke the answer off")
    (end,) = rig.seat.ends
    assert end.output is not None
    assert end.output >= 1_000


async def test_an_answer_of_http_1_0_with_a_length_ends_the_connection_to_the_server():
    old = ANSWERS["length"].replace(b"HTTP/1.1", b"HTTP/1.0")
    async with scripted(old, ends="keep") as upstream, metering(upstream.url) as rig:
        for _ in range(2):
            reader, writer = await rig.connect()
            writer.write(rig.head(CHAT, length=len(BODY)) + BODY)
            assert await reader.readexactly(len(old)) == old
            assert await reader.read() == b""  # as an agent expects of such an answer
            writer.close()
        assert upstream.connections == 2


async def test_an_answer_that_comes_before_the_request_is_read_is_passed_on():
    early = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(early)
        await writer.drain()
        writer.write_eof()
        await asked.wait()
        writer.close()

    asked = asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with metering(url) as rig:
            body = BODY + b" " * 20_000_000
            assert await rig.call(CHAT, body) == early
            assert await rig.seat.finished.get() == (None, 413, None)
            asked.set()
