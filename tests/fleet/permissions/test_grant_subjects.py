"""Grants for an agent, a tree, a project and everything in a fleet, and how often they are used."""

from pathlib import Path

import pytest

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.permissions.grant_uses import GrantUse, GrantUses, load_grant_uses
from quarterdeck.fleet.permissions.grants import (
    GrantLimits,
    InvalidGrantError,
    add_lasting_grants,
    find_agent_entry,
    find_leads_of,
    load_all_grants,
)
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import GrantUsed, MessageChunk, PermissionAnswered
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.record import Record
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent, places_in


async def give(home: Path, limits: GrantLimits, rule: str = "allow bash(make all)") -> Grant:
    (grant,) = await add_lasting_grants(places_in(home), [parse_rule(rule)], limits, by="ada")
    return grant


async def is_allowed(fleet: LocalFleet, name: str) -> bool:
    """Whether an agent may run it without a person."""
    await fleet.send(name, (text("ask make all"),))
    await fleet.wait([name], timeout=SOON)
    for item in await fleet.inbox():
        assert await fleet.answer(item.request, "no")
    await fleet.wait([name], timeout=SOON)
    chunks = [e for e in await events_of(fleet, name) if isinstance(e, MessageChunk)]
    assert isinstance(chunks[-1].content, TextContent)
    return chunks[-1].content.text == "allowed"


async def test_a_tree_holds_for_later_agents_below_and_ends_with_its_lead(tmp_path: Path):
    home = tmp_path / "home"
    async with fleet_of(home) as fleet:
        lead = await fleet.spawn(new_agent(tmp_path, name="lead"))
        await fleet.spawn(new_agent(tmp_path, name="other"))
        grant = await give(home, GrantLimits(tree=lead.session))
        child = await fleet.spawn(new_agent(tmp_path, name="child", parent=lead.session))
        await fleet.spawn(new_agent(tmp_path, name="grandchild", parent=child.session))
        found = {
            name: await is_allowed(fleet, name) for name in ("lead", "child", "grandchild", "other")
        }
        assert found == {"lead": True, "child": True, "grandchild": True, "other": False}
        entry = await find_agent_entry(places_in(home), "grandchild")
        assert entry is not None
        leads = await find_leads_of(places_in(home), entry)
        assert leads == (entry.session, child.session, lead.session)
        await fleet.close("child")
        assert await is_allowed(fleet, "grandchild")
        await fleet.close("lead")
        assert not await is_allowed(fleet, "grandchild")
        uses = await load_grant_uses(places_in(home), [grant])
        assert uses[grant.id].uses == 4


async def test_a_grant_for_an_agent_holds_for_no_other_and_goes_with_it(tmp_path: Path):
    home = tmp_path / "home"
    async with fleet_of(home) as fleet:
        ann = await fleet.spawn(new_agent(tmp_path, name="ann"))
        await fleet.spawn(new_agent(tmp_path, name="bob", parent=ann.session))
        await give(home, GrantLimits(session=ann.session))
        tree = await give(home, GrantLimits(tree=ann.session), "allow bash(make x)")
        assert await is_allowed(fleet, "ann")
        assert not await is_allowed(fleet, "bob")
        await fleet.close("ann")
        await fleet.close("bob")
        await fleet.delete("bob")
        assert tree.id in {one.id for one in await fleet.grants()}
        await fleet.delete("ann")
        assert await fleet.grants() == []


async def test_uses_are_shared_by_the_agents_and_survive_the_host(tmp_path: Path):
    home = tmp_path / "home"
    async with fleet_of(home) as fleet:
        for name in ("ann", "bob"):
            await fleet.spawn(new_agent(tmp_path, name=name))
        grant = await give(home, GrantLimits(uses=3))
        assert await is_allowed(fleet, "ann")
        assert await is_allowed(fleet, "bob")
        assert [one.uses for one in await fleet.grants()] == [1]
    async with fleet_of(home) as fleet:
        await fleet.resume("ann")
        assert await is_allowed(fleet, "ann")
        assert not await is_allowed(fleet, "ann")
        (used,) = [e for e in await events_of(fleet, "bob") if isinstance(e, GrantUsed)]
        assert used.grants == (grant.id,)
        before = await load_grant_uses(places_in(home), [grant])
        await fleet.journal.rebuild("session_grants")
        assert await load_grant_uses(places_in(home), [grant]) == before
        assert before[grant.id].uses == 3
        await fleet.delete("bob")
        assert (await load_grant_uses(places_in(home), [grant]))[grant.id].uses == 2


@pytest.mark.parametrize(
    ("limits", "rule", "words"),
    [
        (GrantLimits(uses=0), "allow bash(x)", "0 uses are none"),
        (GrantLimits(uses=-1), "allow bash(x)", "-1 uses are none"),
        (GrantLimits(lasts=0), "allow bash(x)", "end at once"),
        (GrantLimits(lasts=-5), "allow bash(x)", "end at once"),
        (GrantLimits(uses=2), "deny bash(x)", "only what allows"),
    ],
)
async def test_what_would_never_hold_is_refused(
    tmp_path: Path, limits: GrantLimits, rule: str, words: str
):
    with pytest.raises(InvalidGrantError, match=words):
        await give(tmp_path / "home", limits, rule)
    assert await load_all_grants(places_in(tmp_path / "home")) == []


def record(seq: int, event: GrantUsed | PermissionAnswered, session: str = "s") -> Record:
    return Record(seq=seq, time=seq * 10, session=SessionId(session), event=event)


def decided(rule: str, kind: str = "rule") -> PermissionAnswered:
    return PermissionAnswered(
        request=RequestId("r"),
        call=ToolCallId("c"),
        outcome=Selected(option_id="allow"),
        by=Decider(kind=kind, name=rule),  # pyright: ignore[reportArgumentType]
        kind="allow_once",
    )


def test_a_log_of_an_earlier_version_tells_use_by_the_text_of_the_rule():
    rule = "allow bash(make)"
    grant = Grant(id="g", pattern="bash(make)", scope="user", created=15, by="ada")
    uses = GrantUses()
    uses.take([record(1, decided(rule)), record(2, decided("ada", "person"))])
    assert uses.find(grant) == GrantUse()  # before it was given
    uses.take([record(3, decided(rule)), record(4, decided(rule), "t")])
    assert uses.find(grant) == GrantUse(uses=3, last=40)
    named = GrantUsed(request=RequestId("r"), call=ToolCallId("c"), grants=("g", "h"))
    uses.take([record(5, named)])
    assert uses.find(grant) == GrantUse(uses=1, last=50)
