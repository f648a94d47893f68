"""``quarterdeck ps`` and ``sessions`` say of which sessions records are lost."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from tests.support.agent_files import write_agent_files

SCRIPT = Path(sys.executable).with_name("quarterdeck")

Well = Callable[..., str]


@pytest.fixture
def places(home: Path) -> Places:
    places = Places.find({"QUARTERDECK_HOME": str(home / "quarterdeck")})
    write_agent_files(places.agents)
    return places


@pytest.fixture
def well(home: Path, places: Places, tmp_path: Path) -> Iterator[Well]:
    """Run a command that must end with a code, by default 0; its output."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "quarterdeck"),
        "LANG": "C.UTF-8",
    }

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [SCRIPT, *words],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    yield run
    subprocess.run([SCRIPT, "host", "stop"], env=environment, capture_output=True, timeout=50)


def flip(log: Path, words: bytes) -> None:
    """Change a byte of each record in which these words stand."""
    data = log.read_bytes()
    assert words in data
    log.write_bytes(data.replace(words, bytes((words[0] ^ 1,)) + words[1:]))


def about(lines: str, word: str) -> str:
    """The one line of a list that has this word."""
    (line,) = [line for line in lines.splitlines() if word in line]
    return line


def test_agents_of_the_host_that_lost_records_are_marked(well: Well, places: Places):
    for name in ("ann", "bob"):
        well("spawn", "-a", "fake-acp", "-n", name, "--wait", f"echo words of {name}")
    before = well("ps") + well("sessions")
    assert "damaged" not in before and "unreadable" not in before
    session = {one["name"]: one["session"] for one in json.loads(well("ps", "--json"))["agents"]}
    well("host", "stop")
    flip(places.journal_file, b"words of ann")
    well("journal", "check", code=1)
    shown = well("ps")
    marked = about(shown, "ann: ")
    assert "damaged: " in marked and "unreadable; quarterdeck journal check" in marked
    assert shown.count("damaged") == 1
    listed = well("sessions")
    assert "damaged: " in about(listed, session["ann"])
    assert "damaged" not in about(listed, session["bob"])


def test_sessions_without_a_host_that_lost_records_are_marked(well: Well, places: Places):
    ids = [
        json.loads(well("run", "-m", "scripted/default", "--format", "json", f"words of {name}"))[
            "session"
        ]
        for name in ("whole", "changed", "gone")
    ]
    whole, changed, gone = ids
    assert "damaged" not in well("sessions")
    logs = {path.stem: path for path in (places.state / "sessions").glob("*.db")}
    flip(logs[changed], b"words of changed")
    logs[gone].write_bytes(b"no log at all" * 1000)
    well("journal", "--file", str(logs[changed]), "check", code=1)
    listed = well("sessions")
    assert "damaged: " in about(listed, changed) and "unreadable" in about(listed, changed)
    assert "damaged" in about(listed, gone)
    assert "damaged" not in about(listed, whole)
    told = {
        one["id"]: one["damage"] for one in json.loads(well("sessions", "--json"))["standalone"]
    }
    assert told[whole] is None and "damaged" in told[changed] and "damaged" in told[gone]
