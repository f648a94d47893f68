"""Real terminals for tests: a program in tmux, or on a pseudo-terminal of our own."""

import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from quarterdeck.terminal.emulator import open_emulator

from .deadlines import SOON
from .leftovers import find_processes

__all__ = [
    "PROGRAM",
    "Pane",
    "Pty",
    "clean_environment",
    "needs_tmux",
    "pane",
    "pty_of",
    "soon",
    "stop_host",
]

PROGRAM = Path(sys.executable).with_name("quarterdeck")
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """No key, no agent, a home of its own; temporary files below it too."""
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return {
        "PATH": f"{PROGRAM.parent}:/usr/bin:/bin",
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "qd"),
        "TMPDIR": str(temporary),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    } | more


def soon(holds: Callable[[], object], seconds: float = SOON, what: str = "") -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"it did not happen in time: {what}"
        time.sleep(0.05)


class Pane:
    """A program in tmux."""

    def __init__(self, socket: Path, environment: Mapping[str, str]) -> None:
        self._socket = socket
        self.environment = dict(environment)

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words]
        done = subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return done.stdout

    def text(self) -> str:
        return self.tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def shows(self, words: str, seconds: float = SOON) -> None:
        try:
            soon(lambda: words in self.text(), seconds, words)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-x", str(width), "-y", str(height))


@contextmanager
def pane(
    home: Path,
    command: str,
    *,
    cwd: Path | None = None,
    size: tuple[int, int] = (80, 24),
    **more: str,
) -> Generator[Pane]:
    """Run a shell command in tmux; its host is stopped at the end."""
    environment = clean_environment(home, **more)
    found = Pane(home / "tmux", environment)
    width, height = map(str, size)
    try:
        words = ("new-session", "-d", "-x", width, "-y", height, "-c", str(cwd or home), command)
        found.tmux(*words)
        yield found
    finally:
        kill = ["tmux", "-S", str(home / "tmux"), "kill-server"]
        subprocess.run(kill, check=False, capture_output=True)
        stop_host(environment)


def stop_host(environment: Mapping[str, str]) -> None:
    """Stop the host, also one that is just about to start: who started it may be gone already."""
    home = Path(environment.get("QUARTERDECK_HOME", environment["HOME"]))

    def is_stopped() -> bool:
        subprocess.run(
            [PROGRAM, "host", "stop", "--force"],
            env=dict(environment),
            check=False,
            capture_output=True,
            timeout=SOON,
        )
        return not any(" host run " in command for command in find_processes([home]).values())

    soon(is_stopped, SOON, "the end of the host")


class Pty:
    """A program on a pseudo-terminal whose other end we keep."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int, slave: int) -> None:
        self.process = process
        self._master = master
        self._slave = slave
        self.before = termios.tcgetattr(slave)
        self.seen = bytearray()
        rows, columns, *_ = struct.unpack("HHHH", fcntl.ioctl(slave, termios.TIOCGWINSZ, b"\0" * 8))
        self._screen = open_emulator(columns, rows, scrollback=0)

    def shows(self, words: str, seconds: float = SOON) -> None:
        """Wait until some words were written, or stand there: only what changes is written."""
        try:
            soon(lambda: words.encode() in self.read() or words in self.text(), seconds, words)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None

    def text(self) -> str:
        """What is on the screen, of what was read."""
        return "\n".join(row.text for row in self._screen.rows())

    def read(self) -> bytes:
        with contextlib.suppress(BlockingIOError, OSError):
            while part := os.read(self._master, 65536):
                self.seen += part
                self._screen.feed(part)
        return bytes(self.seen)

    def write(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def kill(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def resize(self, width: int, height: int) -> None:
        """Change its size; who runs in it is told, as it has no terminal that controls it."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self._screen.resize(width, height)
        self.process.send_signal(signal.SIGWINCH)

    def ends(self, seconds: float = SOON) -> int:
        """Wait for the end while reading: who nobody reads cannot write its last words."""
        soon(lambda: (self.read(), self.process.poll() is not None)[1], seconds, "the end")
        self.read()
        return self.process.returncode

    def close(self) -> None:
        self._screen.close()

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was: settings, main screen, cursor."""
        shown = bytes(self.seen)
        return (
            termios.tcgetattr(self._slave) == self.before
            and shown.rfind(b"\x1b[?1049l") > shown.rfind(b"\x1b[?1049h")
            and shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l")
        )


@contextmanager
def pty_of(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    *,
    size: tuple[int, int] = (80, 24),
    cwd: Path | None = None,
) -> Generator[Pty]:
    """Run a program on a terminal of our own; its host is stopped at the end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    os.set_blocking(master, False)
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=dict(environment),
        cwd=cwd,
        start_new_session=True,
    )
    screen = Pty(process, master, slave)
    try:
        yield screen
    finally:
        process.kill()
        process.wait()
        screen.close()
        os.close(master)
        os.close(slave)
        stop_host(environment)
