"""Record what programs draw, with what other emulators make of it, for ``tests/drivers/screen``.

``python -m tools.record_programs vim less …`` runs each in a terminal of ours and writes
``tests/fixtures/programs/<name>.bin.gz``; ``python -m tools.record_programs --judge`` has tmux and
pyte draw all of them and writes ``<name>.json``: the grid, and who agreed to it. The grid is that
of tmux; where ours is another, it says so and a person has to look, and to write ``why`` into the
file, before it is stored: ``--judge`` keeps what people wrote.
"""

import asyncio
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from quarterdeck.system.api import CommandSpec
from quarterdeck.terminal.emulator import open_emulator
from quarterdeck.terminal.headless_terminal import HeadlessTerminal
from quarterdeck.terminal.viewer_events import TerminalResized, TerminalWritten
from tests.support.recorded_programs import FOLDER, PROGRAMS, program, runs_of

from .judges import Judged, by_pyte, by_tmux, ours

SIZE = (80, 24)
STYLED_ROWS = 12

CODE = "\n".join(
    f"def number_{n}(value: int) -> str:\n    # what it is, in words\n"
    f"    return f'{{value}} is {n}'  # TODO\n"
    for n in range(30)
)
SCRIPTS = Path(__file__).parent / "drawing"


async def vim(terminal: HeadlessTerminal, place: Path) -> None:
    await typed(terminal, ":syntax on\r", ":set number hlsearch\r", "/number\r", ":split\r")
    await typed(terminal, "\x06", "10dd", "oneu text 你好 and é\x1b", "Vjj", "\x1b", ":vsplit\r")
    await typed(terminal, "G", "\x17w", "ggdd", "iinserted\x1b", ":set list\r", "xxx", "u")


async def less(terminal: HeadlessTerminal, place: Path) -> None:
    await typed(terminal, " ", "/line 4\r", "n", "jjj", "kk", "g", "G", "-N\r", "b", "h")
    await typed(terminal, "q", "\x1b)", "\x1b(")


async def htop(terminal: HeadlessTerminal, place: Path) -> None:
    await asyncio.sleep(2)
    await typed(terminal, "t", "\x1b[B", "\x1bOQ", "\x1b[C", "\x1b[B", "\x1b")
    await asyncio.sleep(2)


async def textual(terminal: HeadlessTerminal, place: Path) -> None:
    await asyncio.sleep(3)
    await typed(terminal, "\t", "\x1b[B", "\x1b[B", "\r", "\t", "hello 你好", "\x1b[A")
    await asyncio.sleep(1)


async def nothing(terminal: HeadlessTerminal, place: Path) -> None:
    await asyncio.sleep(0.5)


async def storm(terminal: HeadlessTerminal, place: Path) -> None:
    await typed(terminal, ":set number\r")
    for step in range(12):
        terminal.resize(40 + step * 37 % 60, 8 + step * 11 % 30)
        await asyncio.sleep(0.15)
        await typed(terminal, "\x04" if step % 2 else "j", pause=0.05)
    terminal.resize(72, 20)
    await asyncio.sleep(0.8)
    await typed(terminal, "gg", ":set nowrap\r", "\x0c")


async def typed(terminal: HeadlessTerminal, *keys: str, pause: float = 0.25) -> None:
    for key in keys:
        await terminal.write(key.encode())
        await asyncio.sleep(pause)


PYTHON = sys.executable
PRINTED = ["echo", "printed text"]
TEXTUAL = [PYTHON, "-c", "import textual; print('textual', textual.__version__)"]
RUNS: dict[
    str, tuple[list[str], list[str], Callable[[HeadlessTerminal, Path], Awaitable[None]]]
] = {
    "vim": (["vim", "--clean", "code.py"], ["vim", "--version"], vim),
    "less": (["less", "-R", "colours.txt"], ["less", "--version"], less),
    "htop": (["sh", "-c", "sleep 60 & exec htop -p $!"], ["htop", "--version"], htop),
    "textual": ([PYTHON, str(SCRIPTS / "table.py")], TEXTUAL, textual),
    "unicode": ([PYTHON, str(SCRIPTS / "characters.py")], PRINTED, nothing),
    "joined": ([PYTHON, str(SCRIPTS / "joined.py")], PRINTED, nothing),
    "colours": ([PYTHON, str(SCRIPTS / "colours.py")], PRINTED, nothing),
    "storm": (["vim", "--clean", "code.py"], ["vim", "--version"], storm),
}
"""What is run, what tells its version, and what is typed."""


