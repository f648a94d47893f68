"""Budgets in a fleet: reserved before each call of our own agent, counted after for others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.errors import FleetLimitError, InvalidOptionsError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.budgets import BudgetLimit, BudgetScope, parse_limit
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.events import (
    BudgetChanged,
    BudgetReached,
    BudgetReserved,
    BudgetSettled,
    ContextAdded,
    ModelCallFinished,
    Prompted,
    QuestionAsked,
    TurnEnded,
    UsageReported,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import (
    Casting,
    PlayedLink,
    events_of,
    fleet_of,
    new_agent,
    places_in,
)

_STEP = """
[[scenes.steps.replies]]
parts = [{ call = "glob", arguments = { pattern = "%d" } }]
usage = { input = 900, output = 100 }
"""
SCRIPT = """
default = "steps"

[[scenes.short.replies]]
parts = [{ text = "done" }]
usage = { input = 900, output = 100 }
""" + "".join(_STEP % number for number in range(200))
PRICES = """
[models."scripted/{script}".prices]
input = 1000.0
output = 1000.0
cached = 1000.0
cache_written = 1000.0
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT)
    return str(path)


def write_settings(tmp_path: Path, text: str) -> None:
    path = places_in(tmp_path / "home").config / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[LocalFleet]:
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        yield fleet


def native(script: str, prompt: str | None, *budget: str, **fields: object) -> SpawnOptions:
    cwd = fields.pop("cwd", str(Path(script).parent))
    limits = tuple(map(parse_limit, budget))
    request = {"cwd": cwd, "model": f"scripted/{script}", "prompt": prompt, "mode": "full-auto"}
    return SpawnOptions.of(**request, budget=limits, **fields)


async def rested(fleet: LocalFleet, name: str) -> AgentInfo:
    (info,) = await fleet.wait([name], timeout=SOON)
    return info


async def all_of(fleet: LocalFleet, name: str, kind):
    return [one for one in await events_of(fleet, name) if isinstance(one, kind)]


async def until(fleet: LocalFleet, name: str, kind, holds=lambda _: True):
    async with asyncio.timeout(SOON), aclosing(fleet.follow(0, agent=name)) as records:
        async for record in records:
            if isinstance(record.event, kind) and holds(record.event):
                return record.event
    raise AssertionError(kind)


async def used_by(fleet: LocalFleet, name: str) -> int:
    (row,) = [row for row in (await fleet.usage("agent")).rows if row.name == name]
    return row.tokens.total


async def test_a_turn_ends_when_the_budget_of_its_agent_is_used(fleet: LocalFleet, script: str):
    await fleet.spawn(native(script, "go", "20ktok", name="a"))
    ended = await until(fleet, "a", TurnEnded)
    assert ended.stop == "max_turn_requests"
    assert ended.reason.startswith("budget: the budget of 20 ktok for a and all that it starts")
    assert 10_000 < await used_by(fleet, "a") <= 21_000
    reserved = await all_of(fleet, "a", BudgetReserved)
    settled = await all_of(fleet, "a", BudgetSettled)
    assert [one.reservation for one in settled] == [one.reservation for one in reserved]
    assert {one.how for one in settled} == {"reported"}


async def test_each_call_is_reserved_before_it_and_settled_after_it(fleet, script: str):
    await fleet.spawn(native(script, "scene:short", "100ktok", name="a"))
    await until(fleet, "a", TurnEnded)
    kinds = (BudgetReserved, ModelCallFinished, BudgetSettled)
    assert [type(one) for one in await all_of(fleet, "a", kinds)] == list(kinds)


async def test_without_a_budget_nothing_is_reserved(fleet: LocalFleet, script: str):
    await fleet.spawn(native(script, "scene:short", name="a"))
    await until(fleet, "a", TurnEnded)
    assert await all_of(fleet, "a", BudgetReserved) == []


async def test_the_agent_is_warned_and_then_asked_to_wrap_up(fleet: LocalFleet, script: str):
    await fleet.spawn(native(script, "go", "50ktok", name="a"))
    await until(fleet, "a", TurnEnded)
    words = [one.text for one in await all_of(fleet, "a", ContextAdded)]
    assert len(words) == 2
    assert "Use the rest for what matters most" in words[0]
    assert "Wrap up now" in words[1]
    levels = [one.level for one in await all_of(fleet, "a", BudgetReached)]
    assert levels == ["warned", "stopped"] or levels == ["warned", "reached", "stopped"]


