"""The rules of the contract that a session keeps, around a link that is made of a script."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.driver import Capabilities, DriverSessionOptions
from quarterdeck.drivers.enforcement import ALL, Enforcement
from quarterdeck.drivers.errors import (
    AgentMissingError,
    DriverError,
    OpenFailedError,
    StartTimeoutError,
    UnsupportedError,
)
from quarterdeck.drivers.link import AGENT_OPTIONS, AgentExit, LinkHost, StartedAgent, TurnOutcome
from quarterdeck.drivers.open_session import start_session
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.rules import RuleSource
from quarterdeck.wire.content import ContentBlock, ImageContent, TextContent, text
from quarterdeck.wire.errors import (
    LinkBrokenError,
    LinkClosedError,
    LinkEndedError,
    LinkError,
    RpcError,
)
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId, ToolCallId, new_request_id
from quarterdeck.wire.permissions import Cancelled, PermissionOption
from tests.support.deadlines import SOON
from tests.support.driver_rig import Driven, Rig, drive

THEIRS = (
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
)


class ScriptedLink:
    """A link whose turns are functions."""

    transport = "script"

    def __init__(
        self, turn: Callable[["ScriptedLink"], Awaitable[TurnOutcome]] | None = None
    ) -> None:
        self.capabilities = Capabilities(asks=True, steers=True)
        self.takes_messages = True
        self.turn = turn
        self.host: LinkHost
        self.prompted = asyncio.Event()
        self.interrupted = asyncio.Event()
        self.gone = asyncio.Event()
        self.failure: BaseException | None = None
        self.obeys = True
        self.verdicts: list[Any] = []
        self.starts: Callable[[], Awaitable[None]] | None = None

    supported_options = AGENT_OPTIONS

    def enforcement(self, opening: DriverSessionOptions) -> Enforcement:
        return Enforcement(asks=ALL, left=frozenset())

    async def start(self, host: LinkHost) -> StartedAgent:
        self.host = host
        if self.starts is not None:
            await self.starts()
        if self.failure is not None:
            raise self.failure
        return StartedAgent(agent_session="theirs", agent_version="1")

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        self.prompted.set()
        if self.turn is not None:
            return await self.turn(self)
        assert isinstance(content[0], TextContent)
        await self.host.emit(MessageChunk(content=content[0]))
        return TurnOutcome(stop="end_turn")

    async def steer(self, content: tuple[ContentBlock, ...]) -> bool:
        if not self.obeys:
            await self.gone.wait()
        return self.takes_messages

    async def interrupt(self) -> None:
        if self.obeys:
            self.interrupted.set()

    async def set_mode(self, mode: str) -> None:
        raise AssertionError(mode)

    async def set_model(self, model: str) -> None:
        raise AssertionError(model)

    async def set_option(self, option: str, value: str | bool) -> None:
        raise AssertionError(option)

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        return ()

    async def end(self) -> AgentExit | None:
        self.gone.set()
        return AgentExit(exit_code=0)


def rig(*links: ScriptedLink) -> Rig:
    made = iter(links)
    return Rig(name="scripted", make=lambda: next(made))


async def until_told(link: ScriptedLink) -> TurnOutcome:
    await link.interrupted.wait()
    return TurnOutcome(stop="cancelled")


async def for_ever(link: ScriptedLink) -> TurnOutcome:
    await link.gone.wait()
    raise LinkBrokenError("the pipe is broken")


def asking(title: str = "rm x") -> Callable[[ScriptedLink], Awaitable[TurnOutcome]]:
    async def turn(link: ScriptedLink) -> TurnOutcome:
        question = PermissionAsked(
            request=new_request_id(),
            call=ToolCallId("c"),
            title=title,
            options=THEIRS,
            kind="execute",
            raw_input={"command": title},
        )
        link.verdicts.append(await link.host.permit(question))
        return TurnOutcome(stop="end_turn")

    return turn


async def test_a_turn_is_prompted_started_and_ended_in_its_place(tmp_path: Path):
    async with drive(rig(ScriptedLink()), tmp_path) as driven:
        assert (await driven.say("hi")).stop == "end_turn"
    kinds = [type(event) for event in driven.events]
    assert kinds == [
        SessionOpened,
        Prompted,
        TurnStarted,
        MessageChunk,
        TurnEnded,
        SessionEnded,
    ]
    turns = [one.turn for one in driven.heard]
    assert turns[:2] == [None, None] and turns[5] is None
    assert turns[2] is not None and turns[2] == turns[3] == turns[4]
    assert driven.all(SessionOpened)[0].agent_session == "theirs"


async def test_prompts_wait_for_each_other(tmp_path: Path):
    link = ScriptedLink()
    async with drive(rig(link), tmp_path) as driven:
        await asyncio.gather(*(driven.say(str(number)) for number in range(5)))
    assert driven.text == "01234"
    running = 0
    for event in driven.events:
        running += isinstance(event, TurnStarted)
        running -= isinstance(event, TurnEnded)
        assert running in (0, 1)


async def test_what_is_said_while_it_starts_comes_after_the_opening(tmp_path: Path):
    link = ScriptedLink()

    async def early() -> None:
        await link.host.emit(SessionChanged(title="early"))

    link.starts = early
    async with drive(rig(link), tmp_path) as driven:
        assert [type(event) for event in driven.events] == [SessionOpened, SessionChanged]


async def test_a_known_session_is_resumed_not_opened(tmp_path: Path):
    async with drive(rig(ScriptedLink()), tmp_path, resume="theirs", is_known=True) as driven:
        assert isinstance(driven.events[0], SessionResumed)
        assert driven.session.agent_session == "theirs"


async def test_interrupting_ends_the_turn_as_cancelled_and_the_session_goes_on(tmp_path: Path):
    link = ScriptedLink(until_told)
    async with drive(rig(link), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("go"))
        await driven.seen(TurnStarted)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        link.turn = None
        assert (await driven.say("next")).stop == "end_turn"


async def test_an_agent_that_ignores_the_interrupt_is_ended(tmp_path: Path):
    link = ScriptedLink(for_ever)
    link.obeys = False
    async with drive(rig(link), tmp_path, cancel_limit=0.05) as driven:
        turn = asyncio.create_task(driven.say("go"))
        await link.prompted.wait()
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        ended = await driven.session.wait()
        assert ended.how == "broken" and "0.05 s" in (ended.reason or "")
        with pytest.raises(LinkBrokenError):
            await driven.say("next")


async def test_cancelling_the_caller_interrupts_the_turn(tmp_path: Path):
    async with drive(rig(ScriptedLink(until_told)), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("go"))
        await driven.seen(TurnStarted)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert driven.all(TurnEnded)[0].stop == "cancelled"


@pytest.mark.parametrize(
    ("error", "how", "reason"),
    [
        (LinkBrokenError("it fell", exit_code=3, stderr="oh no"), "broken", "it fell"),
        (LinkEndedError("it left"), "ended", "it left"),
    ],
)
async def test_an_agent_that_is_lost_ends_turn_and_session_once(
    tmp_path: Path, error: LinkError, how: str, reason: str
):
    link = ScriptedLink(for_ever)
    async with drive(rig(link), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("go"))
        await driven.seen(TurnStarted)
        link.host.lost(error)
        link.host.lost(error)
        assert (await turn).stop == "failed"
        ended = await driven.session.wait()
        assert (ended.how, ended.reason) == (how, reason)
        await driven.session.close()
    assert len(driven.all(SessionEnded)) == 1
    assert isinstance(driven.events[-1], SessionEnded)


async def test_an_error_from_the_agent_fails_the_turn_only(tmp_path: Path):
    async def refuse(_: ScriptedLink) -> TurnOutcome:
        raise RpcError(-32603, "overloaded")

    link = ScriptedLink(refuse)
    async with drive(rig(link), tmp_path) as driven:
        ended = await driven.say("go")
        assert (ended.stop, ended.reason) == ("failed", "overloaded")
        link.turn = None
        assert (await driven.say("again")).stop == "end_turn"


async def test_calls_that_the_agent_forgets_end_before_their_turn(tmp_path: Path):
    async def forget(link: ScriptedLink) -> TurnOutcome:
        await link.host.emit(ToolCallStarted(call=ToolCallId("c"), title="look"))
        return TurnOutcome(stop="end_turn")

    async with drive(rig(ScriptedLink(forget)), tmp_path) as driven:
        await driven.say("go")
    kinds = [type(event) for event in driven.events]
    assert kinds.index(ToolCallEnded) < kinds.index(TurnEnded)
    assert driven.all(ToolCallEnded)[0].status == "failed"


async def test_a_person_decides_with_the_agents_own_option(tmp_path: Path):
    link = ScriptedLink(asking())
    async with drive(rig(link), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("go"))
        asked = await driven.answer("allow_once")
        await turn
        assert [option.option_id for option in asked.options][:2] == ["yes", "no"]
        assert link.verdicts[0].allowed and link.verdicts[0].option == "yes"
        assert driven.all(ToolCallStarted)[0].call == asked.call


async def test_a_standing_answer_of_ours_becomes_the_agents_allow_once(tmp_path: Path):
    link = ScriptedLink(asking("git log"))
    gate = Gate(mode="ask", rules=())
    async with drive(rig(link), tmp_path, gate=gate, mode="ask") as driven:
        link.turn = asking("make things")
        turn = asyncio.create_task(driven.say("go"))
        await driven.answer("allow_always")
        await turn
        assert link.verdicts[-1].option == "yes"
        assert len(gate.grants.all) == 1
        await driven.say("again")
        assert len(driven.all(PermissionAsked)) == 1
        assert driven.all(PermissionAnswered)[-1].by.kind == "rule"


async def test_a_rule_denies_without_asking(tmp_path: Path):
    rule = parse_rule(
        "deny bash(rm:*)", scope="user", source=RuleSource(origin="flag", where="test")
    )
    link = ScriptedLink(asking())
    async with drive(rig(link), tmp_path, gate=Gate(mode="ask", rules=(rule,))) as driven:
        await driven.say("go")
    assert not link.verdicts[0].allowed and link.verdicts[0].option == "no"
    assert driven.all(PermissionAsked) == []
    assert driven.all(PermissionAnswered)[0].by.kind == "rule"


async def test_interrupting_answers_what_is_open_as_cancelled(tmp_path: Path):
    async def ask_then_wait(link: ScriptedLink) -> TurnOutcome:
        await asking()(link)
        return await until_told(link)

    link = ScriptedLink(ask_then_wait)
    async with drive(rig(link), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("go"))
        await driven.seen(PermissionAsked)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
    assert link.verdicts[0].cancelled
    answered = driven.all(PermissionAnswered)
    assert len(answered) == 1 and isinstance(answered[0].outcome, Cancelled)


async def test_an_option_of_an_unknown_kind_never_counts_as_leave(tmp_path: Path):
    async def turn(link: ScriptedLink) -> TurnOutcome:
        odd = (PermissionOption(option_id="hm", name="Perhaps", kind="maybe"),)
        question = PermissionAsked(
            request=new_request_id(), call=ToolCallId("c"), title="look", options=odd, kind="read"
        )
        link.verdicts.append(await link.host.permit(question))
        return TurnOutcome(stop="end_turn")

    link = ScriptedLink(turn)
    rule = parse_rule("allow *", scope="user", source=RuleSource(origin="flag", where="test"))
    async with drive(rig(link), tmp_path, gate=Gate(mode="ask", rules=(rule,))) as driven:
        await driven.say("go")
    assert not link.verdicts[0].allowed and link.verdicts[0].option is None


async def test_a_turn_without_a_sign_of_life_is_ended(tmp_path: Path):
    async with drive(rig(ScriptedLink(until_told)), tmp_path, idle_limit=0.05) as driven:
        ended = await driven.say("go")
        assert ended.stop == "failed" and "no activity for" in (ended.reason or "")


async def test_signs_of_life_keep_a_long_turn_alive(tmp_path: Path):
    async def chatty(link: ScriptedLink) -> TurnOutcome:
        for _ in range(20):
            await asyncio.sleep(0.1)
            await link.host.emit(MessageChunk(content=text(".")))
        return TurnOutcome(stop="end_turn")

    async with drive(rig(ScriptedLink(chatty)), tmp_path, idle_limit=1.5) as driven:
        assert (await driven.say("go")).stop == "end_turn"


async def test_waiting_for_a_person_is_no_idling(tmp_path: Path):
    async with drive(rig(ScriptedLink(asking())), tmp_path, idle_limit=0.8) as driven:
        turn = asyncio.create_task(driven.say("go"))
        await driven.seen(PermissionAsked)
        await asyncio.sleep(1)
        await driven.answer("allow_once")
        assert (await turn).stop == "end_turn"


async def test_the_agent_is_held_back_while_the_sink_is(tmp_path: Path):
    sent = 0

    async def flood(link: ScriptedLink) -> TurnOutcome:
        nonlocal sent
        for _ in range(100):
            await link.host.emit(MessageChunk(content=text("x")))
            sent += 1
        return TurnOutcome(stop="end_turn")

    async with drive(rig(ScriptedLink(flood)), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("go"))
        await driven.seen(TurnStarted)
        driven.hold = asyncio.Event()
        held = sent
        for _ in range(20):
            await asyncio.sleep(0)
        assert sent <= held + 1
        driven.hold.set()
        await turn
    assert sent == 100


async def test_an_image_for_an_agent_that_takes_none_is_refused_before_anything(tmp_path: Path):
    async with drive(rig(ScriptedLink()), tmp_path) as driven:
        with pytest.raises(UnsupportedError, match="image"):
            await driven.session.prompt((ImageContent(data="", mime_type="image/png"),))
        with pytest.raises(UnsupportedError, match="empty"):
            await driven.session.prompt(())
    assert driven.all(Prompted) == []


async def test_a_method_that_the_agent_lacks_is_refused_by_name(tmp_path: Path):
    async with drive(rig(ScriptedLink()), tmp_path) as driven:
        with pytest.raises(UnsupportedError, match="mode"):
            await driven.session.set_mode("plan")
        with pytest.raises(UnsupportedError, match="list"):
            await driven.session.list_sessions()


async def test_a_closed_session_says_so(tmp_path: Path):
    async with drive(rig(ScriptedLink()), tmp_path) as driven:
        ended = await driven.session.close()
        assert ended.how == "closed" and await driven.session.close() == ended
        with pytest.raises(LinkClosedError):
            await driven.say("hi")


async def test_the_next_transport_is_tried_and_the_session_says_so(tmp_path: Path):
    failing = ScriptedLink()
    failing.failure = AgentMissingError("scripted", "nowhere", "/bin", "pip install it")
    fresh = await _open(tmp_path, [failing, ScriptedLink()])
    opened, notice = fresh.events[:2]
    assert isinstance(opened, SessionOpened) and isinstance(notice, NoticePosted)
    assert "nowhere" in (notice.description or "")
    assert failing.gone.is_set()
    await fresh.session.close()


async def test_when_none_starts_the_session_is_opened_and_broken(tmp_path: Path):
    missing, broken = ScriptedLink(), ScriptedLink()
    missing.failure = AgentMissingError("scripted", "nowhere", "/bin", "pip install it")
    broken.failure = LinkBrokenError("it fell over")
    driven = Driven()
    with pytest.raises(OpenFailedError, match="fell over") as caught:
        await _open(tmp_path, [missing, broken], driven)
    assert any("nowhere" in note for note in caught.value.__notes__)
    assert [type(event) for event in driven.events] == [SessionOpened, SessionEnded]
    assert driven.all(SessionEnded)[0].how == "broken"


async def test_a_start_that_takes_too_long_is_given_up(tmp_path: Path):
    slow = ScriptedLink()

    async def sleep() -> None:
        await asyncio.sleep(60)

    slow.starts = sleep
    with pytest.raises(StartTimeoutError, match=r"0\.05 s"):
        await _open(tmp_path, [slow], start_limit=0.05)
    assert slow.gone.is_set()


async def test_an_opening_that_is_cancelled_ends_what_it_started(tmp_path: Path):
    slow = ScriptedLink()

    async def sleep() -> None:
        await asyncio.sleep(60)

    slow.starts = sleep
    opening = asyncio.create_task(_open(tmp_path, [slow]))
    await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert slow.gone.is_set()


async def _open(
    cwd: Path, links: list[ScriptedLink], driven: Driven | None = None, **options: Any
) -> Driven:
    from quarterdeck.drivers.driver import DriverSessionOptions
    from quarterdeck.drivers.session import LinkSession
    from quarterdeck.policy.foreign_calls import CallContext
    from quarterdeck.wire.ids import new_session_id

    driven = driven or Driven()
    made = iter(links)
    driven.session = LinkSession(
        new_session_id(),
        "scripted",
        DriverSessionOptions.of(cwd=str(cwd), **options),
        driven.sink,
        Gate(mode="ask"),
        CallContext(cwd=str(cwd)),
    )
    await start_session(driven.session, [lambda: next(made)] * len(links))
    return driven


async def test_an_interrupt_while_the_turn_is_written_down_ends_it_unasked(tmp_path: Path):
    link = ScriptedLink(for_ever)
    async with drive(rig(link), tmp_path) as driven:
        driven.hold = asyncio.Event()
        turn = asyncio.create_task(driven.say("go"))
        await asyncio.sleep(0)
        interrupting = asyncio.create_task(driven.session.interrupt())
        await asyncio.sleep(0)
        driven.hold.set()
        await interrupting
        assert [event.stop for event in driven.all(TurnEnded)] == ["cancelled"]
        assert (await turn).stop == "cancelled"


async def test_a_killed_session_does_not_wait_for_the_agent_to_stop(tmp_path: Path):
    link = ScriptedLink(for_ever)
    link.obeys = False
    async with drive(rig(link), tmp_path, cancel_limit=60) as driven:
        turn = asyncio.create_task(driven.say("go"))
        await driven.seen(TurnStarted)
        ended = await driven.session.close("killed", "enough")
        assert (ended.how, ended.reason) == ("killed", "enough")
        assert (await turn).stop == "cancelled"
    assert len(driven.all(SessionEnded)) == 1


async def test_a_prompt_keeps_the_id_it_was_given(tmp_path: Path):
    async with drive(rig(ScriptedLink()), tmp_path) as driven:
        await driven.session.prompt((text("hi"),), message=MessageId("msg_mine"))
    assert driven.all(Prompted)[0].message == driven.all(TurnStarted)[0].prompt == "msg_mine"


async def test_an_interrupt_before_the_agent_heard_the_prompt_keeps_it_from_it(tmp_path: Path):
    heard = False

    async def hear(_: ScriptedLink) -> TurnOutcome:
        nonlocal heard
        heard = True
        return TurnOutcome(stop="end_turn")

    async with drive(rig(ScriptedLink(hear)), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("go"))
        while not driven.all(TurnStarted):
            await asyncio.sleep(0)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
    assert not heard


async def test_an_agent_that_refuses_to_be_told_is_ended(tmp_path: Path):
    class Stubborn(ScriptedLink):
        async def interrupt(self) -> None:
            raise RpcError(-32601, "what?")

    link = Stubborn(for_ever)
    async with drive(rig(link), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("go"))
        await link.prompted.wait()
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert (await driven.session.wait()).how == "broken"


async def test_an_end_that_cannot_be_written_down_is_told_to_who_waits(tmp_path: Path):
    with pytest.raises(OSError, match="no space"):
        async with asyncio.timeout(SOON), drive(rig(ScriptedLink()), tmp_path) as driven:
            await driven.say("hi")
            driven.fault = OSError("no space left")
    assert driven.all(SessionEnded) == []


# Steering


async def test_a_message_that_the_agent_does_not_take_is_not_in_the_log(tmp_path: Path):
    link = ScriptedLink(until_told)
    link.takes_messages = False
    async with drive(rig(link), tmp_path) as driven:
        assert not await driven.session.steer((text("too early"),))
        turn = asyncio.create_task(driven.say("begin"))
        await link.prompted.wait()
        assert not await driven.session.steer((text("not now"),))
        await driven.session.interrupt()
        await turn
        assert not await driven.session.steer((text("too late"),))
        assert len(driven.all(Prompted)) == 1
        with pytest.raises(UnsupportedError, match="accept images"):
            await driven.session.steer((ImageContent(data="", mime_type="image/png"),))


async def test_an_agent_that_does_not_confirm_a_message_keeps_nobody_waiting(tmp_path: Path):
    link = ScriptedLink(for_ever)
    link.obeys = False
    async with drive(rig(link), tmp_path, cancel_limit=0.05) as driven:
        turn = asyncio.create_task(driven.say("begin"))
        await link.prompted.wait()
        with pytest.raises(DriverError, match="did not confirm the message within"):
            await driven.session.steer((text("now"),))
        await driven.session.close("killed")
        await turn
    assert len(driven.all(Prompted)) == 1
