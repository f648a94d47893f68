"""``permissions test`` and ``permissions suggest`` over the log of a host."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.wire.events import (
    PermissionAnswered,
    PermissionAsked,
    SessionEnded,
    SessionSpawned,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Decider, PermissionOption, Selected
from quarterdeck.wire.session_options import SessionOptions

ANN = SessionId("ses_ann")
OPTIONS = (
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Deny", kind="reject_once"),
)
ANSWERS = (
    *(("pytest -q", "yes"), ("pytest -q", "yes"), ("pytest -x", "yes"), ("pytest a", "yes")),
    *(("make install", "no"), ("echo \x1b[2J", "no"), ("make test", "yes"), ("make test", "yes")),
)


async def write_log(places: Places, work: Path) -> None:
    async with Journal.open(places.journal_file) as journal:
        options = SessionOptions(agent="claude", cwd=str(work))
        await journal.append(ANN, SessionSpawned(name="ann", options=options))
        for number, (command, answer) in enumerate(ANSWERS):
            request, call = RequestId(f"req_{number}"), ToolCallId(f"call_{number}")
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
            await journal.append(ANN, asked)
            await journal.append(ANN, answered)
        await journal.append(ANN, SessionEnded(how="closed"))


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


def test_a_rule_that_cannot_be_read_is_wrong_usage(run):
    wrong = run("permissions", "test", "allow bash(")
    assert wrong.returncode == 2
    assert "expected" in wrong.stderr
    late = run("permissions", "test", "--since", "2026-13-01", "allow bash")
    assert (late.returncode, "is not a day" in late.stderr) == (2, True)