async def test_a_person_raises_it_from_the_inbox_and_the_agent_goes_on(fleet, script: str):
    await fleet.spawn(native(script, "go", "20ktok", name="a"))
    await until(fleet, "a", TurnEnded)
    assert (await rested(fleet, "a")).needs_person
    (item,) = await fleet.inbox()
    assert item.question is not None
    assert "Raise it?" in item.question.text
    before = await used_by(fleet, "a")
    with pytest.raises(ValueError, match="no budget of tokens"):
        await fleet.reply(item.request, "accept", content={"raise_by": "5usd"})
    assert await fleet.reply(item.request, "accept", content={"raise_by": "20ktok"})
    assert not await fleet.reply(item.request, "accept", content={"raise_by": "20ktok"})
    (changed,) = [one for one in await all_of(fleet, "a", BudgetChanged) if one.amount > 20_000]
    assert (changed.amount, changed.by.kind) == (40_000, "person")
    await until(fleet, "a", BudgetReached, lambda one: one.level == "stopped" and one.amount > 2e4)
    assert before < await used_by(fleet, "a") <= 42_000
    prompts = [one.content[0].text for one in await all_of(fleet, "a", Prompted)]
    assert prompts == ["go", "The budget was raised. Go on where you were."]


async def test_a_person_who_does_not_raise_it_is_asked_again_at_the_next_prompt(fleet, script):
    await fleet.spawn(native(script, "go", "20ktok", name="a"))
    await until(fleet, "a", TurnEnded)
    (item,) = await fleet.inbox()
    assert await fleet.reply(item.request, "decline")
    assert await fleet.inbox() == []
    await fleet.send("a", (text("go"),))
    await until(fleet, "a", QuestionAsked, lambda one: one.request != item.request)
    assert len(await fleet.inbox()) == 1


async def test_a_tree_shares_one_budget_and_one_question(fleet: LocalFleet, script: str):
    lead = await fleet.spawn(native(script, None, "30ktok", name="lead", lead=True))
    for name in ("b", "c", "d"):
        await fleet.spawn(native(script, "go", name=name, parent=lead.session))
    for name in ("b", "c", "d"):
        await until(fleet, name, TurnEnded)
    total = sum([await used_by(fleet, name) for name in ("b", "c", "d")])
    assert 15_000 < total <= 31_500
    (item,) = await fleet.inbox()
    assert "lead and all that it starts" in item.question.text
    await fleet.set_budget("tree", "lead", BudgetLimit(unit="tokens", amount=60_000))
    assert await fleet.inbox() == []
    for name in ("b", "c", "d"):
        await until(fleet, name, Prompted, lambda one: "raised" in one.content[0].text)


@pytest.mark.parametrize("scope", ["project", "day", "all"])
async def test_agents_share_what_the_settings_allow(
    tmp_path: Path, script: str, scope: BudgetScope
):
    write_settings(tmp_path, f'[budget]\n{scope} = ["30ktok"]\n')
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        for name in ("b", "c"):
            await fleet.spawn(native(script, "go", name=name))
        for name in ("b", "c"):
            await until(fleet, name, TurnEnded)
        total = await used_by(fleet, "b") + await used_by(fleet, "c")
        assert 15_000 < total <= 31_500
        (row,) = (await fleet.budgets()).rows
        assert (row.scope, row.source, row.used) == (scope, "settings", total)
        (item,) = await fleet.inbox()
        await fleet.reply(item.request, "accept", content={"raise_by": "5ktok"})
        (row,) = (await fleet.budgets()).rows
        assert (row.scope, row.source, row.amount) == (scope, "log", 35_000)


async def test_of_two_budgets_the_tighter_stops_and_is_named(fleet: LocalFleet, script: str):
    await fleet.set_budget("all", "", BudgetLimit(unit="calls", amount=3))
    await fleet.spawn(native(script, "go", "500ktok", name="a"))
    ended = await until(fleet, "a", TurnEnded)
    assert "the budget of 3 calls for everything is used up" in ended.reason
    assert len(await all_of(fleet, "a", ModelCallFinished)) == 4  # one of them to wrap up


async def test_money_without_a_price_is_refused_and_never_free(fleet: LocalFleet, script: str):
    await fleet.spawn(native(script, "go", "5usd", name="a"))
    ended = await until(fleet, "a", TurnEnded)
    assert "the price of a model is not known" in ended.reason
    assert await all_of(fleet, "a", ModelCallFinished) == []
    assert await fleet.inbox() == []


async def test_money_is_counted_by_the_price(tmp_path: Path, script: str):
    write_settings(tmp_path, PRICES.replace("{script}", script))
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        await fleet.spawn(native(script, "go", "20usd", name="a"))
        ended = await until(fleet, "a", TurnEnded)
        assert "the budget of 20 usd" in ended.reason
        (row,) = (await fleet.budgets(agent="a")).rows
        assert row.unit == "usd"
        assert 10 < row.used <= 21
        assert row.used == await used_by(fleet, "a") / 1000


