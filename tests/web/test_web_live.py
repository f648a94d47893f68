"""The live connection: the fleet as it changes, records that resume, slow and revoked tabs."""

import asyncio
import base64
import json
import resource

import pytest
from websockets.exceptions import ConnectionClosed

from quarterdeck.fleet.terminals.api import FleetTerminalOptions
from quarterdeck.web import live
from quarterdeck.web.live import FleetFeed
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, PlanChanged, ToolCallEnded
from quarterdeck.wire.ids import SessionId, new_tool_call_id
from quarterdeck.wire.settings import PlanEntry
from tests.support.deadlines import SOON
from tests.support.web_rig import WebRig


async def test_a_tab_sees_the_fleet_and_an_answer_from_elsewhere(rig: WebRig):
    session = await rig.spawn("ann", "ask")
    async with rig.tab(await rig.paired("viewer")) as tab:
        hello = await tab.of_type("hello")
        assert hello["protocol"] == live.LIVE_PROTOCOL and hello["page"]
        first = await tab.until(lambda m: m["type"] == "fleet" and bool(m["order"]))
        assert first["order"] == [session] and len(first["inbox"]) == 1
        (item,) = await rig.fleet.inbox()
        await rig.fleet.answer(item.request, "allow_once")
        gone = await tab.until(lambda m: m.get("inbox") == [])
        assert gone["agents"][0]["state"] == "idle"


async def test_a_tab_that_connects_while_the_last_one_leaves_is_told_what_is_open(rig: WebRig):
    session = await rig.spawn("ann", "ask")
    feed = FleetFeed(rig.fleet)

    leaving, gone = asyncio.Event(), asyncio.Event()

    async def come_back() -> frozenset[SessionId]:
        await leaving.wait()
        async with feed.reader():
            await gone.wait()
            return (await feed.after(0)).asking

    following = asyncio.ensure_future(come_back())
    async with feed.reader():
        await feed.after(0)
        leaving.set()
    gone.set()
    assert await asyncio.wait_for(following, SOON) == {session}


async def test_only_what_changed_is_sent(rig: WebRig):
    quiet, busy = await rig.spawn("quiet"), await rig.spawn("busy")
    async with rig.tab(await rig.paired("viewer")) as tab:
        await tab.until(lambda m: m["type"] == "fleet" and len(m["order"]) == 2)
        await rig.fleet.send("busy", (text("say hello"),))
        later = await tab.until(lambda m: m["type"] == "fleet" and bool(m["agents"]))
        assert [one["session"] for one in later["agents"]] == [busy]
        assert quiet in later["order"] and "inbox" not in later


async def test_records_resume_from_the_last_number_without_gap_or_double(rig: WebRig):
    session = await rig.spawn("ann")
    client = await rig.paired("viewer")
    seen: list[int] = []

    async def write(count: int) -> int:
        for _ in range(count):
            await rig.fleet.append(session, MessageChunk(content=text("x")))
        return len(rig.fleet.records)

    last = await write(30)
    for _ in range(4):
        async with rig.tab(client) as tab:
            await tab.send(type="watch", agent="ann", after=seen[-1] if seen else 0)
            writing = asyncio.ensure_future(write(25))
            seen += await tab.records_until(last + 5)
            last = await writing
    last = await write(1)
    async with rig.tab(client) as tab:
        await tab.send(type="watch", agent="ann", after=seen[-1])
        seen += await tab.records_until(last)
    assert seen == [r.seq for r in rig.fleet.records if r.session == session]


async def test_the_progress_of_a_plan_is_sent(rig: WebRig):
    session = await rig.spawn("ann")
    async with rig.tab(await rig.paired("viewer")) as tab:
        await tab.until(lambda m: m["type"] == "fleet" and bool(m["order"]))
        entries = tuple(
            PlanEntry(content="step", status=status, priority="high")
            for status in ("completed", "in_progress", "pending")
        )
        await rig.fleet.append(SessionId(session), PlanChanged(entries=entries))
        found = await tab.until(lambda m: bool(m.get("plans")))
        assert found["plans"] == {session: [1, 3]}


