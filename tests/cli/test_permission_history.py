"""``permissions test`` and ``permissions suggest`` over the log of a host."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.cli.permissions.history import try_offered_rules
from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    PermissionAnswered,
    PermissionAsked,
    SessionEnded,
    SessionSpawned,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Decider, PermissionOption, Selected
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import fleet_of, new_agent

OPTIONS = (
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Deny", kind="reject_once"),
)
ANSWERS = (
    *(("pytest -q", "yes"), ("pytest -q", "yes"), ("pytest -x", "yes"), ("pytest a", "yes")),
    *(("make install", "no"), ("echo \x1b[2J", "no"), ("make test", "yes"), ("make test", "yes")),
)


async def write_log(
    places: Places, work: Path, answers: tuple[tuple[str, str], ...] = ANSWERS, name: str = "ann"
) -> None:
    session = SessionId(f"ses_{name}")
    async with Journal.open(places.journal_file) as journal:
        options = SessionOptions(agent="claude", cwd=str(work))
        await journal.append(session, SessionSpawned(name=name, options=options))
        for number, (command, answer) in enumerate(answers):
            request, call = RequestId(f"req_{name}_{number}"), ToolCallId(f"call_{number}")
            asked = PermissionAsked(
                request=request,
                call=call,
                title=command,
                options=OPTIONS,
                kind="execute",
                name="Bash",
                raw_input={"command": command},
            )
            by = Decider(kind="person", name="ada")
            outcome = Selected(option_id=answer)
            answered = PermissionAnswered(request=request, call=call, outcome=outcome, by=by)
            await journal.append(session, asked)
            await journal.append(session, answered)
        await journal.append(session, SessionEnded(how="closed"))


@pytest.fixture
def log(environ: dict[str, str], work: Path, run) -> Iterator[None]:
    (work / ".git").mkdir()
    asyncio.run(write_log(Places.find(environ), work))
    yield
    run("host", "stop")


def test_rules_are_tried_on_what_was_asked(run, log: None):
    good = run("permissions", "test", "allow bash(pytest:*)")
    assert (good.returncode, good.stderr) == (0, "")
    assert "8 requests were put to a person." in good.stdout
    assert "  allow 4\n  deny 0\n  ask about 4\n" in good.stdout
    assert "No disagreement" in good.stdout

    bad = run("permissions", "test", "allow bash(make install)", "deny bash(make test)")
    assert bad.returncode == 1
    assert "Would allow 1 that a person denied, and deny 2 that were allowed:" in bad.stdout
    assert "allow make install  (ann, " in bad.stdout
    assert "denied by person" in bad.stdout
    assert "allow echo \\x1b[2J  (ann" in run("permissions", "test", "allow bash").stdout


def test_requests_are_chosen_by_project_and_time(run, log: None):
    told = json.loads(run("permissions", "test", "--json", "-C", ".", "allow bash").stdout)
    assert (told["requests"], told["allowed_denied"]) == (8, 2)
    elsewhere = run("permissions", "test", "--json", "-C", "/", "allow bash")
    assert json.loads(elsewhere.stdout)["requests"] == 0
    later = run("permissions", "test", "--since", "2099-01-01", "--json", "allow bash")
    assert json.loads(later.stdout)["requests"] == 0


def test_rules_are_suggested_and_accepted(run, log: None, work: Path):
    shown = run("permissions", "suggest").stdout
    assert "1. allow bash(pytest:*)\n   saves 4 requests, wider" in shown
    assert "2. allow bash(make test)\n   saves 2 requests; approved" in shown
    wide = run("permissions", "suggest", "--accept", "1", "--scope", "user")
    assert (wide.returncode, "for a project only" in wide.stderr) == (2, True)
    kept = json.loads(run("permissions", "suggest", "--accept", "1", "--json").stdout)
    assert [(one["pattern"], one["project"]) for one in kept] == [("bash(pytest:*)", str(work))]
    text = run("permissions", "suggest", "--accept", "bash(make test)", "--scope", "user")
    assert text.stdout.endswith(": allow bash(make test) in every project\n")
    grants = json.loads(run("permissions", "list", "--json").stdout)["grants"]
    assert {one["pattern"] for one in grants} == {"bash(pytest:*)", "bash(make test)"}
    missing = run("permissions", "suggest", "--accept", "9")
    assert (missing.returncode, "there are 2" in missing.stderr) == (1, True)


def test_what_was_denied_in_another_project_is_not_kept_everywhere(
    run, log: None, environ: dict[str, str], tmp_path: Path
):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    asyncio.run(write_log(Places.find(environ), other, (("make test", "no"),), "bob"))
    done = run("permissions", "suggest", "--accept", "bash(make test)", "--scope", "user")
    assert (done.returncode, done.stdout) == (1, "")
    assert "'make test', which was denied" in done.stderr
    assert run("permissions", "suggest", "--accept", "bash(make test)").returncode == 0


async def test_the_rules_of_open_requests_are_tried_on_the_past(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="ask make all"))
        await fleet.wait(["ann"], timeout=SOON)
        (first,) = await fleet.inbox()
        found = await try_offered_rules(fleet, [first])  # pyright: ignore[reportArgumentType]
        assert found[first.request]["bash(make all)"].requests == 0
        await fleet.answer(first.request, "no")
        await fleet.wait(["ann"], timeout=SOON)
        await fleet.send("ann", (text("ask make all"),))
        await fleet.wait(["ann"], timeout=SOON)
        (item,) = await fleet.inbox()
        found = await try_offered_rules(fleet, [item])  # pyright: ignore[reportArgumentType]
        words = "would have answered 1 of 1 requests of this week, 1 that you denied"
        assert found[item.request]["bash(make all)"].describe("of this week") == words


def test_a_rule_that_cannot_be_read_is_wrong_usage(run):
    wrong = run("permissions", "test", "allow bash(")
    assert wrong.returncode == 2
    assert "expected" in wrong.stderr
    late = run("permissions", "test", "--since", "2026-13-01", "allow bash")
    assert (late.returncode, "is not a day" in late.stderr) == (2, True)
