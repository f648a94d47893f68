"""The signs of the workbench, by name, and what stands for each on a terminal that has only ASCII.

Every sign is one cell wide, and so is what replaces it: lines keep their shape. Code that draws
uses these names; ``docs/design.md`` says what each is for.
"""

from typing import Literal, TypeAlias

from rich.cells import cell_len

__all__ = [
    "ACCEPTED",
    "ARROWS",
    "ASCII_SIGNS",
    "BAR",
    "BETWEEN",
    "BRANCH",
    "CARET",
    "CHECKED",
    "CHOSEN",
    "COMMENT",
    "CONFLICT",
    "CORNER",
    "CURSOR",
    "CUT",
    "DONE",
    "FAILED",
    "FOLDED",
    "FREE",
    "HALF_BAR",
    "IDLE",
    "LEVELS",
    "MINUS",
    "NEEDS_YOU",
    "OFFERED",
    "PARTLY_ACCEPTED",
    "PLAN_BEGUN",
    "PLAN_DONE",
    "PLAN_OPEN",
    "POINT",
    "PROMPT",
    "RANGE",
    "RULE",
    "RUNNING",
    "SHADES",
    "STARTING",
    "STOPPED",
    "TEE",
    "THINKING",
    "TO",
    "UNFOLDED",
    "UNKNOWN",
    "UPPER_HALF",
    "USED",
    "WALL",
    "WARNING",
    "SignLevel",
    "to_ascii",
]

SignLevel: TypeAlias = Literal["unicode", "signs", "ascii"]
"""What a terminal shows: everything; every letter, but signs in ASCII; ASCII alone."""

RUNNING, IDLE, STARTING = "●", "○", "◌"
NEEDS_YOU, WARNING, CONFLICT = "?", "!", "⚠"
DONE, FAILED, STOPPED = "✓", "✗", "⊘"
PROMPT, THINKING, BRANCH = "❯", "✻", "⎇"
FOLDED, UNFOLDED = "▸", "▾"
PLAN_OPEN, PLAN_BEGUN, PLAN_DONE = "☐", "◐", "☑"
CHECKED = DONE
"""Something that was looked at."""
CHOSEN, OFFERED = RUNNING, IDLE
"""One of several that exclude each other: that which is chosen, and another."""
ACCEPTED, PARTLY_ACCEPTED, COMMENT = "◆", "◇", "❝"
CURSOR = "▌"
"""Before the row or the block that keys are for."""
POINT = "•"
"""Before an item of a list."""
WALL, RULE, CORNER, TEE = "│", "─", "└", "├"
USED, FREE = "▓", "░"
SHADES = " ░▒▓█"
"""From dark to light, where a picture has no colours."""
UPPER_HALF = "▀"
"""A cell of a picture: two pixels, one over the other."""
BAR, HALF_BAR = "━", "╸"
"""The length of something in a chart."""
CARET = "▏"
"""After what is typed in a list."""
LEVELS = "▁▂▃▄▅▆▇█"
"""Activity, from little to much."""
CUT, BETWEEN, MINUS, TO, UNKNOWN = "…", "·", "−", "→", "–"
RANGE = UNKNOWN
"""Between the first and the last of several."""
ARROWS = "↑↓←→"
"""Keys, where they are named in a hint."""

ASCII_SIGNS: dict[str, str] = {
    RUNNING: "*", IDLE: "o", STARTING: ".", CONFLICT: "!", DONE: "+", FAILED: "x", STOPPED: "-",
    PROMPT: ">", THINKING: "~", FOLDED: ">", UNFOLDED: "v", PLAN_OPEN: ".", PLAN_BEGUN: "o",
    PLAN_DONE: "+", BRANCH: "@", ACCEPTED: "#", PARTLY_ACCEPTED: "%", COMMENT: '"', CURSOR: "|",
    POINT: "*", WALL: "|", RULE: "-", CORNER: "`", TEE: "|", USED: "#", FREE: ".", CUT: "~",
    BETWEEN: "-", MINUS: "-", TO: ">", UNKNOWN: "-", BAR: "=", HALF_BAR: "-",
    **dict(zip(LEVELS, "_.:-=+*#", strict=True)),
}  # fmt: skip
"""What stands for each sign."""

# Borders, scrollbars, keys with arrows, and signs of texts that we did not write but know.
_OTHERS: dict[str, str] = {
    **dict.fromkeys("╭╮╰╯┌┐┘┬┴┼┏┓┗┛╔╗╚╝╠╣╦╩╬", "+"),
    **dict.fromkeys("┤┃║┆┇┊┋╎╏▐▎▍▋▊▉▏▕▖▗▘▝", "|"),
    **dict.fromkeys("═╌┄┅┈┉—‒―▔▀╶╴", "-"),
    **dict.fromkeys("■▪▮◼", "#"), **dict.fromkeys("▒▚▞", "%"), **dict.fromkeys("□▫▯◻", "."),
    "←": "<", "↑": "^", "↓": "v", "↔": "-", "↪": "\\", "◂": "<", "▼": "v", "▲": "^", "▶": ">",
    "◀": "<", "►": ">", "◄": "<", "◉": "*", "◎": "o", "⋯": "~", "×": "x", "‖": "=", "⍰": "?",
    "␡": "?", "✔": "+", "✘": "x", "☒": "x", "“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " ",
}  # fmt: skip
_TABLE = str.maketrans({**_OTHERS, **ASCII_SIGNS})


def to_ascii(text: str, *, keeps_letters: bool) -> str:
    """A text with ASCII in the place of our signs, in as many cells as before.

    ``keeps_letters``: letters and other foreign characters stay; else each becomes ``?``, one for
    each cell, and what is drawn over the character before it goes.
    """
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    if keeps_letters or text.isascii():
        return text
    return "".join(one if one.isascii() else "?" * cell_len(one) for one in text)
