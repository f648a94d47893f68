"""``quarterdeck run`` is held to the budgets of the settings by what all logs show."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.cli.headless import command as headless
from quarterdeck.cli.headless.run_budgets import BudgetUsedUpError, RunLimit, find_run_limits
from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.wire.budgets import BudgetLimit, BudgetScope, BudgetUnit
from quarterdeck.wire.clock import format_local_time, read_wall_clock
from quarterdeck.wire.events import (
    BudgetChanged,
    BudgetReserved,
    Event,
    ModelCallFinished,
    SessionEnded,
    SessionOpened,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import Cost, TokenUsage

DAY = 86_400_000_000


class Home:
    """Settings and logs of a person."""

    def __init__(self, place: Path) -> None:
        self.places = Places.find()
        self.project = place / "project"
        self.other = place / "other"
        for path in (self.project, self.other, self.places.config):
            path.mkdir(parents=True)
        self.now = read_wall_clock()
        self.runs = 0

    def settings(self, **lists: tuple[str, ...]) -> None:
        lines = [f"{name} = {list(texts)!r}" for name, texts in lists.items()]
        (self.places.config / "config.toml").write_text("[budget]\n" + "\n".join(lines) + "\n")

    def run(self, tokens: int, *, where: Path | None = None, days: int = 0, **more: Any) -> None:
        """An earlier run."""
        self.runs += 1
        session = f"ses_run{self.runs}"
        at = self.now - days * DAY
        cost = Cost(amount=more["usd"], currency="USD") if "usd" in more else None
        call = ModelCallFinished(model="acme/m", usage=TokenUsage(input=tokens), cost=cost)
        opened = SessionOpened(agent="native", cwd=str(where or self.project))
        events: tuple[tuple[Event, int], ...] = (
            (opened, at),
            (TurnStarted(), at),
            (call, at),
            (TurnEnded(stop="end_turn"), at + more.get("seconds", 0) * 1_000_000),
        )
        path = self.places.state / "sessions" / f"{session}.db"
        asyncio.run(self._write(path, session, events))

    def host(self, *events: Event, session: str = "ses_host") -> None:
        """What the host's log has."""
        placed = tuple((event, self.now) for event in events)
        asyncio.run(self._write(self.places.journal_file, session, placed))

    async def _write(self, path: Path, session: str, events: tuple[tuple[Event, int], ...]) -> None:
        async with Journal.open(path) as journal:
            for event, time in events:
                await journal.append(
                    SessionId(session), event, turn=TurnId(f"trn_{session}"), time=time
                )

    def limits(self, where: Path | None = None) -> dict[str, RunLimit]:
        return {one.limit.unit: one for one in find_run_limits(str(where or self.project))}


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("QUARTERDECK_HOME", str(tmp_path / "home"))
    return Home(tmp_path)


def changed(scope: BudgetScope, subject: str, unit: BudgetUnit, amount: float) -> BudgetChanged:
    by = Decider(kind="person", name="person")
    return BudgetChanged(scope=scope, subject=subject, unit=unit, amount=amount, by=by)


def spawned(cwd: Path) -> SessionSpawned:
    return SessionSpawned(name="ann", options=SessionOptions(agent="codex", cwd=str(cwd)))


def test_what_is_left_becomes_a_limit_and_the_tighter_budget_is_named(person: Home):
    person.settings(project=("10ktok",), day=("9ktok", "50calls", "1h"), all=("100ktok",))
    person.run(4_000, seconds=600)
    person.run(1_000, where=person.other)
    person.run(2_000, days=3)
    found = person.limits()
    day = format_local_time(person.now, "%Y-%m-%d")
    assert found["tokens"].limit == BudgetLimit(unit="tokens", amount=4_000)
    assert found["tokens"].words == (
        f"4000 tok left of the budget of 10 ktok for the project {person.project}"
    )
    assert found["calls"].limit.amount == 48
    assert found["seconds"].limit.amount == 3_000
    elsewhere = person.limits(person.other)["tokens"]
    assert elsewhere.words == f"4000 tok left of the budget of 9000 tok for the day {day}"


def test_nothing_left_is_refused_and_says_by_which_budget(person: Home):
    person.settings(project=("2ktok",))
    person.run(1_999)
    assert person.limits()["tokens"].limit.amount == 1
    person.run(1)
    with pytest.raises(
        BudgetUsedUpError, match=r"2000 tok for the project .+ is used up: 2000 tok"
    ):
        person.limits()
    assert person.limits(person.other)["tokens"].limit.amount == 2_000


