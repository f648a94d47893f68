"""Rows of changes as lines with roles: numbers, signs, colours of code, changed words, comments."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from rich.cells import cell_len

from quarterdeck.fleet.review.api import ChangedFile, FilePatch, PlacedComment
from quarterdeck.fleet.review.words import WordSpan, find_changed_words

from ...rendering import glyphs
from ...rendering.code import find_file_language
from ...rendering.diffs import SIGN_ROLES, PaintedLine, colour_lines, mark_words, shade_line
from ...rendering.lines import Line, Span, clip, indented, width_of, wrap
from ...sanitize import sanitize_line, sanitize_text
from ..file.view import slice_line
from ..paths import shorten_path
from .document import ChangedLine, PatchRow, PatchSlot

__all__ = [
    "FILE_MARKS",
    "LinePainter",
    "PaintChunk",
    "RowCanvas",
    "comment_lines",
    "draw_file_row",
    "draw_row",
    "file_title",
    "format_counts",
    "note_lines",
]

_LONGEST = 2_000
"""Characters of a line that are shown."""
_CHUNK = 100
"""Lines that are painted at once."""
_MOST_CHUNKS = 80
_BACKGROUNDS = {"+": "diff-line-added", "-": "diff-line-removed"}
_KIND_LETTERS = {"new": "A", "deleted": "D", "renamed": "R", "copied": "C", "mode": "m"}
_KIND_WORDS = {
    "changed": "", "new": "new file", "deleted": "deleted", "renamed": "renamed",
    "copied": "copied", "mode": "mode changed",
}  # fmt: skip
FILE_MARKS = {
    "viewed": glyphs.CHECKED,
    "since": glyphs.RUNNING,
    "accepted": glyphs.ACCEPTED,
    "part": glyphs.PARTLY_ACCEPTED,
    "conflict": glyphs.CONFLICT,
}
"""Signs for files."""


class PaintChunk(NamedTuple):
    """Some lines of a hunk whose colours are worked out together."""

    file: str
    after: int
    hunk: int
    number: int


class LinePainter:
    """Colours and changed words of lines; those that are not worked out yet are plain.

    Working them out blocks and is done in a thread. The last of many are kept.
    """

    def __init__(self) -> None:
        self._painted: dict[PaintChunk, list[PaintedLine]] = {}
        self._wanted: dict[PaintChunk, PatchSlot] = {}
        self._languages: dict[str, str] = {}

    def line(self, slot: PatchSlot, hunk: int, at: int) -> PaintedLine:
        """A line as it can be shown now."""
        chunk = PaintChunk(slot.file.id, slot.after, hunk, at // _CHUNK)
        found = self._painted.get(chunk)
        if found is not None and at % _CHUNK < len(found):
            return found[at % _CHUNK]
        self._wanted[chunk] = slot
        return ((literal(slot.hunks[hunk].hunk.lines[at].text), "text", False),)

    @property
    def is_due(self) -> bool:
        """Whether something was shown that has no colours yet."""
        return bool(self._wanted)

    def paint(self) -> bool:
        """Work out what was asked for; True if there was something. Blocks."""
        wanted, self._wanted = self._wanted, {}
        for chunk, slot in wanted.items():
            if chunk in self._painted or chunk.hunk >= len(slot.hunks):
                continue
            self._painted[chunk] = self._paint(chunk, slot)
        for old in list(self._painted)[:-_MOST_CHUNKS]:
            del self._painted[old]
        return bool(wanted)

    def forget(self) -> None:
        """Start again: hunks are others now."""
        self._painted.clear()
        self._wanted.clear()

    def _paint(self, chunk: PaintChunk, slot: PatchSlot) -> list[PaintedLine]:
        lines = slot.hunks[chunk.hunk].hunk.lines
        first = chunk.number * _CHUNK
        places = range(first, min(len(lines), first + _CHUNK))
        texts = {at: literal(lines[at].text) for at in places}
        language = self._language(slot.file.path)
        coloured: dict[int, Line] = {}
        for signs in (" -", " +"):
            side = [at for at in places if lines[at].sign in signs]
            coloured |= dict(
                zip(side, colour_lines([texts[at] for at in side], language), strict=True)
            )
        words = _changed_words(slot, chunk.hunk, texts)
        plain: Callable[[int], Line] = lambda at: ((texts[at], "faint"),)  # noqa: E731
        return [mark_words(coloured.get(at) or plain(at), words.get(at, [])) for at in places]

    def _language(self, path: str) -> str:
        if path not in self._languages:
            self._languages[path] = find_file_language(path)
        return self._languages[path]


def literal(text: str) -> str:
    """A line of a file as it is shown."""
    shown = sanitize_text(text[:_LONGEST].removesuffix("\r")).replace("\n", "\\n")
    is_cut = len(text) > _LONGEST
    return shown + ("…" if is_cut else "\\r" if text.endswith("\r") else "")


def _changed_words(slot: PatchSlot, hunk: int, texts: dict[int, str]) -> dict[int, list[WordSpan]]:
    lines = slot.hunks[hunk].hunk.lines
    found: dict[int, list[WordSpan]] = {}
    for left, right in slot.pairs[hunk]:
        if left is None or right is None or left == right or not {left, right} & texts.keys():
            continue
        old, new = (texts.get(at) or literal(lines[at].text) for at in (left, right))
        found[left], found[right] = find_changed_words(old, new)
    return found


class RowCanvas(NamedTuple):
    """What a row is drawn with."""

    painter: LinePainter
    width: int
    left: int = 0
    """Characters that are out of sight at the left."""
    marked: Collection[ChangedLine] = frozenset()
    """Lines that a person has marked."""
    conflicts: Callable[[str], tuple[str, ...]] = lambda _: ()
    """Names of the agents that a file, by its path, is in conflict with."""


def draw_row(slot: PatchSlot, row: PatchRow, canvas: RowCanvas) -> Line:
    """A row of any kind, within the width."""
    match row.kind:
        case "file":
            return file_title(slot.file, canvas)
        case "hunk":
            return _hunk_title(slot, row.hunk, canvas.width)
        case "line":
            return _line(slot, row, canvas)
        case "pair":
            return _pair(slot, row, canvas)
        case "note" | "comment":
            return clip(row.text, canvas.width)
        case "blank":
            return ()


def file_title(file: ChangedFile, canvas: RowCanvas) -> Line:
    """The first row of a file."""
    facts = [_KIND_WORDS[file.kind], format_counts(file.added, file.removed)]
    if file.old_mode != file.new_mode and file.old_mode and file.new_mode:
        facts.append(f"mode {file.old_mode} {glyphs.TO} {file.new_mode}")
    facts.append({"whole": "accepted", "part": "partly accepted"}.get(file.accepted, ""))
    facts.append("viewed" if file.mark != "none" else "")
    right: list[Span] = [("  " + "  ".join(fact for fact in facts if fact), "faint")]
    if file.is_changed_since:
        right.append((f"  {FILE_MARKS['since']} changed since you looked", "warning"))
    if others := canvas.conflicts(file.path):
        names = ", ".join(sanitize_line(name, 30) for name in others)
        right.append((f"  {FILE_MARKS['conflict']} conflicts with {names}", "warning"))
    room = max(12, canvas.width - width_of(tuple(right)))
    return clip(((shorten_path(file_name(file), room), "heading"), *right), canvas.width)


def file_name(file: ChangedFile) -> str:
    """A file's path as it is shown; of one that moved, both."""
    path = _one_line(file.path)
    if file.old_path is not None and file.old_path != file.path:
        return f"{_one_line(file.old_path)} {glyphs.TO} {path}"
    return path


