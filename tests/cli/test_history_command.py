"""``quarterdeck history``: what other agents keep on disk, in a plain terminal."""

import json
from pathlib import Path

import pytest

from tests.support.history_homes import (
    CLAUDE,
    CODEX,
    OPENCODE,
    claude_lines,
    recorded_home,
    write_lines,
)


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


def test_a_terminal_gets_ids_as_long_as_they_must_be(past, environ: dict[str, str], lab: Path):
    environ["COLUMNS"] = "80"
    lines = past("-C", str(lab)).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert CLAUDE[:8] in "".join(lines) and CLAUDE not in "".join(lines)
    environ["COLUMNS"] = "50"
    assert past("-C", str(lab)).splitlines()[0].split() == ["AGENT", "SESSION", "CHANGED", "TITLE"]
    environ["COLUMNS"] = "20"
    lines = past("-C", str(lab)).splitlines()
    assert lines[0].split()[0] == "AGENT" and all(len(line) <= 20 for line in lines)


def test_the_beginning_of_an_id_means_one_of_this_directory(
    past, environ: dict[str, str], lab: Path
):
    slug = "".join(letter if letter.isalnum() else "-" for letter in str(lab))
    projects = Path(environ["HOME"]) / ".claude/projects"
    write_lines(projects / slug / "same-1.jsonl", claude_lines("here", cwd=str(lab)))
    write_lines(projects / "-other" / "same-2.jsonl", claude_lines("there", cwd="/other"))
    assert "> here\n" in past("-C", str(lab), "same")
    assert "same-2" in past("--all", "same", code=1)
    assert "> there\n" in past("-C", str(lab), "same-2")


def test_a_directory_below_names_the_one_above(past, lab: Path):
    below = lab / "a b" / "c"
    below.mkdir(parents=True)
    assert f"5 of {lab} above it: quarterdeck history -C {lab}\n" in past("-C", str(below))


def test_nothing_at_all_says_so(run, environ: dict[str, str], tmp_path: Path):
    environ["HOME"] = str(tmp_path / "empty")
    assert run("history").stdout.startswith("No sessions of other agents are on disk")


def test_a_session_is_told_with_what_it_took(past):
    lines = past(CODEX).splitlines()
    assert lines[0].startswith(f"= codex {CODEX}, in ") and "scene:shell run it" in lines[0]
    assert lines[-1] == "= 3 prompts, 49k tokens in, 69 out"


def test_no_escape_sequence_reaches_the_terminal(past, environ: dict[str, str], lab: Path):
    slug = "".join(letter if letter.isalnum() else "-" for letter in str(lab))
    evil = "\x1b[2J\x9b31m\u202eabc\x07"
    file = Path(environ["HOME"]) / ".claude/projects" / slug / f"evil{evil}.jsonl"
    write_lines(file, claude_lines(evil, cwd=str(lab)))
    for words in (("-C", str(lab)), ("-C", str(lab), "evil"), ("-C", str(lab), "-s", "abc")):
        told = past(*words)
        assert "\\x1b[2J" in told and not set(evil) & set(told) - set("[2J31mabc")


def test_a_reader_that_goes_away_is_no_error(run, environ: dict[str, str], past):
    import subprocess
    import sys

    made = f"{Path(sys.executable).with_name('quarterdeck')} history --all | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", made], env=environ, capture_output=True, text=True
    )
    assert done.stdout.startswith("AGENT") and done.stderr == ""


def test_words_are_found(past):
    none = past("--all", "--search", "nowhere-to-be-found")
    assert none == "In none of 5 sessions do all these words occur.\n"
    lines = past("--all", "--search", "sky blue").splitlines()
    assert lines == [f"claude {CLAUDE}: scene:think why is the sky blue?"]
    assert json.loads(past("--all", "--json", "-s", "nowhere")) == {"hits": [], "failures": {}}
