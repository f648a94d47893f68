import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest

from quarterdeck.cli.doctor import GIT, NODE, RIPGREP, ask_version, list_agent_programs


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory for PATH with git alone, and it a fake."""
    path = tmp_path / "tools"
    path.mkdir()
    put(path, "git", "echo git version 2.99.1")
    return path


def put(directory: Path, name: str, script: str) -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def findings(text: str) -> dict[str, dict[str, str | None]]:
    return {finding["name"]: finding for finding in json.loads(text)["findings"]}


def test_what_is_there_is_told_with_its_version_and_place(run, tools: Path):
    put(tools, "claude", "echo '9.8.7 (Claude Code)'")
    done = run("doctor", "--json", PATH=str(tools))
    found = findings(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ok"] is True
    assert found["git"]["version"] == "2.99.1"
    assert found["git"]["place"] == str(tools / "git")
    assert found["Claude Code"]["version"] == "9.8.7"
    assert found["Codex"]["state"] == "missing"
    assert found["Codex"]["advice"] == "npm install -g @openai/codex"
    assert found["Python"]["version"] == sys.version.split()[0]
    assert found["SQLite"]["state"] == "found"


def test_the_text_names_everything_and_has_no_colours(run, tools: Path):
    done = run("doctor", PATH=str(tools))
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    for program in (GIT, NODE, RIPGREP, *list_agent_programs()):
        assert program.name in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Ready. Agents found: 0 of")


def test_an_old_git_is_no_error_but_told(run, tools: Path):
    put(tools, "git", "echo git version 2.30.2")
    done = run("doctor", PATH=str(tools))
    assert done.returncode == 0
    assert "older than 2.38: conflicts between agents" in done.stdout


def test_something_required_that_is_missing_ends_with_one(run, tools: Path):
    (tools / "git").unlink()
    done = run("doctor", PATH=str(tools))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "Fix this first: git."
    assert json.loads(run("doctor", "--json", PATH=str(tools)).stdout)["ok"] is False


def test_broken_settings_are_told(run, tools: Path, work: Path):
    (work / ".quarterdeck").mkdir()
    (work / ".quarterdeck/config.toml").write_text("modle = 1")
    done = run("doctor", PATH=str(tools))
    assert done.returncode == 1
    assert "modle: unknown key" in done.stdout


def test_a_home_that_cannot_be_written_is_told(run, tools: Path):
    done = run("doctor", PATH=str(tools), HOME="/dev/null")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "Fix this first: state."


def test_looking_leaves_no_trace(run, tools: Path, environ: dict[str, str], work: Path):
    run("doctor", PATH=str(tools))
    assert not list(Path(environ["HOME"]).iterdir())
    assert not list(work.iterdir())


def test_programs_get_no_keys_no_input_and_no_project(run, tools: Path, tmp_path: Path):
    put(tools, "codex", f"(env; pwd; cat) > {tmp_path}/seen; echo 1.2.3")
    path = f"{tools}:{os.defpath}"
    run("doctor", PATH=path, ANTHROPIC_API_KEY="sk-1", OPENAI_BASE_URL="http://model")
    seen = (tmp_path / "seen").read_text().splitlines()
    names = {line.partition("=")[0] for line in seen}
    assert names <= {
        "PATH",
        "HOME",
        "LANG",
        "TERM",
        "NO_COLOR",
        "CI",
        "PWD",
        "_",
        "SHLVL",
        "/",
        "OLDPWD",
    }
    assert seen[-1] == "/"


def test_programs_that_hang_are_waited_for_together_and_ended(tmp_path: Path):
    """Ten of them take as long as one."""
    from concurrent.futures import ThreadPoolExecutor

    path = put(tmp_path, "slow", f"echo $$ >> {tmp_path}/pids; exec /bin/sleep 60")
    begin = time.monotonic()
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: ask_version(str(path), (), 1.5), range(10)))
    assert answers == [None] * 10
    assert time.monotonic() - begin < 8
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("echo v20.1.0", "20.1.0"),
        ("echo 'tool 1.2.3-rc1+abc (build)'", "1.2.3-rc1+abc"),
        ("echo nothing to say", None),
        ("exit 3", None),
        ("printf '\\377\\376 1.5'", "1.5"),
        ("while :; do echo flood; done", None),
        ("echo 1.0; exec /bin/sleep 60 >/dev/null", "1.0"),
    ],
)
def test_versions_are_read_from_all_kinds_of_answers(
    tmp_path: Path, script: str, version: str | None
):
    assert ask_version(str(put(tmp_path, "tool", script)), (), 10) == version


def test_what_cannot_be_started_has_no_version(tmp_path: Path):
    path = tmp_path / "broken"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    assert ask_version(str(path), (), 5) is None
