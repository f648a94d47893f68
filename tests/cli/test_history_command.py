"""``quarterdeck history``: what other agents keep on disk, in a plain terminal."""

import json
from pathlib import Path

import pytest

from tests.support.pasts import CLAUDE, CODEX, OPENCODE, recorded_home


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    folder = tmp_path / "lab"
    folder.mkdir()
    return folder


@pytest.fixture
def past(run, environ: dict[str, str], tmp_path: Path, lab: Path):
    """Run ``history`` in a home with the recorded sessions; its output."""
    environ["HOME"] = str(recorded_home(tmp_path / "agents", str(lab)))

    def run_history(*arguments: str, code: int = 0) -> str:
        result = run("history", *arguments)
        assert result.returncode == code, result.stderr
        return result.stdout if code == 0 else result.stderr

    return run_history


def test_sessions_of_a_directory_are_listed(past, lab: Path):
    lines = past("-C", str(lab)).splitlines()
    assert lines[0].split() == ["AGENT", "SESSION", "CHANGED", "SIZE", "TITLE"]
    assert len(lines) == 6
    told = json.loads(past("-C", str(lab), "--agent", "opencode", "--json"))
    (one,) = told["sessions"]
    assert (one["id"], one["cwd"], told["failures"]) == (OPENCODE, str(lab), {})


def test_those_of_others_only_on_demand(past, tmp_path: Path):
    assert "No sessions" in past("-C", str(tmp_path))
    lines = past("-C", str(tmp_path), "--all").splitlines()
    assert len(lines) == 6 and "DIRECTORY" in lines[0]
    assert len(past("--all", "-n", "2").splitlines()) == 3


def test_one_is_shown_by_the_beginning_of_its_id(past):
    shown = past(CLAUDE[:8])
    assert "> scene:shell run it\nRunning a command.\n" in shown
    lines = [json.loads(line) for line in past("--json", CODEX).splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[1]["event"]["type"] == "prompted"
    assert "no session" in past("nothing", code=1)


def test_words_are_found(past):
    lines = past("--all", "--search", "sky blue").splitlines()
    assert lines == [f"claude {CLAUDE}: scene:think why is the sky blue?"]
    assert json.loads(past("--all", "--json", "-s", "nowhere")) == {"hits": []}
