"""Record ``quarterdeck demo`` as an animated picture, ``docs/pictures/recording.svg``.

``make pictures`` does this with all the others, ``make pictures ARGS=recording`` alone. The demo
runs for real on a pseudo-terminal, keys are pressed as a person would, and our emulator holds what
is drawn. The picture has no script and no font of its own, so that it plays wherever an image does.
Each part of a row that was ever seen is there once, as text; a frame is a group of them, and a
style sheet shows one frame after the other. ``python -m tools.record_demo --frame N FILE`` writes
one frame of a new recording, to look at.
"""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from rich.cells import cell_len

from quarterdeck.system.api import CommandSpec
from quarterdeck.terminal.emulator.api import Color, GridRow, Style
from quarterdeck.terminal.headless_terminal import HeadlessTerminal
from quarterdeck.workbench.screens.key_guard import QUIET

__all__ = ["Frame", "Recording", "draw", "record"]

HERE = Path("/tmp/you")
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
SIZE = (120, 34)
MOST_BYTES = 600_000
_PATIENCE = 60.0
_LEAST = 0.35
"""Seconds that a frame is at least there; what changes faster is left out."""
_LONGEST = 2.2
"""Seconds that a frame is there while nothing happens."""
_LAST = 4.0
_TYPING = 0.05
_CELL = (8.0, 17.0)
_FONT = 13.2
_BASE = 13.0
"""Where letters stand in a row."""
_LEFT = 40
"""Columns that the left one of two panels has at least."""
_PADDING, _TOP = 14.0, 38.0
_GROUND, _TEXT = (18, 18, 18), (224, 224, 224)
_BASIC = (
    (0, 0, 0), (205, 49, 49), (13, 188, 121), (229, 229, 16), (36, 114, 200), (188, 63, 188),
    (17, 168, 205), (229, 229, 229), (102, 102, 102), (241, 76, 76), (35, 209, 139),
    (245, 245, 67), (59, 142, 234), (214, 112, 214), (41, 184, 219), (255, 255, 255),
)  # fmt: skip
# What is another in each run; as long as before.
_VARYING = (
    (re.compile(r"quarterdeck-demo-[a-z0-9_]{8}"), "quarterdeck-demo-00000000"),
    (re.compile(r"\btides-[0-9a-f]{8}\b"), "tides-00000000"),
    (re.compile(r"\b[0-9a-f]{10}\b"), "0123456789"),
)


@dataclass(frozen=True)
class Frame:
    """What was on the screen, and for how long."""

    rows: tuple[GridRow, ...]
    seconds: float


@dataclass
class Recording:
    """Follows a terminal while keys are pressed in it."""

    terminal: HeadlessTerminal
    frames: list[Frame] = field(default_factory=list[Frame])

    async def watch(self) -> None:
        """Note each screen that is there long enough."""
        clock = asyncio.get_running_loop().time
        shown, since = self.terminal.screen.rows(), clock()
        while not self.terminal.is_over:
            await self.terminal.change()
            await asyncio.sleep(_LEAST)
            rows = self.terminal.screen.rows()
            if rows != shown:
                self._note(shown, clock() - since)
                shown, since = rows, clock()
        self._note(shown, _LAST)

    def _note(self, rows: tuple[GridRow, ...], seconds: float) -> None:
        if any(row.text.strip() for row in rows):
            self.frames.append(Frame(rows, round(min(seconds, _LONGEST), 2)))

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(row.text for row in self.terminal.screen.rows())

    async def shows(self, *words: str) -> None:
        """Wait until all of these are on the screen."""
        clock = asyncio.get_running_loop().time
        latest = clock() + _PATIENCE
        while not all(one in self.text for one in words):
            if clock() > latest:
                raise TimeoutError(f"{words} did not come:\n{self.text}")
            await asyncio.sleep(0.05)

    async def read(self, seconds: float) -> None:
        """Give who looks at it the time to read."""
        await asyncio.sleep(seconds)

    async def allow(self, heading: str) -> None:
        """Allow a request, which is brought up first if it does not have the keys."""
        await self.shows(heading, "y allow once")
        await self.read(0.8)
        if "esc later" not in self.text:
            await self.terminal.press("ctrl+g")
        await self.shows("esc later")
        await self.read(QUIET + 1.6)
        await self.terminal.press("y")

    async def type(self, words: str) -> None:
        """Type a line."""
        for character in words:
            await self.terminal.press(character)
            await asyncio.sleep(_TYPING)
        await self.read(0.6)
        await self.terminal.press("enter")


