"""A codex server that runs already: several clients, a thread of two, cuts, what is no server."""

import asyncio
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.daemon.codex.link import CodexLink
from quarterdeck.drivers.daemon.codex.params import CodexMode
from quarterdeck.drivers.errors import OpenFailedError, StartTimeoutError, UnsupportedError
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.rules import RuleSource
from quarterdeck.testing.daemons.codex import FakeCodex
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from tests.drivers.rigs.daemons import CODEX
from tests.support.contract import judge
from tests.support.deadlines import SOON
from tests.support.driver_rig import Driven, Rig, drive

ANYWHERE = "ws://127.0.0.1:0"
PROMPT = (
    "think it over\nstream 120\ntool look\necho zwischen\nask make things\nstream 40\necho ende ✓"
)
SAID = "".join(
    [
        *(f"chunk {n}\n" for n in range(120)),
        "zwischenallowed",
        *(f"chunk {n}\n" for n in range(40)),
        "ende ✓",
    ]
)
RULE = parse_rule("allow bash(make:*)", scope="user", source=RuleSource(origin="flag", where="t"))


def rig(url: str, *, away: float = 10.0, **changes: Any) -> Rig:
    launch = replace(CODEX, url=url, **changes)
    return Rig(name="codex", make=lambda: CodexLink(launch, away=away, again=0.0, taking=0.5))


async def fails(rig: Rig, cwd: Path, error: type[Exception], match: str, **options: Any) -> None:
    with pytest.raises(error, match=match):
        async with drive(rig, cwd, **options):
            pass


def said(driven: Driven, kind: type[MessageChunk] | type[ThoughtChunk] = MessageChunk) -> str:
    contents = (event.content for event in driven.all(kind))
    return "".join(one.text for one in contents if isinstance(one, TextContent))


