"""Calls of other people's agents are looked up on the disk before they are decided."""

import os
from pathlib import Path

import pytest

from quarterdeck.drivers.verdicts import looked_up_call
from quarterdeck.policy import Allow, Ask, Sandbox, Surroundings, decide


@pytest.fixture
def work(tmp_path: Path) -> Path:
    real = Path(os.path.realpath(tmp_path)) / "work"
    real.mkdir()
    (real / "a.txt").write_text("a")
    (real / "link").symlink_to("/etc")
    return real


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.txt", Allow),
        (["bash", "-lc", "cat a.txt"], Allow),
        ("/bin/bash -lc 'cat a.txt | head -3'", Allow),
        ("cat link/passwd", Ask),
        (["cat", "link/passwd"], Ask),
        (["bash", "-lc", "cat link/passwd"], Ask),
        ("cat lin?/passwd", Ask),
        ("./cat a.txt", Ask),
    ],
)
def test_a_command_is_judged_by_what_it_finds(
    work: Path, command: str | list[str], expected: type[Allow | Ask]
):
    around = Surroundings(cwd=str(work), roots=(str(work),), home=str(work.parent))
    call = looked_up_call("shell", "execute", {"command": command}, around=around)
    assert isinstance(decide(call, "ask", sandbox=Sandbox(seals=True)), expected)


def test_a_program_of_the_workspace_is_not_the_known_one(
    work: Path, monkeypatch: pytest.MonkeyPatch
):
    fake = work / "cat"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{work}:/usr/bin:/bin")
    around = Surroundings(cwd=str(work), roots=(str(work),))
    call = looked_up_call("shell", "execute", {"command": "cat a.txt"}, around=around)
    assert isinstance(decide(call, "ask"), Ask)
