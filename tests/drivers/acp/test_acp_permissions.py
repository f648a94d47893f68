"""Leave, asked for over ACP."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.drivers.acp.link import AcpLink
from quarterdeck.drivers.agent_process import Launch
from quarterdeck.policy.gate import Gate, PermissionAnswer
from quarterdeck.testing.acp_agent.program import FakeAgent, options
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    ToolCallStarted,
)
from quarterdeck.wire.permissions import Cancelled, Decider, Selected
from quarterdeck.wire.rpc.stream import ByteStream, memory_pair
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import Rig, drive

SETTINGS = options().parse_args([])
ME = Decider(kind="person", name="test")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("yes", "permission: yes, allowed"),
        ("always", "permission: always, allowed"),
        ("no", "permission: no, denied"),
        ("never", "permission: never, denied"),
    ],
)
async def test_the_chosen_option_reaches_the_agent(option: str, said: str, tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask make all"))
        asked = await driven.seen(PermissionAsked)
        answer = PermissionAnswer(outcome=Selected(option_id=option), by=ME)
        assert driven.session.answer(asked.request, answer)
        assert (await turn).stop == "end_turn"
        assert driven.text == said
        assert asked.title == "make all" and asked.raw_input == {"command": "make all"}


async def test_an_answer_of_ours_becomes_one_of_its_options(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask make all"))
        asked = await driven.seen(PermissionAsked)
        theirs = {"yes", "always", "no", "never"}
        ours = [one for one in asked.options if one.option_id not in theirs]
        always = next(one for one in ours if one.kind == "allow_always")
        answer = PermissionAnswer(outcome=Selected(option_id=always.option_id), by=ME)
        driven.session.answer(asked.request, answer)
        await turn
        assert driven.text == "permission: yes, allowed"


async def test_a_mode_that_denies_answers_at_once(tmp_path: Path):
    async with drive(acp_rig(), tmp_path, gate=Gate(mode="read-only")) as driven:
        await driven.say("ask rm -rf build")
        assert driven.text == "permission: no, denied"
        assert driven.all(PermissionAsked) == []


async def test_updates_flow_while_a_permission_waits(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("asks 2"))
        while len(driven.all(PermissionAsked)) < 2:
            await driven.seen(PermissionAsked)
            await asyncio.sleep(0)
        await driven.answer("allow_once")
        # The other one still waits, and what came of the first is here.
        await driven.seen(MessageChunk)
        assert not turn.done()
        await driven.answer("reject_once")
        await turn
        assert driven.text.count("permission:") == 2


class Tap:
    """A stream that keeps what was sent over it."""

    def __init__(self, stream: ByteStream) -> None:
        self.sent = b""
        self.receive = stream.receive
        self.close = stream.close
        self._stream = stream

    async def send(self, data: bytes) -> None:
        self.sent += data
        await self._stream.send(data)


async def test_interrupting_answers_every_open_permission_first(tmp_path: Path):
    ours, theirs = memory_pair()
    tap = Tap(ours)
    agent = asyncio.create_task(FakeAgent(SETTINGS).serve(theirs))
    launch = Launch(agent="fake", command=())
    rig = Rig(name="acp", make=lambda: AcpLink(launch, stream=tap))
    async with drive(rig, tmp_path) as driven:
        turn = asyncio.create_task(driven.say("asks 3"))
        while len(driven.all(PermissionAsked)) < 3:
            await asyncio.sleep(0.001)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        outcomes = [event.outcome for event in driven.all(PermissionAnswered)]
        assert outcomes == [Cancelled()] * 3
    await agent
    before, cancel, _ = tap.sent.partition(b'"session/cancel"')
    assert cancel and before.count(b'"outcome":"cancelled"') == 3


async def test_an_unknown_kind_is_shown_and_never_counts_as_leave(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("odd-options"))
        asked = await driven.seen(PermissionAsked)
        assert asked.options[0].kind == "allow_on_tuesdays"
        answer = PermissionAnswer(outcome=Selected(option_id="maybe"), by=ME)
        driven.session.answer(asked.request, answer)
        await turn
        assert driven.text in ("permission: maybe", "permission: no")
        assert driven.all(ToolCallStarted)[0].title == "be odd"


async def test_leave_that_none_of_its_options_gives_is_no_choice(tmp_path: Path):
    gate = Gate(mode="ask")
    async with drive(acp_rig(), tmp_path, gate=gate) as driven:
        await driven.say("odd-options ls")  # reading only: the mode allows it
        assert driven.text == "permission: cancelled"


async def test_a_request_without_options_is_cancelled_and_told(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("no-options")
        assert driven.text == "permission: cancelled"
        assert "no options" in driven.all(NoticePosted)[0].title


async def test_nobody_there_is_a_rejection_and_not_the_end_of_the_turn(tmp_path: Path):
    gate = Gate(mode="ask", attended=False)
    async with drive(acp_rig(), tmp_path, gate=gate) as driven:
        await driven.say("ask make")
        assert driven.text == "permission: no, denied"
