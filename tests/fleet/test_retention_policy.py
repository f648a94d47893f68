"""Old sessions go by themselves, as the settings say; what is pinned or in use stays."""

import logging
import os
from asyncio import to_thread
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.config.schema import HostSettings, Settings
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.sessions.pins import load_pins, pin_session, unpin_session
from quarterdeck.fleet.sessions.retention_policy import RetentionPolicy
from quarterdeck.fleet.sessions.standalone import StandaloneSessions
from quarterdeck.journal import Journal
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.content import text
from tests.support.deadlines import SOON
from tests.support.run_logs import own_log, write_run
from tests.support.scripted_fleet import Casting, fleet_of, new_agent, places_in

DAY = 86_400


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "quarterdeck"


@pytest.fixture
def state(home: Path) -> Path:
    return places_in(home).state


@pytest.fixture
async def fleet(home: Path) -> AsyncIterator[LocalFleet]:
    async with fleet_of(home, Casting()) as fleet:
        yield fleet


@pytest.fixture
async def standalone(state: Path, fleet: LocalFleet) -> AsyncIterator[StandaloneSessions]:
    sessions = StandaloneSessions(state, fleet.journal)
    yield sessions
    await sessions.aclose()


def policy_of(
    fleet: LocalFleet,
    state: Path,
    standalone: StandaloneSessions,
    later: int = 0,
    **settings: float,
) -> RetentionPolicy:
    """A policy with these settings, so many days from now."""
    return RetentionPolicy(
        state,
        fleet.journal,
        fleet._current,  # pyright: ignore[reportPrivateUsage]
        standalone,
        lambda _: Settings(host=HostSettings(**settings)),  # type: ignore[arg-type]
        fleet.delete,
        lambda: read_wall_clock() + later * DAY * 1_000_000,
    )


async def test_without_a_policy_nothing_goes(
    fleet: LocalFleet, state: Path, standalone: StandaloneSessions
):
    run = await write_run(state, "old", age=1_000 * DAY)
    assert await policy_of(fleet, state, standalone).apply() == []
    assert await policy_of(fleet, state, standalone, session_days=0.0).apply() == []
    assert own_log(state, run).exists()


async def test_what_is_old_goes_and_is_named(
    fleet: LocalFleet,
    state: Path,
    standalone: StandaloneSessions,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    old = await write_run(state, "old", age=40 * DAY, title="Ebb")
    kept = await write_run(state, "kept", age=40 * DAY)
    new = await write_run(state, "new", age=10 * DAY)
    busy = await write_run(state, "busy", age=40 * DAY)
    broken = own_log(state, old).with_name("ses_" + "0" * 26 + ".db")
    broken.write_bytes(b"\0" * 5_000)
    os.utime(broken, (1, 1))
    assert await to_thread(pin_session, state, kept) and not await to_thread(
        pin_session, state, kept
    )
    async with Journal.open(own_log(state, busy)):
        with caplog.at_level(logging.INFO):
            gone = await policy_of(fleet, state, standalone, session_days=30).apply()
    assert gone == [old]
    assert f"removed session {old} (claude, Ebb): unchanged for 30 days" in caplog.text
    assert f"session {busy} stays" in caplog.text
    assert not own_log(state, old).exists() and broken.exists()
    listed = {one.id for one in await standalone.sessions() if one.damage is None}
    assert listed == {kept, new, busy}
    assert await to_thread(unpin_session, state, kept) and not await to_thread(
        unpin_session, state, kept
    )
    again = await policy_of(fleet, state, standalone, session_days=30).apply()
    assert set(again) == {kept, busy}


async def test_agents_go_when_they_are_done_and_old(
    fleet: LocalFleet, state: Path, standalone: StandaloneSessions, tmp_path: Path
):
    ids = {}
    for name in ("done", "live", "kept"):
        ids[name] = (await fleet.spawn(new_agent(tmp_path, name=name, prompt="say x"))).session
    await fleet.wait(["done", "live", "kept"], timeout=SOON)
    await fleet.close("done")
    await fleet.close("kept")
    await to_thread(pin_session, state, ids["kept"])
    policy = policy_of(fleet, state, standalone, 40, session_days=30)
    assert await policy.apply() == [ids["done"]]
    assert {one.name for one in await fleet.agents(archived=True)} == {"live", "kept"}
    assert await fleet.search("say") != []
    await fleet.send("live", (text("say more"),))
    assert await policy_of(fleet, state, standalone, 20, session_days=30).apply() == []


async def test_the_oldest_go_until_the_rest_fits(
    fleet: LocalFleet, state: Path, standalone: StandaloneSessions
):
    runs = [await write_run(state, "x", age=age * DAY) for age in (1, 2, 3, 4)]
    await to_thread(pin_session, state, runs[3])
    size = own_log(state, runs[0]).stat().st_size
    room = size * 3.5 / 1_000_000_000
    assert await policy_of(fleet, state, standalone, session_size=room).apply() == [runs[2]]
    assert await policy_of(fleet, state, standalone, session_size=room).apply() == []
    tiny = policy_of(fleet, state, standalone, session_size=1e-9)
    assert set(await tiny.apply()) == {runs[0], runs[1]}
    assert (
        {one.id for one in await standalone.sessions()}
        == await to_thread(load_pins, state)
        == {runs[3]}
    )
