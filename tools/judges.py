"""Other terminal emulators as judges of ours: what tmux and pyte make of the same bytes.

A judged screen is a list of rows; a row a list of characters with how they look, blanks at its end
left out. ``None`` is a judge that is not there, or gave up.
"""

import base64
import json
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quarterdeck.terminal.emulator import Emulator
from tests.support.recorded_programs import Step, looks_of, without_end

__all__ = ["Judged", "by_pyte", "by_tmux", "ours"]

PYTE = Path(__file__).parents[1] / "build" / "pyte" / "bin" / "python"
_SGR = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x1b]*\x1b\\|\x0e|\x0f")
_FLAGS = {1: "bold", 3: "italic", 4: "underline", 7: "inverse"}
_OFF = {22: "bold", 23: "italic", 24: "underline", 27: "inverse"}
_LINES = dict(zip(map(chr, range(0x60, 0x7F)), "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))

Looks = tuple[Any, ...]


@dataclass
class Judged:
    """What a screen shows."""

    rows: list[list[tuple[str, Looks]]]
    cursor: tuple[int, int]
    texts: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [without_end(row) for row in self.rows]
        self.texts = ["".join(text for text, _ in row).rstrip(" ") for row in self.rows]


def ours(screen: Emulator) -> Judged:
    """What ours shows, in the same words."""
    cursor = (screen.cursor.column, screen.cursor.row)
    return Judged([looks_of(row) for row in screen.rows()], cursor)


def by_tmux(steps: list[Step], size: tuple[int, int], seconds: float = 0.6) -> Judged | None:
    """What tmux shows."""
    with tempfile.TemporaryDirectory() as place:
        pipe = Path(place) / "pipe"
        tmux = ["tmux", "-S", f"{place}/socket", "-f", "/dev/null"]
        run = f"mkfifo {pipe}; stty raw -echo; exec cat {pipe}; sleep 60"
        wide = ["-x", str(size[0]), "-y", str(size[1])]
        subprocess.run([*tmux, "new-session", "-d", *wide, f"sh -c '{run}'"], check=True)
        subprocess.run([*tmux, "set", "-g", "status", "off"], check=True)
        subprocess.run([*tmux, "set", "-g", "remain-on-exit", "on"], check=True)
        try:
            subprocess.run([*tmux, "resize-window", *wide], check=True)
            while not pipe.exists():
                time.sleep(0.05)
            time.sleep(0.3)
            with pipe.open("wb", buffering=0) as file:
                for step in steps:
                    if isinstance(step, bytes):
                        file.write(step)
                    else:
                        new = ["-x", str(step[0]), "-y", str(step[1])]
                        time.sleep(0.15)
                        subprocess.run([*tmux, "resize-window", *new], check=True)
                        time.sleep(0.15)
                time.sleep(seconds)
                shown = _told(tmux, "capture-pane", "-p", "-e", "-N")
                at = _told(tmux, "display-message", "-p", "#{cursor_x} #{cursor_y}").split()
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)
    _, rows = next((one for one in reversed(steps) if not isinstance(one, bytes)), size)
    lines = shown.removesuffix("\n").split("\n")
    return Judged(_read([*lines, *[""] * (rows - len(lines))]), (int(at[0]), int(at[1])))


def _told(tmux: list[str], *words: str) -> str:
    return subprocess.run([*tmux, *words], check=True, capture_output=True, text=True).stdout


def _read(lines: list[str]) -> list[list[tuple[str, Looks]]]:
    """Lines with styles, which go on from line to line."""
    pen: dict[str, Any] = {}
    rows: list[list[tuple[str, Looks]]] = []
    drawing = False
    for line in lines:
        row: list[tuple[str, Looks]] = []
        at = 0
        for found in [*_SGR.finditer(line), None]:
            text = line[at : found.start() if found else len(line)]
            names = [name for name in _FLAGS.values() if pen.get(name)]
            looks = (pen.get("foreground"), pen.get("background"), *names)
            row += [(_LINES.get(one, one) if drawing else one, looks) for one in text]
            if found is not None:
                at = found.end()
                drawing = found[0] == "\x0e" if found[0] in "\x0e\x0f" else drawing
                if found[1] is not None:
                    _set(pen, found[1])
        rows.append(row)
    return rows


def _set(pen: dict[str, Any], numbers: str) -> None:
    values = [int(one or 0) for one in re.split("[;:]", numbers)]
    while values:
        number = values.pop(0)
        if number == 0:
            pen.clear()
        elif number in _FLAGS:
            pen[_FLAGS[number]] = True
        elif number in _OFF:
            pen.pop(_OFF[number], None)
        elif number in (39, 49):
            pen.pop("foreground" if number == 39 else "background", None)
        elif number in (38, 48):
            name = "foreground" if number == 38 else "background"
            if values.pop(0) == 5:
                pen[name] = values.pop(0)
            else:
                pen[name] = (values.pop(0), values.pop(0), values.pop(0))
        elif 30 <= number < 48:
            pen["foreground" if number < 38 else "background"] = number % 10
        elif 90 <= number < 108:
            pen["foreground" if number < 98 else "background"] = number % 10 + 8


_PYTE = """
import json, sys, base64, pyte
size, steps = json.loads(sys.stdin.read())
screen = pyte.Screen(*size)
stream = pyte.ByteStream(screen)
for step in steps:
    if isinstance(step, str): stream.feed(base64.b64decode(step))
    else: screen.resize(step[1], step[0])
print(json.dumps([[line.rstrip() for line in screen.display], [screen.cursor.x, screen.cursor.y]]))
"""


def by_pyte(steps: list[Step], size: tuple[int, int]) -> Judged | None:
    """What pyte shows, without styles."""
    if not PYTE.exists():
        return None
    told = [base64.b64encode(one).decode() if isinstance(one, bytes) else one for one in steps]
    asked = json.dumps([size, told])
    done = subprocess.run([PYTE, "-c", _PYTE], input=asked, capture_output=True, text=True)
    if done.returncode:
        return None
    lines, cursor = json.loads(done.stdout)
    return Judged([[(one, ()) for one in line] for line in lines], tuple(cursor))
