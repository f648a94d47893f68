"""What holds for every fleet, in process and through a socket."""

import asyncio
from contextlib import aclosing

import pytest

from quarterdeck.fleet.api import Fleet, SpawnOptions
from quarterdeck.fleet.errors import (
    AgentNotReadyError,
    NameTakenError,
    NoSuchAgentError,
    NoSuchRequestError,
)
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, TurnEnded
from quarterdeck.wire.ids import MessageId, RequestId
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet


async def test_an_agent_is_spawned_and_answers(any_fleet: Fleet):
    request = SpawnOptions(
        options=SessionOptions(agent="fake", cwd="/", allow=("bash(ls)",)),
        name="ann",
        prompt="say hello",
    )
    info = await any_fleet.spawn(request)
    assert (info.name, info.agent, info.state) == ("ann", "fake", "starting")
    (rested,) = await any_fleet.wait(["ann"], timeout=SOON)
    assert (rested.session, rested.state) == (info.session, "idle")
    records = await any_fleet.read("ann")
    assert MessageChunk(content=text("hello")) in [record.event for record in records]
    assert await any_fleet.agents() == [rested]
    assert await any_fleet.agent(info.session) == rested


async def test_refusals_are_the_same_errors(any_fleet: Fleet):
    await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
    with pytest.raises(NameTakenError, match="'ann'"):
        await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
    with pytest.raises(NoSuchAgentError, match="did you mean 'ann'") as caught:
        await any_fleet.agent("anne")
    assert caught.value.name == "anne"
    with pytest.raises(NoSuchRequestError) as missing:
        await any_fleet.answer(RequestId("req_none"), "allow_once")
    assert missing.value.request == "req_none"
    with pytest.raises(AgentNotReadyError):
        await any_fleet.resume("ann")


async def test_a_request_is_answered_once(any_fleet: Fleet):
    await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="ask"))
    (item,) = await any_fleet.inbox()
    assert item.permission is not None
    assert item.permission.raw_input == {"command": "ls /"}
    assert (await any_fleet.agent("ann")).needs_person
    with pytest.raises(ValueError, match="offers no 'maybe'"):
        await any_fleet.answer(item.request, "maybe")
    assert await any_fleet.answer(item.request, "allow_once", feedback="go on")
    assert not await any_fleet.answer(item.request, "allow_once")
    assert await any_fleet.inbox() == []


async def test_an_agent_that_has_ended_is_deleted(any_fleet: Fleet):
    await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
    with pytest.raises(AgentNotReadyError, match="live"):
        await any_fleet.delete("ann")
    await any_fleet.close("ann")
    await any_fleet.delete("ann")
    with pytest.raises(NoSuchAgentError):
        await any_fleet.agent("ann")


async def test_a_standing_answer_is_listed_and_taken_back_once(any_fleet: Fleet, fleet: FakeFleet):
    grant = Grant(id="req_1.1", pattern="bash(ls)", scope="user", created=1, by="ada")
    fleet.granted[grant.id] = grant
    assert await any_fleet.grants() == [grant]
    assert await any_fleet.revoke(grant.id)
    assert not await any_fleet.revoke(grant.id)
    assert await any_fleet.grants() == []


async def test_a_question_is_replied_to(any_fleet: Fleet):
    await any_fleet.spawn(
        SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="question")
    )
    (item,) = await any_fleet.inbox()
    assert item.question is not None
    assert await any_fleet.reply(item.request, "accept", content={"colour": "red"})
    assert not await any_fleet.reply(item.request, "decline")


async def test_agents_end_and_come_back(any_fleet: Fleet):
    await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="work"))
    await any_fleet.interrupt("ann", keep_queue=False)
    assert (await any_fleet.agent("ann")).state == "interrupted"
    await any_fleet.kill("ann", reason="enough")
    killed = await any_fleet.agent("ann")
    assert (killed.state, killed.reason, killed.is_live) == ("killed", "enough", False)
    assert (await any_fleet.resume("ann")).is_live
    assert (await any_fleet.rename("ann", "bob")).name == "bob"
    assert (await any_fleet.fork("bob", name="cid")).name == "cid"
    await any_fleet.set_option("cid", "mode", "plan")
    await any_fleet.close("bob")
    await any_fleet.archive("bob")
    assert [info.name for info in await any_fleet.agents()] == ["cid"]
    assert len(await any_fleet.agents(archived=True)) == 2
    assert not await any_fleet.edit("cid", MessageId("msg_none"), None)


async def test_records_come_in_order_from_any_number(any_fleet: Fleet):
    await any_fleet.spawn(
        SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="say one")
    )
    await any_fleet.send("ann", (text("say two"),))
    status = await any_fleet.status()
    for after in (0, 3, status.last_seq - 1):
        seen = []
        async with asyncio.timeout(SOON), aclosing(any_fleet.follow(after)) as records:
            async for record in records:
                seen.append(record.seq)
                if record.seq == status.last_seq:
                    break
        assert seen == list(range(after + 1, status.last_seq + 1))


async def test_following_from_now_on_shows_one_agent_only(any_fleet: Fleet):
    ann = await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
    await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="bob"))
    async with asyncio.timeout(SOON), aclosing(any_fleet.follow(agent="ann")) as records:
        first = asyncio.ensure_future(anext(records))
        while not first.done():
            await any_fleet.send("bob", (text("say no"),))
            await any_fleet.send("ann", (text("say yes"),))
            await asyncio.sleep(0)
        assert (await first).session == ann.session
        async for record in records:
            assert record.session == ann.session
            if isinstance(record.event, TurnEnded):
                break


async def test_records_are_read_in_pages_both_ways(any_fleet: Fleet):
    await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
    for _ in range(4):
        await any_fleet.send("ann", (text("big 600000"),))
    everything = await any_fleet.read("ann")
    assert len(everything) == 2 + 4 * 5
    assert await any_fleet.read("ann", after=everything[3].seq, limit=12) == everything[4:16]
    last = everything[-1].seq
    assert await any_fleet.read("ann", before=last, limit=16) == everything[-17:-1]


async def test_waiting_ends_at_the_timeout(any_fleet: Fleet):
    await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="work"))
    await any_fleet.spawn(
        SpawnOptions(options=SessionOptions(cwd="/"), name="bob", prompt="say done")
    )
    assert await any_fleet.wait(["ann"], timeout=0.01) == []
    (first,) = await any_fleet.wait(["ann", "bob"], until="any", timeout=SOON)
    assert first.name == "bob"


async def test_words_are_found(any_fleet: Fleet):
    await any_fleet.spawn(
        SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="say a needle")
    )
    (hit,) = await any_fleet.search("needle")
    assert hit.snippet[slice(*hit.marks[0])] == "needle"
