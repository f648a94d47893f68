"""``quarterdeck sessions turns|diff|restore``: what turns did, and taking it back."""

import asyncio
import json
from pathlib import Path

import pytest

from quarterdeck.policy.grammar import parse_rule
from tests.support.native_agents import call, deck, says
from tests.support.work_trees import new_repository, state_of


def worked(tmp_path: Path) -> tuple[str, list[dict[bytes, tuple[str, bytes, bool]]]]:
    """A session of two turns; its id, and the files before, between and after."""
    work = new_repository(tmp_path / "work", {"a.txt": "one\n"})
    states = [state_of(work)]

    async def make() -> str:
        replies = [
            reply
            for n in (1, 2)
            for reply in (says(call("bash", command=f"echo {n} >> a.txt; echo {n} > n{n}")), "ok")
        ]
        rules = (parse_rule("allow bash"),)
        async with deck(tmp_path, *replies, rules=rules, mode="accept-edits") as ship:
            for n in (1, 2):
                await ship.prompt(f"turn {n}")
                states.append(await asyncio.to_thread(state_of, work))
            return ship.session.id

    return asyncio.run(make()), states


@pytest.fixture
def sessions(run, tmp_path: Path):
    """Runs ``quarterdeck sessions`` with the log of ``worked``."""

    def run_it(*arguments: str):
        return run("sessions", *arguments, QUARTERDECK_HOME=str(tmp_path / "home"))

    return run_it


def test_turns_are_shown_and_taken_back(sessions, tmp_path: Path):
    id_, states = worked(tmp_path)
    listed = sessions("turns")
    assert "1. " in listed.stdout
    assert "'turn 2': 2 files" in listed.stdout
    shown = sessions("diff", "--turn", "2")
    assert "\n+2\n" in shown.stdout
    assert "\n+1\n" not in shown.stdout
    assert sessions("diff", id_, "--stat").stdout == "M a.txt\nA n1\nA n2\n"
    done = sessions("restore", id_, "--turn", "2", "--files")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 files restored; the conversation is unchanged" in done.stdout
    assert state_of(tmp_path / "work") == states[1]
    again = json.loads(sessions("restore", id_, "--redo", "--json").stdout)
    assert again["changed"] == 2
    assert state_of(tmp_path / "work") == states[2]
    sessions("restore", id_, "--turn", "1")
    assert state_of(tmp_path / "work") == states[0]
    assert "not in the conversation, files undone" in sessions("turns", id_).stdout


def test_what_cannot_be_restored_is_said_and_changes_nothing(sessions, tmp_path: Path):
    id_, _ = worked(tmp_path)
    (tmp_path / "work" / "a.txt").write_text("mine\n")
    there = state_of(tmp_path / "work")
    refused = sessions("restore", id_, "--turn", "1")
    assert refused.returncode == 1
    assert "'a.txt'" in refused.stderr
    assert state_of(tmp_path / "work") == there
    assert "no turn '9'" in sessions("restore", id_, "--turn", "9").stderr
    assert sessions("restore", id_).returncode == 2
    assert sessions("restore", "ses_nothing", "--turn", "1").returncode == 1
    forced = sessions("restore", id_, "--turn", "1", "--force")
    assert "overwritten" in forced.stdout


def test_a_session_that_is_open_elsewhere_is_not_taken_back(sessions, tmp_path: Path):
    id_, _ = worked(tmp_path)

    async def while_open() -> str:
        async with deck(tmp_path) as ship:
            await ship.agent.load(id_, options=ship.options)
            done = await asyncio.to_thread(sessions, "restore", id_, "--turn", "1")
            seen = await asyncio.to_thread(sessions, "diff", id_, "--stat")
            assert seen.stdout.startswith("M a.txt")
            return done.stderr

    assert "open in another process" in asyncio.run(while_open())


def test_pruning_deletes_what_files_were(run, sessions, tmp_path: Path):
    id_, _ = worked(tmp_path)
    kept = tmp_path / "home" / "state" / "checkpoints"
    assert (kept / id_).is_dir()
    done = run("journal", "prune", "--session", id_, QUARTERDECK_HOME=str(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    assert [path.name for path in kept.rglob("*")] == ["trees"]


def test_old_names_of_turn_commands_work_but_are_not_listed(run):
    assert "restore" not in run("sessions", "--help").stdout
    for command in ("turns", "diff", "restore"):
        assert run("sessions", command, "--help").returncode == 0
