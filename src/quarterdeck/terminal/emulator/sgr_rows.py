"""Rows with styles, out of lines in which the styles stand as escape sequences.

Emulators say a whole screen this way a thousand times as fast as cell by cell. Rows are kept by
their line: what did not change, or only moved, is not read again.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, ne
from typing import Any

from quarterdeck.wire.decoders import json_decoder

from .api import BLANK, PLAIN, Color, GridRow, GridSpan, Style

__all__ = ["ESCAPES", "StyledRows", "line_of", "styled_rows"]

ESCAPES = re.compile(r"((?:\x1b\[[0-9;:]*m)+)")
"""Styles, as they stand in lines."""
_MOST_KEPT = 32_768

_FLAGS = {
    1: "bold",
    2: "faint",
    3: "italic",
    4: "underline",
    5: "blink",
    6: "blink",
    7: "inverse",
    8: "invisible",
    9: "strikethrough",
    21: "underline",
}
_SIMPLE = {
    first + color: (field, base + color)
    for first, field, base in (
        (30, "foreground", 0),
        (40, "background", 0),
        (90, "foreground", 8),
        (100, "background", 8),
    )
    for color in range(8)
}
_STYLES = re.compile(r"\x1b\[0m((?:\x1b\[[^m]*m)*)")
_RESET = "\x1b[0m"
_FEW = 4
"""One of so many spans may be new, and is then read by itself."""
_text, _style_of = attrgetter("text"), attrgetter("style")
_MANY = 64
"""Styles from which on reading them all at once pays; a picture has thousands, each of its own."""
_DECODER = json_decoder(list[Style])
_styles: dict[str, Style] = {"": PLAIN}
"""What a run of sequences that follows a reset means; the same for every screen."""
_spans: dict[str, GridSpan] = {}
"""What stands between two resets, where a row has several; the same for every screen."""


class StyledRows:
    """The rows of a screen, with the revision at which each of them changed last."""

    def __init__(self, count: int) -> None:
        self.revision = 0
        self.rows: list[GridRow] = [BLANK] * count
        self.changed: list[int] = [0] * count
        self.resized = 0
        self._known: dict[str, GridRow] = {}

    def update(self, lines: Sequence[str]) -> None:
        """Take the lines as they are now."""
        self.revision += 1
        new = [line for line in dict.fromkeys(lines) if line not in self._known]
        known = dict(zip(new, styled_rows(new), strict=True))
        for index, line in enumerate(lines):
            row = known.get(line)
            if row is None:
                row = known[line] = self._known[line]
            if row is not self.rows[index] and row != self.rows[index]:
                self.rows[index] = row
                self.changed[index] = self.revision
        self._known = known

    def replace(self, rows: Mapping[int, GridRow]) -> None:
        """Take some rows as they are now."""
        self.revision += 1
        for index, row in rows.items():
            if row != self.rows[index]:
                self.rows[index] = row
                self.changed[index] = self.revision

    def resize(self, count: int) -> None:
        """The size is another: everything is new."""
        self.revision += 1
        self.resized = self.revision
        self.rows, self.changed = [BLANK] * count, [self.revision] * count

    def since(self, revision: int) -> tuple[bool, dict[int, GridRow]]:
        """Whether all has to be drawn anew, and the rows that have to be drawn."""
        if revision <= 0 or revision < self.resized:
            return True, dict(enumerate(self.rows))
        return False, {
            index: self.rows[index]
            for index, changed in enumerate(self.changed)
            if changed > revision
        }


def styled_rows(lines: Sequence[str]) -> list[GridRow]:
    """The rows that lines are; many at once cost less."""
    rows: list[GridRow | None] = [_known_row(line) for line in lines]
    new = [line for line, row in zip(lines, rows, strict=True) if row is None]
    split = [_STYLES.split(line) for line in new]
    read = iter(_read_picture(split) or _read_rows(new, split))
    return [next(read) if row is None else row for row in rows]


def _read_rows(lines: Sequence[str], split: Sequence[list[str]]) -> list[GridRow]:
    """Rows of their texts and, between them, what sets their styles."""
    learned = _learn({run for pieces in split for run in pieces[1::2]})
    rows: list[GridRow] = []
    for line, pieces in zip(lines, split, strict=True):
        spans = [*map(GridSpan, pieces[2::2], map(_styles.__getitem__, pieces[1::2]))]
        if learned < _MANY and len(spans) > 1 and len(spans) == line.count(_RESET):
            _keep(dict(zip(line.split(_RESET)[1:], spans, strict=True)))
            _spans.pop("", None)  # nothing is no span
        rows.append(_finished(_joined(pieces[0], spans)))
    return rows


def _read_picture(split: Sequence[list[str]]) -> list[GridRow] | None:
    """Rows in colours most of which were never seen; None if they are something else.

    Such colours will hardly be seen again: they are read in order, all at once, and not kept.
    """
    runs = [run for pieces in split for run in pieces[1::2] if run]
    sample = runs[:: len(runs) // _MANY + 1]
    if len(runs) < _MANY or 2 * sum(map(_styles.__contains__, sample)) > len(sample):
        return None
    if "\x1b" in (json := _json(runs)):
        return None
    styles = iter(_DECODER.decode(json))
    rows: list[GridRow] = []
    for pieces in split:
        mine = [next(styles) if run else PLAIN for run in pieces[1::2]]
        rows.append(_finished(_joined(pieces[0], [*map(GridSpan, pieces[2::2], mine)])))
    return rows


def _known_row(line: str) -> GridRow | None:
    """A row of spans most of which were seen before; None if it has to be read whole.

    By functions of C: where each cell has a style of its own, each is a span.
    """
    pieces = line.split(_RESET)
    if not pieces[-1]:
        pieces.pop()
    if pieces and not pieces[0]:
        del pieces[0]
    try:
        spans = [*map(_spans.__getitem__, pieces)]
    except KeyError:
        if not any(piece in _spans for piece in pieces[:: len(pieces) // 8 + 1]):
            return None
        new = {piece for piece in pieces if piece not in _spans}
        if "" in new or len(new) * _FEW > len(pieces):
            return None
        _keep({piece: _span(piece) for piece in new})
        spans = [_spans.get(piece) or _span(piece) for piece in pieces]
    return _finished(spans)


def _span(piece: str) -> GridSpan:
    end = piece.find("m", piece.rfind("\x1b")) + 1 if piece[0] == "\x1b" else 0
    run = piece[:end]
    if run not in _styles:
        _learn({run})
    return GridSpan(piece[end:], _styles[run])


def _keep(spans: Mapping[str, GridSpan]) -> None:
    if len(_spans) > _MOST_KEPT:
        _spans.clear()
    _spans.update(spans)


def _finished(spans: list[GridSpan]) -> GridRow:
    """A row, without what is plain and blank at its end."""
    while spans and spans[-1].style is PLAIN:
        last = spans.pop()
        if text := last.text.rstrip(" "):
            spans.append(GridSpan(text, PLAIN))
            break
    return GridRow(tuple(spans), "".join(map(_text, spans)).rstrip(" ")) if spans else BLANK


def _joined(first: str, spans: list[GridSpan]) -> list[GridSpan]:
    """A plain text and what follows: empty ones left out, those that look alike as one."""
    if first:
        spans.insert(0, GridSpan(first, PLAIN))
    styles = [*map(_style_of, spans)]
    if all(map(_text, spans)) and all(map(ne, styles, styles[1:])):
        return spans
    found: list[GridSpan] = []
    for span in spans:
        if span.text and found and found[-1].style == span.style:
            found[-1] = GridSpan(found[-1].text + span.text, span.style)
        elif span.text:
            found.append(span)
    return found


def line_of(row: GridRow) -> str:
    """A line that is this row; ``styled_rows`` reads it."""
    return "".join(
        [
            span.text if span.style == PLAIN else f"{_written(span.style)}{span.text}\x1b[0m"
            for span in row.spans
        ]
    )


def _written(style: Style) -> str:
    numbers = [
        str(number)
        for number, name in _FLAGS.items()
        if number not in (6, 21) and getattr(style, name)
    ]
    for first, color in ((38, style.foreground), (48, style.background)):
        if isinstance(color, int):
            numbers.append(f"{first};5;{color}")
        elif color is not None:
            numbers.append(f"{first};2;{color[0]};{color[1]};{color[2]}")
    return f"\x1b[0m\x1b[{';'.join(numbers)}m"


def _learn(needed: set[str]) -> int:
    """Know styles, these at least; returns how many were new."""
    if len(_styles) > _MOST_KEPT:
        _styles.clear()
        _styles[""] = PLAIN
    runs = {run for run in needed if run not in _styles}
    many = list(runs) if len(runs) > _MANY else []
    if "\x1b" in (json := _json(many)):
        many = [run for run in many if _is_colors(run)]
        json = _json(many)
    if many:
        _styles.update(zip(many, _DECODER.decode(json), strict=True))
    for run in runs.difference(many):
        _styles[run] = _style(run)
    return len(runs)


def _json(runs: list[str]) -> str:
    """Styles that are nothing but red, green and blue, to be decoded; with ``ESC`` where not."""
    text = "},{".join(runs).replace("\x1b[38;2;", '"foreground":[').replace(";", ",")
    text = text.replace("\x1b[48,2,", '"background":[').replace("m", "],").replace(",}", "}")
    return f"[{{{text[:-1]}}}]"


def _is_colors(run: str) -> bool:
    """It is nothing but red, green and blue; in doubt not."""
    return run.count("\x1b") == run.count("8;2;") and "\x1b[5" not in run


def _style(run: str) -> Style:
    fields: dict[str, Any] = {}
    for numbers in run[2:-1].split("m\x1b["):
        if numbers in ("", "0"):
            fields.clear()
        fields.update(_order(numbers))
    style = Style(**fields)
    return PLAIN if style == PLAIN else style


@lru_cache(_MOST_KEPT)
def _order(numbers: str) -> dict[str, Any]:
    """What one sequence sets, as emulators write them; what it does not know sets nothing."""
    values = [int(one or 0) for one in numbers.replace("::", ":").replace(":", ";").split(";")]
    fields: dict[str, Any] = {}
    while values:
        number = values.pop(0)
        if number in (38, 48, 58):
            color = _extended(values)
            if number != 58:
                fields["foreground" if number == 38 else "background"] = color
        elif number == 4 and ":" in numbers:
            fields["underline"] = bool(values.pop(0))
        elif number in _FLAGS:
            fields[_FLAGS[number]] = True
        elif number in _SIMPLE:
            field, color = _SIMPLE[number]
            fields[field] = color
    return fields


def _extended(values: list[int]) -> Color:
    """``5;n`` or ``2;r;g;b``; takes them from the list."""
    count = 2 if values[:1] == [5] else 4
    taken = values[:count]
    del values[:count]
    if len(taken) < count:
        return None
    return taken[1] if count == 2 else (taken[1], taken[2], taken[3])