async def test_a_budget_of_time_ends_a_turn(fleet: LocalFleet, script: str):
    await fleet.spawn(native(script, "go", "0.2s", name="a"))
    ended = await until(fleet, "a", TurnEnded)
    assert "the budget of 0.2 s" in ended.reason


async def test_no_more_agents_than_the_budget_are_live(fleet: LocalFleet, script: str):
    lead = await fleet.spawn(native(script, None, "3agents", name="lead", lead=True))
    await fleet.spawn(native(script, None, name="b", parent=lead.session))
    await fleet.spawn(native(script, None, name="c", parent=lead.session))
    with pytest.raises(FleetLimitError, match="3 agents for lead and all that it starts"):
        await fleet.spawn(native(script, None, name="d", parent=lead.session))
    await fleet.spawn(native(script, None, name="apart"))
    await fleet.close("b")
    await fleet.spawn(native(script, None, name="d", parent=lead.session))


async def test_agents_that_start_at_once_are_counted_one_by_one(fleet: LocalFleet, script: str):
    await fleet.set_budget("all", "", BudgetLimit(unit="agents", amount=3))
    starts = [fleet.spawn(native(script, None, name=f"n{n}")) for n in range(8)]
    found = await asyncio.gather(*starts, return_exceptions=True)
    assert sum(isinstance(one, AgentInfo) for one in found) == 3


async def test_what_an_interrupted_call_may_have_cost_counts(fleet: LocalFleet, tmp_path: Path):
    path = tmp_path / "slow.toml"
    path.write_text('default = "x"\n[[scenes.x.replies]]\nparts = ["begun", { sleep = 60 }]\n')
    await fleet.spawn(native(str(path), "go", "100ktok", name="a"))
    from quarterdeck.wire.events import MessageChunk

    await until(fleet, "a", MessageChunk)
    await fleet.interrupt("a")
    settled = await until(fleet, "a", BudgetSettled)
    assert settled.how == "estimated"
    assert 0 < settled.tokens < 20_000
    (row,) = (await fleet.budgets(agent="a")).rows
    assert (row.used, row.reserved) == (settled.tokens, 0)


async def test_a_call_that_is_refused_by_the_vendor_costs_nothing(fleet, tmp_path: Path):
    path = tmp_path / "bad.toml"
    path.write_text('default = "x"\n[[scenes.x.replies]]\nerror = { status = 400 }\n')
    await fleet.spawn(native(str(path), "go", "100ktok", name="a"))
    await until(fleet, "a", TurnEnded)
    assert [one.how for one in await all_of(fleet, "a", BudgetSettled)] == ["released"]
    (row,) = (await fleet.budgets(agent="a")).rows
    assert (row.used, row.reserved) == (0, 0)


async def test_what_a_deleted_agent_used_still_counts(fleet: LocalFleet, script: str, tmp_path):
    await fleet.set_budget("all", "", BudgetLimit(unit="tokens", amount=1e6))
    await fleet.set_budget("project", str(tmp_path), BudgetLimit(unit="tokens", amount=1e6))
    await fleet.spawn(native(script, "scene:short", name="a"))
    await until(fleet, "a", TurnEnded)
    await fleet.close("a")
    await fleet.delete("a")
    await fleet.spawn(native(script, "scene:short", name="b"))
    await until(fleet, "b", TurnEnded)
    assert [row.used for row in (await fleet.budgets()).rows] == [2_000, 2_000]


async def test_a_budget_is_set_raised_and_removed(fleet: LocalFleet, script: str):
    await fleet.spawn(native(script, None, name="a"))
    limit = BudgetLimit(unit="usd", amount=5.0)
    with pytest.raises(InvalidOptionsError, match="no such budget to raise"):
        await fleet.set_budget("agent", "a", limit, add=True)
    assert (await fleet.set_budget("agent", "a", limit)).amount == 5.0
    assert (await fleet.set_budget("agent", "a", limit, add=True)).amount == 10.0
    assert await fleet.remove_budget("agent", "a", "usd")
    assert not await fleet.remove_budget("agent", "a", "usd")
    assert (await fleet.budgets()).rows == ()
    with pytest.raises(InvalidOptionsError, match="number of agents"):
        await fleet.set_budget("day", "", BudgetLimit(unit="agents", amount=2))
    with pytest.raises(InvalidOptionsError, match="not a day"):
        await fleet.set_budget("day", "yesterday", limit)


async def test_budgets_of_archived_agents_and_of_days_that_are_over_are_not_listed(
    fleet: LocalFleet, script: str
):
    info = await fleet.spawn(native(script, None, "9usd"))
    await fleet.set_budget("day", "2020-01-01", parse_limit("5usd"))
    await fleet.set_budget("day", "", parse_limit("6usd"))
    rows = (await fleet.budgets()).rows
    assert sorted((row.scope, row.amount) for row in rows) == [("day", 6.0), ("tree", 9.0)]
    await fleet.archive(info.session)
    assert [(row.scope, row.amount) for row in (await fleet.budgets()).rows] == [("day", 6.0)]


