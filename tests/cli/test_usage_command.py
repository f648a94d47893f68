"""``quarterdeck usage``: tables, JSON and CSV over a log that a host reads."""

import asyncio
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.cli.fleet.usage import format_usage
from quarterdeck.config.places import Places
from quarterdeck.fleet.usage.api import UsageReport, UsageRow
from quarterdeck.journal import Journal
from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.events import (
    ModelCallFinished,
    SessionEnded,
    SessionOpened,
    SessionSpawned,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId, TurnId, new_session_id
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import Cost, TokenUsage

DAYS = 86_400_000_000
NOW = 1_795_000_000_000_000


async def write_log(places: Places, work: Path) -> None:
    async with Journal.open(places.journal_file) as journal:
        for number, (agent, model) in enumerate((("claude", "claude-opus-5"), ("codex", "odd"))):
            session = SessionId(f"ses_{number}")
            options = SessionOptions(agent=agent, cwd=str(work), model=model)
            spawn = SessionSpawned(name=f"{agent}\x1b[2J", options=options)
            await journal.append(session, spawn, time=NOW)
            used = TokenUsage(input=1_000_000, output=1_000)
            for day in (0, 2):
                turn = TurnId(f"trn_{number}_{day}")
                ended = TurnEnded(stop="end_turn", usage=used)
                await journal.append(session, ended, turn=turn, time=NOW + day * DAYS)
            await journal.append(session, SessionEnded(how="closed"), time=NOW)
    own = new_session_id()
    (places.state / "sessions").mkdir(parents=True)
    async with Journal.open(places.state / "sessions" / f"{own}.db") as journal:
        await journal.append(own, SessionOpened(agent="native", cwd=str(work)), time=NOW)
        cost = Cost(amount=0.5, currency="USD")
        call = ModelCallFinished(model="anthropic/x", usage=TokenUsage(input=7), cost=cost)
        await journal.append(own, call, turn=TurnId("trn_own"), time=NOW)
    (places.state / "sessions" / "broken.db").write_bytes(b"no database")


@pytest.fixture
def log(environ: dict[str, str], work: Path, run) -> Iterator[None]:
    asyncio.run(write_log(Places.find(environ), work))
    yield
    run("host", "stop")


def test_usage_is_shown_as_a_table_as_json_and_as_csv(run, log: None, work: Path):
    shown = run("usage", "--no-runs")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["AGENT", "INPUT", "CACHED", "OUTPUT", "THINKING", "TOTAL", "COST"]
    assert lines[1].startswith("claude\\x1b[2J  2.0M")
    assert lines[1].endswith("~10.05 USD")
    assert lines[2].endswith("unknown")
    assert lines[3].endswith("~10.05 USD + unknown for 2.0M")
    assert "list prices of 2026-11" in shown.stdout
    assert "no price for odd. Set it" in shown.stdout
    whole = run("usage").stdout.splitlines()
    assert whole[3].split() == ["runs", "of", "native", "7", "0", "0", "0", "7", "0.50", "USD"]
    assert [one.split() for one in whole[:3]] == [one.split() for one in lines[:3]]

    day = format_local_time(NOW + 2 * DAYS, "%Y-%m-%d")
    late = json.loads(run("usage", "--by", "vendor", "--since", day, "--json").stdout)
    assert late["since"] == day
    assert {row["name"]: row["tokens"]["input"] for row in late["rows"]} == {
        "Anthropic": 1_000_000,
        "OpenAI": 1_000_000,
    }
    projects = json.loads(run("usage", "--by", "project", "--no-runs", "--json").stdout)
    assert [row["name"] for row in projects["rows"]] == [str(work)]

    table = list(
        csv.DictReader(io.StringIO(run("usage", "--by", "day", "--no-runs", "--csv").stdout))
    )
    assert [row["total"] for row in table] == ["2002000", "2002000"]

    models = json.loads(run("usage", "--by", "model", "--json").stdout)
    own = [row for row in models["rows"] if row["name"] == "anthropic/x"]
    assert [(row["tokens"]["input"], row["reported"]) for row in own] == [(7, {"USD": 0.5})]


def test_what_cannot_be_is_refused(run):
    wrong = run("usage", "--since", "soon")
    assert (wrong.returncode, "is not a day" in wrong.stderr) == (2, True)
    both = run("usage", "--json", "--csv")
    assert both.returncode == 2


def test_no_usage_is_said_and_odd_figures_are_noted():
    nothing = UsageReport(
        by="day", since="2026-11-09", rows=(), total=UsageRow(name="all"), prices_of="2026-11"
    )
    assert list(format_usage(nothing, 80)) == ["No usage since 2026-11-09."]
    row = UsageRow(name="=cmd", tokens=TokenUsage(input=5), reported={"EUR": 1.0, "USD": 0.1})
    odd = UsageReport(by="agent", since=None, rows=(row,), total=row, prices_of="", ignored=3)
    lines = list(format_usage(odd, 80))
    assert lines[1].endswith("1.00 EUR 0.10 USD")
    assert lines[-1] == "3 reports of agents cannot be true and were left out."
