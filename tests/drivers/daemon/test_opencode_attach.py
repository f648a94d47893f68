"""A server that runs already: several clients, passwords, what is no such server."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.daemon.opencode.link import OpencodeLink
from quarterdeck.drivers.errors import (
    OpenFailedError,
    StartTimeoutError,
    UnsupportedError,
    WrongProtocolError,
)
from quarterdeck.testing.daemons.opencode import FakeOpencode
from quarterdeck.testing.http_server import HttpExchange, HttpServer
from quarterdeck.wire.events import MessageChunk, NoticePosted
from tests.drivers.rigs.daemons import OPENCODE
from tests.support.contract import judge
from tests.support.deadlines import SOON
from tests.support.driver_rig import Rig, drive


def rig(url: str, **changes: Any) -> Rig:
    launch = replace(OPENCODE, url=url, **changes)
    return Rig(name="opencode", make=lambda: OpencodeLink(launch))


async def fails(rig: Rig, cwd: Path, error: type[Exception], match: str, **options: Any) -> None:
    with pytest.raises(error, match=match):
        async with drive(rig, cwd, **options):
            pass


async def test_two_clients_on_one_server_hear_their_own(tmp_path: Path):
    async with FakeOpencode() as fake:
        async with drive(rig(fake.url), tmp_path) as one, drive(rig(fake.url), tmp_path) as two:
            first = asyncio.create_task(one.say("stream 50\necho one"))
            second = asyncio.create_task(two.say("stream 50\nask make\necho two"))
            await two.answer("allow_once")
            assert (await first).stop == (await second).stop == "end_turn"
        assert one.text.endswith("one") and "two" not in one.text
        assert two.text.endswith("two") and one.text.count("chunk") == two.text.count("chunk") == 50
        for driven in (one, two):
            judge(driven.heard)


async def test_closing_leaves_the_server_and_stops_the_turn(tmp_path: Path):
    async with FakeOpencode() as fake:
        async with drive(rig(fake.url), tmp_path) as driven:
            turn = asyncio.create_task(driven.say("wait 600"))
            await driven.seen(MessageChunk)
        assert (await turn).stop == "cancelled"
        async with drive(rig(fake.url), tmp_path, resume=driven.session.agent_session) as again:
            await again.say("history")
        assert "wait 600" in again.text


async def test_the_password_comes_from_the_named_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MY_SERVER_PASSWORD", "right")
    async with FakeOpencode("right") as fake:
        async with drive(rig(fake.url, password="MY_SERVER_PASSWORD"), tmp_path) as driven:
            assert (await driven.say("echo in")).stop == "end_turn"
        given = {"MY_SERVER_PASSWORD": "wrong"}
        wrong = rig(fake.url, password="MY_SERVER_PASSWORD")
        await fails(
            wrong, tmp_path, OpenFailedError, "'MY_SERVER_PASSWORD' is wrong", environment=given
        )
        await fails(
            rig(fake.url), tmp_path, OpenFailedError, "requires a password; name its variable"
        )
        monkeypatch.delenv("MY_SERVER_PASSWORD")
        await fails(wrong, tmp_path, OpenFailedError, "'MY_SERVER_PASSWORD', .* is not set")


async def test_a_server_that_is_down_fails_at_once(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with asyncio.timeout(SOON):
        await fails(rig(f"http://127.0.0.1:{port}"), tmp_path, OpenFailedError, "no server at")


async def test_a_server_that_never_answers_fails_in_time(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        await fails(rig(url), tmp_path, StartTimeoutError, "0.3 s over daemon", start_limit=0.3)


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:1", "http://example.org", "ftp://127.0.0.1", "127.0.0.1:4096"]
)
async def test_an_address_elsewhere_is_refused(tmp_path: Path, url: str):
    await fails(rig(url), tmp_path, OpenFailedError, "must be|no URL")


@pytest.mark.parametrize(
    ("option", "value"),
    [("arguments", ("--x",)), ("environment", {"A": "1"})],
)
async def test_what_a_running_server_cannot_be_told_is_refused(
    tmp_path: Path, option: str, value: Any
):
    async with FakeOpencode() as fake:
        what = f"option {option!r} for a server"
        await fails(rig(fake.url), tmp_path, UnsupportedError, what, **{option: value})


@asynccontextmanager
async def other(answer: Callable[[HttpExchange], Any]) -> AsyncGenerator[str]:
    async with HttpServer(answer) as server:
        yield server.url


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"<html>hello</html>", OpenFailedError),
        (200, b"{}", WrongProtocolError),
        (200, b"[" * 100_000, OpenFailedError),
        (404, b"nothing", WrongProtocolError),
        (500, b"", WrongProtocolError),
    ],
)
async def test_another_server_is_told(
    tmp_path: Path, status: int, body: bytes, error: type[Exception]
):
    async def answer(exchange: HttpExchange) -> None:
        await exchange.answer(status, body)

    async with other(answer) as url:
        await fails(rig(url), tmp_path, error, "opencode")


@pytest.mark.parametrize(
    "first", [b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r", b"\xff" * 99]
)
async def test_what_speaks_no_http_is_told(tmp_path: Path, first: bytes):
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await fails(rig(url), tmp_path, OpenFailedError, "no server at")


async def test_huge_and_strange_events_harm_nothing(tmp_path: Path):
    async with FakeOpencode() as fake, drive(rig(fake.url), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("wait 0.1\necho after"))
        await driven.seen(MessageChunk)
        session = driven.session.agent_session
        fake.publish("session.odd", {"sessionID": session, "blob": "x" * 5_000_000})
        for told in ({}, {"info": 3}, {"part": []}, {"sessionID": 7}, {"status": "idle"}):
            for kind in (
                "message.updated",
                "message.part.updated",
                "session.status",
                "session.error",
            ):
                fake.publish(kind, told)
        fake.publish("permission.asked", {"sessionID": session})
        fake.publish_raw(b"data: " + b"[" * 50_000 + b"\n\n")
        assert (await turn).stop == "end_turn"
        assert driven.text == "waitingafter"
    judge(driven.heard)
    assert any("not JSON" in notice.title for notice in driven.all(NoticePosted))


async def test_a_port_that_is_taken_is_told(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = (*OPENCODE.command[:-1], port)
        launch = replace(OPENCODE, command=command)
        there = Rig(name="opencode", make=lambda: OpencodeLink(launch))
        with pytest.raises(OpenFailedError) as told:
            async with drive(there, tmp_path):
                pass
    assert port in told.value.stderr and told.value.exit_code == 1