def _one_line(text: str) -> str:
    return sanitize_text(text).replace("\n", "\\n")


def format_counts(added: int, removed: int) -> str:
    """Lines that came and went."""
    return f"+{added} {glyphs.MINUS}{removed}"


def note_lines(file: ChangedFile, page: FilePatch) -> list[Line]:
    """What is to be said of a file before its first change."""
    words = [file.note, *page.patch.notes]
    if file.shared_with:
        names = ", ".join(sanitize_line(name, 40) for name in file.shared_with)
        words.append(f"shared with {names}: some of this may be theirs")
    if page.is_cut:
        words.append("only the first part of this change is shown; it is too large")
    if not page.lines and not any(words):
        words.append("no changed lines")
    unique = dict.fromkeys(sanitize_line(word, 300) for word in words if word)
    return [((f"  {word}", "faint"),) for word in unique]


def comment_lines(placed: PlacedComment, width: int, name: str) -> list[Line]:
    """A comment below its lines; ``name``: of its author."""
    comment = placed.comment
    states = {"open": "not sent", "sent": "sent", "resolved": f"{glyphs.CHECKED} resolved"}
    facts = [states.get(comment.state, comment.state)]
    if placed.line is None:
        facts.append("the file is gone")
    elif placed.is_changed:
        facts.append("the lines have changed since")
    elif (placed.line, placed.path) != (comment.line, comment.path):
        facts.append(f"was line {comment.line}")
    last = comment.end_line or comment.line
    where = f" on lines {comment.line}{glyphs.RANGE}{last}" if last != comment.line else ""
    state = " · ".join(facts)
    role = {"open": "warning", "resolved": "faint"}.get(comment.state, "good")
    bar: Span = (f"      {glyphs.WALL} ", role)
    room = max(10, width - 9)
    text_role = "faint" if comment.state == "resolved" else "text"
    head = f"{sanitize_line(name, 40)}{where}: "
    spans: list[Span] = [(head, "strong"), (sanitize_text(comment.text), text_role)]
    lines = wrap(spans, max(10, room - len(state) - 2))
    gap = room - width_of(lines[0]) - len(state)
    lines[0] = (*lines[0], (" " * max(2, gap), "text"), (state, role))
    return list(indented(lines, bar, bar))


