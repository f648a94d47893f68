"""What a screen says by colour, and whether signs or words say the same.

Lines are looked at by their roles, before any colour is drawn: a span whose role has one of the
five meanings must stand in a line, or below one of the same role, with a sign or a word of that
meaning.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from textual.app import App
from textual.screen import Screen
from textual.widgets._toast import Toast

from quarterdeck.workbench.rendering import glyphs
from quarterdeck.workbench.rendering.lines import Line, text_of
from quarterdeck.workbench.widgets.lines_view import LineCanvas

__all__ = ["find_colour_alone", "list_lines", "list_problems"]

_SIGNS = {
    "bad": glyphs.FAILED + glyphs.STOPPED + glyphs.MINUS + glyphs.CONFLICT + glyphs.WARNING,
    "good": glyphs.DONE + glyphs.ACCEPTED + glyphs.PLAN_DONE + "+",
    "warning": glyphs.WARNING + glyphs.CONFLICT + glyphs.NEEDS_YOU + glyphs.STOPPED
    + glyphs.PARTLY_ACCEPTED + glyphs.COMMENT + glyphs.PLAN_BEGUN,
    "asking": glyphs.NEEDS_YOU + glyphs.CONFLICT + glyphs.WARNING + glyphs.PLAN_BEGUN,
    "running": glyphs.RUNNING + glyphs.STARTING + glyphs.CURSOR + glyphs.LEVELS + glyphs.USED
    + glyphs.BAR + glyphs.HALF_BAR,
    "diff-line-added": "+",
    "diff-line-removed": f"-{glyphs.MINUS}",
    "diff-added": "+",
    "diff-removed": f"-{glyphs.MINUS}",
}  # fmt: skip
_WORDS = {
    "bad": r"fail|error|denied|deny|lost|unusable|cannot|refused|exit \d|no such|wrong|stopped|"
    r"conflict|^no |^\s*D\s",
    "good": r"done|allowed|added|landed|accepted|saved|trusted|logged in|passed|sent|\b0 conflicts|"
    r"^\s*[?A]+\s",
    "warning": r"needs? |trusted|cannot|connecting|lost|unsaved|conflict|cancelled|unknown|"
    r"not logged in|changed|waits|exit code|lines up|\bsame (function|lines|file)|^\s*[MRC]+\s",
    "asking": r"needs? |question|permission|wants to|changed",
    "running": r"running|starting|is being|following|loading|your file",
}
"""Words, and the letters by which git names the state of a file."""


def list_lines(screens: Iterable[Screen[object]]) -> Iterator[list[Line]]:
    """The lines in view of each canvas."""
    for screen in screens:
        for canvas in screen.query(LineCanvas):
            if canvas.display and canvas.size:
                top = canvas.scroll_offset.y
                yield [canvas.line_at(top + y)[0] for y in range(canvas.size.height)]


def find_colour_alone(lines: Sequence[Line], around: Sequence[Line] = ()) -> list[str]:
    """What these lines say by colour, without a sign or a word for it.

    ``around``: other lines on the screen, which may name it after a sign, as risks are.
    """
    found: list[str] = []
    for role, signs in _SIGNS.items():
        group: list[Line] = []
        for line in (*lines, ()):
            if _spans(line, role):
                group.append(line)
            elif group:
                if not _is_said(group, [*lines, *around], role, signs):
                    found.append(f"{role}: {[text_of(one) for one in group]}")
                group = []
    return found


def _spans(line: Line, role: str) -> list[str]:
    return [text.strip() for text, name in line if role in name.split("/") and text.strip()]


def _is_said(group: Sequence[Line], lines: Sequence[Line], role: str, signs: str) -> bool:
    """By the group itself, or by a line with a sign that names what is coloured."""
    if _says("\n".join(map(text_of, group)), role, signs):
        return True
    signed = [text for line in lines if set(signs) & set(text := text_of(line))]
    return all(
        any(part in text for text in signed) for line in group for part in _spans(line, role)
    )


def _says(text: str, role: str, signs: str) -> bool:
    words = _WORDS.get(role)
    return bool(set(signs) & set(text)) or bool(
        words and re.search(words, text, re.IGNORECASE | re.MULTILINE)
    )


def list_problems(app: App[None]) -> list[str]:
    """What the screen says by colour alone."""
    screens = [*app._background_screens, app.screen]
    views = list(list_lines(screens))
    around = [line for lines in views for line in lines]
    found = [one for lines in views for one in find_colour_alone(lines, around)]
    for toast in app.screen.query(Toast):
        severity = toast._notification.severity
        role = {"error": "bad", "warning": "warning"}.get(severity)
        text = toast._notification.message
        if role is not None and not _says(text, role, _SIGNS[role]):
            found.append(f"{severity}: {text!r}")
    return found
