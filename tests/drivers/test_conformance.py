"""One suite for every driver: whoever the agent is, a consumer sees the same.

Each rig is a fake that speaks one CLI's own language; prompts are commands, see docs/fake-agent.md.
"""

import asyncio
import re
import sys
import unicodedata
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.rules import RuleSource
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    SessionEnded,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    TurnStarted,
    UnknownEvent,
)
from quarterdeck.wire.session_options import SessionLimits
from tests.support.contract import judge
from tests.support.deadlines import SOON
from tests.support.driver_rig import Driven, Rig, drive

RIGS: list[Rig] = [
    rig
    for file in sorted((Path(__file__).parent / "rigs").glob("*.py"))
    for rig in import_module(f"tests.drivers.rigs.{file.stem}").RIGS
]
MARK = "CONFORMANCE_RUN"
ALLOWED = re.compile("allowed|permission: yes")
DENIED = re.compile("denied|permission: no")
"""What the fakes say after they asked."""


@pytest.fixture(params=RIGS, ids=lambda rig: rig.name)
def rig(request: pytest.FixtureRequest) -> Rig:
    return request.param


@pytest.fixture
def mark() -> str:
    """In the environment of every process of the agent's tree."""
    return uuid4().hex


@pytest.fixture
def opened(rig: Rig, tmp_path: Path, mark: str) -> Any:
    """Opens a session, and in the end judges it and looks for what it left behind."""
    work, state = tmp_path / "wörk", tmp_path / "state"
    work.mkdir()
    state.mkdir()

    @asynccontextmanager
    async def open_(**options: Any) -> AsyncGenerator[Driven]:
        environment = {MARK: mark, "FAKE_STATE": str(state)}
        async with drive(rig, work, environment=environment, **options) as driven:
            yield driven
        judge(driven.heard)
        assert await asyncio.to_thread(left_of, mark) == []

    return open_


