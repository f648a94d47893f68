"""A day with a terminal in the workbench: on a real terminal, with a real host."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.real_terminals import PROGRAM, Pane, needs_tmux, pane, soon, stop_host

pytestmark = [needs_tmux, pytest.mark.timeout(90)]
RUN = f"{PROGRAM}; echo left with $?; exec {PROGRAM}"


def settle() -> None:
    """Let a key that changes what keys mean be taken."""
    time.sleep(0.4)


def opened(screen: Pane) -> None:
    screen.shows("Agents here")
    screen.press("/terminal", "Enter")
    screen.shows("ctrl+\\ stop typing")
    screen.press("PS1='ready$ '", "Enter")
    screen.shows("ready$ ")


def test_a_shell_outlives_the_workbench_with_all_that_it_showed(tmp_path: Path):
    with pane(tmp_path, RUN, size=(100, 30), SHELL="/bin/sh") as screen:
        opened(screen)
        screen.press("kept=yes; for n in $(seq 1 80); do echo 行 $n; done", "Enter")
        screen.shows("行 80")
        screen.press("M-.", "C-u", "stty size", "Enter")
        screen.shows("28 49")
        screen.resize(120, 36)
        settle()
        screen.press("stty size", "Enter")
        screen.shows("34 59")
        screen.press("C-\\")
        settle()
        screen.press("C-q")
        screen.shows("left with 0")
        screen.shows("ctrl+\\ stop typing")  # the next workbench, at the same place
        screen.shows("34 59")
        screen.press("echo still $kept", "Enter")
        screen.shows("still yes")
        screen.press("C-\\")
        settle()
        screen.press("Home")
        screen.shows("行 1")
        assert all(len(line) <= 120 for line in screen.text().splitlines())


@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")
def test_an_editor_gets_every_key(tmp_path: Path):
    file = tmp_path / "text"
    with pane(tmp_path, RUN, size=(100, 30), SHELL="/bin/sh") as screen:
        opened(screen)
        screen.press(f"vim -u NONE -N {file}", "Enter")
        screen.shows("[New]")
        screen.press("i", "你好 tab", "Tab", "C-v", "C-q", "C-v", "C-\\", "C-\\", "Escape")
        settle()
        screen.press(":wq", "Enter")
        soon(file.exists)
        screen.shows("ready$")
        assert file.read_bytes() == "你好 tab\t\x11\x1c\n".encode()
        screen.press("exit 3", "Enter")
        screen.shows("exit code 3")


def test_a_terminal_that_went_with_its_host_is_started_again_only_by_a_key(tmp_path: Path):
    with pane(tmp_path, RUN, size=(100, 30), SHELL="/bin/sh") as screen:
        opened(screen)
        stop_host(screen.environment)
        screen.shows("disconnected, waiting for the host")
        screen.press("C-\\")
        settle()
        screen.press("F4")
        settle()
        screen.press("/host", "Enter")
        screen.shows("this terminal no longer exists")
        assert "ready$" in screen.text()  # what was seen last stays
        screen.press("F4")
        settle()
        screen.press("r")
        screen.shows("ctrl+\\ stop typing")
        screen.press("echo anew", "Enter")
        screen.shows("anew")


def test_the_live_screen_of_an_agent_is_seen_in_its_chat(tmp_path: Path):
    agents = tmp_path / "qd" / "agents"
    agents.mkdir(parents=True)
    command = json.dumps([sys.executable, "-m", "quarterdeck.testing.tui"])
    (agents / "fake.toml").write_text(
        f'title = "Fake"\n[transports.pty]\ncommand = {command}\ndialect = "fake"\n'
    )
    with pane(tmp_path, RUN, size=(80, 24)) as screen:
        screen.shows("Agents here")
        subprocess.run(
            [PROGRAM, "spawn", "-n", "ann", "-a", "fake", "--transport=pty", "echo good morning"],
            env=screen.environment, cwd=tmp_path, check=True, capture_output=True, timeout=40,
        )  # fmt: skip
        screen.shows("ann ○ idle", 40)
        screen.press("/screen ", "Enter")
        screen.shows("live terminal")
        screen.shows("good morning")
        screen.press("/screen ", "Enter")
        soon(lambda: "live terminal" not in screen.text())
        screen.shows("good morning")
