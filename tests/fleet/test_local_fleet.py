"""Agents come, work, are steered and go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import pytest

from quarterdeck.drivers.errors import OpenFailedError, UnknownAgentError, UnsupportedError
from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.errors import (
    AgentNotReadyError,
    FleetLimitError,
    InvalidAgentNameError,
    InvalidOptionsError,
    NameTakenError,
    NoSuchAgentError,
)
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.supervisor import FleetLimits
from quarterdeck.policy.errors import RuleError, UnknownModeError
from quarterdeck.wire.content import ImageContent, text
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    PromptDropped,
    Prompted,
    SessionEnded,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId
from quarterdeck.wire.permissions import Cancelled
from quarterdeck.wire.session_options import AgentMcpServer
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, events_of, fleet_of, new_agent

E = TypeVar("E")


@pytest.fixture
def casting() -> Casting:
    return Casting()


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        yield fleet


async def rested(fleet: LocalFleet, name: str) -> AgentInfo:
    (info,) = await fleet.wait([name], timeout=SOON)
    return info


async def seen(fleet: LocalFleet, name: str, kind: type[E], after: int = 0) -> E:
    async with asyncio.timeout(SOON), aclosing(fleet.follow(after, agent=name)) as records:
        async for record in records:
            if isinstance(record.event, kind):
                return record.event
    raise AssertionError(kind)


async def all_of(fleet: LocalFleet, name: str, kind: type[E]) -> list[E]:
    return [one for one in await events_of(fleet, name) if isinstance(one, kind)]


# Steering


async def test_a_running_turn_is_steered(fleet: LocalFleet, casting: Casting, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="wait"))
    await seen(fleet, "ann", MessageChunk)
    sent = await fleet.steer("ann", (text("rather blue"),), origin="agent")
    queued = await fleet.send("ann", (text("say later"),))
    assert sent.steered and casting.links[0].told == ["wait", "steered: rather blue"]
    first, steering = await all_of(fleet, "ann", Prompted)
    assert (steering.steers, steering.message, steering.origin) == (True, sent.message, "agent")
    assert [one.message for one in (await fleet.agent("ann")).queue] == [queued]
    await fleet.interrupt("ann")
    await rested(fleet, "ann")
    assert [one.steers for one in await all_of(fleet, "ann", Prompted)] == [False, True, False]
    assert not first.steers and len(await all_of(fleet, "ann", TurnStarted)) == 2


async def test_without_a_turn_a_message_that_steers_is_a_prompt(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say one"))
    await rested(fleet, "ann")
    sent = await fleet.steer("ann", (text("say two"),))
    await rested(fleet, "ann")
    assert not sent.steered and casting.links[0].told == ["say one", "say two"]
    assert (await all_of(fleet, "ann", Prompted))[1].message == sent.message


async def test_an_agent_that_cannot_be_steered_says_so(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, agent="pi", name="ann", prompt="wait"))
    await seen(fleet, "ann", MessageChunk)
    with pytest.raises(UnsupportedError, match=r"pi over played cannot be steered.*queued"):
        await fleet.steer("ann", (text("now"),))
    assert (casting.links[0].told, (await fleet.agent("ann")).queue) == (["wait"], ())
    await fleet.close("ann")
    with pytest.raises(AgentNotReadyError):
        await fleet.steer("ann", (text("now"),), resume=False)


# Spawning


async def test_spawn_reports_a_start_that_is_on_disk_already(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    casting.hold = asyncio.Event()
    info = await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say hi", model="big"))
    assert (info.state, info.name, info.mode, info.model) == ("starting", "ann", "ask", "big")
    assert [one.content for one in info.queue] == [(text("say hi"),)]
    (spawned,) = await all_of(fleet, "ann", SessionSpawned)
    assert (spawned.options.mode, spawned.options.model) == ("ask", "big")
    casting.hold.set()
    assert (await rested(fleet, "ann")).state == "idle"
    assert casting.links[0].host.opening.options.model == "big"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"agent": "cloude"}, UnknownAgentError),
        ({"name": "../x"}, InvalidAgentNameError),
        ({"mode": "yolo"}, UnknownModeError),
        ({"allow": ("bish(x)",)}, RuleError),
        ({"deny": ("bash(",)}, RuleError),
        ({"cwd": "/no/such/place"}, InvalidOptionsError),
        ({"cwd": "relative"}, InvalidOptionsError),
        ({"roots": ("/no/such/place",)}, InvalidOptionsError),
        ({"prompt": " "}, InvalidOptionsError),
        ({"parent": "ses_unknown"}, NoSuchAgentError),
    ],
)
async def test_a_wish_that_cannot_be_leaves_nothing(
    fleet: LocalFleet, tmp_path: Path, fields: dict[str, object], error: type[Exception]
):
    with pytest.raises(error):
        await fleet.spawn(new_agent(**{"cwd": tmp_path, **fields}))  # type: ignore[arg-type]
    assert await fleet.agents(archived=True) == []
    assert fleet.journal.last == 0


async def test_a_start_that_fails_ends_in_failed_and_blocks_nothing(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    casting.failure = OpenFailedError("it is not logged in", exit_code=7, stderr="log in first")
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say hi"))
    info = await rested(fleet, "ann")
    assert (info.state, info.is_live) == ("failed", False)
    assert (info.reason or "").splitlines() == [
        "it is not logged in (exit code 7)",
        "Its last lines on standard error:",
        "  log in first",
    ]
    (ended,) = await all_of(fleet, "ann", SessionEnded)
    assert (ended.how, ended.exit_code, ended.stderr) == ("broken", 7, "log in first")
    with pytest.raises(AgentNotReadyError, match="resume it"):
        await fleet.send("ann", (text("x"),), resume=False)
    casting.failure = None
    assert (await fleet.spawn(new_agent(tmp_path, name="bob"))).state == "starting"
    assert (await rested(fleet, "bob")).state == "idle"
    assert (await fleet.resume("ann")).state == "starting"
    assert (await rested(fleet, "ann")).state == "idle"
    assert casting.links[-1].told == ["say hi"]


async def test_an_error_of_our_own_while_starting_is_a_failed_start_too(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    casting.failure = ZeroDivisionError("oops")
    await fleet.spawn(new_agent(tmp_path, name="ann"))
    info = await rested(fleet, "ann")
    assert info.state == "failed" and "oops" in (info.reason or "")


async def test_a_limit_on_tools_that_cannot_be_kept_fails_by_name(tmp_path: Path):
    from quarterdeck.config.places import Places

    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    async with LocalFleet.open(places, {}) as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", tools=("read",)))
        info = await rested(fleet, "ann")
    assert info.state == "failed" and "tools" in (info.reason or "")


async def test_names_are_unique_among_those_that_are_not_archived(
    fleet: LocalFleet, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann"))
    with pytest.raises(NameTakenError):
        await fleet.spawn(new_agent(tmp_path, name="Ann"))
    assert (await fleet.spawn(new_agent(tmp_path))).name == "claude-1"
    assert (await fleet.spawn(new_agent(tmp_path))).name == "claude-2"
    with pytest.raises(NameTakenError):
        await fleet.rename("claude-1", "ann")
    await fleet.archive("ann")
    assert (await fleet.rename("claude-1", "ann")).name == "ann"
    old = next(one for one in await fleet.agents(archived=True) if one.is_archived)
    with pytest.raises(NameTakenError):
        await fleet.archive(old.session, archived=False)
    assert (await fleet.agent("ann")).session != old.session
    with pytest.raises(InvalidAgentNameError):
        await fleet.rename("ann", "a b")


async def test_two_who_want_one_name_at_once_do_not_both_get_it(fleet: LocalFleet, tmp_path: Path):
    spawns = [fleet.spawn(new_agent(tmp_path, name="ann")) for _ in range(8)]
    results = await asyncio.gather(*spawns, return_exceptions=True)
    assert sum(isinstance(one, AgentInfo) for one in results) == 1
    made = await asyncio.gather(*(fleet.spawn(new_agent(tmp_path)) for _ in range(8)))
    assert len({one.name for one in made}) == 8


async def test_the_number_of_agents_and_of_generations_is_bounded(tmp_path: Path):
    async with fleet_of(tmp_path / "home", bounds=FleetLimits(live=3, depth=2)) as fleet:
        ann = await fleet.spawn(new_agent(tmp_path, name="ann"))
        bob = await fleet.spawn(new_agent(tmp_path, name="bob", parent=ann.session))
        with pytest.raises(FleetLimitError, match="2 levels deep"):
            await fleet.spawn(new_agent(tmp_path, parent=bob.session))
        await fleet.spawn(new_agent(tmp_path))
        with pytest.raises(FleetLimitError, match="3 agents"):
            await fleet.spawn(new_agent(tmp_path))


async def test_a_caller_that_goes_away_while_spawning_leaves_a_whole_agent(
    fleet: LocalFleet, tmp_path: Path
):
    for delay in range(12):
        spawning = asyncio.create_task(fleet.spawn(new_agent(tmp_path)))
        for _ in range(delay):
            await asyncio.sleep(0)
        spawning.cancel()
        await asyncio.wait([spawning])
    while True:
        infos = await fleet.agents()
        await fleet.wait([one.name for one in infos], timeout=SOON)
        if all(one.state == "idle" for one in await fleet.agents()):
            break


# The queue


async def test_prompts_are_delivered_in_order_as_they_were_last_written(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="wait"))
    await seen(fleet, "ann", MessageChunk)
    ids = [await fleet.send("ann", (text(f"say {n}"),)) for n in range(4)]
    assert [one.message for one in (await fleet.agent("ann")).queue] == ids
    assert await fleet.edit("ann", ids[1], (text("say one"),))
    assert await fleet.edit("ann", ids[2], None)
    assert not await fleet.edit("ann", ids[2], (text("late"),))
    assert not await fleet.edit("ann", MessageId("msg_unknown"), None)
    words = [one.content[0] for one in (await fleet.agent("ann")).queue]
    assert words == [text("say 0"), text("say one"), text("say 3")]
    await fleet.interrupt("ann")
    assert (await rested(fleet, "ann")).state == "idle"
    assert casting.links[0].told == ["wait", "say 0", "say one", "say 3"]
    prompted = [one.message for one in await all_of(fleet, "ann", Prompted)]
    assert prompted[1:] == [ids[0], ids[1], ids[3]]
    assert [one.message for one in await all_of(fleet, "ann", PromptDropped)] == [ids[2]]


async def test_an_interrupt_drops_the_queue_if_asked(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="wait"))
    await seen(fleet, "ann", MessageChunk)
    for n in range(3):
        await fleet.send("ann", (text(f"say {n}"),))
    await fleet.interrupt("ann", keep_queue=False)
    info = await fleet.agent("ann")
    assert (info.state, info.queue) == ("interrupted", ())
    await fleet.interrupt("ann")
    assert casting.links[0].told == ["wait"]
    assert len(await all_of(fleet, "ann", PromptDropped)) == 3


async def test_an_interrupt_at_any_moment_of_a_turn_ends_it(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="ann"))
    await rested(fleet, "ann")
    for delay in range(40):
        await fleet.send("ann", (text("wait"),))
        for _ in range(delay):
            await asyncio.sleep(0)
        await fleet.interrupt("ann", keep_queue=False)
        info = await rested(fleet, "ann")
        assert info.state in ("interrupted", "idle") and info.queue == ()
    started = len(await all_of(fleet, "ann", TurnStarted))
    assert started == len(await all_of(fleet, "ann", TurnEnded))
    dropped = len(await all_of(fleet, "ann", PromptDropped))
    assert started + dropped == 40


async def test_an_edit_that_is_told_done_is_what_is_sent(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann"))
    await rested(fleet, "ann")
    for delay in range(20):
        message = await fleet.send("ann", (text("say old"),))
        for _ in range(delay):
            await asyncio.sleep(0)
        edited = await fleet.edit("ann", message, (text("say new"),))
        assert (await rested(fleet, "ann")).queue == ()
        assert casting.links[0].told[-1] == ("say new" if edited else "say old")
    assert len(casting.links[0].told) == 20


async def test_a_prompt_that_the_agent_cannot_take_is_dropped_with_the_reason(
    fleet: LocalFleet, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann"))
    await rested(fleet, "ann")
    await fleet.send("ann", (ImageContent(data="aa", mime_type="image/png"),))
    await fleet.send("ann", (text("say on"),))
    assert (await rested(fleet, "ann")).state == "idle"
    (dropped,) = await all_of(fleet, "ann", PromptDropped)
    assert "images" in (dropped.reason or "")
    assert len(await all_of(fleet, "ann", TurnEnded)) == 1


async def test_too_long_a_queue_is_refused(tmp_path: Path):
    async with fleet_of(tmp_path / "home", bounds=FleetLimits(queue=2)) as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="wait"))
        await seen(fleet, "ann", MessageChunk)
        for _ in range(2):
            await fleet.send("ann", (text("x"),))
        with pytest.raises(FleetLimitError):
            await fleet.send("ann", (text("x"),))


# Ending


async def test_a_kill_while_starting_ends_as_killed(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    casting.hold = asyncio.Event()
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say hi"))
    async with asyncio.timeout(SOON):
        await casting.starting_now.wait()
        await fleet.kill("ann", reason="no more")
    info = await fleet.agent("ann")
    assert (info.state, info.reason, info.queue) == ("killed", "no more", ())
    assert casting.links[0].gone.is_set()
    assert len(await all_of(fleet, "ann", SessionEnded)) == 1


@pytest.mark.parametrize(
    "prompt", ["wait", "stubborn", "ask rm x", "question why", "stream 999999"]
)
async def test_a_kill_in_the_middle_ends_everything_at_once(
    fleet: LocalFleet, casting: Casting, tmp_path: Path, prompt: str
):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt=prompt))
    await seen(fleet, "ann", TurnStarted)
    await fleet.send("ann", (text("say later"),))
    if prompt.startswith(("ask", "question")):
        await rested(fleet, "ann")
    async with asyncio.timeout(SOON):
        await fleet.kill("ann")
    info = await fleet.agent("ann")
    assert (info.state, info.is_live, info.needs_person) == ("killed", False, False)
    assert info.queue == () and await fleet.inbox() == []
    assert casting.links[0].gone.is_set()
    events = await events_of(fleet, "ann")
    ended = [one for one in events if isinstance(one, TurnEnded | SessionEnded)]
    assert [type(one) for one in ended] == [TurnEnded, SessionEnded]
    assert ended[0].stop == "cancelled"  # type: ignore[union-attr]
    if prompt.startswith("ask"):
        (asked,) = [one for one in events if isinstance(one, PermissionAsked)]
        (answered,) = [one for one in events if isinstance(one, PermissionAnswered)]
        assert answered.request == asked.request
        assert isinstance(answered.outcome, Cancelled) and answered.by.kind == "cancel"


async def test_a_kill_at_any_moment_of_a_life_is_the_end_of_it(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        for delay in range(40):
            name = f"ann-{delay}"
            await fleet.spawn(new_agent(tmp_path, name=name, prompt="ask rm x"))
            for _ in range(delay * 2):
                await asyncio.sleep(0)
            async with asyncio.timeout(SOON):
                await fleet.kill(name)
            info = await fleet.agent(name)
            assert (info.state, info.is_live) == ("killed", False)
            assert len(await all_of(fleet, name, SessionEnded)) == 1
        assert await fleet.inbox() == []


async def test_children_die_with_a_killed_parent_and_outlive_a_closed_one(
    fleet: LocalFleet, tmp_path: Path
):
    async def family(prefix: str) -> list[str]:
        top = await fleet.spawn(new_agent(tmp_path, name=f"{prefix}-top"))
        child = await fleet.spawn(
            new_agent(tmp_path, name=f"{prefix}-child", parent=top.session, prompt="wait")
        )
        await fleet.spawn(new_agent(tmp_path, name=f"{prefix}-grandchild", parent=child.session))
        return [f"{prefix}-{one}" for one in ("top", "child", "grandchild")]

    names = await family("a")
    await fleet.kill(names[0])
    infos = [await fleet.agent(name) for name in names]
    assert [one.state for one in infos] == ["killed"] * 3
    assert "'a-top'" in (infos[2].reason or "")
    with pytest.raises(AgentNotReadyError, match="not live"):
        await fleet.spawn(new_agent(tmp_path, parent=infos[0].session))
    names = await family("b")
    await fleet.close(names[0])
    assert [(await fleet.agent(name)).is_live for name in names[:2]] == [False, True]
    assert {one.name for one in await fleet.agents(parent=infos[0].session)} == {"a-child"}


async def test_an_agent_that_crashes_is_failed_and_goes_on_when_resumed(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="crash"))
    await seen(fleet, "ann", SessionEnded)
    info = await rested(fleet, "ann")
    assert (info.state, info.can_resume, info.agent_session) == ("failed", True, "own-1")
    with pytest.raises(AgentNotReadyError):
        await fleet.send("ann", (text("x"),), resume=False)
    await fleet.resume("ann")
    with pytest.raises(AgentNotReadyError, match="live"):
        await fleet.resume("ann")
    assert (await rested(fleet, "ann")).state == "idle"
    assert casting.links[1].host.opening.options.resume == "own-1"


def all_bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_values_of_variables_are_never_stored_and_a_resumed_agent_says_so(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    secret = "s3cret-of-ann"
    server = AgentMcpServer(name="docs", url="https://docs.example", headers={"X-Key": secret})
    given = {"environment": {"TOKEN": secret}, "mcp_servers": (server,)}
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say hi", **given))
    await rested(fleet, "ann")
    opening = casting.links[0].host.opening
    assert opening.options.variables == {"TOKEN": secret}
    (spawned,) = await all_of(fleet, "ann", SessionSpawned)
    assert spawned.options.environment == {"TOKEN": None}
    assert secret not in repr(casting.links[0].start_)
    assert await all_of(fleet, "ann", NoticePosted) == []
    await fleet.close("ann")
    await fleet.resume("ann")
    await rested(fleet, "ann")
    again = casting.links[1].host.opening.options
    assert (again.environment, again.mcp_servers) == ({}, ())
    (notice,) = await all_of(fleet, "ann", NoticePosted)
    assert notice.title.endswith("not stored: TOKEN, header X-Key of docs")
    stored = await asyncio.to_thread(all_bytes_in, tmp_path)
    assert b"TOKEN" in stored and secret.encode() not in stored


async def test_a_copy_needs_a_session_to_copy(fleet: LocalFleet, tmp_path: Path):
    with pytest.raises(InvalidOptionsError, match="fork: it needs a session"):
        await fleet.spawn(new_agent(tmp_path, fork=True))


async def test_what_waits_when_an_agent_crashes_is_delivered_when_it_is_resumed(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="ask rm x"))
    await rested(fleet, "ann")
    await fleet.send("ann", (text("crash"),))
    await fleet.send("ann", (text("say after"),))
    (item,) = await fleet.inbox()
    await fleet.answer(item.request, "no")
    await seen(fleet, "ann", SessionEnded)
    assert [one.content[0] for one in (await rested(fleet, "ann")).queue] == [text("say after")]
    await fleet.resume("ann")
    assert (await rested(fleet, "ann")).state == "idle"
    assert casting.links[1].told == ["say after"]


async def test_a_failed_turn_and_an_interrupted_one_are_told_from_success(
    fleet: LocalFleet, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="fail no money"))
    info = await rested(fleet, "ann")
    assert (info.state, info.reason, info.is_live) == ("failed", "no money", True)
    await fleet.send("ann", (text("say fine"),))
    assert (await rested(fleet, "ann")).state == "idle"


async def test_leaving_ends_every_agent_in_good_order(tmp_path: Path, casting: Casting):
    async with fleet_of(tmp_path / "home", casting) as fleet:
        for n in range(5):
            await fleet.spawn(new_agent(tmp_path, name=f"a{n}", prompt="wait"))
        await seen(fleet, "a4", MessageChunk)
        hold = casting.hold = asyncio.Event()
        await fleet.spawn(new_agent(tmp_path, name="slow"))
    assert not hold.is_set() and all(link.gone.is_set() for link in casting.links)
    async with fleet_of(tmp_path / "home") as fleet:
        infos = await fleet.agents()
        assert [one.state for one in infos] == ["done"] * 6
        assert {one.reason for one in infos} == {"the host was stopped"}


async def test_archiving_ends_and_hides_until_it_is_taken_out(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="wait"))
    await fleet.archive("ann")
    await fleet.archive("ann")
    assert await fleet.agents() == []
    (info,) = await fleet.agents(archived=True)
    assert (info.state, info.is_archived) == ("done", True)
    with pytest.raises(AgentNotReadyError, match="archived"):
        await fleet.resume("ann")
    await fleet.archive("ann", archived=False)
    assert [one.name for one in await fleet.agents()] == ["ann"]
    assert (await fleet.resume("ann")).state == "starting"


# Looking, waiting, changing


async def test_who_needs_a_person_comes_first_then_the_latest_to_change(
    fleet: LocalFleet, tmp_path: Path
):
    for name, prompt in (("a", "ask rm x"), ("b", "say x"), ("c", "say x")):
        await fleet.spawn(new_agent(tmp_path, name=name, prompt=prompt))
        await rested(fleet, name)
    assert [one.name for one in await fleet.agents()] == ["a", "c", "b"]
    status = await fleet.status()
    assert (status.agents, status.needs_person) == ({"waiting": 1, "idle": 2}, 1)
    assert status.problem is None


async def test_waiting_for_any_or_all_and_not_for_ever(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="a", prompt="say x"))
    await fleet.spawn(new_agent(tmp_path, name="b", prompt="wait"))
    any_ = await fleet.wait(["a", "b"], until="any", timeout=SOON)
    assert [one.name for one in any_] == ["a"]
    assert [one.name for one in await fleet.wait(["a", "b"], timeout=0.05)] == ["a"]
    assert await fleet.wait([], timeout=SOON) == []
    waiting = asyncio.create_task(fleet.wait(["a", "b"], timeout=SOON))
    await seen(fleet, "b", MessageChunk)
    await fleet.interrupt("b")
    assert [one.name for one in await waiting] == ["a", "b"]
    with pytest.raises(NoSuchAgentError, match="did you mean 'a'"):
        await fleet.wait(["aa"])


async def test_an_agent_at_work_is_never_told_to_be_at_rest(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="ann"))
    for n in range(30):
        await fleet.send("ann", (text(f"say {n}"),))
        await rested(fleet, "ann")
        assert len(await all_of(fleet, "ann", TurnEnded)) == n + 1


async def test_records_are_read_and_followed_from_any_place(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="stream 50"))
    await rested(fleet, "ann")
    records = await fleet.read("ann", limit=1000)
    assert records[-1].seq == (await fleet.agent("ann")).last_seq
    assert await fleet.read("ann", after=records[9].seq, limit=5) == records[10:15]
    assert await fleet.read("ann", before=records[10].seq, limit=5) == records[5:10]
    assert await fleet.read(None, limit=1000) == records
    assert await fleet.read(None, before=records[10].seq, limit=5) == records[5:10]
    async with aclosing(fleet.follow(records[2].seq, agent="ann")) as following:
        assert [await anext(following) for _ in range(10)] == records[3:13]
    hits = await fleet.search("49")
    assert [hit.session for hit in hits] == [records[0].session]


async def test_settings_change_while_it_runs_and_outlast_it(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann", model="small"))
    await rested(fleet, "ann")
    await fleet.set_option("ann", "mode", "read-only")
    await fleet.set_option("ann", "model", "big")
    await fleet.set_option("ann", "effort", "high")
    with pytest.raises(UnknownModeError):
        await fleet.set_option("ann", "mode", "yolo")
    with pytest.raises(UnsupportedError):
        await fleet.set_option("ann", "agent_mode", "x")
    info = await fleet.agent("ann")
    assert (info.mode, info.model) == ("read-only", "big")
    assert casting.links[0].told == ["model=big", "effort=high"]
    await fleet.close("ann")
    with pytest.raises(AgentNotReadyError):
        await fleet.set_option("ann", "mode", "ask")
    await fleet.resume("ann")
    await rested(fleet, "ann")
    opening = casting.links[1].host.opening
    assert (opening.mode, opening.options.model, opening.options.resume) == (
        "read-only",
        "big",
        "own-1",
    )


async def test_a_fork_goes_on_in_a_copy(fleet: LocalFleet, casting: Casting, tmp_path: Path):
    ann = await fleet.spawn(new_agent(tmp_path, name="ann", deny=("bash(curl:*)",)))
    await rested(fleet, "ann")
    bob = await fleet.fork("ann", name="bob", prompt="say hi")
    assert (await rested(fleet, "bob")).state == "idle"
    opening = casting.links[1].host.opening
    assert (opening.options.resume, opening.options.fork) == ("own-1", True)
    (spawned,) = await all_of(fleet, "bob", SessionSpawned)
    assert (spawned.forked_from, spawned.options.deny) == (ann.session, ("bash(curl:*)",))
    assert bob.session != ann.session
    assert (await fleet.agent("bob")).agent_session == "own-2"
    casting.links[0].capabilities = type(casting.links[0].capabilities)(forks=False)
    with pytest.raises(AgentNotReadyError):
        await fleet.fork("ann")


async def test_a_child_that_is_being_started_dies_with_its_parent_too(
    fleet: LocalFleet, tmp_path: Path
):
    for delay in range(30):
        top = await fleet.spawn(new_agent(tmp_path, name=f"top-{delay}"))
        child = asyncio.create_task(
            fleet.spawn(new_agent(tmp_path, name=f"child-{delay}", parent=top.session))
        )
        for _ in range(delay):
            await asyncio.sleep(0)
        await fleet.kill(top.session)
        (result,) = await asyncio.gather(child, return_exceptions=True)
        assert isinstance(result, AgentInfo | AgentNotReadyError)
    assert not any(one.is_live or one.state == "starting" for one in await fleet.agents())


async def test_an_agent_that_closes_slowly_can_still_be_killed(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="stubborn"))
    await seen(fleet, "ann", MessageChunk)
    closing = asyncio.create_task(fleet.close("ann"))
    await asyncio.sleep(0.02)
    assert not closing.done()
    async with asyncio.timeout(SOON):
        await fleet.kill("ann", reason="too slow")
        await closing
    info = await fleet.agent("ann")
    assert (info.state, info.reason) == ("killed", "too slow")


async def test_archiving_and_resuming_at_once_leave_nobody_hidden_and_live(
    fleet: LocalFleet, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="ann"))
    await rested(fleet, "ann")
    for delay in range(25):
        await fleet.close("ann")
        resuming = asyncio.create_task(fleet.resume("ann"))
        for _ in range(delay):
            await asyncio.sleep(0)
        await fleet.archive("ann")
        await asyncio.gather(resuming, return_exceptions=True)
        info = await fleet.agent("ann")
        assert info.is_archived and not info.is_live and info.state != "starting"
        await fleet.archive("ann", archived=False)


async def test_an_agent_that_is_deleted_is_gone_and_its_name_is_free(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        info = await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say hello"))
        await fleet.spawn(new_agent(tmp_path, name="bob", prompt="say hello"))
        await fleet.wait(["ann", "bob"], timeout=SOON)
        with pytest.raises(AgentNotReadyError, match="live"):
            await fleet.delete("ann")
        await fleet.close("ann")
        results = await asyncio.gather(
            fleet.delete("ann"), fleet.delete("ann"), fleet.resume("ann"), return_exceptions=True
        )
        assert results[0] is None
        assert all(isinstance(one, AgentNotReadyError | NoSuchAgentError) for one in results[1:])
        with pytest.raises(NoSuchAgentError):
            await fleet.agent(info.session)
        assert [one.name for one in await fleet.agents(archived=True)] == ["bob"]
        assert {hit.session for hit in await fleet.search("hello")} == {
            (await fleet.agent("bob")).session
        }
        again = await fleet.spawn(new_agent(tmp_path, name="ann"))
        assert again.session != info.session
    async with fleet_of(tmp_path / "home") as fleet:
        assert {one.session for one in await fleet.agents()} >= {again.session}
        assert info.session not in {one.session for one in await fleet.agents(archived=True)}