async def test_another_agent_can_be_watched_on_the_same_connection(rig: WebRig):
    await rig.spawn("ann", "say one")
    await rig.spawn("bob", "say two")
    async with rig.tab(await rig.paired("viewer")) as tab:
        await tab.send(type="watch", agent="ann")
        assert (await tab.of_type("records"))["agent"] == "ann"
        await tab.send(type="watch", agent="bob")
        found = await tab.until(lambda m: m["type"] == "records" and m["agent"] == "bob")
        assert all(one["session"] == found["records"][0]["session"] for one in found["records"])
        await tab.send(type="watch", agent="nobody-here")
        assert (await tab.of_type("error"))["error"] == "NoSuchAgentError"
        await tab.send(type="unwatch")
        await tab.send(type="dance")
        assert (await tab.of_type("error"))["error"] == "BadMessage"


async def test_a_revoked_device_loses_its_tab(rig: WebRig):
    client = await rig.paired("viewer")
    async with rig.tab(client) as tab:
        await tab.of_type("hello")
        (device,) = await asyncio.to_thread(rig.store.devices)
        await asyncio.to_thread(rig.store.revoke, device.id)
        with pytest.raises(ConnectionClosed) as closed:
            await tab.of_type("never")
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401


async def test_without_a_device_the_connection_says_why(rig: WebRig):
    async with rig.tab(rig.client()) as tab:
        with pytest.raises(ConnectionClosed) as closed:
            await tab.of_type("hello")
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401


async def test_an_oversized_message_ends_the_connection_alone(rig: WebRig):
    client = await rig.paired("viewer")
    async with rig.tab(client) as other, rig.tab(client) as tab:
        await tab.of_type("hello")
        await tab.socket.send("x" * (live.MOST_MESSAGE_BYTES + 1))
        with pytest.raises(ConnectionClosed) as closed:
            await tab.of_type("never")
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        await rig.spawn("ann")
        await other.until(lambda m: m["type"] == "fleet" and bool(m["order"]))


async def test_a_slow_reader_is_dropped_and_resumes(rig: WebRig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "_SEND_SECONDS", 0.3)
    session = await rig.spawn("ann")
    client = await rig.paired("viewer")
    for _ in range(300):
        await rig.fleet.append(session, MessageChunk(content=text("x" * 90_000)))
    async with asyncio.timeout(SOON * 2):
        async with rig.tab(client, max_queue=1, compression=None) as tab:
            await tab.send(type="watch", agent="ann")
            # Nothing is read: the buffers of the sockets are full long before 27 MB.
            await asyncio.sleep(1.0)
            seen: list[int] = []
            with pytest.raises(ConnectionClosed):
                while True:
                    message = json.loads(await tab.socket.recv())
                    if message["type"] == "records":
                        seen += [one["seq"] for one in message["records"]]
        assert len(seen) < 300
        async with rig.tab(client) as tab:
            await tab.send(type="watch", agent="ann", after=seen[-1] if seen else 0)
            seen += await tab.records_until(len(rig.fleet.records))
    assert seen == [r.seq for r in rig.fleet.records]


@pytest.mark.parametrize("count", [60, pytest.param(1_000, marks=pytest.mark.stress)])
async def test_many_idle_tabs_do_not_keep_the_server_from_answering(rig: WebRig, count: int):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 3 * count:
        pytest.skip("needs more open files")
    client = await rig.paired("viewer")
    async with asyncio.TaskGroup() as group:
        done = asyncio.Event()
        counted = asyncio.Semaphore(0)

        async def idle() -> None:
            async with rig.tab(client, compression=None, ping_interval=None) as tab:
                await tab.of_type("hello")
                counted.release()
                await done.wait()

        tabs = [group.create_task(idle()) for _ in range(count)]
        for _ in tabs:
            await counted.acquire()
        assert (await client.get("/api/v1/devices")).json()[0]["tabs"] == len(tabs)
        done.set()


async def test_a_terminal_is_shown_and_typed_into_by_operators_alone(rig: WebRig):
    options = FleetTerminalOptions(cwd="/", command=("cat",), columns=40, rows=5)
    terminal = await rig.fleet.open_terminal(options)
    operator, viewer = await rig.paired(), await rig.paired("viewer", name="tv")
    async with rig.tab(operator) as typing, rig.tab(viewer) as looking:
        for tab in (typing, looking):
            await tab.send(type="terminal", terminal=terminal.id)
            assert (await tab.of_type("screen"))["event"]["type"] == "drawn"
        await looking.send(type="keys", data=base64.b64encode(b"no\n").decode())
        assert (await looking.of_type("error"))["error"] == "RoleError"
        await typing.send(type="keys", data=base64.b64encode(b"hello\n").decode())

        def shows(message: dict[str, object]) -> bool:
            event = message.get("event")
            data = event.get("data", "") if isinstance(event, dict) else ""
            return b"hello" in base64.b64decode(str(data))

        await looking.until(shows)
        assert not [m for m in looking.messages if "no" in str(m.get("event", {}).get("reason"))]


