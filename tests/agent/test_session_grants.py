"""What was allowed or refused for a session holds when it goes on another day, and only for it."""

from pathlib import Path

from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome, text_outcome
from quarterdeck.models.script import Script
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.events import GrantRevoked, GrantUsed, PermissionAsked
from tests.support.agent_tools import FakeTool, NumberArguments, returns
from tests.support.native_agents import PERSON, Deck, call, deck, says


def fresh_model(name: str) -> ScriptedModel:
    """One for each time that a session is opened: closing a session closes its model."""
    return ScriptedModel(Script.sequence(*[says(call("fake")), "ok"] * 2), name="test")


def editor() -> FakeTool:
    return FakeTool(returns("edited"), kind="edit", writes="src/a.txt")


def option(asked: PermissionAsked, kind: str, scope: str) -> str:
    return next(
        each.option_id
        for each in asked.options
        if each.kind == kind and each.meta and each.meta["quarterdeck"]["scope"] == scope
    )


async def allow_for_the_session(ship: Deck) -> PermissionAsked:
    running = ship.start()
    asked = (await ship.asked())[-1]
    assert ship.answer(asked, option(asked, "allow_always", "session"))
    await running
    return asked


async def asks_again(ship: Deck) -> bool:
    """Whether the next prompt's call is asked about; it is refused then."""
    before = len(await ship.events(PermissionAsked))
    running = ship.start()
    while not running.done():
        asked = await ship.events(PermissionAsked)
        if len(asked) > before:
            ship.answer(asked[-1], "reject-once")
            await running
            return True
    assert (await running).stop == "end_turn"
    return False


async def test_leave_for_the_session_holds_after_it_is_loaded_again(tmp_path: Path):
    tool = editor()
    async with deck(tmp_path, tools=[tool], make_model=fresh_model) as ship:
        asked = await allow_for_the_session(ship)
        (before,) = ship.session.gate.grants.all
        session = await ship.reload()
        (after,) = session.gate.grants.all
        assert not await asks_again(ship)
    assert len(tool.ran) == 2
    assert (after.id, after.pattern, after.by) == (before.id, before.pattern, "ada")
    assert after.request == asked.request


async def test_leave_for_one_call_does_not(tmp_path: Path):
    tool = editor()
    async with deck(tmp_path, tools=[tool], make_model=fresh_model) as ship:
        running = ship.start()
        ship.answer((await ship.asked())[-1], "allow-once")
        await running
        session = await ship.reload()
        assert session.gate.grants.all == ()
        assert await asks_again(ship)
    assert len(tool.ran) == 1


async def test_a_fork_does_not_inherit_it(tmp_path: Path):
    tool = editor()
    async with deck(tmp_path, tools=[tool], make_model=fresh_model) as ship:
        await allow_for_the_session(ship)
        ship.session = await ship.agent.fork(ship.session.id, options=ship.options)
        assert await asks_again(ship)
        await ship.reload()
        assert await asks_again(ship)
    assert len(tool.ran) == 1


async def test_it_does_not_move_to_another_project(tmp_path: Path):
    tool = editor()
    other = tmp_path / "other"
    other.mkdir()
    async with deck(tmp_path, tools=[tool], make_model=fresh_model) as ship:
        await allow_for_the_session(ship)
        id_ = ship.session.id
        await ship.agent.close(id_)
        ship.session = await ship.agent.load(id_, options=ship.options.at(str(other)))
        assert await asks_again(ship)
        await ship.reload()
        assert not await asks_again(ship)
    assert len(tool.ran) == 2


async def test_an_option_that_was_not_offered_grants_nothing(tmp_path: Path):
    tool = editor()
    async with deck(tmp_path, tools=[tool], make_model=fresh_model) as ship:
        running = ship.start()
        ship.answer((await ship.asked())[-1], "allow-session-9")
        await running
        session = await ship.reload()
        assert session.gate.grants.all == ()
    assert tool.ran == []


async def test_leave_that_was_taken_back_does_not_return_when_it_is_loaded(tmp_path: Path):
    tool = editor()
    async with deck(tmp_path, tools=[tool], make_model=fresh_model) as ship:
        await allow_for_the_session(ship)
        (grant,) = ship.session.gate.grants.all
        assert await ship.session.revoke(grant.id, PERSON)
        assert not await ship.session.revoke(grant.id, PERSON)
        assert ship.session.gate.grants.all == ()
        assert await ship.only(GrantRevoked) == GrantRevoked(grant=grant.id, by=PERSON)
        session = await ship.reload()
        assert session.gate.grants.all == ()
        assert await asks_again(ship)
    assert len(tool.ran) == 1


async def test_a_fork_of_it_gets_neither_the_leave_nor_its_end(tmp_path: Path):
    tool = editor()
    async with deck(tmp_path, tools=[tool], make_model=fresh_model) as ship:
        await allow_for_the_session(ship)
        (grant,) = ship.session.gate.grants.all
        await ship.session.revoke(grant.id, PERSON)
        ship.session = await ship.agent.fork(ship.session.id, options=ship.options)
        assert await ship.events(GrantRevoked) == []
        assert await asks_again(ship)
    assert len(tool.ran) == 1


async def test_a_use_is_in_the_log_before_the_call_runs_and_is_given_once(tmp_path: Path):
    logged: list[GrantUsed] = []
    ships: list[Deck] = []

    async def run(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        logged.extend(await ships[0].events(GrantUsed))  # only what is durable
        return text_outcome("edited")

    tool = FakeTool(run, kind="edit", writes="src/a.txt")
    async with deck(tmp_path, tools=[tool], make_model=fresh_model) as ship:
        ships.append(ship)
        rule = "edit(src/a.txt)"
        once = Grant(id="grt_1", pattern=rule, scope="user", created=0, by="ada", uses=1)
        await ship.session.gate.grants.add([once])
        assert not await asks_again(ship)
        assert await asks_again(ship)
        assert [one.grants for one in logged] == [("grt_1",)]
    assert len(tool.ran) == 1
