"""Our own agent in a fleet: like every other, in the host's process, over the host's log."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import pytest

from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import (
    MessageChunk,
    OptionsChanged,
    PermissionAsked,
    PromptDropped,
    Prompted,
    SessionEnded,
    SessionOpened,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.session_options import SessionLimits
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, places_in

E = TypeVar("E")


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[LocalFleet]:
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        yield fleet


def native(tmp_path: Path, prompt: str | None = None, **fields: object) -> SpawnOptions:
    request = {"cwd": str(tmp_path), "model": "scripted/default", "prompt": prompt, **fields}
    return SpawnOptions.of(**request)


async def rested(fleet: LocalFleet, name: str) -> AgentInfo:
    (info,) = await fleet.wait([name], timeout=SOON)
    return info


async def all_of(fleet: LocalFleet, name: str, kind: type[E]) -> list[E]:
    return [one for one in await events_of(fleet, name) if isinstance(one, kind)]


async def seen(fleet: LocalFleet, name: str, kind: type[E], after: int = 0) -> E:
    async with asyncio.timeout(SOON), aclosing(fleet.follow(after, agent=name)) as records:
        async for record in records:
            if isinstance(record.event, kind):
                return record.event
    raise AssertionError(kind)


async def said(fleet: LocalFleet, name: str) -> str:
    chunks = await all_of(fleet, name, MessageChunk)
    return "".join(c.content.text for c in chunks if isinstance(c.content, TextContent))


async def test_it_is_spawned_asks_and_is_answered_like_any_other(fleet: LocalFleet, tmp_path: Path):
    info = await fleet.spawn(native(tmp_path, "scene:write", name="nat"))
    assert (info.state, info.mode, info.agent) == ("starting", "ask", "native")
    info = await rested(fleet, "nat")
    assert (info.state, info.waits_for, info.transport) == ("waiting", "permission", "native")
    assert (info.agent_session, info.model) == (info.session, "scripted/default")
    (item,) = await fleet.inbox()
    assert await fleet.answer(item.request, "allow_once")
    assert not await fleet.answer(item.request, "allow_once")
    assert (await rested(fleet, "nat")).state == "idle"
    assert (tmp_path / "hello.txt").read_text() == "hello from script\n"
    (prompted,) = await all_of(fleet, "nat", Prompted)
    (started,) = await all_of(fleet, "nat", TurnStarted)
    assert started.prompt == prompted.message
    assert (await rested(fleet, "nat")).usage.total > 0


async def test_only_the_tools_and_rules_that_were_asked_for(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(native(tmp_path, "scene:write", name="a", tools=("read",)))
    await fleet.spawn(native(tmp_path, "scene:write", name="b", deny=("edit(**)",)))
    await fleet.spawn(native(tmp_path, "scene:write", name="c", tools=("teleport",)))
    await fleet.spawn(native(tmp_path, "scene:write", name="d", mode="accept-edits"))
    a, b, c, d = await fleet.wait(["a", "b", "c", "d"], timeout=SOON)
    assert (a.state, b.state, c.state, d.state) == ("idle", "idle", "failed", "idle")
    assert "teleport" in (c.reason or "")
    assert d.mode == "accept-edits"
    assert await fleet.inbox() == []
    assert await all_of(fleet, "d", ToolCallStarted)


async def test_effort_limits_and_denied_tools_reach_it(fleet: LocalFleet, tmp_path: Path):
    limits = SessionLimits(model_calls=1)
    fields = {"name": "a", "effort": "high", "limits": limits, "denied_tools": ("fetch",)}
    await fleet.spawn(native(tmp_path, "scene:write", mode="accept-edits", **fields))
    assert (await rested(fleet, "a")).state == "idle"
    (options, *_) = await all_of(fleet, "a", OptionsChanged)
    assert {one.id: one.current_value for one in options.options}["effort"] == "high"
    (ended,) = await all_of(fleet, "a", TurnEnded)
    assert (ended.stop, ended.reason) == ("max_turn_requests", "1 model calls in one turn")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"effort": "extreme"}, "no effort 'extreme'; use one of off, low, medium, high"),
        ({"denied_tools": ("teleport",)}, "teleport"),
        ({"model": "nobody/none"}, "nobody"),
        ({"agent_mode": "fast"}, "'fast'"),
        ({"resume": "ses_x"}, "ses_x"),
    ],
)
async def test_what_it_cannot_do_is_a_failed_start_that_says_so(
    fleet: LocalFleet, tmp_path: Path, fields: dict[str, object], reason: str
):
    await fleet.spawn(native(tmp_path, **{"name": "nat", **fields}))
    info = await rested(fleet, "nat")
    assert info.state == "failed" and reason in (info.reason or "")
    (ended,) = await all_of(fleet, "nat", SessionEnded)
    assert ended.how == "broken"


async def test_it_is_interrupted_and_killed_in_the_middle(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(native(tmp_path, "scene:slow", name="nat"))
    await seen(fleet, "nat", MessageChunk)
    await fleet.send("nat", (text("scene:text"),))
    await fleet.interrupt("nat")
    assert (await rested(fleet, "nat")).state == "idle"
    assert "scripted model" in await said(fleet, "nat")
    for prompt in ("scene:slow", "scene:write"):
        await fleet.send("nat", (text(prompt),))
    async with asyncio.timeout(SOON):
        await fleet.kill("nat", reason="enough")
    info = await fleet.agent("nat")
    assert (info.state, info.reason, info.queue) == ("killed", "enough", ())
    (ended,) = await all_of(fleet, "nat", SessionEnded)
    assert (ended.how, ended.reason) == ("killed", "enough")


async def test_an_interrupt_before_its_turn_begins_drops_the_prompt(
    fleet: LocalFleet, tmp_path: Path
):
    await fleet.spawn(native(tmp_path, name="nat"))
    await rested(fleet, "nat")
    for delay in range(25):
        await fleet.send("nat", (text("scene:slow"),))
        for _ in range(delay):
            await asyncio.sleep(0)
        await fleet.interrupt("nat", keep_queue=False)
        info = await rested(fleet, "nat")
        assert info.queue == () and info.state in ("idle", "interrupted")
    ended = len(await all_of(fleet, "nat", TurnEnded))
    assert ended == len(await all_of(fleet, "nat", TurnStarted))
    assert ended + len(await all_of(fleet, "nat", PromptDropped)) == 25


async def test_it_goes_on_where_it_was_after_its_host_was_killed(tmp_path: Path):
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        await fleet.spawn(native(tmp_path, "remember the number 5", name="nat"))
        await rested(fleet, "nat")
        await fleet.set_option("nat", "mode", "plan")
        await fleet.set_option("nat", "effort", "high")
        before = (await fleet.agent("nat")).last_seq
        await fleet.send("nat", (text("scene:slow"),))
        await seen(fleet, "nat", MessageChunk, after=before)
        await asyncio.to_thread(shutil.copytree, tmp_path / "home", tmp_path / "copy")
    async with LocalFleet.open(places_in(tmp_path / "copy"), {}) as fleet:
        info = await fleet.agent("nat")
        assert (info.state, info.reason) == ("failed", "the host was killed")
        assert (await fleet.resume("nat")).state == "starting"
        info = await rested(fleet, "nat")
        assert (info.state, info.mode, info.model) == ("idle", "plan", "scripted/default")
        await fleet.send("nat", (text("and now"),))
        assert (await rested(fleet, "nat")).state == "idle"
        assert "You said: and now" in await said(fleet, "nat")
        assert len(await all_of(fleet, "nat", SessionOpened)) == 1
        assert len(await all_of(fleet, "nat", SessionEnded)) == 1


async def test_a_fork_has_the_past_and_neither_name_nor_cost_of_it(
    fleet: LocalFleet, tmp_path: Path
):
    await fleet.spawn(native(tmp_path, "scene:text", name="nat"))
    source = await rested(fleet, "nat")
    await fleet.rename("nat", "elder")
    copy = await fleet.fork("elder", name="younger", prompt="hi")
    info = await rested(fleet, "younger")
    assert (info.name, info.state, info.is_live) == ("younger", "idle", True)
    assert (await fleet.agent("elder")).session == source.session != copy.session
    (opened,) = await all_of(fleet, "younger", SessionOpened)
    assert opened.forked_from == source.session
    assert "scripted model" in await said(fleet, "younger")
    turns = await all_of(fleet, "younger", TurnEnded)
    assert len(turns) == 2 and turns[0].usage is None
    assert turns[1].usage is not None and info.usage == turns[1].usage


async def test_requests_of_both_sorts_of_agents_are_in_one_inbox(fleet: LocalFleet, tmp_path: Path):
    for n in range(3):
        await fleet.spawn(native(tmp_path, "scene:shell", name=f"nat-{n}"))
    await fleet.wait([f"nat-{n}" for n in range(3)], timeout=SOON)
    items = await fleet.inbox()
    assert sorted(item.name for item in items) == ["nat-0", "nat-1", "nat-2"]
    assert all(isinstance(item.permission, PermissionAsked) for item in items)
    await asyncio.gather(*(fleet.kill(item.session) for item in items))
    assert await fleet.inbox() == []