async def play(recording: Recording) -> None:
    """Press the keys of the demo, from its beginning to its end."""
    await recording.shows("demo 1/7", "I will find out")
    await recording.allow("run a command")
    await recording.shows("demo 2/7")
    await recording.allow("edit tides.py")
    await recording.shows("demo 3/7", "conflicts with tide")
    await recording.read(2.5)
    await recording.type("/review tide")
    await recording.shows("demo 4/7", "% DAY")
    await recording.read(2.5)
    await recording.terminal.press("escape")
    await recording.shows("Both can land now")
    await recording.type("/land tide guard")
    await recording.shows("demo 5/7", "ctrl+s land", "2. guard  +")
    await recording.read(1.5)
    await recording.terminal.press("ctrl+s")
    await recording.shows("got its work back")
    await recording.read(2.2)
    await recording.terminal.press("escape")
    await recording.shows("<<<<<<< HEAD")
    await recording.allow("edit tides.py")
    await recording.shows("has resolved the conflict")
    await recording.read(1.2)
    await recording.type("/land guard")
    await recording.shows("ctrl+s land", "1. guard  +")
    await recording.read(0.8)
    await recording.terminal.press("ctrl+s")
    await recording.shows("✓ landed on main", "demo 7/7")
    await recording.read(1.0)
    await recording.terminal.press("escape")
    await recording.read(2.0)


@asynccontextmanager
async def _on_stage(size: tuple[int, int]) -> AsyncGenerator[Recording]:
    await asyncio.to_thread(HERE.mkdir)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(HERE),
        "QUARTERDECK_HOME": str(HERE / "home"),
        "TMPDIR": str(HERE),
        "LANG": "C.UTF-8",
    }
    program = (sys.executable, "-P", "-m", "quarterdeck", "demo")
    command = CommandSpec(argv=program, cwd=str(HERE), env=environment)
    try:
        terminal = await HeadlessTerminal.start(command, size=size)
        try:
            yield Recording(terminal)
        finally:
            await terminal.close()
    finally:
        await asyncio.to_thread(_remove)


def _remove() -> None:
    """What is ours there; the demo removes its own folder, also when it was killed."""
    shutil.rmtree(HERE, ignore_errors=True)


async def record(size: tuple[int, int] = SIZE) -> list[Frame]:
    """Play the demo; what was seen."""
    async with _on_stage(size) as recording:
        watching = asyncio.create_task(recording.watch())
        try:
            await play(recording)
            frames = _from_first_caption(recording.frames)
            frames.append(Frame(recording.terminal.screen.rows(), _LAST))
            await recording.terminal.press("ctrl+q")
            async with asyncio.timeout(_PATIENCE):
                await recording.terminal.wait()
        finally:
            watching.cancel()
    return frames


def _from_first_caption(frames: list[Frame]) -> list[Frame]:
    """Without the moment in which it starts."""
    is_caption = (any("demo 1/" in row.text for row in frame.rows) for frame in frames)
    return frames[next(number for number, has_it in enumerate(is_caption) if has_it) :]


def draw(frames: list[Frame], size: tuple[int, int] = SIZE, only: int | None = None) -> str:
    """The picture; ``only``: the frame that is shown where nothing moves."""
    return _Drawing(size).draw(frames, only)


