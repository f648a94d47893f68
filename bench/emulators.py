"""Terminal emulators: what a second of output costs, and a screen as styled rows.

The streams are those of real agents, recorded, and plain coloured text. pyte and tmux are what
others use; each is left out, and counted, where it is not there.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from quarterdeck.terminal.emulator import open_emulator
from tests.support.recorded_terminals import AGENTS, recorded

from .size import Size
from .table import Row, Table

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


def stream(megabytes: float, *, agents_too: bool = True, lines: int = 9000) -> bytes:
    agents = b"".join(recorded(agent).raw for agent in AGENTS) if agents_too else b""
    plain = b"".join(
        b"\x1b[3%dmline %d\x1b[0m of a long answer\r\n" % (n % 8, n) for n in range(lines)
    )
    once = agents + plain
    return once * max(1, round(megabytes * 1e6 / len(once)))


def run(size: Size) -> Iterator[Table]:
    data = stream(size.choose(10, 2, 0), lines=size.choose(9000, 9000, 100))
    rows: list[Row] = []
    ours = best(lambda: open_emulator(COLUMNS, ROWS).feed(data))
    rows.append(Row("ours (libghostty-vt)", speed(data, ours)))
    other = best(lambda: open_emulator(COLUMNS, ROWS, backend="avt").feed(data))
    rows.append(Row("ours (avt)", speed(data, other)))
    text = stream(size.choose(1, 0.5, 0), agents_too=False, lines=size.choose(9000, 9000, 100))
    rows.append(against_pyte(text))
    rows.append(against_tmux(data, ours))
    rows += reading(size.choose(100, 100, 3))
    yield Table(f"Terminal emulators, {len(data) / 1e6:.1f} MB of agents' output", rows)


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
    ours = len(data) / best(lambda: open_emulator(COLUMNS, ROWS).feed(data))
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


def reading(rounds: int) -> list[Row]:
    """Styled rows after each kind of change, in CPU time: other things share the machine."""
    kinds: list[tuple[str, Callable[[int], bytes], float | None]] = [
        ("nothing changed", lambda _: b"", 2),
        ("one row changed", lambda n: b"\x1b[7;1H\x1b[32mstep %d\x1b[m" % n, 2),
        ("all rows, plain", lambda n: screenful(n, lambda _column, _row: b""), 2),
        ("all rows, each cell of its own style", lambda n: screenful(n, _indexed(n)), 2),
        ("all rows, colours never seen before", lambda n: screenful(n, _true(n)), None),
    ]
    rows: list[Row] = []
    for name, drawn, goal in kinds:
        middle, slowest = timed(drawn, rounds)
        told = f"≤ {goal} ms" if goal else ""
        good = middle <= goal if goal else None
        rows.append(Row(f"120×40 as styled rows: {name}", f"{middle:.2f} ms", "", told, good))
        rows.append(Row("  the slowest of a hundred", f"{slowest:.2f} ms"))
    session, screen, found = recorded("claude"), open_emulator(COLUMNS, ROWS), list[float]()
    for part in session.pieces():
        screen.feed(part)
        found.append(cpu(screen.rows))
    found.sort()
    middle, slowest = found[len(found) // 2], found[int(len(found) * 0.99)]
    rows.append(Row("  as an agent draws", f"{middle:.2f} ms", "", "≤ 2 ms", middle <= 2))
    return [*rows, Row("  the slowest of a hundred", f"{slowest:.2f} ms")]


def timed(drawn: Callable[[int], bytes], rounds: int) -> tuple[float, float]:
    """The middle and the slowest of so many rounds, in milliseconds."""
    screen = open_emulator(COLUMNS, ROWS)
    found: list[float] = []
    for number in range(10 + rounds):
        screen.feed(drawn(number))
        found.append(cpu(screen.rows))
    found = sorted(found[10:])
    return found[rounds // 2], found[-1]


def cpu(job: Callable[[], object]) -> float:
    begun = time.thread_time()
    job()
    return (time.thread_time() - begun) * 1000


def screenful(number: int, style: Callable[[int, int], bytes]) -> bytes:
    rows = (
        b"".join(
            style(column, row) + b"%c" % (65 + (column + row * 3 + number * 5) % 26)
            for column in range(COLUMNS)
        )
        for row in range(ROWS)
    )
    return b"\x1b[H" + b"\r\n".join(rows)


def _indexed(number: int) -> Callable[[int, int], bytes]:
    # No row is one that was there before, a row further down.
    return lambda column, row: b"\x1b[38;5;%dm" % ((column + row * 3 + number * 7) % 256)


def _true(number: int) -> Callable[[int, int], bytes]:
    return lambda column, row: b"\x1b[38;2;%d;%d;%dm" % (number, column, row)