# Agents that do not reserve


async def test_another_agent_is_warned_and_stopped_after_the_fact(tmp_path: Path):
    casting = Casting()
    async with fleet_of(tmp_path, casting) as fleet:
        await fleet.spawn(new_agent(tmp_path, name="f"))
        await fleet.set_budget("tree", "f", BudgetLimit(unit="tokens", amount=1_000))
        await fleet.send("f", (text("total 850"),))
        await until(fleet, "f", BudgetReached, lambda one: one.level == "warned")
        await fleet.send("f", (text("total 2000"),))
        await until(fleet, "f", BudgetReached, lambda one: one.level == "reached")
        await fleet.send("f", (text("say never"),))
        stopped = await until(fleet, "f", BudgetReached, lambda one: one.level == "stopped")
        assert "is used up" in stopped.reason
        (item,) = await fleet.inbox()
        assert "say never" not in casting.links[0].told
        assert [q.content[0].text for q in (await fleet.agent("f")).queue] == ["say never"]
        await fleet.reply(item.request, "accept", content={"raise_by": "5ktok"})
        await until(fleet, "f", Prompted, lambda one: one.content[0].text == "say never")
        assert (await fleet.agent("f")).queue == ()
        # What waited is what it goes on with.
        assert not any("Go on where you were" in words for words in casting.links[0].told)


class _Spender(PlayedLink):
    """Reports a running total and goes on until it is interrupted."""

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        assert isinstance(content[0], TextContent)
        command, _, number = content[0].text.partition(" ")
        if command != "burn":
            return await super().prompt(content)
        self.interrupted.clear()
        await self.host.emit(UsageReported(session_tokens=TokenUsage(input=int(number))))
        return await self._wait("")


@pytest.fixture
async def spender(tmp_path: Path) -> AsyncIterator[tuple[LocalFleet, Casting]]:
    casting = Casting()
    casting.make = _Spender
    async with fleet_of(tmp_path, casting) as fleet:
        await fleet.spawn(new_agent(tmp_path, name="f"))
        await fleet.set_budget("tree", "f", BudgetLimit(unit="tokens", amount=1_000))
        yield fleet, casting


async def test_another_agent_is_asked_to_wrap_up_within_the_allowance(spender):
    fleet, casting = spender
    await fleet.send("f", (text("burn 1020"),))
    await until(fleet, "f", BudgetReached, lambda one: one.level == "reached")
    await until(fleet, "f", Prompted, lambda one: "Wrap up now" in one.content[0].text)
    assert (await fleet.agent("f")).state == "running"
    assert "Wrap up now" in casting.links[0].told[-1]


async def test_another_agent_is_interrupted_beyond_the_allowance(spender):
    fleet, _ = spender
    await fleet.send("f", (text("burn 2000"),))
    ended = await until(fleet, "f", TurnEnded)
    assert ended.stop == "cancelled"
    (stopped,) = [one for one in await all_of(fleet, "f", BudgetReached) if one.request]
    assert (stopped.level, stopped.used) == ("stopped", 2_000)
    (item,) = await fleet.inbox()
    await fleet.reply(item.request, "accept")
    await until(fleet, "f", Prompted, lambda one: "Go on where" in one.content[0].text)


@pytest.mark.parametrize("bad", [-5, 1 << 60])
async def test_usage_that_cannot_be_true_does_not_count(spender, bad: int):
    fleet, _ = spender
    await fleet.send("f", (text(f"burn {bad}"),))
    await until(fleet, "f", UsageReported)
    await fleet.interrupt("f")
    await fleet.send("f", (text("total 500"),))
    await until(fleet, "f", UsageReported, lambda one: one.session_tokens.input == 500)
    (row,) = (await fleet.budgets(agent="f")).rows
    assert row.used in (0, 500)
    assert await fleet.inbox() == []


async def test_calls_of_other_agents_cannot_be_bounded(tmp_path: Path):
    async with fleet_of(tmp_path) as fleet:
        with pytest.raises(InvalidOptionsError, match="cannot be counted"):
            await fleet.spawn(new_agent(tmp_path, budget=(parse_limit("5calls"),)))
        assert await fleet.agents() == []


async def test_a_fork_has_the_budget_of_its_source(fleet: LocalFleet, script: str):
    await fleet.spawn(native(script, "scene:short", "30ktok", name="a"))
    await until(fleet, "a", TurnEnded)
    await fleet.fork("a", name="b")
    (row,) = (await fleet.budgets(agent="b")).rows
    assert (row.name, row.amount, row.used) == ("b and all that it starts", 30_000, 0)
