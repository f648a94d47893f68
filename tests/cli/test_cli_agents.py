import json
import os
from pathlib import Path

import pytest

from quarterdeck.cli.welcome import AT_A_GLANCE
from quarterdeck.drivers.catalogue import load_catalogue


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools"
    path.mkdir()
    return path


@pytest.fixture
def path(tools: Path) -> str:
    """For PATH: the fakes and what their shell needs, none of this machine's agents."""
    return f"{tools}:/usr/bin:/bin"


@pytest.fixture
def own(home: Path) -> Path:
    """The user's folder of agents, as the console script will see it."""
    folder = home / ".config/quarterdeck/agents"
    folder.mkdir(parents=True)
    return folder


def put(directory: Path, name: str, script: str) -> Path:
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def test_with_none_installed_the_table_says_how_to_get_each(run, path: str):
    done = run("agents", PATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    for agent in load_catalogue().agents.values():
        assert agent.title in rows[agent.name]
    assert "install: npm install -g @openai/codex" in rows["codex"]
    assert "(acp)" in rows["codex"] and "(pipe)" in rows["codex"]
    assert "(acp?)" in rows["amp"]
    assert "terminal only" in rows["aider"]


def test_what_is_there_comes_first_with_version_and_place(run, path: str, tools: Path):
    gemini = put(tools, "gemini", "echo 0.99.1")
    done = run("agents", PATH=path, GEMINI_API_KEY="hush")
    names = [line.split()[0] for line in done.stdout.splitlines()[1:] if line.strip()]
    assert sorted(names[:2]) == ["gemini", "native"]
    row = next(line for line in done.stdout.splitlines() if line.startswith("gemini"))
    for word in ("Gemini CLI", "0.99.1", "acp pipe", "yes", str(gemini)):
        assert word in row
    assert "hush" not in done.stdout


def test_only_what_is_installed_on_request(run, path: str, tools: Path):
    put(tools, "goose", "echo ' 1.34.0'")
    done = run("agents", "--installed", "--json", PATH=path)
    assert [agent["name"] for agent in json.loads(done.stdout)["agents"]] == ["goose", "native"]


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 200])
def test_the_width_of_the_terminal_is_kept(run, path: str, own: Path, columns: int):
    (own / "助手.toml").write_text(
        'title = "一个名字很长很长的助手一个名字很长很长的助手"\n'
        f'install = "{"x" * 300}"\n[transports.acp]\ncommand = ["no-such"]'
    )
    done = run("agents", PATH=path, COLUMNS=str(columns))
    assert done.returncode == 0
    for line in done.stdout.splitlines():
        wide = sum(2 if "\u2e80" <= char <= "\uffef" else 1 for char in line)
        assert wide <= columns, line


def test_foreign_text_is_shown_and_not_obeyed(run, path: str, own: Path, tools: Path):
    put(tools, "loud", "printf '\\033[31m6.6.6\\033[0m\\007'")
    (own / "loud.toml").write_text(
        'title = "\\u001b[31mred\\u001b[0m"\nversion = ["loud"]\n'
        'notes = ["[bold]not markup[/bold]\\u001b]0;title\\u0007"]\n'
        '[transports.acp]\ncommand = ["loud"]'
    )
    for arguments in (["agents"], ["agents", "loud"]):
        done = run(*arguments, PATH=path)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout and "\x07" not in done.stdout
        assert "6.6.6" in done.stdout
    assert "[bold]not markup[/bold]" in done.stdout


def test_one_agent_is_told_with_everything(run, path: str, tools: Path):
    put(tools, "claude", "echo '2.9.9 (Claude Code)'")
    text = run("agents", "claude-code", PATH=path).stdout
    for word in (
        *("Claude Code (claude) by Anthropic", "2.9.9", "proven with claude 2.1.325"),
        *("not found; install: npm install -g @agentclientprotocol/claude-agent-acp", "/login"),
        *("bypassPermissions", "Notes", "~/.claude/projects", "claude.toml"),
    ):
        assert word in text


