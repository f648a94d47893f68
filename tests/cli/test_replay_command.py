"""``quarterdeck replay``: a session of ``run`` is checked, and asked what other rules would do."""

import json
from pathlib import Path

import pytest

SCRIPT = """
version = 1
play = "sequence"
[[scenes.all.replies]]
parts = [{ call = "bash", arguments = { command = "echo ebb" } }]
[[scenes.all.replies]]
parts = [{ text = "It says ebb." }]
"""


@pytest.fixture
def session(run, work: Path, home: Path) -> str:
    """A session that ``run`` recorded; its id."""
    (work / "script.toml").write_text(SCRIPT)
    done = run("run", "-m", "scripted/script.toml", "--allow", "bash(echo:*)", "say ebb")
    assert done.returncode == 0, done.stderr
    (log,) = home.rglob("ses_*.db")
    return log.stem


def test_a_session_is_checked_and_the_exit_code_tells(run, work: Path, home: Path, session: str):
    done = run("replay", session, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 steps" in done.stdout and "no difference" in done.stdout

    exported = run("journal", "export", "--session", session, "-o", "s.jsonl")
    assert exported.returncode == 0, exported.stderr
    assert run("replay", "s.jsonl", "--check").returncode == 0

    (work / "prompt.txt").write_text("Speak Latin.")
    done = run("replay", session, "--check", "--system-prompt", "prompt.txt")
    assert done.returncode == 3
    assert "1. turn 1, step 1: system prompt" in done.stdout

    done = run("replay", session, "--rules", "deny bash(echo:*)", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (found,) = report["divergences"]
    assert (report["same"], found["kind"], found["turn"], found["step"]) == (
        False,
        "decision",
        1,
        1,
    )


def test_a_film_is_written_as_text_asciicast_and_page(run, work: Path, session: str):
    shown = run("replay", session)
    assert shown.returncode == 0, shown.stderr
    assert "say ebb" in shown.stdout and "It says ebb." in shown.stdout

    assert run("replay", session, "--format", "asciicast", "-o", "f.cast").returncode == 0
    header, *events = map(json.loads, (work / "f.cast").read_text().splitlines())
    assert header["version"] == 2
    assert [kind for _, kind, _ in events] == ["o"] * len(events)
    times = [time for time, _, _ in events]
    assert times == sorted(times)
    assert "It says ebb." in "".join(text for _, _, text in events)
    assert (work / "f.cast").stat().st_mode & 0o077 == 0

    page = run("replay", session, "--format", "html").stdout
    assert "It says ebb." in page and "http" not in page.replace("http-equiv", "")


def test_wrong_input_is_refused_by_its_reason(run, work: Path, session: str):
    assert "choose what to write" in run("replay", session, "-o", "x").stderr
    none = run("replay", "ses_00000000000000000000000000", "--check")
    assert none.returncode == 1 and "there is no session" in none.stderr
    assert "neither a file nor a rule" in run("replay", session, "--rules", "x").stderr
    assert "expected" in run("replay", session, "--rules", "deny bash(").stderr
    assert "mode" in run("replay", session, "--mode", "wild").stderr
    (work / "empty.jsonl").write_text("")
    assert "no beginning of a session" in run("replay", "empty.jsonl", "--check").stderr
    (work / "bad.jsonl").write_text("{]\n")
    assert "not a record" in run("replay", "bad.jsonl", "--check").stderr
    (work / "rules.toml").write_text("[permissions]\nallow = 3")
    assert run("replay", session, "--rules", "rules.toml").returncode == 2
