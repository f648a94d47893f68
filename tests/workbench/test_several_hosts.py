"""A workbench over several hosts: one list, one inbox; a host that is lost stops no other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from quarterdeck.fleet.api import Fleet, SpawnOptions
from quarterdeck.fleet.remote.grouped_host import GroupedHost, HostAccess
from quarterdeck.fleet.remote.host_group import HostGroup
from quarterdeck.wire.content import text
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.workbench import feed as feed_module
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.context import WorkbenchContext
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.panels.feed_model import FeedModel
from quarterdeck.workbench.screens.spawn import SpawnScreen
from quarterdeck.workbench.widgets.select import SelectField
from tests.support.workbench_app import LostFleet, begin, say, screen_text, until


async def leave() -> None:
    pass


def make_host(label: str, fleet: LostFleet) -> GroupedHost:
    fleet.log = label
    access = HostAccess(
        fleet=cast("Fleet", fleet),
        reach=fleet.reach,
        leave=leave,
        resolve=lambda path: f"/home/{label}" if path is None else path,
        is_local=label == "local",
    )
    return GroupedHost.create(label, access)


@asynccontextmanager
async def opened_over(
    drafts: Path, **fleets: LostFleet
) -> AsyncGenerator[tuple[Workbench, Pilot[None]]]:
    kept = Drafts(drafts)
    await asyncio.to_thread(kept.load)
    group = HostGroup.create([make_host(label, fleet) for label, fleet in fleets.items()])
    context = WorkbenchContext(fleet=group, drafts=kept, cwd="/work", clock=lambda: 1_000_000)
    context.hosts, context.remote = group, ", ".join(fleets)
    app = await asyncio.to_thread(Workbench, context, group.reach)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: context.roster.is_known)
        yield app, pilot


def names(app: Workbench) -> dict[str, str]:
    return {one.name: one.state_word for one in app.context.roster.everyone}


@pytest.fixture
def here() -> LostFleet:
    return LostFleet()


@pytest.fixture
def box() -> LostFleet:
    return LostFleet()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "_PAUSE", 0.02)


async def test_one_list_and_one_inbox(tmp_path: Path, here: LostFleet, box: LostFleet):
    await begin(here, "ann")
    async with opened_over(tmp_path, local=here, box=box) as (app, pilot):
        there = SpawnOptions(options=SessionOptions(agent="claude", cwd="/srv"), name="ann")
        await box.spawn(there)
        await box.send("ann", (text("ask"),))
        await until(pilot, lambda: names(app).get("box/ann") == "needs you")
        assert names(app)["local/ann"] == "running"
        (item,) = app.context.inbox.items
        assert item.name == "box/ann"
        assert await app.fleet_actions.answer(item, "allow_once", None)
        await until(pilot, lambda: not app.context.inbox.items)
        assert not await box.inbox()
        shown = screen_text(app)
        assert "box/ann" in shown
        assert "local/ann" in shown
        agent = app.context.roster.find(app.context.find_session("box/ann"))
        assert agent is not None
        assert await app.fleet_actions.send(agent, "say over there")
        assert any("say over there" in str(one.event) for one in box.records)
        assert not any("say over there" in str(one.event) for one in here.records)


async def test_a_host_that_is_lost_and_comes_back(tmp_path: Path, here: LostFleet, box: LostFleet):
    ann, zoe = await begin(here, "ann"), await begin(box, "zoe")
    async with opened_over(tmp_path, local=here, box=box) as (app, pilot):
        session = app.context.find_session
        await until(pilot, lambda: len(names(app)) == 2)
        for rounds in range(3):
            told = session("box/zoe")
            assert told is not None
            await app.show_agent(told)
            store = app.context.pages.store(told)
            await say(box, zoe, f"before {rounds}.\n")
            await until(pilot, lambda rounds=rounds: f"before {rounds}" in screen_text(app))
            await box.lose()
            await until(pilot, lambda: names(app)["box/zoe"] == "host lost")
            lost = app.context.roster.find(told)
            assert lost is not None
            assert lost.lost == "the host went away" or lost.lost == "no host is running"
            assert names(app)["local/ann"] == "running"
            await say(box, zoe, f"meanwhile {rounds}.\n")
            await say(here, ann, f"here {rounds}.\n")
            box.is_gone = False
            await until(pilot, lambda: names(app)["box/zoe"] == "running")
            await until(pilot, lambda rounds=rounds: f"meanwhile {rounds}" in screen_text(app))
            assert app.context.host == "connected"
            assert store.last == box.records[-1].seq
        shown = screen_text(app)
        for rounds in range(3):
            for words in (f"before {rounds}", f"meanwhile {rounds}"):
                assert shown.count(words) == 1


async def test_a_host_that_is_away_from_the_beginning(
    tmp_path: Path, here: LostFleet, box: LostFleet
):
    await begin(here, "ann")
    await begin(box, "zoe")
    box.is_gone = True
    async with opened_over(tmp_path, local=here, box=box) as (app, pilot):
        await until(pilot, lambda: "host box: no host is running" in screen_text(app))
        assert list(names(app)) == ["local/ann"]
        box.is_gone = False
        await until(pilot, lambda: "box/zoe" in names(app))


async def test_a_host_under_two_names(tmp_path: Path, here: LostFleet):
    await begin(here, "ann")
    async with opened_over(tmp_path, local=here, twin=here) as (app, pilot):
        await until(pilot, lambda: "same host as" in screen_text(app))
        assert list(names(app)) == [f"{here.log}/ann"] or list(names(app)) == ["local/ann"]


async def test_a_new_agent_starts_on_the_chosen_host(
    tmp_path: Path, here: LostFleet, box: LostFleet
):
    async with opened_over(tmp_path, local=here, box=box) as (app, pilot):
        await until(pilot, lambda: app.context.host == "connected")
        app.action_spawn()
        await until(pilot, lambda: isinstance(app.screen, SpawnScreen))
        host = app.screen.query_one("#host", SelectField)
        assert [(one.value, one.words) for one in host.options] == [
            ("local", "/work"),
            ("box", "/home/box"),
        ]
        host.focus()
        await pilot.press("b", "o", "x", "enter")
        directory = app.screen.query_one("#cwd", Input)
        await until(pilot, lambda: directory.value == "/home/box")
        app.screen.query_one("#name", Input).value = "Zoë"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "box/Zoë" in names(app))
        (info,) = box.infos.values()
        assert (info.name, info.cwd) == ("Zoë", "/home/box")
        assert not here.infos


async def test_the_feed_has_the_records_of_each_host_in_their_order(
    tmp_path: Path, here: LostFleet, box: LostFleet
):
    group = HostGroup.create([make_host("local", here), make_host("box", box)])
    ann, zoe = await begin(here, "ann"), await begin(box, "zoe")
    for number in range(30):
        await say(here, ann, f"{number}")
        await say(box, zoe, f"{number}")
    model = FeedModel("debug")
    await model.start(group)

    def positions(prefix: str) -> list[int]:
        mine = [one for one in model.records if one.session.startswith(prefix)]
        return [one.seq for one in mine]

    assert positions("ses_") == [one.seq for one in here.records]
    assert positions("box/") == [one.seq for one in box.records]
    await say(box, zoe, "later")
    fresh = await group.read("box/", after=len(box.records) - 1)
    assert model.live(fresh, may_drop=True) == (1, 0)
    assert model.live(fresh, may_drop=True) == (0, 0)
    assert positions("box/") == [one.seq for one in box.records]


async def test_drafts_of_agents_of_other_hosts_are_kept(tmp_path: Path):
    drafts = Drafts(tmp_path)
    drafts.put("box/ses_1", "half a thought")
    await asyncio.to_thread(drafts.flush)
    again = Drafts(tmp_path)
    await asyncio.to_thread(again.load)
    assert again.get("box/ses_1") == "half a thought"
    assert again.get("ses_1") == ""