def left_of(mark: str) -> list[str]:
    """The processes that have the mark in their environment."""
    if sys.platform != "linux":
        return []
    found: list[str] = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                if f"{MARK}={mark}".encode() in (place / "environ").read_bytes():
                    found.append((place / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


def environments_of(mark: str) -> list[bytes]:
    found: list[bytes] = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                data = (place / "environ").read_bytes()
            except OSError:
                continue
            if f"{MARK}={mark}".encode() in data:
                found.append(data)
    return found


async def test_it_starts_and_answers(opened: Any):
    async with opened() as driven:
        ended = await driven.say("echo hello")
        assert (ended.stop, driven.text.strip()) == ("end_turn", "hello")
        assert driven.session.agent_session
    assert driven.all(SessionEnded)[0].how == "closed"


async def test_several_turns_are_one_conversation(opened: Any):
    async with opened() as driven:
        await driven.say("echo one")
        await driven.say("echo two")
        await driven.say("history")
    assert "echo one" in driven.text and "echo two" in driven.text.split("one", 1)[1]


async def test_it_goes_back_in_its_conversation(opened: Any):
    async with opened() as driven:
        if not driven.session.capabilities.rewinds:
            with pytest.raises(UnsupportedError):
                await driven.session.rewind(1)
            return
        for words in ("echo one", "echo two", "echo three"):
            await driven.say(words)
        first = driven.session.agent_session
        await driven.session.rewind(2)
        assert driven.session.agent_session != first
        said = len(driven.text)
        await driven.say("history")
        assert "echo one" in driven.text[said:] and "echo t" not in driven.text[said:]
        await driven.session.rewind(2)
        said = len(driven.text)
        await driven.say("history")
        assert "echo one" not in driven.text[said:]
        with pytest.raises(UnsupportedError, match="go back 9 turns"):
            await driven.session.rewind(9)


async def test_it_streams_in_order_and_loses_nothing(opened: Any):
    async with opened() as driven:
        assert (await driven.say("stream 300", within=4 * SOON)).stop == "end_turn"
    said = driven.text.split()
    assert [word for word in said if word.isdigit()] == [str(number) for number in range(300)]
    capabilities = driven.session.capabilities
    if capabilities.streams and capabilities.verbatim:  # a screen is looked at when there is time
        assert len(driven.all(MessageChunk)) > 1


async def test_it_thinks(opened: Any):
    async with opened() as driven:
        await driven.say("think deeply\necho done")
    thoughts = driven.all(ThoughtChunk)
    assert not thoughts or "deeply" in str(thoughts[0].content)
    assert "done" in driven.text


async def test_a_tool_call_starts_and_ends(opened: Any):
    async with opened() as driven:
        await driven.say("tool look")
    (start,), (end,) = driven.all(ToolCallStarted), driven.all(ToolCallEnded)
    assert start.call == end.call and end.status == "completed"


async def test_it_asks_and_goes_on_when_allowed(opened: Any):
    async with opened() as driven:
        _need_asking(driven)
        turn = asyncio.create_task(driven.say("ask make things"))
        asked = await driven.answer("allow_once")
        assert (await turn).stop == "end_turn"
    assert "make things" in f"{asked.title} {asked.raw_input}"
    assert was(ALLOWED, driven) and not was(DENIED, driven)
    assert driven.all(ToolCallStarted)[0].call == asked.call


async def test_it_is_denied(opened: Any):
    async with opened() as driven:
        _need_asking(driven)
        turn = asyncio.create_task(driven.say("ask make things"))
        await driven.answer("reject_once", feedback="not today")
        await turn
    assert was(DENIED, driven) and not was(ALLOWED, driven)
    assert driven.all(ToolCallEnded)[0].status in ("failed", "cancelled")


async def test_a_rule_answers_for_the_person(opened: Any):
    rule = parse_rule(
        "deny bash(make:*)", scope="user", source=RuleSource(origin="flag", where="t")
    )
    async with opened(gate=Gate(mode="ask", rules=(rule,))) as driven:
        _need_asking(driven)
        await driven.say("ask make things")
    assert was(DENIED, driven) and not driven.all(PermissionAsked)
    assert driven.all(PermissionAnswered)[0].by.kind == "rule"


async def test_nobody_there_is_a_refusal(opened: Any):
    async with opened(gate=Gate(mode="ask", attended=False)) as driven:
        _need_asking(driven)
        await driven.say("ask make things")
    assert not was(ALLOWED, driven)


async def test_updates_flow_while_a_permission_waits(opened: Any):
    async with opened() as driven:
        _need_asking(driven)
        turn = asyncio.create_task(driven.say("ask make things\necho after"))
        await driven.seen(PermissionAsked)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert (await driven.say("echo next")).stop == "end_turn"
    assert "next" in driven.text and not was(ALLOWED, driven)


async def test_a_running_turn_takes_a_message_or_says_that_it_cannot(opened: Any):
    async with opened() as driven:
        session = driven.session
        turn = asyncio.create_task(driven.say("wait 0.5\necho first", within=2 * SOON))
        await driven.seen(TurnStarted)
        if not session.capabilities.steers:
            with pytest.raises(UnsupportedError, match="cannot be steered"):
                await session.steer((text("echo steered"),))
            await turn
            return
        await driven.seen(MessageChunk)
        assert await session.steer((text("echo steered"),))
        assert (await turn).stop == "end_turn"
        assert not await session.steer((text("echo late"),))
        assert (await driven.say("echo next")).stop == "end_turn"
    assert driven.text.count("steered") == 1 and driven.text.endswith("next")
    assert [one.steers for one in driven.all(Prompted)] == [False, True, False]
    assert len(driven.all(TurnStarted)) == 2 and not driven.all(UnknownEvent)
    turns = [one.turn for one in driven.heard if isinstance(one.event, Prompted)]
    assert turns[0] is None and turns[1] is not None


async def test_it_is_interrupted_and_the_next_prompt_works(opened: Any):
    async with opened() as driven:
        turn = asyncio.create_task(driven.say("wait 600"))
        await driven.seen(MessageChunk)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert (await driven.say("echo next")).stop == "end_turn"
        assert "next" in driven.text


async def test_a_flood_arrives_whole(opened: Any):
    async with opened() as driven:
        assert (await driven.say("stream 3000 20", within=4 * SOON)).stop == "end_turn"
    assert driven.text.count("chunk ") == 3000


async def test_garbage_between_messages_is_survived(opened: Any):
    async with opened() as driven:
        ended = await driven.say("garbage 50\necho fine")
        assert ended.stop == "end_turn"
    assert "fine" in driven.text


async def test_a_chatty_stderr_hangs_nothing(opened: Any):
    async with opened() as driven:
        assert (await driven.say("stderr 3000000\necho fine")).stop == "end_turn"
    assert "fine" in driven.text


@pytest.mark.parametrize(("command", "told"), [("crash 3", "3"), ("crash SIGKILL", "SIGKILL")])
async def test_it_dies_and_says_how(opened: Any, command: str, told: str):
    async with opened() as driven:
        ended = await driven.say(command)
        assert ended.stop == "failed"
        if driven.session.capabilities.process == "turn":
            assert told in (ended.reason or "")
            assert (await driven.say("echo again")).stop == "end_turn"
        else:
            over = await driven.session.wait()
            assert over.how == "broken"
            assert told == (over.signal or str(over.exit_code))
            with pytest.raises(LinkError):
                await driven.say("echo again")


async def test_a_failure_of_the_model_fails_the_turn(opened: Any):
    async with opened() as driven:
        ended = await driven.say("error overloaded")
        assert ended.stop == "failed" and "overloaded" in (ended.reason or "") + driven.text
        assert (await driven.say("echo again")).stop == "end_turn"


async def test_it_resumes_in_a_new_process(opened: Any):
    async with opened() as driven:
        assert driven.session.capabilities.resumes
        await driven.say("echo remember me")
        theirs = driven.session.agent_session
    async with opened(resume=theirs) as driven:
        await driven.say("history")
    assert "remember me" in driven.text


@pytest.mark.parametrize("kind", ["", " detached"])
async def test_its_grandchildren_end_with_it(opened: Any, mark: str, kind: str):
    async with opened() as driven:
        turn = asyncio.create_task(driven.say(f"children 2{kind}\nwait 600"))
        await driven.seen(MessageChunk)
        async with asyncio.timeout(SOON):  # they have begun, and are still forking
            while len(await asyncio.to_thread(left_of, mark)) < 3:
                await asyncio.sleep(0.02)
        await driven.session.close()
        assert (await turn).stop in ("cancelled", "failed")
        assert await asyncio.to_thread(left_of, mark) == []


async def test_it_sees_no_secret_of_ours(opened: Any, mark: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OUR_SECRET_TOKEN", "do-not-tell")
    async with opened() as driven:
        turn = asyncio.create_task(driven.say("wait 600"))
        await driven.seen(TurnStarted)
        await driven.seen(MessageChunk)
        seen = await asyncio.to_thread(environments_of, mark)
        assert seen and not any(b"do-not-tell" in one for one in seen)
        await driven.session.interrupt()
        await turn


def shown(words: str) -> str:
    """What of some words can be seen on a screen: no marks that only change the direction."""
    return "".join(letter for letter in words if unicodedata.category(letter) != "Cf")


@pytest.mark.parametrize(
    "words", ["--help", "-rf /", "🦀 ünï ‮ rtl", "a\tb  c", "'\"$(x)`"], ids=range(5)
)
async def test_a_prompt_arrives_as_it_is(opened: Any, words: str):
    async with opened() as driven:
        await driven.say(f"echo {words}")
        is_verbatim = driven.session.capabilities.verbatim
        seen = driven.text.strip("\n")
        assert seen == words if is_verbatim else shown(seen).split() == shown(words).split()
        await driven.say(words)


async def test_a_megabyte_arrives(opened: Any):
    words = "x" * 1_048_576
    async with opened() as driven:
        await driven.say(f"echo {words}", within=4 * SOON)
    assert driven.text.strip() == words


async def test_a_prompt_in_a_turn_waits_for_it(opened: Any):
    async with opened() as driven:
        first = asyncio.create_task(driven.say("stream 20"))
        second = asyncio.create_task(driven.say("echo second"))
        await asyncio.gather(first, second)
    assert driven.text.rstrip().endswith("second")


async def test_cancelling_the_caller_interrupts(opened: Any):
    async with opened() as driven:
        turn = asyncio.create_task(driven.say("wait 600"))
        await driven.seen(MessageChunk)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert (await driven.say("echo next")).stop == "end_turn"


async def test_closing_in_the_middle_of_a_turn_ends_everything(opened: Any):
    async with opened() as driven:
        turn = asyncio.create_task(driven.say("wait 600"))
        await driven.seen(MessageChunk)
        await driven.session.close()
        assert (await turn).stop in ("cancelled", "failed")


def was(answer: re.Pattern[str], driven: Driven) -> bool:
    return answer.search(driven.text) is not None


def _need_asking(driven: Driven) -> None:
    if not driven.session.capabilities.asks:
        pytest.skip(f"{driven.session.agent} cannot ask over {driven.session.transport}")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("effort", "high"),
        ("tools", ("read",)),
        ("denied_tools", ("read",)),
        ("limits.cost", SessionLimits(cost=1.0)),
        ("limits.tokens", SessionLimits(tokens=9)),
        ("limits.model_calls", SessionLimits(model_calls=2)),
    ],
)
async def test_an_option_that_is_not_supported_is_refused_by_name_before_the_start(
    opened, rig: Rig, option: str, value: Any, tmp_path: Path
):
    assert option not in rig.make().supported_options
    with pytest.raises(UnsupportedError, match=f"cannot accept the option {option!r}"):
        async with opened(**{option.partition(".")[0]: value}):
            pass
    assert list((tmp_path / "state").iterdir()) == []


async def test_a_turn_ends_at_its_limit_of_time(opened):
    async with opened(limits=SessionLimits(seconds=0.3)) as driven:
        ended = await driven.say("wait 600")
        assert (ended.stop, ended.reason) == ("max_turn_requests", "it took 0.3 s")


async def test_a_fork_of_no_session_is_refused_by_name(opened: Any):
    with pytest.raises(UnsupportedError, match="'fork' without 'resume'"):
        async with opened(fork=True):
            pass