async def record(name: str) -> None:
    """Run one program and write down what it draws."""
    argv, asks, play = RUNS[name]
    done = await asyncio.to_thread(subprocess.run, asks, capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "code.py").write_text(CODE)
        lines = (f"line {n} \x1b[3{n % 8}mcoloured\x1b[0m {'long ' * (n % 30)}" for n in range(200))
        (place / "colours.txt").write_text("\n".join(lines))
        env = {"HOME": folder, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        terminal = await HeadlessTerminal.start(
            CommandSpec(argv=argv, cwd=folder, env=env), size=SIZE
        )
        raw, resizes = bytearray(), list[Any]()
        following = asyncio.create_task(_follow(terminal, raw, resizes))
        try:
            await asyncio.sleep(0.7)
            await play(terminal, place)
            end = len(raw)
        finally:
            await terminal.close()
            await following
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.bin.gz").write_bytes(gzip.compress(bytes(raw[:end]), mtime=0))
    meta: dict[str, Any] = {"program": done.stdout.splitlines()[0], "size": SIZE}
    meta["resizes"] = [one for one in resizes if one["at"] <= end]
    (FOLDER / f"{name}.json").write_text(json.dumps(meta))
    print(name, end, "bytes")


async def _follow(terminal: HeadlessTerminal, raw: bytearray, resizes: list[Any]) -> None:
    async for seen in terminal.follow():
        if isinstance(seen, TerminalWritten):
            raw += seen.data
        elif isinstance(seen, TerminalResized):
            resizes.append({"at": len(raw), "size": [seen.columns, seen.rows]})


def judge(name: str) -> None:
    """Have others draw a recording, and write the grid down."""
    file = FOLDER / f"{name}.json"
    meta = json.loads(file.read_text())
    recorded = program(name, meta)
    steps, size = recorded.steps, recorded.size
    screen = open_emulator(*size)
    for step in steps:
        if isinstance(step, bytes):
            screen.feed(step)
        else:
            screen.resize(*step)
    mine, tmux, pyte = ours(screen), by_tmux(steps, size), by_pyte(steps, size)
    judges = meta.setdefault("judges", {})
    judges["tmux 3.3a"] = _verdict(mine, tmux, styles=True)
    judges["pyte 0.8.2"] = _verdict(mine, pyte, styles=False)
    grid = tmux if tmux is not None and not meta.get("why") else mine
    meta["rows"], meta["cursor"] = grid.texts, grid.cursor
    styled = [n for n, row in enumerate(grid.rows) if len({looks for _, looks in row}) > 1]
    meta["styles"] = {n: runs_of(grid.rows[n]) for n in styled[:STYLED_ROWS]}
    file.write_text(json.dumps(meta, indent=1, ensure_ascii=False) + "\n")
    print(name, json.dumps(judges, ensure_ascii=False))


def _verdict(mine: Judged, other: Judged | None, *, styles: bool) -> Any:
    if other is None:
        return "gave up"
    different: dict[str, Any] = {}
    if mine.cursor != other.cursor:
        different["cursor"] = [mine.cursor, other.cursor]
    for row, (one, two) in enumerate(zip(mine.texts, other.texts, strict=True)):
        if one != two:
            different[f"row {row}"] = [one, two]
        elif styles and mine.rows[row] != other.rows[row]:
            different[f"looks of row {row}"] = [runs_of(mine.rows[row]), runs_of(other.rows[row])]
    return different or ("agrees, styles too" if styles else "agrees")


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    if "--judge" in sys.argv:
        for name in names or PROGRAMS:
            judge(name)
    else:
        for name in names or RUNS:
            asyncio.run(record(name))
