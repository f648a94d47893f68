"""A day with worktrees on a real terminal: two agents are started by the form, meet in one
function, are reviewed, and both land.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_terminals import PROGRAM, Pane, needs_tmux, pane, soon
from tests.support.work_trees import git, new_repository

pytestmark = [needs_tmux, pytest.mark.timeout(180)]

SETTINGS = '[worktrees]\nkeep_days = 0\n[landing]\nmethod = "merge"\n'
BEFORE = '''"""When the water is high."""

DAY = 24 * 60


def rise(minutes):
    return DAY - minutes


def low(minutes):
    return rise(minutes) + 6 * 60


def describe(minutes):
    """In words, for people on the beach."""
    hours = minutes // 60
    return f"in {hours} hours"
'''
TIDE = 'def rise(minutes):\n    """Minutes until high water."""\n    return 745 - minutes % 745\n'
NAMED = "TIDE = 12 * 60 + 25\n\n\n" + TIDE.replace("745", "TIDE")
OLD = "def rise(minutes):\n    return DAY - minutes\n"
CHECKED = "    if minutes < 0:\n        raise ValueError(minutes)\n    return"
GUARD = OLD.replace("    return", CHECKED)
BOTH = NAMED.replace("    return", CHECKED)
WORDS = '    hours = minutes // 60\n    return f"in {hours} hours"\n'
MORE_WORDS = '    hours, rest = divmod(minutes, 60)\n    return f"in {hours} h {rest} min"\n'


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"parts": [{"tool": tool, "arguments": arguments}]}


def edit(old: str, new: str) -> dict[str, Any]:
    return call("edit", path="tides.py", old=old, new=new)


def say(text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}]}


def scripted(folder: Path) -> str:
    """A model for both agents: each prompt of the journey has its scene."""
    keep = "git add -A && git commit -qm"
    merge = f"{keep} 'Refuse less than 0'; git merge -q main; git checkout --theirs tides.py"
    scenes = {
        "review": {
            "when": {"contains": "what is 745"},
            "replies": [call("read", path="tides.py"), edit(TIDE, NAMED), say("NAMED IT")],
        },
        "conflict": {
            "when": {"contains": "could not be landed"},
            "replies": [
                call("shell", command=merge),
                call("read", path="tides.py"),
                edit(NAMED, BOTH),
                call("shell", command=f"{keep} 'Merge main'"),
                say("RESOLVED IT"),
            ],
        },
        "ann": {
            "when": {"contains": "half a day"},
            "replies": [
                call("read", path="tides.py"),
                edit(OLD, TIDE),
                edit(WORDS, MORE_WORDS),
                call("write", path="NOTES.md", content="Tides come twice a day.\n"),
                say("ANN IS DONE"),
            ],
        },
        "bob": {
            "when": {"contains": "negative"},
            "replies": [call("read", path="tides.py"), edit(OLD, GUARD), say("BOB IS DONE")],
        },
    }
    file = folder / "script.json"
    file.write_text(json.dumps({"default": "ann", "scenes": scenes}))
    return f"scripted/{file}"


def ours(screen: Pane, cwd: Path, *words: str) -> str:
    done = subprocess.run(
        [PROGRAM, *words],
        env=screen.environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def spawn_by_form(screen: Pane, name: str, task: str, model: str) -> None:
    """Fill in the form as a person does: tab from field to field, arrows to choose."""
    screen.press("C-t")
    screen.shows("start an agent")
    screen.shows("as the settings say")
    screen.press(task)
    screen.shows(task)
    for hint, text in (
        ("any name that the agent takes", model),
        ("what it may do without asking", "full-auto"),
        ("where it works", ""),
        ("how you call it", name),
        ("how much the model thinks", ""),
        ("one that exists", "new"),
    ):
        screen.press("Tab")
        screen.shows(hint)  # what is typed goes to the field that has the focus by now
        if text:
            screen.press(text)
            screen.shows(text[-20:])
    screen.press("Tab")
    screen.shows("that the new worktree starts from")
    screen.press("C-s")
    soon(lambda: "start an agent" not in screen.text(), what=screen.text())


def command(screen: Pane, words: str) -> None:
    screen.press(words, "Enter")


def review_ann(screen: Pane, project: Path) -> None:
    """Comment on a line, see the new version, accept the hunk that nobody asked about."""
    command(screen, "/review ann tides.py")
    screen.shows("review ann → main")
    screen.shows("745 - minutes % 745")
    screen.press("j")
    screen.shows("a accept hunk")
    for _ in range(6):
        screen.press("Down")
    screen.press("c")
    screen.shows("comment on line 8")
    screen.press("Name it: what is 745?", "Enter")
    screen.shows("not sent")
    screen.press("s")
    screen.shows("+8 −3")  # the whole of the new version, whichever way the page came by it
    screen.press("r")
    screen.shows("TIDE - minutes % TIDE")
    soon(lambda: "newer version" not in screen.text(), what=screen.text())
    screen.shows("the lines have changed since")
    screen.press("C")
    screen.shows("enter go there")
    screen.press("Enter")
    screen.shows("R resolve")
    screen.press("R")
    soon(lambda: "what is 745" not in screen.text(), what=screen.text())
    screen.press("End")
    screen.press("a")
    screen.shows("accepted")
    (ann,) = [one for one in worktrees(screen, project) if one["name"] == "ann"]
    staged = git(Path(ann["worktree"]["path"]), "diff", "--cached")
    assert "divmod" in staged and "TIDE" not in staged
    screen.press("Escape")
    screen.shows("BOB IS DONE")


def land_both(screen: Pane, project: Path) -> None:
    """In the proposed order: the second conflicts, is handed back, resolved, and lands."""
    command(screen, "/conflicts")
    screen.shows("landing order")
    screen.press("L")
    screen.shows("land 2 agents")
    screen.shows("update those in")
    screen.shows("ctrl+s land")
    screen.press("C-s")
    screen.shows("esc close ─")
    screen.shows("1. ann  ✓ landed on main")
    screen.shows("2. bob  ✗ conflicts: tides.py; the agent was asked to resolve it")
    assert (project / "tides.py").read_text() == landed_by_ann()
    screen.press("Escape")
    soon(lambda: "land 2 agents" not in screen.text(), what=screen.text())
    screen.press("Escape")
    screen.shows("RESOLVED IT")
    command(screen, "/land bob")
    screen.shows("─ land ─")
    screen.shows("update those in")
    screen.shows("ctrl+s land")
    screen.press("C-s")
    screen.shows("1. bob  ✓ landed on main")
    screen.press("Escape")
    soon(lambda: "✓ landed on main" not in screen.text(), what=screen.text())
    assert BOTH in (project / "tides.py").read_text()
    assert git(project, "status", "--porcelain") == ""


def test_two_agents_meet_in_a_function_and_both_land(tmp_path: Path):
    project = new_repository(tmp_path / "tides", {"tides.py": BEFORE})
    git(project, "config", "user.name", "Bob")
    git(project, "config", "user.email", "bob@example.org")
    model = scripted(tmp_path)
    (tmp_path / "qd").mkdir()
    (tmp_path / "qd" / "config.toml").write_text(SETTINGS)
    run = f"{PROGRAM}; echo left with $?; sleep 60"
    with pane(tmp_path, run, cwd=project, size=(120, 40)) as screen:
        screen.shows("Agents here")
        spawn_by_form(screen, "ann", "Tides come each half a day", model)
        screen.shows("ANN IS DONE")
        spawn_by_form(screen, "bob", "Refuse negative minutes", model)
        screen.shows("BOB IS DONE")
        screen.shows("⚠ ann")
        assert git(project, "status", "--porcelain") == ""
        review_ann(screen, project)
        land_both(screen, project)
        for name in ("bob", "ann"):
            screen.shows(f"{name} ○ idle")
            command(screen, "/kill")
            screen.shows(f"{name} ⊘ stopped")
            screen.press("C-b")
        soon(lambda: not worktrees(screen, project))
        assert git(project, "branch", "--format=%(refname:short)") == "main\n"  # all is on it
        subjects = git(project, "log", "--first-parent", "--format=%s").splitlines()
        assert subjects == ["Refuse negative minutes", "Tides come each half a day", "first"]


def landed_by_ann() -> str:
    return BEFORE.replace(OLD, NAMED).replace(WORDS, MORE_WORDS)


def worktrees(screen: Pane, cwd: Path) -> list[dict[str, Any]]:
    return json.loads(ours(screen, cwd, "worktrees", "--json"))["worktrees"]
