"""Pictures of whole screens, kept as text: what stands there and, at the smallest size, how.

``QUARTERDECK_UPDATE_SNAPSHOTS=1`` writes them anew; look at what ``git diff`` shows then.
"""

import asyncio
import difflib
import os
from collections import Counter
from pathlib import Path

from rich.segment import Segment
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.rendering.glyphs import ASCII_SIGNS
from quarterdeck.workbench.widgets.agent_table import AgentTable

from .deadlines import SOON
from .screen_strips import render_screen

__all__ = ["FOLDER", "UPDATE", "check", "looks", "picture"]

FOLDER = Path(__file__).parent.parent / "fixtures" / "snapshots"
UPDATE = "QUARTERDECK_UPDATE_SNAPSHOTS"
_SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_SETTLED = 0.4
_BARS = tuple("▁▂▃▄▅▆▇")
_STYLED = 80
"""The width at which looks are kept as well."""


async def check(
    app: App[None],
    pilot: Pilot[None],
    name: str,
    size: tuple[int, int],
    *,
    hides: str = "",
) -> None:
    """Fail unless the screen comes to look as it is kept. ``hides``: a path of this run alone."""
    for field in app.screen.query("TextArea, Input"):
        if isinstance(field, TextArea | Input):
            field.cursor_blink = False
    file = FOLDER / f"{name}-{size[0]}x{size[1]}.txt"
    if os.environ.get(UPDATE):
        await pilot.pause(_SETTLED)
        await asyncio.to_thread(_write, file, settled_picture(app, hides))
        return
    kept = await asyncio.to_thread(_read, file)
    try:
        async with asyncio.timeout(SOON):
            while settled_picture(app, hides) != kept:
                await pilot.pause(0.02)
    except TimeoutError:
        if (now := settled_picture(app, hides)) != kept:
            lines = difflib.unified_diff(kept.splitlines(), now.splitlines(), "kept", "now", n=1)
            told = f"{file.name}; {UPDATE}=1 writes it anew\n" + "\n".join(lines)
            raise AssertionError(told) from None


def settled_picture(app: App[None], hides: str = "") -> str:
    """The screen once rows that are drawn anew each second have been drawn."""
    for screen in app.screen_stack:
        for table in screen.query(AgentTable):
            table.update()
    return picture(app, hides)


def picture(app: App[None], hides: str = "") -> str:
    """The lines of the screen; of a small one also a sign for the look of each cell."""
    strips = render_screen(app)
    bars = _BARS if is_drawn_whole(app) else (*_BARS, *ASCII_SIGNS.values())
    lines = [[_without_bar(segment, bars) for segment in strip] for strip in strips]
    text = [_hide("".join(segment.text for segment in line).rstrip(), hides) for line in lines]
    parts = ["\n".join(f"│{line}" for line in text)]
    if app.size.width == _STYLED:
        parts.append(looks(lines))
    return "\n\n".join(parts) + "\n"


def looks(lines: list[list[Segment]]) -> str:
    """A sign for each cell that can be seen, and what the signs mean.

    The commonest look is ``.``; cells without anything in them are blank.
    """
    rows = [_cells(line) for line in lines]
    seen = Counter(look for row in rows for look in row if look)
    if not seen:
        return ""
    common = seen.most_common(1)[0][0]
    signs = {common: "."}
    drawn: list[str] = []
    for row in rows:
        marks = ""
        for look in row:
            if look and look not in signs:
                signs[look] = _SIGNS[len(signs) - 1]
            marks += signs.get(look, " ")
        drawn.append(f"│{marks.rstrip()}")
    return "\n".join([*drawn, "", *(f"{sign} {look}" for look, sign in signs.items())])


def is_drawn_whole(app: App[None]) -> bool:
    """Whether signs are drawn as they are, and not in ASCII."""
    return not isinstance(app, Workbench) or app.context.preferences.signs == "unicode"


def _hide(line: str, hides: str) -> str:
    """A line without a path of this run, which may be cut at its end."""
    shown = "/tmp/home".ljust(len(hides), "_")
    for end in range(len(hides), len("/tmp/qd-"), -1):
        line = line.replace(hides[:end], shown[:end])
    return line


def _without_bar(segment: Segment, bars: tuple[str, ...]) -> Segment:
    """Bars that scroll are left out: where they end depends on what was measured already."""
    is_bar = segment.text in bars or (
        segment.text == " " and segment.style and segment.style.reverse
    )
    return Segment(" ") if is_bar else segment


def _cells(segments: list[Segment]) -> list[str]:
    cells: list[str] = []
    for text, style, _ in segments:
        look, ground = "plain", ""
        if style is not None:
            words = [
                word
                for word in ("bold", "dim", "italic", "underline", "reverse", "strike")
                if getattr(style, word)
            ]
            colours = [c.get_truecolor().hex if c else "-" for c in (style.color, style.bgcolor)]
            look = " ".join([*words, " on ".join(colours)])
            ground = f"{'reverse ' if style.reverse else ''}on {colours[1]}"
        cells += [look if not character.isspace() else _ground(ground) for character in text]
    return cells


def _ground(look: str) -> str:
    """A blank cell counts only if it is drawn as a bar."""
    return look if look.startswith("reverse") else ""


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else "there is no picture yet\n"
