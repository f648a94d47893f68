"""Grants in a fleet: listed, kept over runs, and taken back for good and at once."""

from pathlib import Path

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.policy.grants import Grant, GrantStore
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import GrantRevoked, MessageChunk
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent, places_in

COMMAND = "ask make all"


async def allow(fleet: LocalFleet, scope: str) -> Grant:
    """Let an agent ask, and answer with the standing option of a scope."""
    await fleet.spawn(new_agent(fleet.journal.path.parent, name="ann", prompt=COMMAND))
    await fleet.wait(["ann"], timeout=SOON)
    (item,) = await fleet.inbox()
    assert item.permission is not None
    option = next(
        one.option_id
        for one in item.permission.options
        if one.kind == "allow_always" and one.meta and one.meta["quarterdeck"]["scope"] == scope
    )
    assert await fleet.answer(item.request, option, by="ada")
    await fleet.wait(["ann"], timeout=SOON)
    (grant,) = await fleet.grants()
    return grant


async def is_asked(fleet: LocalFleet) -> bool:
    """Whether the next prompt is asked about; it is refused then."""
    await fleet.send("ann", (text(COMMAND),))
    await fleet.wait(["ann"], timeout=SOON)
    for item in await fleet.inbox():
        assert await fleet.answer(item.request, "no")
        await fleet.wait(["ann"], timeout=SOON)
    chunks = [e for e in await events_of(fleet, "ann") if isinstance(e, MessageChunk)]
    assert isinstance(chunks[-1].content, TextContent)
    return chunks[-1].content.text == "denied"


async def test_leave_for_the_session_is_listed_and_holds_over_runs_and_hosts(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        grant = await allow(fleet, "session")
        assert (grant.scope, grant.by, grant.pattern) == ("session", "ada", "bash(make all)")
        assert not await is_asked(fleet)
        await fleet.close("ann")
        await fleet.resume("ann")
        assert not await is_asked(fleet)
    async with fleet_of(tmp_path / "home") as fleet:
        assert await fleet.grants() == [grant]
        await fleet.resume("ann")
        assert not await is_asked(fleet)


async def test_leave_for_the_session_that_is_taken_back_never_returns(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        grant = await allow(fleet, "session")
        assert await fleet.revoke(grant.id, by="tablet")
        assert not await fleet.revoke(grant.id)
        assert await fleet.grants() == []
        assert await is_asked(fleet)
        (event,) = [e for e in await events_of(fleet, "ann") if isinstance(e, GrantRevoked)]
        assert (event.grant, event.by.kind, event.by.name) == (grant.id, "person", "tablet")
        await fleet.close("ann")
        await fleet.resume("ann")
        assert await is_asked(fleet)
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.journal.rebuild("session_grants")
        assert await fleet.grants() == []
        await fleet.resume("ann")
        assert await is_asked(fleet)


async def test_a_grant_whose_end_is_damaged_does_not_return(tmp_path: Path):
    places = places_in(tmp_path / "home")
    async with fleet_of(tmp_path / "home") as fleet:
        grant = await allow(fleet, "session")
        assert await fleet.revoke(grant.id, by="tablet-of-ada")
    data = places.journal_file.read_bytes()
    assert b"tablet-of-ada" in data
    places.journal_file.write_bytes(data.replace(b"tablet-of-ada", b"tablet-of-adb"))
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.journal.rebuild("session_grants")
        assert await fleet.grants() == []


async def test_it_can_be_taken_back_while_the_agent_does_not_run(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        grant = await allow(fleet, "session")
        await fleet.close("ann")
        assert await fleet.revoke(grant.id)
        await fleet.resume("ann")
        assert await is_asked(fleet)


async def test_a_lasting_one_that_another_process_takes_back_ends_at_once(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        grant = await allow(fleet, "project")
        assert not await is_asked(fleet)
        elsewhere = GrantStore(places_in(tmp_path / "home").state / "grants.json")
        assert await elsewhere.revoke(grant.id)
        assert await is_asked(fleet)
        assert await fleet.grants() == []


async def test_a_lasting_one_is_taken_back_here(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        grant = await allow(fleet, "user")
        assert await fleet.revoke(grant.id)
        assert await is_asked(fleet)
        assert not await fleet.revoke("req_none.1")