class _Drawing:
    """Rows and looks by number, each once."""

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size
        now = datetime.now().astimezone()
        self._minutes = {f"{now - timedelta(minutes=back):%H:%M}" for back in range(4)}
        self._rows: dict[str, int] = {}
        self._looks: dict[str, int] = {}

    def draw(self, frames: list[Frame], only: int | None) -> str:
        columns, rows = self._size
        width = columns * _CELL[0] + 2 * _PADDING
        height = rows * _CELL[1] + _TOP + _PADDING
        still = len(frames) // 2 if only is None else only
        groups = [
            self._frame(number, frame, number == still) for number, frame in enumerate(frames)
        ]
        style = self._style(frames if only is None else [])
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
                f'width="{width:g}" height="{height:g}" xml:space="preserve" role="img">',
                "<title>quarterdeck demo: two agents change one function, and both land</title>",
                f"<style>{style}</style>",
                f"<defs>{''.join(self._define())}</defs>",
                f'<rect width="{width:g}" height="{height:g}" rx="9" fill="{_hex(_GROUND)}"/>',
                '<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" '
                'fill="#febc2e"/><circle cx="60" cy="18" r="6" fill="#28c840"/>',
                f'<text x="{width / 2:g}" y="23" text-anchor="middle" fill="#a0a0a0">quarterdeck '
                "demo</text>",
                *groups,
                "</svg>\n",
            ]
        )

    def _frame(self, number: int, frame: Frame, is_still: bool) -> str:
        uses: list[str] = []
        for at, row in enumerate(frame.rows):
            y = _TOP + at * _CELL[1] + _BASE
            for part in self._draw_row(row):
                known = self._rows.setdefault(part, len(self._rows))
                uses.append(f'<use href="#r{known}" y="{y:g}"/>')
        look = "f s" if is_still else "f"
        return f'<g class="{look}" id="f{number}">{"".join(uses)}</g>'

    def _draw_row(self, row: GridRow) -> list[str]:
        """The parts of a row left and right of a line between two panels: each changes alone."""
        parts: list[list[tuple[str, str]]] = [[]]
        column = 0
        varied = iter(_same_each_time(row.text, self._minutes))
        for span in row.spans:
            text = "".join(next(varied, character) for character in span.text)
            if column > _LEFT and text.startswith("│") and len(parts) == 1:
                parts.append([])
            parts[-1].append(self._draw_span(text, span.style, column))
            column += cell_len(span.text)
        # The grounds first: a letter may be wider than its cell.
        drawn = [
            "".join(one[0] for one in part) + "".join(one[1] for one in part) for part in parts
        ]
        return [part for part in drawn if part]

    def _draw_span(self, text: str, style: Style, column: int) -> tuple[str, str]:
        """Its ground and its letters."""
        behind = letters = ""
        front, ground = _colours(style)
        left = _PADDING + column * _CELL[0]
        if ground != _GROUND:
            behind = (
                f'<rect x="{left:g}" y="-{_BASE:g}" width="{cell_len(text) * _CELL[0]:g}" '
                f'height="{_CELL[1]:g}" fill="{_hex(ground)}"/>'
            )
        if stripped := text.strip(" "):
            left += (cell_len(text) - cell_len(text.lstrip(" "))) * _CELL[0]
            look = self._looks.setdefault(_look(style, front), len(self._looks))
            letters = (
                f'<text class="l{look}" x="{left:g}" '
                f'textLength="{cell_len(stripped) * _CELL[0]:g}">{escape(stripped)}</text>'
            )
        return behind, letters

    def _define(self) -> list[str]:
        return [f'<g id="r{number}">{drawn}</g>\n' for drawn, number in self._rows.items()]

    def _style(self, frames: list[Frame]) -> str:
        total = sum(frame.seconds for frame in frames) or 1.0
        rules = [
            f"text{{font-family:{FONTS};font-size:{_FONT}px;white-space:pre}}",
            ".f{visibility:hidden}.s{visibility:visible}",
        ]
        rules += [f".l{number}{{{look}}}" for look, number in self._looks.items()]
        moves: list[str] = []
        begin = 0.0
        for number, frame in enumerate(frames):
            end = begin + frame.seconds
            steps = [f"{begin / total:.3%}{{visibility:visible}}"]
            if begin:
                steps.insert(0, "0%{visibility:hidden}")
            if number < len(frames) - 1:
                steps.append(f"{end / total:.3%},to{{visibility:hidden}}")
            moves.append(f"#f{number}{{animation:k{number} {total:.2f}s step-end infinite}}")
            moves.append(f"@keyframes k{number}{{{''.join(steps)}}}")
            begin = end
        if moves:
            rules.append(f"@media not (prefers-reduced-motion:reduce){{{''.join(moves)}}}")
        return "\n".join(rules)


def _same_each_time(text: str, minutes: Collection[str] = ()) -> str:
    """The text without what is another in each run; ``minutes``: the times of day of this one."""
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    for minute in minutes:
        text = text.replace(minute, "10:00")
    return text


def _colours(style: Style) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    front, ground = _rgb(style.foreground, _TEXT), _rgb(style.background, _GROUND)
    if style.inverse:
        front, ground = ground, front
    if style.faint:
        front = _mix(front, ground)
    return front, ground


def _mix(front: tuple[int, int, int], ground: tuple[int, int, int]) -> tuple[int, int, int]:
    red, green, blue = ((2 * one + other) // 3 for one, other in zip(front, ground, strict=True))
    return red, green, blue


def _rgb(colour: Color, default: tuple[int, int, int]) -> tuple[int, int, int]:
    if colour is None:
        return default
    if isinstance(colour, tuple):
        return colour
    if colour < 16:
        return _BASIC[colour]
    if colour >= 232:
        grey = 8 + 10 * (colour - 232)
        return grey, grey, grey
    parts = divmod(colour - 16, 36)
    steps = (parts[0], *divmod(parts[1], 6))
    red, green, blue = (0 if step == 0 else 55 + 40 * step for step in steps)
    return red, green, blue


def _look(style: Style, front: tuple[int, int, int]) -> str:
    words = [f"fill:{_hex(front)}"]
    if style.bold:
        words.append("font-weight:bold")
    if style.italic:
        words.append("font-style:italic")
    if style.underline or style.strikethrough:
        line = "underline" if style.underline else "line-through"
        words.append(f"text-decoration:{line}")
    return ";".join(words)


def _hex(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def main() -> None:
    """Write a frame of a new recording, for looking at it: ``--frame N FILE``."""
    frames = asyncio.run(record())
    number = int(sys.argv[2]) if sys.argv[1:2] == ["--frame"] else None
    target = Path(sys.argv[-1]) if len(sys.argv) > 1 else Path("recording.svg")
    target.write_text(draw(frames, only=number), "utf-8")
    print(f"{quoteattr(str(target))}: {len(frames)} frames")


if __name__ == "__main__":
    main()
