"""``quarterdeck mcp-servers``: what is named, and whether it works."""

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quarterdeck.cli.root import root

GOOD = f"""
[mcp_servers.good]
command = "{sys.executable}"
args = ["-m", "quarterdeck.testing.mcp_server", "schemas"]
env = {{ MINE = "${{MINE_TOKEN}}" }}
without = ["h*"]
"""
BROKEN = f"""
[mcp_servers.broken]
command = "{sys.executable}"
args = ["-m", "quarterdeck.testing.mcp_server", "broken"]
"""


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch):
    place = home / "quarterdeck"
    place.mkdir()
    for name in tuple(os.environ):
        if name not in ("PATH", "HOME"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("QUARTERDECK_HOME", str(place))
    monkeypatch.setenv("MINE_TOKEN", "the-secret-value")

    def run(settings: str, *words: str) -> Result:
        (place / "config.toml").write_text(settings)
        return CliRunner().invoke(root, ["mcp-servers", *words, "-C", str(home)])

    return run


def test_servers_are_listed_without_their_secrets(run):
    result = run(GOOD + BROKEN, "list")
    assert result.exit_code == 0
    assert "good" in result.output and "config.toml" in result.output
    (good, _) = sorted(
        json.loads(run(GOOD + BROKEN, "list", "--format", "json").output)["servers"],
        key=lambda server: server["name"] != "good",
    )
    assert good["variables"] == ["MINE"] and good["transport"] == "stdio"
    assert "the-secret-value" not in result.output + json.dumps(good)


def test_a_server_that_works_tells_its_tools_and_their_cost(run):
    told = json.loads(run(GOOD, "test", "good", "--json").output)
    (server,) = told["servers"]
    assert server["works"] and server["version"] == "2025-11-25"
    names = {tool["name"] for tool in server["tools"]}
    assert "echo" in names and "huge" not in names
    assert server["tokens"] == sum(tool["tokens"] for tool in server["tools"]) > 0
    assert any("'text'" in problem for problem in server["problems"])
    text = run(GOOD, "test").output
    assert "good: works (hostile 1, protocol 2025-11-25)" in text and "mcp__good__echo" in text


def test_a_server_that_does_not_work_shows_its_last_words_and_fails(run):
    result = run(GOOD + BROKEN, "test", "broken")
    assert result.exit_code == 1
    assert "exit code 3; its output: cannot start" in result.output
    assert "secret-value" not in result.output


def test_a_server_of_no_such_name_is_a_mistake(run):
    result = run(GOOD, "test", "god")
    assert result.exit_code == 2 and "available: good" in result.output


def test_a_variable_that_is_missing_is_named(run):
    result = run(
        '[mcp_servers.web]\nurl = "http://127.0.0.1:1/"\nheaders.A = "${NOT_THERE}"', "test"
    )
    assert result.exit_code == 1 and "NOT_THERE is not set" in result.output
