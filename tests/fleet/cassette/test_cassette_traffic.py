"""Model traffic that passes a recorder comes again from the cassette; what differs is said."""

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from quarterdeck.fleet.cassette.file import Cassette
from quarterdeck.fleet.cassette.player import CassettePlayer
from quarterdeck.fleet.cassette.recorder import MOST_PENDING, CassetteRecorder
from quarterdeck.fleet.cassette.request_parts import PlainForm
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.session_options import SessionOptions
from tests.support.http_server import Exchange, serving
from tests.support.metered import Rig, metering

KEY = "key-0123456789abcdef"
OTHER_KEY = "another-9876543210"
SESSION = SessionId("ses_1")
PATHS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "google": "/v1beta/models/m-1:streamGenerateContent?alt=sse&key=" + OTHER_KEY,
}
CHAT = PATHS["openai-chat"]


def make_recorder(path: Path) -> CassetteRecorder:
    return CassetteRecorder(path, PlainForm(cwd="/then", home="", secrets={"LAB_KEY": KEY}))


def make_player(path: Path, cwd: str) -> CassettePlayer:
    form = PlainForm(cwd=cwd, home="", secrets={"LAB_KEY": KEY})
    return CassettePlayer(Cassette(path), form)


def ask(text: str = "hello", *, tools: tuple[str, ...] = ("shell",), cwd: str = "/then") -> bytes:
    return json.dumps(
        {
            "model": "m-1",
            "stream": True,
            "tools": [
                {"type": "function", "function": {"name": one, "description": f"runs {one}"}}
                for one in tools
            ],
            "messages": [
                {"role": "system", "content": f"You work in {cwd}. Now: 2026-11-18T07:00:00Z"},
                {"role": "user", "content": text},
            ],
        }
    ).encode()


def stream(*texts: str) -> bytes:
    events = [{"choices": [{"delta": {"content": one}}]} for one in texts]
    return b"".join(b"data: %s\n\n" % msgspec.json.encode(one) for one in events)


