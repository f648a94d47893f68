"""``quarterdeck run --goal``: output, exit codes, budgets, going on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(sys.executable).with_name("quarterdeck")
STEP = '[[scenes.{name}.replies]]\nparts = [{{type = "call", call = "ls", arguments = {{}}}}]\n'
SAY = '[[scenes.{name}.replies]]\nparts = [{{type = "text", text = "{text}"}}]\n'
BASH = (
    '[[scenes.{name}.replies]]\nparts = [{{type = "call", call = "bash", '
    'arguments = {{command = "touch made"}}}}]\n'
)
DONE = (
    '[[scenes.{name}.replies]]\nparts = [{{type = "call", call = "goal_done", '
    'arguments = {{summary = "It works.", evidence = "ls"}}}}]\n'
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


def write(tmp_path: Path, **scenes: str) -> str:
    """A script with a scene for each word in the goal; gives the model's name."""
    text = ""
    for name, replies in scenes.items():
        text += f'[scenes.{name}]\nwhen = {{contains = "{name}"}}\n'
        text += replies.replace("{name}", name).replace("{{", "{").replace("}}", "}")
    path = tmp_path / "script.toml"
    path.write_text(text)
    return f"scripted/{path}"


def run(home: Path, project: Path, model: str, *arguments: str):
    return subprocess.run(
        [SCRIPT, "run", "-m", model, "-C", project, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "QUARTERDECK_HOME": str(home / "quarterdeck"),
            "LANG": "C.UTF-8",
        },
        timeout=60,
    )


def test_a_goal_that_is_reached_is_success(home: Path, project: Path, tmp_path: Path):
    said = SAY.replace("{text}", "All fine.")
    model = write(tmp_path, tidy=STEP + DONE + said)
    done = run(home, project, model, "--goal", "tidy up", "--format", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["text"] == "All fine."
    assert told["goal"]["how"] == "reached"
    assert (told["goal"]["summary"], told["goal"]["evidence"]) == ("It works.", "ls")
    assert told["goal"]["turns"] == 1
    text = run(home, project, model, "--goal", "tidy up")
    assert text.stdout == "All fine.\n"
    assert "the goal is reached" in text.stderr


def test_words_alone_do_not_reach_it(home: Path, project: Path, tmp_path: Path):
    model = write(tmp_path, talk=SAY.replace("{text}", "Hm."))
    done = run(home, project, model, "--goal", "talk", "--format", "stream-json")
    assert done.returncode == 6, done.stderr
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert events[0]["type"] == "goal_set"
    assert (events[-1]["type"], events[-1]["how"]) == ("goal_ended", "stuck")
    assert sum(event["type"] == "turn_ended" for event in events) == 3


def test_calls_that_nobody_could_allow_are_told_by_the_exit_code(
    home: Path, project: Path, tmp_path: Path
):
    said = SAY.replace("{text}", "Hm.")
    model = write(tmp_path, stuck=BASH + said, fine=BASH + DONE + said)
    done = run(home, project, model, "--goal", "stuck", "--format", "json")
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["goal"]["how"] == "stuck"
    limited = run(home, project, model, "--goal", "stuck", "--max-turns", "1", "--format", "json")
    assert limited.returncode == 4, limited.stderr
    assert json.loads(limited.stdout)["goal"]["how"] == "limit"
    reached = run(home, project, model, "--goal", "fine")
    assert reached.returncode == 0, reached.stderr
    assert not (project / "made").exists()


def test_a_budget_ends_it_and_it_can_be_taken_up(home: Path, project: Path, tmp_path: Path):
    working = write(tmp_path, mend=STEP + SAY.replace("{text}", "More to do."))
    done = run(home, project, working, "--goal", "mend", "--max-turns", "2", "--format", "json")
    assert done.returncode == 7, done.stderr
    told = json.loads(done.stdout)
    assert told["goal"]["reason"] == "the budget of 2 turns is spent"
    write(tmp_path, mend=DONE + SAY.replace("{text}", "Done."))
    again = run(home, project, working, "--goal", "--resume", told["session"], "--max-minutes", "5")
    assert again.returncode == 0, again.stderr
    assert again.stdout == "Done.\n"
    repeated = run(home, project, working, "--goal", "--resume", told["session"])
    assert repeated.returncode == 0, repeated.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--goal"], "--goal needs a text"),
        (["--goal", "x", "prompt"], "--goal replaces the prompt"),
        (["prompt", "--max-turns", "3"], "--max-turns needs --goal"),
        (["--goal", "x", "-a", "claude"], "--goal applies to our own agent only"),
    ],
)
def test_what_makes_no_sense_is_refused(
    home: Path, project: Path, arguments: list[str], reason: str
):
    done = run(home, project, "scripted/default", *arguments)
    assert done.returncode == 2
    assert reason in done.stderr


def test_going_on_without_a_goal_is_told(home: Path, project: Path):
    first = run(home, project, "scripted/default", "scene:text", "--format", "json")
    session = json.loads(first.stdout)["session"]
    done = run(home, project, "scripted/default", "--goal", "--resume", session)
    assert done.returncode == 1
    assert "has no goal to continue with" in done.stderr
