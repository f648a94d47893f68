"""Several hosts as one fleet: routing, one inbox, names, losses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import (
    AmbiguousAgentError,
    HostError,
    NoHostError,
    NoSuchAgentError,
    SeveralHostsError,
)
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.fleet.method import FLEET_METHODS
from quarterdeck.fleet.remote import host_group
from quarterdeck.fleet.remote.grouped_host import GroupedHost, HostAccess
from quarterdeck.fleet.remote.host_group import HostGroup
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.events import ModelCallFinished
from quarterdeck.wire.rpc import connect_unix
from quarterdeck.wire.usage import TokenUsage
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet, open_fake


class Machine:
    """A host that can be stopped and started again; its log stays."""

    def __init__(self, label: str, fleet: FakeFleet, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self.label = label
        self.fleet = fleet
        self.socket = folder / "s"
        self._serving = AsyncExitStack()

    async def start(self) -> None:
        serving = FleetServer(cast("Any", self.fleet), stop=lambda: None).serve(self.socket)
        await self._serving.enter_async_context(serving)

    async def stop(self) -> None:
        await self._serving.aclose()

    def host(self) -> GroupedHost:
        async def dial() -> Any:
            try:
                return await connect_unix(self.socket)
            except LinkBrokenError as error:
                raise NoHostError(f"no host on {self.label}") from error

        client = HostClient.create(dial, "test")
        access = HostAccess(
            fleet=client,
            reach=lambda _: client.reach(),
            leave=client.disconnect,
            resolve=lambda path: f"/home/{self.label}/{path or ''}",
            is_local=self.label == "local",
        )
        return GroupedHost.create(self.label, access)


@pytest.fixture
async def machines(tmp_path: Path) -> AsyncIterator[tuple[Machine, Machine]]:
    async with open_fake() as here, open_fake() as there:
        there.log = "memory there"
        both = (Machine("local", here, tmp_path / "1"), Machine("box", there, tmp_path / "2"))
        for one in both:
            await one.start()
        yield both
        for one in both:
            await one.stop()


@pytest.fixture
async def group(machines: tuple[Machine, Machine]) -> AsyncIterator[HostGroup]:
    async with (
        asyncio.timeout(SOON),
        HostGroup.connect([one.host() for one in machines]) as group,
    ):
        yield group


async def start(group: HostGroup, name: str, prompt: str | None = None) -> AgentInfo:
    return await group.spawn(SpawnOptions.of(agent="fake", cwd="/", name=name, prompt=prompt))


def test_the_group_has_every_method_of_the_fleet():
    for name in (*FLEET_METHODS, "read", "follow", "watch_terminal", "attach_screen"):
        assert callable(getattr(HostGroup, name))
        assert callable(getattr(GroupedHost, name))


async def test_agents_are_in_one_list_with_their_hosts(group: HostGroup):
    ann = await start(group, "ann")
    zoe = await start(group, "box/Zoë")
    assert ann.name == "local/ann"
    assert zoe.name == "box/Zoë"
    assert zoe.session.startswith("box/ses_")
    assert {one.name for one in await group.agents()} == {"local/ann", "box/Zoë"}
    for reference in ("box/Zoë", "Zoë", zoe.session):
        assert (await group.agent(reference)).session == zoe.session
    for reference in ("local/ann", "ann", ann.session):
        assert (await group.agent(reference)).session == ann.session
    child = await group.spawn(
        SpawnOptions.of(agent="fake", cwd="/", name="kid", parent=zoe.session)
    )
    assert child.parent == zoe.session
    assert [one.session for one in await group.agents(parent=zoe.session)] == [child.session]
    unnamed = await start(group, "box/")
    assert unnamed.name.startswith("box/")
    with pytest.raises(SeveralHostsError, match="no host 'bax'; there are local, box"):
        await start(group, "bax/ann")


async def test_a_name_on_two_hosts_needs_its_host(
    group: HostGroup, machines: tuple[Machine, Machine]
):
    for name in ("local/ann", "box/ann"):
        await start(group, name)
    with pytest.raises(AmbiguousAgentError, match="one of local/ann, box/ann"):
        await group.send("ann", (text("say hi"),))
    await group.send("box/ann", (text("say hi"),))
    assert any("say hi" in str(one.event) for one in machines[1].fleet.records)
    assert not any("say hi" in str(one.event) for one in machines[0].fleet.records)
    renamed = await group.rename("box/ann", "box/bob")
    assert renamed.name == "box/bob"
    with pytest.raises(NoSuchAgentError, match="no agent 'carl'"):
        await group.agent("carl")


async def test_one_inbox_and_answers_go_where_the_request_is(
    group: HostGroup, machines: tuple[Machine, Machine]
):
    for name in ("local/ann", "box/ann"):
        await start(group, name, "ask")
    while len(items := await group.inbox()) < 2:
        await asyncio.sleep(0)
    assert [one.name for one in items] == ["local/ann", "box/ann"]
    assert [one.since for one in items] == sorted(one.since for one in items)
    box = items[1]
    assert box.permission is not None
    assert box.permission.request == box.request
    assert await group.answer(box.request, "allow_once")
    assert [one.name for one in await group.inbox()] == ["local/ann"]
    assert not await machines[1].fleet.inbox()
    (one,) = await group.inbox_groups()
    done = await group.answer_group(tuple(m.request for m in one.members), "allow_once")
    assert done.answered == (items[0].request,)
    assert not await group.inbox()


async def test_a_group_of_requests_of_two_hosts_is_answered_at_both(group: HostGroup):
    for name in ("local/ann", "box/ann"):
        await start(group, name, "ask")
    while len(items := await group.inbox()) < 2:
        await asyncio.sleep(0)
    requests = tuple(one.request for one in items)
    done = await group.answer_group(requests, "allow_once")
    assert sorted(done.answered) == sorted(requests)


async def test_waiting_for_agents_of_two_hosts(group: HostGroup):
    ann, zoe = await start(group, "ann"), await start(group, "box/zoe", "work")
    (rested,) = await group.wait([ann.session, zoe.session], until="any")
    assert rested.session == ann.session
    waiting = asyncio.create_task(group.wait(["ann", "zoe"], until="all"))
    await group.interrupt("box/zoe")
    assert {one.session for one in await waiting} == {ann.session, zoe.session}


async def test_positions_are_those_of_one_host(group: HostGroup, machines: tuple[Machine, Machine]):
    ann, zoe = await start(group, "ann", "say a"), await start(group, "box/zoe", "say b")
    await group.wait([ann.session, zoe.session])
    records = await group.read(zoe.session)
    assert {one.session for one in records} == {zoe.session}
    assert [one.seq for one in records] == [one.seq for one in machines[1].fleet.records]
    assert await group.read("box/", after=records[0].seq) == records[1:]
    assert await group.read(zoe.session, before=records[-1].seq) == records[:-1]
    every = await group.read(None)
    assert {one.session for one in every} == {ann.session, zoe.session}
    for wrong in ({"after": 1}, {"before": 3}):
        with pytest.raises(SeveralHostsError, match="name it as 'HOST/'"):
            await group.read(None, **wrong)
    with pytest.raises(SeveralHostsError):
        await anext(group.follow(1))


async def test_search_and_usage_are_over_all(group: HostGroup, machines: tuple[Machine, Machine]):
    ann, zoe = await start(group, "ann", "say tide"), await start(group, "box/zoe", "say tide")
    await group.wait([ann.session, zoe.session])
    assert {hit.session for hit in await group.search("tide")} == {ann.session, zoe.session}
    assert len(await group.search("tide", limit=1)) == 1
    used = TokenUsage(input=10, output=1)
    for machine in machines:
        session = machine.fleet.records[0].session
        await machine.fleet.append(session, ModelCallFinished(model="m", usage=used))
    report = await group.usage("agent")
    assert {row.name for row in report.rows} == {"local/ann", "box/zoe"}
    assert report.total.tokens == used + used
    (row,) = (await group.usage("model")).rows
    assert row.tokens == used + used
    status = await group.status()
    assert sum(status.agents.values()) == 2


async def test_a_host_that_is_lost_stops_no_other(
    group: HostGroup, machines: tuple[Machine, Machine]
):
    await start(group, "ann")
    zoe = await start(group, "box/zoe", "ask")
    assert len(await group.agents()) == 2
    await machines[1].stop()
    listed = {one.name: one for one in await group.agents()}
    assert listed["local/ann"].lost is None
    lost = listed["box/zoe"]
    assert lost.state_word == "host lost"
    assert lost.lost
    assert not lost.needs_person
    assert [one.name for one in await group.inbox()] == []
    assert set(group.problems) == {"box"}
    assert (await group.agent("ann")).name == "local/ann"
    with pytest.raises(HostError, match=r"no agent 'zoe' on the hosts that answer \(box: "):
        await group.agent("zoe")
    with pytest.raises((NoHostError, LinkBrokenError)):
        await group.interrupt(zoe.session)
    await machines[1].start()
    while (await group.agents())[0].lost or len(await group.agents()) < 2:
        await asyncio.sleep(0.01)
    assert {one.lost for one in await group.agents()} == {None}
    assert not group.problems
    assert len(await group.inbox()) == 1


async def test_a_slow_host_stops_no_other(
    group: HostGroup, machines: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
):
    await start(group, "ann")
    answered = asyncio.Event()

    async def never(**_: Any) -> Any:
        await answered.wait()
        return []

    monkeypatch.setattr(machines[1].fleet, "agents", never)
    monkeypatch.setattr(host_group, "SLOW_SECONDS", 0.2)
    assert [one.name for one in await group.agents()] == ["local/ann"]
    assert "did not answer within 0.2 s" in group.problems["box"]
    answered.set()


async def test_a_host_under_two_names_is_used_once(machines: tuple[Machine, Machine]):
    local, box = machines
    twin = Machine("twin", local.fleet, local.socket.parent / "twin")
    twin.socket = local.socket
    async with HostGroup.connect([local.host(), twin.host(), box.host()]) as group:
        await start(group, "ann")
        assert [one.name for one in await group.agents()] == ["local/ann"]
        assert "same host as 'local'" in group.problems["twin"]
        with pytest.raises(SeveralHostsError, match="'twin' is 'local' under a second name"):
            await group.agent("twin/ann")
        assert group.scopes == {"": "local/", "box": "box/"}


async def test_none_that_can_be_used(machines: tuple[Machine, Machine]):
    for one in machines:
        await one.stop()
    with pytest.raises(NoHostError, match="no host on local"):
        async with HostGroup.connect([one.host() for one in machines]):
            pass


@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=pytest.mark.stress)])
async def test_nothing_is_lost_or_doubled_while_a_host_ends_and_begins(
    group: HostGroup,
    machines: tuple[Machine, Machine],
    rounds: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(host_group, "_PAUSE", 0.01)
    ann, zoe = await start(group, "ann"), await start(group, "box/zoe")
    seen: dict[str, list[int]] = {ann.session: [], zoe.session: []}
    before = {m.label: len(m.fleet.records) for m in machines}
    started = asyncio.Event()

    async def follow() -> None:
        async with aclosing(group.follow()) as records:
            async for record in records:
                started.set()
                seen[record.session].append(record.seq)

    following = asyncio.create_task(follow())
    while not started.is_set():
        for machine, session in zip(machines, (ann.session, "zoe"), strict=True):
            await machine.fleet.send(session, (text("say first"),))
        await asyncio.sleep(0)
    for number in range(rounds):
        await machines[1].stop()
        await machines[0].fleet.send(ann.session, (text(f"say {number}"),))
        await machines[1].fleet.send("zoe", (text(f"say {number}"),))
        await machines[1].start()
        await machines[1].fleet.send("zoe", (text(f"say again {number}"),))
    for machine, session in zip(machines, (ann.session, zoe.session), strict=True):
        await machine.fleet.wait([session.rpartition("/")[2]])
        while not seen[session] or seen[session][-1] < machine.fleet.records[-1].seq:
            await asyncio.sleep(0.01)
        first = seen[session][0]
        assert first > before[machine.label]
        last = machine.fleet.records[-1].seq
        assert seen[session] == list(range(first, last + 1))
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