def body_of(answer: bytes) -> bytes:
    """The body of an answer in chunks."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return rest
    found = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        found += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return found


@asynccontextmanager
async def recording(rig: Rig, path: Path) -> AsyncGenerator[CassetteRecorder]:
    recorder = await asyncio.to_thread(make_recorder, path)
    try:
        await recorder.start(SessionOptions(agent="codex", cwd="/then"), ["it"], ["LAB_KEY"])
        await recorder.add_prompt("hello")
        rig.seat.recorder = recorder
        yield recorder
        await recorder.settle()
        await recorder.finish(("says: hi",), "pipe", "1.0")
    finally:
        rig.seat.recorder = None
        await recorder.close()


@asynccontextmanager
async def playing(path: Path, *, cwd: str = "/then") -> AsyncGenerator[tuple[Rig, CassettePlayer]]:
    player = await asyncio.to_thread(make_player, path, cwd)
    await player.add_prompt("hello")
    # Nothing listens there: whatever is answered comes from the cassette.
    async with metering("http://127.0.0.1:9") as rig:
        rig.seat.player = player
        try:
            yield rig, player
        finally:
            player.cassette.close()


async def record(path: Path, *asked: bytes, answers: tuple[bytes, ...] = ()) -> None:
    """A cassette of chat calls; the server streams ``answers`` in turn."""
    left = iter(answers or [stream(f"answer {n}") for n, _ in enumerate(asked, 1)])

    async def handle(exchange: Exchange) -> None:
        await exchange.stream(next(left))

    async with (
        serving(handle) as upstream,
        metering(upstream.url) as rig,
        recording(rig, path),
    ):
        for body in asked:
            await rig.call(CHAT, body, f"Authorization: Bearer {KEY}")


@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize("coding", ["", "gzip"])
async def test_an_answer_comes_again_without_its_server_and_no_key_is_written(
    wire: str, coding: str, tmp_path: Path
):
    plain = stream("one", f"the key is {KEY}", "Zoë ☃\u2028")
    sent = gzip.compress(plain) if coding else plain

    async def handle(exchange: Exchange) -> None:
        fields = f"Content-Encoding: {coding}\r\n" if coding else ""
        await exchange.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nSet-Cookie: c=12345678\r\n"
            + fields.encode()
            + b"Content-Length: %d\r\nX-Request-Id: r\r\n\r\n" % len(sent)
        )
        for at in range(0, len(sent), 7):
            await exchange.send(sent[at : at + 7])

    path, body = tmp_path / "it.cassette", ask(f"my key is {OTHER_KEY}")
    keys = (f"Authorization: Bearer {KEY}", f"x-api-key: {OTHER_KEY}")
    async with serving(handle) as upstream, metering(upstream.url) as rig, recording(rig, path):
        got = await rig.call(PATHS[wire], body, *keys)
        assert got.endswith(sent)  # the agent gets what was sent
    text = path.read_text()
    assert KEY not in text
    assert OTHER_KEY not in text
    assert "ookie" not in text
    assert "uthorization" not in text
    assert path.stat().st_mode & 0o077 == 0
    async with playing(path) as (rig, player):
        again = await rig.call(PATHS[wire], body, *keys)
        assert b"content-type: text/event-stream" in again.lower()
        assert body_of(again).decode() == plain.decode().replace(KEY, "…")
        report = player.report(SESSION, ("says: hi",))
    assert report.is_same, report.divergences
    assert (report.steps, report.runs) == (1, 1)


async def test_what_varies_from_run_to_run_is_no_difference(tmp_path: Path):
    path = tmp_path / "it.cassette"
    call = "msg_01a1ed8b-2bde-77a2-9b37-ba12a28fe015"
    await record(path, ask(f"{call} took 1.5 seconds on Wed Nov 18 2026 at 07:10:11"))
    async with playing(path, cwd="/elsewhere/now") as (rig, player):
        other = call.replace("2bde", "3dee")
        later = f"{other} took 12 seconds on Thu Nov 19 2026 at 08:00:00"
        await rig.call(CHAT, ask(later, cwd="/elsewhere/now").replace(b"11-18T07", b"12-01T09"))
        assert player.report(SESSION, ("says: hi",)).is_same


async def test_calls_are_matched_by_their_form_and_then_by_order(tmp_path: Path):
    path = tmp_path / "it.cassette"
    title = ask("name this", tools=())
    await record(path, title, ask("a"), ask("a"), ask("b"))
    async with playing(path) as (rig, player):
        answers = [body_of(await rig.call(CHAT, one)) for one in (ask("a"), title, ask("b"))]
        answers.append(body_of(await rig.call(CHAT, ask("a"))))
        assert answers == [stream(f"answer {n}") for n in (2, 1, 4, 3)]
        assert player.report(SESSION, ("says: hi",)).is_same


async def test_a_changed_prompt_or_tool_is_one_difference_at_its_step(tmp_path: Path):
    path = tmp_path / "it.cassette"
    await record(path, ask("a"), ask("a, again"), ask("a, again"))
    async with playing(path) as (rig, player):
        assert body_of(await rig.call(CHAT, ask("a"))) == stream("answer 1")
        for number in (2, 3):
            changed = ask("b, again", tools=("shell", "edit"))
            assert body_of(await rig.call(CHAT, changed)) == stream(f"answer {number}")
        (found,) = player.report(SESSION, ("says: hi",)).divergences
    assert (found.kind, found.place.turn, found.place.step) == ("request", 1, 2)
    assert "message user" in found.what
    assert "tool edit (not recorded)" in found.what
    assert "a, again" in found.diff
    assert "b, again" in found.diff


async def test_a_call_that_was_not_recorded_is_refused_at_once_and_one_that_is_missing_is_said(
    tmp_path: Path,
):
    path = tmp_path / "it.cassette"
    await record(path, ask("a"))
    async with playing(path) as (rig, player):
        await rig.call(CHAT, ask("a"))
        refused = await rig.call(CHAT, ask("c"))
        assert refused.startswith(b"HTTP/1.1 402 ")
        assert b"the cassette has no answer to this: turn 1, step 2" in refused
        other = await rig.call("/v1/messages", ask("a"))
        assert b"the cassette has no answer" in other
        found = player.report(SESSION, ("says: hi",)).divergences
        assert [(one.kind, one.place.step) for one in found] == [("extra", 2), ("extra", 3)]
    async with playing(path) as (rig, player):
        found = player.report(SESSION, ("says: something else",)).divergences
        assert [(one.kind, one.what) for one in found] == [
            ("missing", "model call 1"),
            ("event", "transcript"),
        ]
        assert "-says: hi" in found[1].diff


async def test_other_requests_are_answered_again_and_again(tmp_path: Path):
    path = tmp_path / "it.cassette"

    async def handle(exchange: Exchange) -> None:
        await exchange.reply(200, b'{"data": []}', content_type="application/json")

    close = "Connection: close"
    async with serving(handle) as upstream, metering(upstream.url) as rig, recording(rig, path):
        await rig.ask(rig.head("/v1/models", close, method="GET"))
    async with playing(path) as (rig, player):
        for _ in range(2):
            got = await rig.ask(rig.head("/v1/models", close, method="GET"))
            assert body_of(got) == b'{"data": []}'
        missing = await rig.ask(rig.head("/v1/files", close, method="GET"))
        assert missing.startswith(b"HTTP/1.1 400 ")
        report = player.report(SESSION, ("says: hi",))
        assert report.is_same
        assert report.notes == ("GET /v1/files was not recorded and was answered with an error",)


async def test_an_error_with_a_status_of_its_vendor_comes_again_and_then_the_answer(tmp_path: Path):
    path, left = tmp_path / "it.cassette", [529, 200]

    async def handle(exchange: Exchange) -> None:
        status = left.pop(0)
        body = b'{"status": %d}' % status
        await exchange.reply(status, body, content_type="application/json")

    async with serving(handle) as upstream, metering(upstream.url) as rig, recording(rig, path):
        for _ in range(2):
            await rig.call(CHAT, ask(), f"authorization: bearer {KEY}")
    async with playing(path) as (rig, player):
        answers = [await rig.call(CHAT, ask()) for _ in range(2)]
        assert answers[0].startswith(b"HTTP/1.1 529 ")
        assert [body_of(one) for one in answers] == [b'{"status": 529}', b'{"status": 200}']
        assert player.report(SESSION, ("says: hi",)).is_same


async def test_an_answer_that_broke_off_breaks_off_again(tmp_path: Path):
    path = tmp_path / "it.cassette"

    async def handle(exchange: Exchange) -> None:
        await exchange.stream(stream("half"), is_ended=False)
        exchange.writer.close()

    async with serving(handle) as upstream, metering(upstream.url) as rig, recording(rig, path):
        await rig.call(CHAT, ask())
    async with playing(path) as (rig, player):
        reader, writer = await rig.connect()
        writer.write(rig.head(CHAT, length=len(ask())) + ask())
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readuntil(b"0\r\n\r\n")
        writer.close()
        assert player.report(SESSION, ("says: hi",)).is_same


async def test_a_disk_that_is_slow_slows_the_stream_and_memory_stays_bounded(tmp_path: Path):
    recorder = await asyncio.to_thread(make_recorder, tmp_path / "it.cassette")
    go_on, is_writing = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait() -> tuple[()]:
        loop.call_soon_threadsafe(is_writing.set)
        go_on.wait(30)
        return ()

    try:
        await recorder.start(SessionOptions(agent="codex"), [], [])
        await recorder.put(MOST_PENDING, wait)
        await is_writing.wait()
        second = asyncio.create_task(recorder.put(1, tuple))
        done, _ = await asyncio.wait([second], timeout=0.05)
        assert not done
        go_on.set()
        await second
        await recorder.finish((), None, None)
    finally:
        go_on.set()
        await recorder.close()
    cassette = await asyncio.to_thread(Cassette, tmp_path / "it.cassette")
    assert cassette.end.calls == 0
    cassette.close()