def draw_file_row(file: ChangedFile, width: int, others: tuple[str, ...]) -> Line:
    """A file in the list: its mark, its path, its counts."""
    counts = format_counts(file.added, file.removed) if not file.is_binary else "binary"
    letter = _KIND_LETTERS.get(file.kind, "")
    conflict = FILE_MARKS["conflict"] if others else ""
    comments = f"{glyphs.COMMENT}{file.comments}" if file.comments else ""
    signs = " ".join(part for part in (conflict, comments) if part)
    tail = "".join(f" {part}" for part in (signs, letter, counts) if part)
    mark, role = _file_mark(file)
    room = max(6, width - 2 - cell_len(tail))
    path = shorten_path(_one_line(file.path), room)
    own = {"new": "good", "deleted": "bad"}.get(file.kind, "text")
    gap = " " * max(0, room - cell_len(path))
    return clip(
        (
            (f"{mark} ", role),
            (path, own),
            (gap, "text"),
            (f" {signs}" if signs else "", "warning"),
            (f" {letter}" if letter else "", "faint"),
            (f" {counts}", "faint"),
        ),
        width,
    )


def _file_mark(file: ChangedFile) -> tuple[str, str]:
    if file.is_changed_since:
        return FILE_MARKS["since"], "warning"
    if file.accepted == "whole":
        return FILE_MARKS["accepted"], "good"
    if file.accepted == "part":
        return FILE_MARKS["part"], "good"
    return (FILE_MARKS["viewed"], "good") if file.mark != "none" else (" ", "text")


def _hunk_title(slot: PatchSlot, number: int, width: int) -> Line:
    numbered = slot.hunks[number]
    new = next((n for n in numbered.news if n), numbered.hunk.new)
    where = sanitize_line(numbered.hunk.where, 200)
    states = {
        "whole": f"{glyphs.ACCEPTED} accepted",
        "part": f"{glyphs.PARTLY_ACCEPTED} partly accepted",
    }
    state = states.get(numbered.accepted, "")
    words = f"@@ line {new}" + (f"  {where}" if where else "")
    line = clip(((words, "hunk"),), max(1, width - len(state) - 2))
    gap = " " * max(0, width - width_of(line) - len(state) - (1 if state else 0))
    end: Line = ((state, "good/hunk"), (" ", "hunk")) if state else ()
    return (*line, (gap, "hunk"), *end)


def _line(slot: PatchSlot, row: PatchRow, canvas: RowCanvas) -> Line:
    at = row.right if row.right >= 0 else row.left
    numbered = slot.hunks[row.hunk]
    sign = numbered.hunk.lines[at].sign
    wide = _number_width(slot)
    if sign == "\\":
        return ((" " * (wide + 2) + "\\ no newline at end of file", "faint"),)
    number = numbered.news[at] if row.right >= 0 else numbered.olds[at]
    return _cell(slot, row.hunk, at, (sign, number), canvas)


def _pair(slot: PatchSlot, row: PatchRow, canvas: RowCanvas) -> Line:
    half = max(8, (canvas.width - 1) // 2)
    numbered = slot.hunks[row.hunk]
    left = right = ((" " * half, "text"),)
    own = canvas._replace(width=half)
    if row.left >= 0:
        sign = numbered.hunk.lines[row.left].sign
        left = _cell(slot, row.hunk, row.left, (sign, numbered.olds[row.left]), own)
    if row.right >= 0:
        own = own._replace(width=canvas.width - half - 1)
        sign = numbered.hunk.lines[row.right].sign
        right = _cell(slot, row.hunk, row.right, (sign, numbered.news[row.right]), own)
    return (*left, (glyphs.WALL, "faint"), *right)


def _cell(slot: PatchSlot, hunk: int, at: int, place: tuple[str, int], canvas: RowCanvas) -> Line:
    """A line with its number and its sign, in exactly the width."""
    sign, number = place
    background = _BACKGROUNDS.get(sign)
    is_marked = ChangedLine(slot.file.id, sign == "-", number) in canvas.marked and sign != " "
    gutter: list[Span] = [
        ((glyphs.CURSOR if is_marked else " "), "key"),
        (f"{number:>{_number_width(slot)}} ", "faint"),
        (f"{sign} ", SIGN_ROLES.get(sign, "faint")),
    ]
    spans = shade_line(canvas.painter.line(slot, hunk, at), sign)
    room = canvas.width - width_of(tuple(gutter))
    shown = slice_line(tuple(spans), canvas.left, canvas.left + max(0, room) + 1)
    shown = clip(shown, max(1, room))
    gap = " " * max(0, room - width_of(shown))
    return (*gutter, *shown, (gap, f"text/{background}" if background else "text"))


def _number_width(slot: PatchSlot) -> int:
    last = slot.hunks[-1] if slot.hunks else None
    if last is None:
        return 3
    highest = max(last.hunk.old, last.hunk.new) + len(last.hunk.lines)
    return max(3, len(str(highest)))
