"""Terminal emulators: what a second of output costs, and a screen as styled rows.

The streams are those of real agents, recorded, and plain coloured text. pyte and tmux are what
others use; each is left out, and counted, where it is not there.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from quarterdeck.drivers.screen import open_screen
from tests.support.screens import AGENTS, recorded

from .table import Row, show

COLUMNS, ROWS = 120, 40
PYTE = Path(__file__).parents[1] / "build" / "pyte" / "bin" / "python"
_PYTE = """
import sys, time, pyte
data = open(sys.argv[1], "rb").read()
stream = pyte.ByteStream(pyte.HistoryScreen(120, 40, history=1000))
begun = time.perf_counter()
stream.feed(data)
print(time.perf_counter() - begun)
"""


def stream(megabytes: float, *, agents_too: bool = True) -> bytes:
    agents = b"".join(recorded(agent).raw for agent in AGENTS) if agents_too else b""
    plain = b"".join(
        b"\x1b[3%dmline %d\x1b[0m of a long answer\r\n" % (n % 8, n) for n in range(9000)
    )
    once = agents + plain
    return once * max(1, round(megabytes * 1e6 / len(once)))


def run(quick: bool) -> None:
    data = stream(2 if quick else 10)
    rows: list[Row] = []
    ours = best(lambda: open_screen(COLUMNS, ROWS).feed(data))
    rows.append(Row("ours (libghostty-vt)", speed(data, ours)))
    other = best(lambda: open_screen(COLUMNS, ROWS, backend="avt").feed(data))
    rows.append(Row("ours (avt)", speed(data, other)))
    rows.append(against_pyte(stream(0.5 if quick else 1, agents_too=False)))
    rows.append(against_tmux(data, ours))
    rows += reading()
    show(f"Terminal emulators, {len(data) / 1e6:.1f} MB of agents' output", rows)


def best(job: Callable[[], object], rounds: int = 3) -> float:
    times: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        job()
        times.append(time.perf_counter() - begun)
    return min(times)


def speed(data: bytes, seconds: float) -> str:
    return f"{len(data) / 1e6 / seconds:.1f} MB/s"


def against_pyte(data: bytes) -> Row:
    """On coloured text alone: pyte raises on what today's agents draw."""
    ours = len(data) / best(lambda: open_screen(COLUMNS, ROWS).feed(data))
    python = str(PYTE) if PYTE.exists() else sys.executable
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        done = subprocess.run([python, "-c", _PYTE, file.name], capture_output=True, text=True)
    if done.returncode:
        return Row("pyte", "skipped: not installed, `python -m venv build/pyte`")
    theirs = len(data) / float(done.stdout)
    ratio = ours / theirs
    return Row(
        "pyte, coloured text", f"{theirs / 1e6:.2f} MB/s", f"{ratio:.0f}×", "≥ 30×", ratio >= 30
    )


def against_tmux(data: bytes, ours: float) -> Row:
    """tmux reads from a program, so writing is in its figure too."""
    if shutil.which("tmux") is None:
        return Row("tmux", "skipped: not installed")
    with tempfile.TemporaryDirectory() as place:
        file, socket = Path(place) / "data", Path(place) / "socket"
        file.write_bytes(data)
        command = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        done = f"cat {file}; tmux -S {socket} wait-for -S done; sleep 60"
        begun = time.perf_counter()
        subprocess.run([*command, "new-session", "-d", *size, done], check=True)
        try:
            subprocess.run([*command, "wait-for", "done"], check=True, timeout=120)
            seconds = time.perf_counter() - begun
        finally:
            subprocess.run([*command, "kill-server"], check=False)
    return Row("tmux, with its pipe", speed(data, seconds), f"{seconds / ours:.1f}×")


def reading() -> list[Row]:
    found: list[float] = []
    session = recorded("claude")
    screen = open_screen(COLUMNS, ROWS)
    for part in session.pieces():
        screen.feed(part)
        begun = time.perf_counter()
        screen.rows()
        found.append((time.perf_counter() - begun) * 1000)
    found.sort()
    middle, worst = found[len(found) // 2], found[int(len(found) * 0.99)]
    return [
        Row("120×40 as styled rows, median", f"{middle:.2f} ms", "", "≤ 2 ms", middle <= 2),
        Row("  the slowest of a hundred", f"{worst:.2f} ms"),
    ]