def test_what_agents_of_the_host_used_and_reserved_counts(person: Home):
    person.settings(all=("5usd",))
    ended = TurnEnded(
        stop="end_turn", usage=TokenUsage(input=5), cost=Cost(amount=2.0, currency="USD")
    )
    person.host(spawned(person.other), ended, BudgetReserved(reservation="r1", tokens=9, usd=0.5))
    person.run(10, usd=1.25)
    assert person.limits()["usd"].limit.amount == pytest.approx(1.25)


def test_a_budget_that_was_raised_by_a_command_takes_the_place_of_the_settings(person: Home):
    person.settings(day=("1ktok",), project=("9ktok",))
    person.run(1_500)
    with pytest.raises(BudgetUsedUpError, match="for the day"):
        person.limits()
    day = format_local_time(person.now, "%Y-%m-%d")
    person.host(changed("day", day, "tokens", 2_000.0), session="budgets")
    assert person.limits()["tokens"].limit.amount == 500
    person.host(changed("project", str(person.project), "tokens", 1_600.0), session="budgets")
    assert person.limits()["tokens"].limit.amount == 100


def test_money_that_cannot_be_counted_is_refused(person: Home):
    person.settings(day=("5usd",))
    person.run(1_500)
    with pytest.raises(BudgetUsedUpError, match="the price of a model is not known"):
        person.limits()


def test_an_agents_own_budget_counts_anew_for_each_run_and_on_for_a_resumed_one(person: Home):
    person.settings(agent=("3ktok",), tree=("2ktok",))
    person.run(1_500)
    assert person.limits()["tokens"].limit.amount == 2_000
    (found,) = find_run_limits(str(person.project), "ses_run1")
    assert found.limit.amount == 500
    assert found.words.endswith("for this run and all that it starts")


def test_without_a_budget_in_the_settings_no_log_is_read(person: Home):
    person.places.journal_file.parent.mkdir(parents=True, exist_ok=True)
    person.places.journal_file.write_bytes(b"no database")
    assert person.limits() == {}
    person.settings(agent=("8agents",))
    assert person.limits() == {}
    person.settings(all=("5usd",))
    assert person.limits()["usd"].limit.amount == 5  # a log that cannot be read is left out


def job_of(person: Home, *words: str, quiet: bool = True) -> Any:
    arguments = ["-C", str(person.project), *words]
    context = headless.run.make_context("run", arguments)
    params = dict(context.params)
    prompt = params.pop("prompt")
    for name in ("format_", "quiet"):
        params.pop(name)
    return headless._job(prompt, params, quiet=quiet)  # pyright: ignore[reportPrivateUsage]


def test_the_limits_of_a_run_are_the_tightest_of_all(person: Home, capsys):
    person.settings(day=("10ktok", "5usd", "1h"))
    person.run(4_000, usd=2.0)
    limits = job_of(person, "do it", "--budget", "2usd", quiet=False).options.limits
    assert (limits.cost, limits.tokens, limits.seconds) == (2.0, 6_000, 3_600)
    said = capsys.readouterr().err
    assert "· at most 6000 tok left of the budget of 10 ktok for the day" in said
    assert "usd" not in said  # that of the command line is tighter
    goal = job_of(person, "--goal", "reach it").goal
    assert (goal.budget.cost, goal.budget.tokens, goal.budget.seconds) == (3.0, 6_000, 3_600)
    assert capsys.readouterr().err == ""


def test_another_agent_is_held_to_time_and_to_that_something_is_left(person: Home, capsys):
    person.settings(day=("10ktok", "1h"))
    person.run(4_000)
    limits = job_of(person, "-a", "codex", "do it", quiet=False).options.limits
    assert (limits.tokens, limits.seconds) == (None, 3_600)
    assert "; it is not stopped at it" in capsys.readouterr().err
    person.run(7_000)
    with pytest.raises(BudgetUsedUpError):
        job_of(person, "-a", "codex", "do it")


def test_a_session_of_the_host_that_ended_still_counts(person: Home):
    person.settings(project=("1ktok",))
    ended = TurnEnded(stop="end_turn", usage=TokenUsage(input=700))
    person.host(spawned(person.project), TurnStarted(), ended, SessionEnded(how="closed"))
    assert person.limits()["tokens"].limit.amount == 300


def test_a_run_that_may_not_begin_ends_with_7_and_the_reason(run, environ, work: Path):
    config = Places.find(environ).config
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text('[budget]\nday = ["200ktok", "1calls"]\n')
    first = run("run", "-m", "scripted/default", "hello")
    assert (first.returncode, "at most 1 call left" in first.stderr) == (0, True), first.stderr
    second = run("run", "-q", "-m", "scripted/default", "hello")
    assert (second.returncode, second.stdout) == (7, "")
    assert "the budget of 1 call for the day" in second.stderr
    assert "is used up: 1 call" in second.stderr