async def test_a_host_that_goes_away_is_reported_and_the_next_one_followed(rig: WebRig):
    session = await rig.spawn("ann")
    async with rig.tab(await rig.paired("viewer")) as tab:
        await tab.send(type="watch", agent="ann")
        seen = await tab.records_until(len(rig.fleet.records))
        await rig.host.stop()
        away = await tab.until(lambda m: m["type"] == "fleet" and m["problem"] is not None)
        assert away["order"] == [session], "what was seen last stays"
        await rig.fleet.append(session, MessageChunk(content=text("meanwhile")))
        await rig.host.start()
        back: set[str] = set()
        while len(back) < 2:
            message = await tab.until(lambda m: m["type"] in ("fleet", "records"))
            if message["type"] == "records":
                seen += [one["seq"] for one in message["records"]]
                back.add("records")
            elif message["problem"] is None:
                back.add("fleet")
        assert seen == [r.seq for r in rig.fleet.records]


async def test_a_tab_that_shows_one_agent_is_sent_that_one_and_who_asks(rig: WebRig):
    shown, other = await rig.spawn("shown"), await rig.spawn("other")
    async with rig.tab(await rig.paired("viewer")) as tab:
        await tab.until(lambda m: len(m.get("order", ())) == 2)
        await tab.send(type="show", agents=[shown])
        await rig.fleet.send("other", (text("say hello"),))
        await rig.fleet.send("shown", (text("say hello"),))
        await tab.until(lambda m: bool(m.get("agents")) and m["agents"][0]["state"] == "idle")
        told = [one["session"] for m in tab.messages[2:] for one in m.get("agents", ())]
        assert set(told) == {shown} and not any("order" in m for m in tab.messages[2:])
        # Whoever asks is sent with the request, although it is not shown.
        await rig.fleet.send("other", (text("ask"),))
        asked = await tab.until(lambda m: bool(m.get("inbox")))
        assert [one["session"] for one in asked["agents"]] == [other]
        await rig.fleet.kill("shown")
        await rig.fleet.archive("shown")
        assert (await tab.until(lambda m: "gone" in m))["gone"] == [shown]
        # All of them again: what the tab has missed, and their order.
        await tab.send(type="show", agents=None)
        assert (await tab.until(lambda m: "order" in m))["order"] == [other]


async def test_a_tab_that_shows_no_agents_is_not_woken_by_them(rig: WebRig):
    session = SessionId(await rig.spawn("busy"))
    async with rig.tab(await rig.paired("viewer")) as tab:
        await tab.until(lambda m: bool(m.get("order")))
        await tab.send(type="show", agents=[])
        for _ in range(5):
            await rig.fleet.send("busy", (text("say hello"),))
        await rig.fleet.append(session, MessageChunk(content=text("x" * 10_000)))
        await rig.fleet.send("busy", (text("ask"),))
        asked = await tab.until(lambda m: bool(m.get("inbox")))
        assert asked["agents"] and [m["type"] for m in tab.messages[2:-1]] == []


@pytest.mark.parametrize("size", [2_000_000, pytest.param(40_000_000, marks=pytest.mark.stress)])
async def test_a_huge_result_is_cut_for_pages_and_nothing_else_waits(rig: WebRig, size: int):
    session = SessionId(await rig.spawn("ann"))
    client = await rig.paired("viewer")
    async with rig.tab(client) as tab, rig.tab(client) as other:
        await tab.send(type="watch", agent="ann")
        ended = ToolCallEnded(call=new_tool_call_id(), status="completed", raw_output="x" * size)
        last = (await rig.fleet.append(session, ended)).seq
        await rig.spawn("bob")
        await other.until(lambda m: len(m.get("order", ())) == 2)
        await tab.records_until(last)
        (cut,) = [one for one in tab.messages[-1]["records"] if one["seq"] == last]
        assert cut["is_cut"] and len(json.dumps(cut)) < 25_000
        whole = await client.get(f"/api/v1/records/{last}", timeout=SOON)
        assert len(whole.content) > size
