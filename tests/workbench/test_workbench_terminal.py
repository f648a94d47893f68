"""The workbench on a real terminal: one journey in tmux, and a terminal that goes away."""

import contextlib
import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.deadlines import SOON
from tests.support.real_terminals import stop_host

PROGRAM = Path(sys.executable).with_name("quarterdeck")
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "qd"),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@needs_tmux
def test_a_journey_in_tmux_at_80_by_24(tmp_path: Path):
    socket = str(tmp_path / "tmux")

    def tmux(*words: str) -> str:
        command = ["tmux", "-S", socket, "-f", "/dev/null", *words]
        done = subprocess.run(
            command,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return done.stdout

    def shows(words: str) -> Callable[[], bool]:
        return lambda: words in tmux("capture-pane", "-p")

    try:
        run = f"{PROGRAM}; echo left with $?; sleep 60"
        tmux("new-session", "-d", "-x", "80", "-y", "24", "-c", str(tmp_path), run)
        wait_for(shows("Agents here"))
        spawn = [PROGRAM, "spawn", "-m", "scripted/default", "say hello"]
        subprocess.run(
            spawn,
            env=environment(tmp_path),
            cwd=tmp_path,
            check=True,
            capture_output=True,
            timeout=20,
        )
        wait_for(shows("You said: say hello"))
        tmux("send-keys", "and again", "Enter")
        wait_for(shows("You said: and again"))
        tmux("send-keys", "a draft")
        wait_for(shows("❯ a draft"))
        tmux("send-keys", "C-q")
        wait_for(shows("left with 0"))
        listed = subprocess.run(
            [PROGRAM, "ps"], env=environment(tmp_path), capture_output=True, text=True, timeout=20
        )
        assert "idle" in listed.stdout  # it lives on
        tmux("respawn-pane", "-k", "-c", str(tmp_path), str(PROGRAM))
        wait_for(shows("❯ a draft"))
    finally:
        subprocess.run(["tmux", "-S", socket, "kill-server"], check=False, capture_output=True)
        stop_host(environment(tmp_path))


def test_a_terminal_that_goes_away_ends_the_workbench_and_not_the_host(tmp_path: Path):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [PROGRAM], stdin=slave, stdout=slave, stderr=slave, env=environment(tmp_path)
    )
    try:
        os.close(slave)
        os.set_blocking(master, False)
        seen = bytearray()

        def drawn() -> bool:
            with contextlib.suppress(BlockingIOError):
                seen.extend(os.read(master, 65536))
            return b"Get started" in seen

        wait_for(drawn)
        os.close(master)
        assert process.wait(SOON) != 0
        listed = subprocess.run(
            [PROGRAM, "host", "status"], env=environment(tmp_path), capture_output=True, timeout=20
        )
        assert listed.returncode == 0
    finally:
        process.kill()
        process.wait()
        stop_host(environment(tmp_path))
