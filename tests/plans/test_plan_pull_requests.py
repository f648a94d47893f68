"""Plans whose work ends in a pull request, which a fake ``gh`` opens."""

import json
from pathlib import Path

import pytest

from quarterdeck.fleet.landing.pull_request import check_pull_request
from quarterdeck.plans.errors import InvalidPlanError
from quarterdeck.plans.plan import load_plan
from tests.plans.conftest import PlanWorld, wait_until
from tests.support.landing_cases import tip_of
from tests.support.work_trees import git, new_repository

TOKEN = "ghp_notarealtokenjustlettersandmore"
GH = """#!/bin/sh
echo "$*" >> "$GH_CALLS"
case "$1 $2 $4" in
"pr create bad") echo "$GH_TOKEN is not valid for this repository" >&2; exit 4;;
"pr create "*)
  if mkdir "$GH_CALLS.made" 2>/dev/null; then
    cat > "$GH_CALLS.body"
    until [ -e "$GH_CALLS.go" ]; do sleep 0.05; done
    echo https://example.org/pull/7
  else
    echo 'a pull request for this branch already exists' >&2; exit 1
  fi;;
"pr list "*) [ "$6" = bad ] && echo '[]' || echo '[{"url": "https://example.org/pull/7"}]';;
esac
"""
PLAN = """agent = "codex"
[tasks.good]
prompt = "$ echo work > ☃.txt"
end = "pull request"
[tasks.bad]
prompt = "$ echo work > w.txt"
end = "pull request"
into = "bad"
[tasks.none]
prompt = "$ true"
end = "pull request"
"""


def install_gh(folder: Path) -> Path:
    folder.mkdir()
    (folder / "gh").write_text(GH)
    (folder / "gh").chmod(0o755)
    return folder


def test_work_ends_in_one_pull_request_whenever_the_runner_is_killed(
    world: PlanWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("COLUMNS", raising=False)  # nothing is cut
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    git(world.work, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(world.work, "branch", "bad")
    calls = tmp_path / "calls"
    programs = install_gh(tmp_path / "programs")
    world.environ |= {
        "PATH": f"{programs}:{world.environ['PATH']}",
        "GH_CALLS": str(calls),
        "GH_TOKEN": TOKEN,
    }
    monkeypatch.setenv("PATH", world.environ["PATH"])
    world.write(PLAN)
    shown = world.run("plan", "show", "work.toml").stdout
    assert "good  codex · pull request\n" in shown and "pull request for bad" in shown
    child = world.start("plan", "run", "work.toml", "--json")
    made = tmp_path / "calls.body"
    wait_until(lambda: made.exists() and bool(made.read_text()), child)
    child.kill()  # it was opened, and the runner does not know
    child.communicate()
    (tmp_path / "calls.go").touch()
    child = world.start("plan", "resume", "work", "--json")
    out = world.finish(child)
    assert child.returncode == 5, out
    tasks = {one["key"]: one for one in json.loads(out)["tasks"]}
    states = {key: (one["state"], one["pull_request"]) for key, one in tasks.items()}
    assert states == {
        "good": ("done", "https://example.org/pull/7"),
        "bad": ("failed", ""),
        "none": ("done", "nothing was changed, so there is no pull request"),
    }
    assert tasks["bad"]["text"].startswith("no pull request: `gh pr create` failed (exit code 4)")
    (branch,) = git(tmp_path / "remote.git", "branch", "--list", "*good*").split()
    pushed = tip_of(tmp_path / "remote.git", branch)
    assert git(world.work, "cat-file", "blob", f"{pushed}:☃.txt") == "work\n"
    lines = calls.read_text().splitlines()
    assert sum("pr create" in line and branch in line for line in lines) == 2
    # The token came to gh by its environment, and is nowhere else.
    kept = world.progress_of("work").parent
    texts = [path.read_bytes() for path in kept.iterdir()]
    assert TOKEN not in out and not [text for text in texts if TOKEN.encode() in text]
    assert TOKEN not in calls.read_text()
    table = world.run("plan", "status", "work").stdout
    assert "https://example.org/pull/7" in table


def test_a_pull_request_that_cannot_be_opened_is_found_by_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    top = new_repository(tmp_path / "project", {"a.txt": "a\n"})
    file = top / "work.toml"

    def find_problems(more: str = "") -> list[str]:
        text = f'agent = "codex"\n[tasks.a]\nprompt = "p"\nend = "pull request"\n{more}\n'
        file.write_text(text)
        try:
            load_plan(file, None, check_pull_request)
        except InvalidPlanError as error:
            return [f"{one.line} {one.key}: {one.message}" for one in error.problems]
        return []

    programs = tmp_path / "programs"
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    (problem,) = find_problems()
    assert problem.startswith("4 tasks.a.end: ") and "git remote add" in problem
    git(top, "remote", "add", "fork", "https://gitlab.example.org/x")
    monkeypatch.setenv("PATH", str(programs))
    (problem,) = find_problems()
    assert problem.startswith("4 tasks.a.end: ") and "git is not installed" in problem
    install_gh(programs)
    (programs / "git").symlink_to("/usr/bin/git")
    assert find_problems() == find_problems('remote = "fork"\ninto = "main"') == []
    (programs / "gh").unlink()
    (problem,) = find_problems()
    assert "neither gh nor glab" in problem
    (problem,) = find_problems('remote = "origin"')
    assert problem.startswith("5 tasks.a.remote: there is no remote 'origin'")
    found = find_problems('worktree = false\ncheckout = true\nremote = "fork"')
    assert any("only work in a worktree can be in a pull request" in one for one in found)
    assert any(one == '6 tasks.a.checkout: only counts with end = "land"' for one in found)
    file.write_text('agent = "codex"\n[tasks.a]\nprompt = "p"\nremote = "x"\n')
    with pytest.raises(InvalidPlanError, match='only counts with end = "pull request"'):
        load_plan(file)
    nowhere = tmp_path / "nowhere" / "work.toml"
    nowhere.parent.mkdir()
    nowhere.write_text('agent = "codex"\n[tasks.a]\nprompt = "p"\nend = "pull request"\n')
    with pytest.raises(InvalidPlanError, match="needs a git repository"):
        load_plan(nowhere, None, check_pull_request)
