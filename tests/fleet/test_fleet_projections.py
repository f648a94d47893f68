"""The roster on disk and the fleet in memory: the same, always, and cheap."""

import time
from pathlib import Path

import pytest

from quarterdeck.fleet.agent_entry import ENTRY_EVENTS, AgentEntry, AgentSpending, fold_entry
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.projections import (
    InboxProjection,
    RosterProjection,
    load_archived,
    load_requests,
    load_unarchived,
)
from quarterdeck.journal import Journal
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionSpawned,
    TurnEnded,
    UsageReported,
)
from quarterdeck.wire.ids import SessionId, new_session_id
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import Cost, TokenUsage
from tests.support.deadlines import SOON
from tests.support.journal_events import append_all
from tests.support.scripted_fleet import fleet_of, new_agent


async def busy(fleet: LocalFleet, tmp_path: Path) -> None:
    """A little of everything."""
    prompts = ("say x", "ask rm x", "question why", "fail x", "crash", "tokens 5", "total 7")
    for n, prompt in enumerate(prompts):
        await fleet.spawn(new_agent(tmp_path, name=f"a{n}", prompt=prompt))
    await fleet.spawn(new_agent(tmp_path, name="w", prompt="wait"))
    await fleet.wait([f"a{n}" for n in range(len(prompts))], timeout=SOON)
    await fleet.send("w", (text("say later"),))
    await fleet.kill("a0")
    await fleet.archive("a3")
    await fleet.rename("a5", "renamed")
    await fleet.interrupt("w", keep_queue=False)


async def test_a_rebuilt_roster_is_the_one_that_was_kept_and_the_one_in_memory(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await busy(fleet, tmp_path)
        in_memory = await fleet.agents(archived=True)
        inbox = await fleet.inbox()
        kept = await _stored(fleet.journal)
        await fleet.journal.rebuild("fleet")
        await fleet.journal.rebuild("inbox")
        assert await _stored(fleet.journal) == kept
        live = {one.session: one for one in fleet._current.all()}
        assert {entry.session: entry for entry in kept[0]} == live
        assert [one.request for one in kept[1]] == [one.request for one in inbox]
        assert len(inbox) == 2
        assert fleet.journal.failed_projections == {}
    async with fleet_of(tmp_path / "home") as fleet:
        again = await fleet.agents(archived=True)
    assert {one.name for one in again} == {one.name for one in in_memory}
    states = {one.name: one.state for one in in_memory if not one.is_live}
    assert states == {one.name: one.state for one in again if one.name in states}


async def _stored(journal: Journal) -> tuple[list[AgentEntry], list[object]]:
    entries = await journal.query(load_unarchived) + await journal.query(load_archived)
    return entries, list(await journal.query(load_requests))


async def test_a_clock_that_goes_backwards_changes_no_order(tmp_path: Path):
    now = [2_000_000_000_000_000]

    def clock() -> int:
        now[0] -= 1_000_000
        return now[0]

    async with fleet_of(tmp_path / "home", clock=clock) as fleet:
        for name in ("a", "b", "c"):
            await fleet.spawn(new_agent(tmp_path, name=name, prompt="say x"))
            await fleet.wait([name], timeout=SOON)
        infos = await fleet.agents()
        assert [one.name for one in infos] == ["c", "b", "a"]
        assert all(one.updated >= one.spawned for one in infos)
        seqs = [record.seq for record in await fleet.journal.read()]
        assert seqs == sorted(seqs)
    async with fleet_of(tmp_path / "home", clock=clock) as fleet:
        assert {one.state for one in await fleet.agents()} == {"done"}


def test_what_agents_say_costs_the_roster_nothing():
    chatter = {"message_chunk", "thought_chunk", "tool_call_updated", "terminal_output"}
    assert not chatter & ENTRY_EVENTS
    assert not chatter & InboxProjection.types
    assert RosterProjection.types == ENTRY_EVENTS


def test_a_record_that_is_known_already_is_not_counted_twice():
    session = new_session_id()
    events: list[Event] = [
        SessionSpawned(options=SessionOptions(agent="x", cwd="/"), name="a"),
        SessionOpened(agent="x", cwd="/"),
        TurnEnded(stop="end_turn", usage=TokenUsage(input=5)),
    ]
    entry: AgentEntry | None = None
    for _ in range(2):
        for seq, event in enumerate(events, 1):
            entry = fold_entry(entry, Record(seq=seq, time=seq, session=session, event=event))
    assert entry is not None and entry.spending.usage.input == 5


def test_a_session_that_no_fleet_spawned_has_no_entry():
    record = Record(seq=1, time=1, session=SessionId("s"), event=SessionOpened(agent="x", cwd="/"))
    assert fold_entry(None, record) is None


def test_running_totals_replace_and_turns_add():
    spending = AgentSpending()
    for amount in (0.1, 0.2, 0.3):
        cost = Cost(amount=amount, currency="USD")
        spending = spending.after_report(UsageReported(session_cost=cost))
    assert spending.cost == Cost(amount=0.3, currency="USD")
    turn = TurnEnded(stop="end_turn", usage=TokenUsage(input=10, output=1))
    assert spending.after_turn(turn).after_turn(turn).usage == TokenUsage(input=20, output=2)


def test_a_total_that_falls_has_begun_again():
    spending = AgentSpending()
    for tokens in (100, 250, 40, 90):
        report = UsageReported(session_tokens=TokenUsage(input=tokens))
        spending = spending.after_report(report).after_turn(
            TurnEnded(stop="end_turn", usage=TokenUsage(input=1))
        )
    assert spending.usage == TokenUsage(input=250 + 90)


async def test_usage_of_agents_is_added_up(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="tokens 5"))
        await fleet.send("ann", (text("tokens 7"),))
        await fleet.spawn(new_agent(tmp_path, name="bob", prompt="total 10"))
        await fleet.send("bob", (text("total 30"),))
        ann, bob = await fleet.wait(["ann", "bob"], timeout=SOON)
        assert ann.usage == TokenUsage(input=12, output=2)
        assert ann.cost == Cost(amount=1.0, currency="USD")
        assert bob.usage == TokenUsage(input=30)


@pytest.mark.parametrize("archived", [1_000])
async def test_a_thousand_archived_agents_slow_nothing_down(tmp_path: Path, archived: int):
    log = tmp_path / "home" / "state" / "journal.db"
    projections = (RosterProjection(), InboxProjection())
    async with Journal.open(log, projections=projections) as journal:
        for n in range(archived + 50):
            session = new_session_id()
            events: list[Event] = [
                SessionSpawned(options=SessionOptions(agent="claude", cwd="/w"), name=f"agent-{n}"),
                SessionOpened(agent="claude", cwd="/w", agent_session="x"),
                SessionEnded(how="closed"),
            ]
            if n < archived:
                events.append(SessionChanged(archived=True))
            await append_all(journal, session, events)
    async with fleet_of(tmp_path / "home") as fleet:
        assert len(await fleet.agents()) == 50
        began = time.process_time()
        for _ in range(20):
            await fleet.agents()
        assert (time.process_time() - began) / 20 < 0.02
        began = time.process_time()
        assert len(await fleet.agents(archived=True)) == archived + 50
        assert time.process_time() - began < 1.0
        assert (await fleet.agent("agent-7")).is_archived
        assert len(await fleet.agents()) == 50