def test_an_unknown_agent_is_an_error_that_suggests(run, path: str):
    done = run("agents", "codx", PATH=path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Did you mean 'codex'?" in done.stderr


def test_a_bad_file_is_told_and_harms_nothing(run, path: str, own: Path):
    (own / "broken.toml").write_text("titel = 'x'")
    done = run("agents", PATH=path)
    assert done.returncode == 0
    told = " ".join(done.stdout.split())
    assert f"Not used: {own / 'broken.toml'}: titel: no such field; did you mean 'title'?" in told
    problems = json.loads(run("agents", "--json", PATH=path).stdout)["problems"]
    assert [problem["agent"] for problem in problems] == ["broken"]
    asked = run("agents", "broken", PATH=path)
    assert asked.returncode == 1 and "titel" in asked.stderr


def test_the_json_has_the_form_that_is_promised(run, path: str, tools: Path):
    put(tools, "codex", "echo codex-cli 0.170.0")
    done = json.loads(run("agents", "codex", "--json", PATH=path).stdout)
    assert set(done) == {"format", "agents", "problems"} and done["format"] == 1
    (agent,) = done["agents"]
    page = (Path(__file__).parents[2] / "docs/agents.md").read_text()
    for key in agent:
        assert f"`{key}`" in page, f"{key} is not in docs/agents.md"
    acp, daemon, pipe, pty = agent["transports"]
    for key in acp:
        assert f"`{key}`" in page, f"{key} is not in docs/agents.md"
    assert (acp["name"], acp["path"], acp["tried"]) == ("acp", None, True)
    for one in (daemon, pipe):
        assert (one["version"], one["verified"]) == ("0.170.0", "codex 0.166.0")
    assert (pty["name"], pty["tried"], pty["linked"]) == ("pty", False, True)


def test_the_second_call_starts_nothing(run, path: str, tools: Path, home: Path):
    put(tools, "codex", "printf x >> $HOME/count; echo codex-cli 1.0.0")
    for _ in range(2):
        assert "1.0.0" in run("agents", PATH=path).stdout
    assert (home / "count").read_text() == "x"
    run("agents", "--refresh", PATH=path)
    assert (home / "count").read_text() == "xx"


def test_a_program_that_hangs_does_not_hold_the_table(run, path: str, tools: Path):
    put(tools, "codex", "exec sleep 600")
    put(tools, "gemini", "echo 1.0.0")
    done = run("agents", PATH=path)
    assert done.returncode == 0
    assert "did not answer within 3 s" in run("agents", "codex", PATH=path).stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("gemini"))
    assert "1.0.0" in row


def test_a_table_of_nothing_costs_little(run, path: str):
    before = os.times()
    run("agents", PATH=path)
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    assert used < 1.0, f"{used:.2f} s of CPU"


def test_the_welcome_knows_agents_by_the_names_of_their_files():
    titles = {agent.program: agent.title for agent in load_catalogue().agents.values()}
    assert AT_A_GLANCE.items() <= titles.items()


def test_doctor_looks_for_agents_of_the_users_own(run, path: str, own: Path, tools: Path):
    put(tools, "mine", "echo 7.7.7")
    (own / "mine.toml").write_text(
        'title = "Mine"\nversion = ["mine", "-V"]\n[transports.acp]\ncommand = ["mine"]'
    )
    (own / "bad.toml").write_text("nonsense")
    found = json.loads(run("doctor", "--json", PATH=path).stdout)["findings"]
    (mine,) = [finding for finding in found if finding["name"] == "Mine"]
    assert (mine["state"], mine["version"]) == ("found", "7.7.7")


def test_a_path_in_a_message_is_not_broken_at_its_hyphens(run, path: str, own: Path):
    file = own / f"{'a-' * 31}a.toml"
    file.write_text("titel = 'x'")
    assert str(file) in run("agents", PATH=path).stdout
