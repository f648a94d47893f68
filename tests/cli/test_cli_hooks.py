"""``quarterdeck hooks``, and commands and hooks in ``quarterdeck run``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quarterdeck.cli.root import root

SCRIPT = Path(sys.executable).with_name("quarterdeck")
HOOKS = """
[[hooks.before_tool]]
match = "bash(git push:*)"
command = ["sh", "-c", "echo not today >&2; exit 2"]
timeout = 5

[[hooks.turn_end]]
python = "nobody"
"""


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch):
    for name in tuple(os.environ):
        if name not in ("PATH", "HOME"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("QUARTERDECK_HOME", str(home / "quarterdeck"))

    def run(settings: str, *words: str) -> Result:
        (home / "quarterdeck").mkdir(exist_ok=True)
        (home / "quarterdeck" / "config.toml").write_text(settings)
        return CliRunner().invoke(root, ["hooks", *words, "-C", str(home)])

    return run


def test_hooks_are_listed_with_their_source(run):
    found = json.loads(run(HOOKS, "list", "--json").output)["hooks"]
    assert [hook["point"] for hook in found] == ["before_tool", "turn_end"]
    assert found[0]["match"] == "bash(git push:*)"
    assert all(hook["source"].endswith("config.toml") for hook in found)
    assert "git push" in run(HOOKS, "list").output
    assert "no hooks" in run("", "list").output


def test_a_point_can_be_tried(run):
    result = run(HOOKS, "test", "before_tool")
    assert result.exit_code == 0
    assert "refused: not today" in result.output
    failed = run(HOOKS, "test", "turn_end", "--json")
    assert failed.exit_code == 1
    assert "no installed package" in json.loads(failed.output)["problems"][0]
    assert run(HOOKS, "test", "prompt").output == "No answer.\n"


@pytest.mark.parametrize("facts", ["{", "[]"])
def test_wrong_facts_are_a_usage_error(run, facts: str):
    assert run(HOOKS, "test", "prompt", "--facts", facts).exit_code == 2


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("[[hooks.before_tool]]\ncomand = 'x'", "comand"),
        ("[hooks]\nbefore_tool = 3", "a list of tables"),
        ("[hooks]\nbefore_tool = ['x']", "expected a table"),
        ("[[hooks.before_toll]]\ncommand = 'x'", "before_tool"),
        ("[[hooks.prompt]]\ncommand = 'x'\ntimeout = 0", "above 0"),
    ],
)
def test_settings_that_are_wrong_name_file_and_key(run, wrong: str, problem: str):
    result = run(wrong, "list")
    assert result.exit_code != 0
    told = result.output + str(result.exception)
    assert problem in told


def headless(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "quarterdeck"),
    }
    (home / "work").mkdir(exist_ok=True)
    return subprocess.run(
        [SCRIPT, "run", "-m", "scripted/default", "-C", home / "work", *words],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )


def test_a_command_works_without_a_screen(home: Path):
    done = headless(home, "/compact")
    assert (done.returncode, done.stdout) == (0, "There is nothing to compact yet.\n")


def test_a_prompt_that_a_hook_refuses_leaves_with_3(home: Path):
    (home / "quarterdeck").mkdir()
    config = "[[hooks.prompt]]\ncommand = 'echo no secrets >&2; exit 2'"
    (home / "quarterdeck" / "config.toml").write_text(config)
    done = headless(home, "scene:text")
    assert done.returncode == 3
    assert "no secrets" in done.stderr
    assert done.stdout == ""
