"""A program on a pseudo-terminal: what it draws, when, and what that costs."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

__all__ = ["HOME", "Screen", "on_terminal", "open_first_agent"]

HOME = "Start with"
"""Our home screen shows this, which is there when the host is."""
_NEXT_AGENT = "\x0e"

_PAGE = os.sysconf("SC_PAGE_SIZE")
_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]")


class Screen:
    """What a program has written to its terminal, read as it comes.

    No screen is kept: a word is on the screen when it was written in one piece, which is how all
    programs here draw a line.
    """

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.begun = time.perf_counter()
        self._master = master
        self._written = bytearray()
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def press(self, keys: str) -> float:
        """Type; returns the moment."""
        os.write(self._master, keys.encode())
        return time.perf_counter()

    def mark(self) -> int:
        """How much has been written so far; for ``wait_for``."""
        with self._more:
            return len(self._written)

    def wait_for(self, *words: str, after: int = 0, seconds: float = 60.0) -> float:
        """The moment at which one of these is drawn."""
        wanted = [one.encode() for one in words]
        deadline = time.perf_counter() + seconds
        with self._more:
            while not _has_any(_ESCAPES.sub(b"", self._written[after:]), wanted):
                left = deadline - time.perf_counter()
                if left <= 0 or self.process.poll() is not None:
                    tail = _ESCAPES.sub(b"", self._written[-3000:]).decode("utf-8", "replace")
                    named = " or ".join(map(repr, words))
                    raise RuntimeError(f"{named} was not drawn in {seconds:.0f} s: {tail}")
                self._more.wait(min(left, 0.5))
        return time.perf_counter()

    def text(self, after: int = 0) -> str:
        """What was written, without escapes."""
        with self._more:
            return _ESCAPES.sub(b"", self._written[after:]).decode("utf-8", "replace")

    def cpu(self) -> float:
        """CPU seconds of the program itself so far."""
        # The kernel's clock of another process, as clock_getcpuclockid(3) names it: nanoseconds,
        # where /proc has ticks of ten milliseconds.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def memory(self) -> int:
        """Bytes resident."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE

    def share(self, seconds: float) -> float:
        """CPU over some time, as a part of a core."""
        cpu, begun = self.cpu(), time.perf_counter()
        time.sleep(seconds)
        return (self.cpu() - cpu) / (time.perf_counter() - begun)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(self._master, 1 << 16):
                with self._more:
                    self._written += chunk
                    self._more.notify_all()


@contextlib.contextmanager
def on_terminal(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    size: tuple[int, int] = (120, 40),
) -> Iterator[Screen]:
    """Run a program on a terminal of its own; it and its group are killed at the end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Screen(process, master)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


def open_first_agent(screen: Screen, words: str) -> None:
    """Wait until our workbench shows the first agent, which has said these words.

    Where no agent is at work, the home screen comes first; older commits have none.
    """
    screen.wait_for(words, HOME)
    if words not in screen.text():
        screen.press(_NEXT_AGENT)
        screen.wait_for(words)


def _has_any(written: bytes, wanted: Sequence[bytes]) -> bool:
    return any(words in written for words in wanted)