class TestClients:
    async def test_two_with_threads_of_their_own_hear_their_own(self, tmp_path: Path):
        async with (
            FakeCodex(ANYWHERE) as fake,
            drive(rig(fake.url), tmp_path) as one,
            drive(rig(fake.url), tmp_path) as two,
        ):
            first = asyncio.create_task(one.say("stream 50\necho one"))
            second = asyncio.create_task(two.say("stream 50\nask make\necho two"))
            await two.answer("allow_once")
            assert (await first).stop == (await second).stop == "end_turn"
        assert one.text.endswith("one") and "two" not in one.text
        assert two.text.endswith("two") and one.text.count("chunk") == two.text.count("chunk") == 50
        for driven in (one, two):
            judge(driven.heard)

    async def test_two_in_one_thread_hear_the_same_once(self, tmp_path: Path):
        async with (
            FakeCodex(ANYWHERE) as fake,
            drive(rig(fake.url), tmp_path) as one,
            drive(rig(fake.url), tmp_path, resume=one.session.agent_session) as two,
        ):
            turn = asyncio.create_task(one.say("stream 20\nask make\necho end"))
            await one.seen(PermissionAsked)
            await two.answer("allow_once")
            assert (await turn).stop == "end_turn"
            assert (await two.say("echo mine")).stop == "end_turn"
            await one.seen(MessageChunk, lambda chunk: "mine" in str(chunk.content))
        spoken = "".join(f"chunk {n}\n" for n in range(20)) + "allowedend" + "mine"
        assert one.text == two.text == spoken
        for driven, prompt in ((one, "echo mine"), (two, "stream 20")):
            (foreign,) = [chunk for chunk in driven.all(MessageChunk) if chunk.role == "user"]
            assert prompt in str(foreign.content)
            assert len(driven.all(ToolCallStarted)) == len(driven.all(ToolCallEnded)) == 1
            assert len(driven.all(PermissionAsked)) == len(driven.all(PermissionAnswered)) == 1
            judge(driven.heard)

    async def test_closing_leaves_the_server_and_stops_the_turn(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake:
            async with drive(rig(fake.url), tmp_path) as driven:
                turn = asyncio.create_task(driven.say("wait 600"))
                await driven.seen(MessageChunk)
            assert (await turn).stop == "cancelled"
            assert [thread.is_active for thread in fake._threads.values()] == [False]
            theirs = driven.session.agent_session
            async with drive(rig(fake.url), tmp_path, resume=theirs, replay=True) as again:
                assert "wait 600" in said(again)
                await again.say("history")
            assert "wait 600" in again.text

    def test_what_another_client_chose_does_not_make_it_act_unasked(self):
        manner = CodexMode()
        opened = {"approvalPolicy": "never", "approvalsReviewer": "auto_review"}
        theirs = {**opened, "sandbox": {"type": "dangerFullAccess"}}
        assert manner.differences(theirs, ("/more",)) == {
            "approvalPolicy": "untrusted",
            "approvalsReviewer": "user",
            "sandboxPolicy": {"type": "workspaceWrite", "writableRoots": ["/more"]},
        }
        assert manner.differences({}, ()) == {}


async def talk(cuts: list[int], cwd: Path, prompt: str = PROMPT) -> Driven:
    async with FakeCodex(ANYWHERE, cuts=cuts) as fake:
        gate = Gate(mode="ask", rules=(RULE,))
        async with drive(rig(fake.url), cwd, gate=gate) as driven:
            assert (await driven.say(prompt)).stop == "end_turn"
            ended = await driven.say("echo again")
            if ended.stop == "failed":  # it was sent into the cut
                assert ended.reason == "the prompt was not delivered"
                assert (await driven.say("echo again")).stop == "end_turn"
        judge(driven.heard)
    return driven


class TestCuts:
    @settings(
        max_examples=15,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(cuts=st.lists(st.integers(min_value=700, max_value=30_000), min_size=1, max_size=5))
    @example(cuts=[701])
    @example(cuts=[1200, 1300, 1500, 2500, 700])
    def test_wherever_it_is_cut_all_is_told_once(self, cuts: list[int], tmp_path: Path):
        told_once(asyncio.run(talk(cuts, tmp_path)))

    @pytest.mark.stress
    @pytest.mark.timeout(1800)
    def test_every_byte(self, tmp_path: Path):
        short = PROMPT.replace("stream 120", "stream 8").replace("stream 40", "stream 3")
        said_ = said(asyncio.run(talk([], tmp_path, short)))
        assert 100 < len(said_) < 200
        for cut in range(600, 8_600):
            told_once(asyncio.run(talk([cut], tmp_path, short)), said_)

    async def test_a_question_outlives_the_connection(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake, drive(rig(fake.url), tmp_path) as driven:
            turn = asyncio.create_task(driven.say("ask make things"))
            await driven.seen(PermissionAsked)
            for _ in range(2):
                async with resumed(fake):
                    fake.cut_all()
            await driven.answer("allow_once")
            assert (await turn).stop == "end_turn"
        assert len(driven.all(PermissionAsked)) == len(driven.all(PermissionAnswered)) == 1
        assert driven.text == "allowed"

    async def test_one_that_another_client_answers_in_the_gap_is_withdrawn(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake, drive(rig(fake.url), tmp_path) as driven:
            turn = asyncio.create_task(driven.say("ask make things\nwait 0.2\necho done"))
            await driven.seen(PermissionAsked)
            (waiting,) = [one[2] for one in fake.open.values()]
            fake.cut_all()
            waiting.set_result({"decision": "accept"})
            assert (await turn).stop == "end_turn"
        assert driven.text == "allowedwaitingdone"
        (answered,) = driven.all(PermissionAnswered)
        assert answered.by.kind == "cancel"
        judge(driven.heard)

    async def test_an_end_in_the_gap_ends_the_turn(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake, drive(rig(fake.url), tmp_path) as driven:
            turn = asyncio.create_task(driven.say("wait 0.05\necho done"))
            await driven.seen(MessageChunk)
            thread = next(iter(fake._threads.values()))
            thread.clients.clear()
            async with asyncio.timeout(5):
                while thread.is_active:
                    await asyncio.sleep(0.01)
            fake.cut_all()
            assert (await turn).stop == "end_turn"
        assert driven.text == "waitingdone"

    async def test_a_prompt_is_never_sent_twice(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake, drive(rig(fake.url), tmp_path) as driven:
            fake.cuts = []
            fake.is_deaf = True
            turn = asyncio.create_task(driven.say("echo once"))
            await asked(fake, "turn/start")
            fake.is_deaf = False
            fake.cut_all()
            assert (ended := await turn).stop == "failed"
            assert "was not delivered" in (ended.reason or "")
            assert (await driven.say("echo twice")).stop == "end_turn"
        assert driven.text == "twice"

    async def test_interrupting_goes_through_after_a_cut(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake, drive(rig(fake.url), tmp_path) as driven:
            turn = asyncio.create_task(driven.say("wait 600"))
            await driven.seen(MessageChunk)
            fake.cut_all()
            await driven.session.interrupt()
            assert (await turn).stop == "cancelled"
            assert (await driven.say("echo on")).stop == "end_turn"


@asynccontextmanager
async def resumed(fake: FakeCodex) -> AsyncGenerator[None]:
    """Wait until the thread was resumed once more."""
    before = [method for method, _ in fake.requests].count("thread/resume")
    yield
    async with asyncio.timeout(5):
        while [method for method, _ in fake.requests].count("thread/resume") <= before:
            await asyncio.sleep(0.01)


async def asked(fake: FakeCodex, method: str) -> None:
    async with asyncio.timeout(5):
        while method not in [one for one, _ in fake.requests]:
            await asyncio.sleep(0.01)


def told_once(driven: Driven, text: str = SAID + "again") -> None:
    assert said(driven) == text
    assert said(driven, ThoughtChunk) == "it over"
    calls = Counter(event.call for event in driven.all(ToolCallStarted))
    assert list(calls.values()) == [1, 1]
    assert [end.status for end in driven.all(ToolCallEnded)] == ["completed"] * 2
    for turn in driven.all(TurnEnded):
        if turn.stop == "end_turn":
            assert turn.usage is not None and (turn.usage.input, turn.usage.output) == (11, 7)


class TestAway:
    async def test_a_server_that_comes_back_is_used_again(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake, drive(rig(fake.url), tmp_path) as driven:
            assert (await driven.say("echo one")).stop == "end_turn"
            turn = asyncio.create_task(driven.say("wait 600"))
            await driven.seen(MessageChunk, lambda one: "waiting" in str(one.content))
            await fake.__aexit__()
            async with FakeCodex(fake.url, like=fake):
                ended = await turn
                assert ended.stop == "failed" and "was restarted" in (ended.reason or "")
                assert (await driven.say("echo two")).stop == "end_turn"
            assert driven.text == "onewaitingtwo"

    async def test_one_that_stays_away_ends_the_session(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake:
            async with drive(rig(fake.url, away=0.2), tmp_path) as driven:
                turn = asyncio.create_task(driven.say("wait 600"))
                await driven.seen(MessageChunk)
                await fake.__aexit__()
                assert (await turn).stop == "failed"
                over = await driven.session.wait()
            assert over.how == "broken" and "is not reachable" in (over.reason or "")

    async def test_closing_while_it_is_away_is_quick(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake:
            async with drive(rig(fake.url), tmp_path) as driven:
                await driven.say("echo one")
                await fake.__aexit__()
            async with asyncio.timeout(SOON):
                assert (await driven.session.wait()).how == "closed"


class TestOpening:
    async def test_over_a_unix_socket(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as place:
            url = f"unix://{place}/s"
            async with FakeCodex(url), drive(rig(url), Path(place)) as driven:
                assert (await driven.say("echo in")).stop == "end_turn"

    async def test_a_server_that_is_down_fails_at_once(self, tmp_path: Path):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        async with asyncio.timeout(SOON):
            there = rig(f"ws://127.0.0.1:{port}")
            await fails(there, tmp_path, OpenFailedError, "codex: no server at")
            gone = rig(f"unix://{tmp_path}/nobody")
            await fails(gone, tmp_path, OpenFailedError, "codex: no server at")

    async def test_one_that_accepts_and_never_answers_fails_in_time(self, tmp_path: Path):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
            await fails(rig(url), tmp_path, StartTimeoutError, "0.3 s over daemon", start_limit=0.3)
        async with FakeCodex(ANYWHERE) as fake:
            fake.is_deaf = True
            await fails(rig(fake.url), tmp_path, StartTimeoutError, "0.3 s", start_limit=0.3)

    async def test_one_that_hangs_up_while_opening_fails(self, tmp_path: Path):
        for cut in (0, 1, 50, 150, 300):
            async with FakeCodex(ANYWHERE, cuts=[cut]) as fake:
                await fails(rig(fake.url), tmp_path, OpenFailedError, "codex")

    async def test_the_password_comes_from_the_named_variable(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("MY_TOKEN", "right")
        async with FakeCodex(ANYWHERE, token="right") as fake:
            async with drive(rig(fake.url, password="MY_TOKEN"), tmp_path) as driven:
                assert (await driven.say("echo in")).stop == "end_turn"
            wrong = rig(fake.url, password="MY_TOKEN")
            given_ = {"MY_TOKEN": "wrong"}
            await fails(wrong, tmp_path, OpenFailedError, "'MY_TOKEN' is wrong", environment=given_)
            await fails(rig(fake.url), tmp_path, OpenFailedError, "requires a password; name its")
            monkeypatch.delenv("MY_TOKEN")
            await fails(wrong, tmp_path, OpenFailedError, "'MY_TOKEN', .* is not set")

    @pytest.mark.parametrize("url", ["ws://example.org:1", "wss://127.0.0.1:1", "unix:x"])
    async def test_an_address_elsewhere_is_refused(self, tmp_path: Path, url: str):
        await fails(rig(url), tmp_path, OpenFailedError, "must be ws")

    @pytest.mark.parametrize(
        ("option", "value"), [("arguments", ("--x",)), ("environment", {"A": "1"})]
    )
    async def test_what_a_running_server_cannot_be_told_is_refused(
        self, tmp_path: Path, option: str, value: Any
    ):
        async with FakeCodex(ANYWHERE) as fake:
            what = f"option {option!r} for a server"
            await fails(rig(fake.url), tmp_path, UnsupportedError, what, **{option: value})

    async def test_cancelling_the_opening_leaves_nothing(self, tmp_path: Path):
        async with FakeCodex(ANYWHERE) as fake:
            fake.is_deaf = True

            async def open_() -> None:
                async with drive(rig(fake.url), tmp_path):
                    pass

            opening = asyncio.create_task(open_())
            await asked(fake, "initialize")
            opening.cancel()
            with suppress(asyncio.CancelledError):
                await opening
            async with asyncio.timeout(5):
                while fake._connections:
                    await asyncio.sleep(0.01)
