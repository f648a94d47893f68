"""A call that is sent again is made once, whatever became of the server in between."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.responses import Response

from quarterdeck.web.errors import CallKeyError, UnknownOutcomeError
from quarterdeck.web.remembered_calls import CallFile, NotedCall, RememberedCalls
from quarterdeck.wire.events import MessageChunk, PermissionAnswered
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet
from tests.support.web_rig import serving_web

HELLO = {"agent": "ann", "content": [{"type": "text", "text": "say hello"}]}


def answering(text: str, made: list[str]) -> Callable[[], Awaitable[Response]]:
    async def call() -> Response:
        made.append(text)
        return Response(text, 200, media_type="application/json")

    return call


async def test_a_key_counts_for_the_next_server_and_for_an_hour(tmp_path: Path):
    now, made = 10**15, list[str]()

    def server() -> RememberedCalls:
        return RememberedCalls(CallFile(tmp_path / "web" / "calls.jsonl", lambda: now), lambda: now)

    first = server()
    await first.run("d1", "send k", b"{}", answering('"one"', made))
    await first.close()
    second = server()
    again = await second.run("d1", "send k", b"{}", answering('"two"', made))
    assert bytes(again.body) == b'"one"' and again.headers["cache-control"] == "no-store"
    other = await second.run("d2", "send k", b"{}", answering('"other device"', made))
    assert bytes(other.body) == b'"other device"'
    for server_ in (second, server()):
        with pytest.raises(CallKeyError):
            await server_.run("d1", "send k", b'{"x": 1}', answering('"three"', made))
    now += 3_601 * 1_000_000
    late = await server().run("d1", "send k", b"{}", answering('"late"', made))
    assert bytes(late.body) == b'"late"' and made == ['"one"', '"other device"', '"late"']
    file = tmp_path / "web" / "calls.jsonl"
    assert file.stat().st_mode & 0o077 == 0


async def test_what_a_server_began_and_did_not_end_is_not_made_again(tmp_path: Path):
    path = tmp_path / "calls.jsonl"
    begun, made = asyncio.Event(), list[str]()

    async def hang() -> Response:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    killed = RememberedCalls(CallFile(path))
    calling = asyncio.create_task(killed.run("d", "send k", b"{}", hang))
    await asyncio.wait_for(begun.wait(), SOON)
    path.write_bytes(path.read_bytes() + b'{"device": "d", "ke')  # the last line is cut
    following = RememberedCalls(CallFile(path))
    with pytest.raises(UnknownOutcomeError, match="may have been done"):
        await following.run("d", "send k", b"{}", answering("1", made))
    assert not made
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)


async def test_the_file_stays_short_and_a_disk_that_fails_stops_nothing(tmp_path: Path):
    now, made = 10**15, list[str]()
    file = CallFile(tmp_path / "calls.jsonl", lambda: now)
    calls = RememberedCalls(file, lambda: now)
    for number in range(120):
        if number % 40 == 39:
            now += 3_601 * 1_000_000
        await calls.run("d", f"send {number}", b"{}", answering('"' + "x" * 90_000 + '"', made))
    assert len(made) == 120 and (tmp_path / "calls.jsonl").stat().st_size < 9_000_000
    (tmp_path / "blocked").write_text("a file where a directory should be")
    broken = RememberedCalls(CallFile(tmp_path / "blocked" / "calls.jsonl"))
    for _ in range(2):
        await broken.run("d", "send k", b"{}", answering("1", made))
    assert len(made) == 121


def test_many_long_answers_of_one_hour_do_not_make_the_file_long(tmp_path: Path):
    file = CallFile(tmp_path / "web" / "calls.jsonl", lambda: 10**15)
    for number in range(130):
        digest, answer = f"{number:064}", "x" * 100_000
        call = NotedCall(device="d1", key=f"send {number}", digest=digest, time=10**15, status=200)
        file.note(msgspec.structs.replace(call, answer=answer))
    assert (tmp_path / "web" / "calls.jsonl").stat().st_size < 8_000_000
    again = CallFile(tmp_path / "web" / "calls.jsonl", lambda: 10**15).load()
    assert len(again) == 130 and all(one.status == 200 for one in again.values())


async def test_prompts_and_answers_with_the_same_key_happen_once_over_a_restart(tmp_path: Path):
    fleet = FakeFleet()
    results: list[list[Any]] = []
    request, cookies = "", None
    for _ in range(2):
        async with serving_web(tmp_path, fleet) as rig:
            if cookies is None:
                await rig.spawn("ann")
                await rig.spawn("bob", "ask")
                (item,) = await fleet.inbox()
                request, cookies = item.request, (await rig.paired()).cookies
            client = rig.client()
            client.cookies = cookies
            answer = {"requests": [request], "choice": "allow_once"}
            sent = [
                await client.post(f"/api/v1/fleet/{method}", json=body, headers=headers)
                for method, body, headers in (
                    ("send", HELLO, {"idempotency-key": "tap-1"}),
                    ("answer_group", answer, {"idempotency-key": "tap-2"}),
                    ("answer", {"request": request, "choice": "reject_once"}, {}),
                )
            ]
            assert [one.status_code for one in sent] == [200, 200, 200], sent
            results.append([one.json() for one in sent])
    assert results[0] == results[1]
    assert results[0][1]["answered"] == [request] and results[0][2] is False
    said = [one for one in fleet.records if "hello" in str(getattr(one.event, "content", ""))]
    assert len([one for one in said if isinstance(one.event, MessageChunk)]) == 1
    answered = [one for one in fleet.records if isinstance(one.event, PermissionAnswered)]
    assert [one.event.kind for one in answered] == ["allow_once"]  # type: ignore[union-attr]
    await fleet.stop()
