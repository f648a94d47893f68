"""Sessions of runs and editors are counted from logs of their own, which others write meanwhile."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.usage.ledger import UsageLedger
from quarterdeck.fleet.usage.service import RunLogs
from quarterdeck.journal import Journal
from quarterdeck.wire.clock import format_local_time, read_wall_clock
from quarterdeck.wire.events import ModelCallFinished, SessionOpened, TurnEnded
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.usage import TokenUsage
from tests.support.scripted_fleet import Casting, places_in

DAY = 86_400


def log_of(state: Path, session: str) -> Path:
    return state / "sessions" / f"{session}.db"


async def write(journal: Journal, session: str, *tokens: int) -> None:
    id_ = SessionId(session)
    if not journal.last:
        await journal.append(id_, SessionOpened(agent="native", cwd="/w"))
    for number in tokens:
        call = ModelCallFinished(model="acme/m", usage=TokenUsage(input=number))
        turn = TurnId(f"trn_{journal.last}")
        await journal.commit(id_, call, turn=turn)


async def read(logs: RunLogs, since: str | None = None) -> list[UsageLedger]:
    return await asyncio.to_thread(logs.read, since)


def count(ledgers: list[UsageLedger]) -> int:
    return sum(cell.tokens.total for ledger in ledgers for cell in ledger.day_cells())


async def test_a_log_that_grows_is_read_on_while_it_is_written(tmp_path: Path):
    logs = RunLogs(tmp_path)
    assert await read(logs) == []
    async with Journal.open(log_of(tmp_path, "ses_a")) as journal:
        await write(journal, "ses_a", 5, 6)
        (ledger,) = await read(logs)
        assert count([ledger]) == 11
        assert await read(logs) == [ledger]
        await write(journal, "ses_a", 7)
        assert await read(logs) == [ledger]  # the same, read on
        assert count([ledger]) == 18


async def test_another_log_in_its_place_begins_anew_and_one_that_is_gone_counts_no_more(
    tmp_path: Path,
):
    logs = RunLogs(tmp_path)
    for session, tokens in (("ses_a", 5), ("ses_b", 10)):
        async with Journal.open(log_of(tmp_path, session)) as journal:
            await write(journal, session, tokens)
    assert count(await read(logs)) == 15
    log_of(tmp_path, "ses_b").replace(log_of(tmp_path, "ses_a"))
    assert count(await read(logs)) == 10
    log_of(tmp_path, "ses_a").unlink()
    assert await read(logs) == []


async def test_a_log_that_cannot_be_read_costs_only_itself(tmp_path: Path):
    async with Journal.open(log_of(tmp_path, "ses_a")) as journal:
        await write(journal, "ses_a", 5)
    log_of(tmp_path, "ses_b").write_bytes(b"no database")
    (tmp_path / "sessions" / "ses_c.db").mkdir()
    assert count(await read(RunLogs(tmp_path))) == 5


async def test_a_log_that_was_not_written_since_is_not_even_opened(tmp_path: Path):
    async with Journal.open(log_of(tmp_path, "ses_a")) as journal:
        await write(journal, "ses_a", 5)
    old = time.time() - 10 * DAY
    for path in (tmp_path / "sessions").iterdir():
        os.utime(path, (old, old))
    today = format_local_time(read_wall_clock(), "%Y-%m-%d")
    logs = RunLogs(tmp_path)
    assert await read(logs, today) == []
    assert count(await read(logs)) == 5
    assert len(await read(logs, today)) == 1  # it is known by now, so it costs nothing


async def test_the_fleet_counts_runs_and_what_is_new(tmp_path: Path):
    places = places_in(tmp_path / "home")
    path = log_of(places.state, "ses_run")
    async with LocalFleet.open(places, {}, open_session=Casting()) as fleet:
        assert (await fleet.usage("agent", runs=True)).rows == ()
        async with Journal.open(path) as journal:
            await write(journal, "ses_run", 5, 6)
            report = await fleet.usage("agent", runs=True)
            assert [(row.name, row.tokens.input) for row in report.rows] == [("runs of native", 11)]
            assert (await fleet.usage("agent")).rows == ()
            await write(journal, "ses_run", 4)
        ended = TurnEnded(stop="end_turn", usage=TokenUsage(input=100))
        await fleet.journal.commit(SessionId("ses_one"), ended, turn=TurnId("trn_x"))
        totals = [
            (await fleet.usage(by, runs=True)).total.tokens.input  # type: ignore[arg-type]
            for by in ("agent", "tree", "project", "vendor", "model", "day", "turn")
        ]
        assert totals == [115] * 7
        # A session that is in two logs counts where the fleet has it.
        await fleet.journal.commit(SessionId("ses_run"), ended, turn=TurnId("trn_y"))
        assert (await fleet.usage("day", runs=True)).total.tokens.input == 200


def test_the_next_event_of_a_long_session_costs_no_more_than_the_first():
    ledger = UsageLedger()
    from tests.fleet.usage.test_usage_ledger import Log, use

    log = Log()
    log.spawn("ann")
    for _ in range(500):
        log.turn("ann", told=use(3, 1))
    ledger.add(log.records)
    assert len(ledger.cells()) == 500
    assert len(ledger.cells_of(SessionId("ann"))) == len(ledger.day_cells()) == 1
    (cell,) = ledger.day_cells()
    assert (cell.tokens, cell.turn) == (use(1_500, 500), None)


@pytest.mark.parametrize("number", [1, 30])
async def test_without_a_budget_the_log_is_not_counted_for_budgets(tmp_path: Path, number: int):
    async with LocalFleet.open(places_in(tmp_path / "home"), {}, open_session=Casting()) as fleet:
        for _ in range(number):
            assert (await fleet.budgets()).rows == ()
        assert not fleet.budget_service.is_counting
