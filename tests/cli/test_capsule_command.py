"""``quarterdeck capsule``: export, show, verify and import between two homes, as people use it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.capsules import Machine, files_below, short_session

SECRET = "sk-abcdefghijklmnop1234"


@pytest.fixture
def session(home: Path) -> str:
    """A session of our own agent, in a directory that is there."""
    machine = Machine(home)
    lab = home / "lab"
    lab.mkdir()
    entries = short_session(str(lab), f"use {SECRET}", "and on")
    machine.record(entries)
    return entries[0][0]


@pytest.fixture
def run_there(run, home: Path):
    """The same command on another machine."""

    def run_in(*arguments: str):
        other = home / "other"
        return run(*arguments, HOME=str(other), QUARTERDECK_HOME=str(other / "quarterdeck"))

    yield run_in
    run_in("host", "stop")  # lists of sessions start one


@pytest.fixture
def environ(environ: dict[str, str], home: Path) -> dict[str, str]:
    return environ | {"QUARTERDECK_HOME": str(home / "quarterdeck")}


def test_a_session_moves_to_another_home(run, run_there, work: Path, session: str):
    done = run("capsule", "export", session, "-o", "c.capsule")
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 session, 10 events" in done.stderr and "Masked: 2 places" in done.stderr
    file = work / "c.capsule"
    assert file.stat().st_mode & 0o077 == 0 and SECRET.encode() not in file.read_bytes()

    shown = run_there("capsule", "show", "c.capsule")
    assert shown.returncode == 0
    assert session in shown.stdout and "Signature: not signed" in shown.stdout
    places = run_there("capsule", "show", "--masked", "c.capsule").stdout.splitlines()
    assert places[0] == f"events of {session}: record 2 /event/content/0/text"

    good = run_there("capsule", "verify", "c.capsule")
    assert (good.returncode, good.stdout.splitlines()[1]) == (0, "Signature: not signed")

    taken = run_there("capsule", "import", "c.capsule")
    assert taken.returncode == 0, taken.stderr
    assert f"Continue: quarterdeck run --resume {session} PROMPT" in taken.stdout
    assert "Signature: not signed" in taken.stdout
    assert session in run_there("sessions").stdout
    text = run_there("journal", "export", "--session", session, "--format", "markdown").stdout
    assert "and on" in text
    again = run_there("capsule", "import", "c.capsule")
    assert (again.returncode, "was taken in before" in again.stdout) == (0, True)


def test_a_capsule_goes_through_a_pipe_and_secrets_stay_on_request(
    run, work: Path, environ: dict[str, str], session: str
):
    script = Path(sys.executable).parent / "quarterdeck"
    with (work / "c").open("wb") as file:
        words = [str(script), "capsule", "export", session, "--with-secrets"]
        done = subprocess.run(words, cwd=work, env=environ, stdout=file, stderr=subprocess.PIPE)
    assert (done.returncode, b"Secrets are not masked." in done.stderr) == (0, True)
    report = json.loads(run("capsule", "show", "--json", "c").stdout)
    assert report["manifest"]["is_masked"] is False


def test_a_session_continues_with_our_own_agent_elsewhere(run, run_there, home: Path, session: str):
    run("capsule", "export", session, "-o", "c")
    moved = home / "moved"
    moved.mkdir()
    taken = run_there("capsule", "import", "c", "--directory", str(moved), "--json")
    report = json.loads(taken.stdout)["import"]["sessions"][0]
    assert (report["cwd"], report["continues"]) == (str(moved), "native")
    words = ("-m", "scripted/default", "-C", str(moved))
    done = run_there("run", "--resume", session, *words, "scene:text")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    text = run_there("journal", "export", "--session", session, "--format", "markdown").stdout
    assert "and on" in text and "scene:text" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("export", "nobody", "-o", "x"), "there is no session 'nobody'"),
        (("import", "bad"), "the capsule is refused (not a capsule)"),
        (("verify", "bad"), "the capsule is refused (not a capsule)"),
        (("show", "bad"), "the capsule is refused (not a capsule)"),
        (("import", "missing"), "does not exist"),
        (("import", "bad", "--prompt", "x"), "--prompt needs --to"),
        (("export",), "Missing argument 'SESSION...'"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    run, work: Path, home: Path, arguments: tuple[str, ...], words: str
):
    (work / "bad").write_text("no capsule")
    before = files_below(home)
    done = run("capsule", *arguments)
    assert done.returncode != 0 and words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (work / "x").exists() and not list(work.glob(".*part"))
    assert {one for one in files_below(home) - before if not one.endswith("lock")} == set()


def test_an_output_that_cannot_be_written_is_said(run, session: str):
    done = run("capsule", "export", session, "-o", "missing/c")
    assert done.returncode == 2
    assert re.search(r"cannot write in 'missing': No such file", done.stderr)
