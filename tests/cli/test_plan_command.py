"""``quarterdeck plan``: files are checked and drawn."""

import json
from pathlib import Path

from tests.cli.conftest import Run

GOOD = '[tasks.fix]\nagent = "codex"\nprompt = "x"\n'


def test_a_plan_is_checked(run: Run, work: Path):
    (work / "work.toml").write_text(GOOD)
    done = run("plan", "check", "work.toml")
    assert (done.returncode, done.stdout) == (0, "work: 1 task, no problems\n")
    assert json.loads(run("plan", "check", "work.toml", "--json").stdout)["ok"] is True
    (work / "work.toml").write_text(GOOD + 'needs = ["a"]\nx = 1\n')
    bad = run("plan", "check", "work.toml")
    assert bad.returncode == 2 and bad.stderr == "quarterdeck: 2 problems\n"
    assert [line.split(": ")[:2] for line in bad.stdout.splitlines()] == [
        ["work.toml:4", "tasks.fix.needs.1"],
        ["work.toml:5", "tasks.fix.x"],
    ]
    shown = json.loads(run("plan", "check", "work.toml", "--json").stdout)
    assert [one["line"] for one in shown["problems"]] == [4, 5]
    missing = run("plan", "check", "nothing.toml")
    assert missing.returncode == 1 and "no such file" in missing.stderr


def test_a_plan_is_drawn(run: Run, work: Path):
    (work / "work.toml").write_text(GOOD.replace('"x"', '"{{inputs.a}}"') + "[inputs.a]\n")
    assert "└─ fix  codex" in run("plan", "show", "work.toml").stdout
    assert "`- fix  codex" in run("plan", "show", "work.toml", LC_ALL="C").stdout
    assert "`- fix  codex" in run("plan", "show", "work.toml", "--ascii").stdout
    shown = json.loads(run("plan", "show", "work.toml", "--json").stdout)
    assert shown["tasks"][0]["contenders"] == ["codex"]
    assert "NAME=VALUE" in run("plan", "show", "work.toml", "-i", "a").stderr
    (work / "work.toml").write_text("[tasks]\n")
    assert run("plan", "show", "work.toml").returncode == 1


def test_the_schema_is_printed(run: Run):
    assert "tasks" in json.loads(run("plan", "schema").stdout)["$defs"]["PlanFields"]["properties"]
