"""Changes of a file as lines: numbers, signs, the colours of its language, and changed words.

The review, permission requests and transcripts draw changes with this.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..sanitize import sanitize_line, sanitize_text
from . import glyphs
from .code import highlight_code
from .lines import Line, Span, plain, width_of, wrap

if TYPE_CHECKING:
    from quarterdeck.fleet.review.patch import PatchHunk
    from quarterdeck.fleet.review.words import WordSpan

__all__ = [
    "LONGEST_DIFF",
    "SIGN_ROLES",
    "ChangeRow",
    "PaintedLine",
    "change_rows",
    "colour_lines",
    "count_change_rows",
    "count_changed_lines",
    "diff_lines",
    "draw_change",
    "guess_language",
    "mark_words",
    "patch_lines",
    "shade_line",
]

PaintedLine: TypeAlias = tuple[tuple[str, str, bool], ...]
"""Text, role, and whether it is a word that changed."""
LONGEST_DIFF = 200_000
"""Characters of both sides; a bigger change is only counted."""

SIGN_ROLES = {"+": "diff-added", "-": "diff-removed"}
_BACKGROUNDS = {"+": "diff-line-added", "-": "diff-line-removed"}
_WORDS = {"+": "diff-word-added", "-": "diff-word-removed"}
_MOST_MATCHED = 4_000
"""Lines that differ at the most, for which it is looked what is the same among them."""
_AROUND = 3
_LEAST_ROOM = 8
"""Cells for the text of a line; below that there are no numbers."""
_CHUNK = 40
"""Lines whose colours are worked out together."""
_Opcode: TypeAlias = tuple[str, int, int, int, int]


class ChangeRow(NamedTuple):
    """A line of a change; one without a sign parts two places of a file."""

    sign: str
    number: int = 0
    spans: Line = ()


def guess_language(path: str) -> str:
    """The language of a file's name; empty: none is known. Asks no plugin: that reads the disk."""
    name = path.rpartition("/")[2]
    if name not in _languages:
        if len(_languages) > 500:
            _languages.clear()
        _languages[name] = _find_language(name)
    return _languages[name]


_languages: dict[str, str] = {}


def _find_language(name: str) -> str:
    from fnmatch import fnmatch

    from pygments.lexers import get_all_lexers

    for _, aliases, patterns, _ in get_all_lexers(plugins=False):
        if aliases and any(fnmatch(name, pattern) for pattern in patterns):
            return aliases[0]
    return ""


def colour_lines(texts: Sequence[str], language: str) -> list[Line]:
    """The lines, which are literal, in the colours of a language."""
    without: list[Line] = [plain(text) for text in texts]
    if not language or not texts:
        return without
    found = highlight_code("\n".join(texts), language)
    return found if len(found) == len(texts) else without


def mark_words(line: Line, words: "Sequence[WordSpan]") -> PaintedLine:
    """The line with those of its characters marked that changed."""
    if not words:
        return tuple((text, role, False) for text, role in line)
    found: list[tuple[str, str, bool]] = []
    begin = 0
    for text, role in line:
        at = 0
        for start, end in words:
            first, last = max(at, start - begin), min(len(text), end - begin)
            if first < last:
                found += [(text[at:first], role, False), (text[first:last], role, True)]
                at = last
        found.append((text[at:], role, False))
        begin += len(text)
    return tuple(part for part in found if part[0])


def shade_line(line: PaintedLine, sign: str) -> Iterator[Span]:
    """The spans of a line on the ground of its sign."""
    background, word = _BACKGROUNDS.get(sign), _WORDS.get(sign)
    for text, role, is_changed in line:
        under = word if is_changed else background
        yield text, f"{role}/{under}" if under else role


@lru_cache(maxsize=64)
def count_changed_lines(old: str | None, new: str) -> tuple[int, int]:
    """How many lines come and how many go; an estimate where the change is very big."""
    before, after = (old or "").splitlines(), new.splitlines()
    if len(old or "") + len(new) > LONGEST_DIFF:
        return len(after), len(before)
    added = removed = 0
    for tag, a, b, c, d in _compare(before, after):
        if tag != "equal":
            added += d - c
            removed += b - a
    return added, removed


def change_rows(
    path: str, old: str | None, new: str, *, around: int = 3, first: int = 1
) -> Iterator[ChangeRow]:
    """The rows of a change, worked out as they are taken; ``first``: of the first line."""
    before, after = (sanitize_text(text).splitlines() for text in (old or "", new))
    language = guess_language(path)
    for at, group in enumerate(_grouped(_compare(before, after), around)):
        if at:
            yield ChangeRow("")
        yield from _hunk_rows(_make_hunk(before, after, group, first), language)


def count_change_rows(old: str | None, new: str, *, around: int = 3) -> int:
    """How many rows a change has, without working them out."""
    before, after = (sanitize_text(text).splitlines() for text in (old or "", new))
    groups = list(_grouped(_compare(before, after), around))
    hunks = (_make_hunk(before, after, group, 1) for group in groups)
    return sum(len(hunk.lines) for hunk in hunks) + max(0, len(groups) - 1)


def _hunk_rows(hunk: "PatchHunk", language: str) -> Iterator[ChangeRow]:
    from quarterdeck.fleet.review.words import find_changed_words, pair_lines

    lines = hunk.lines
    partners = {a: b for a, b in pair_lines(hunk) if a is not None and b is not None and a != b}
    partners |= {b: a for a, b in partners.items()}
    old, new = hunk.old, hunk.new
    for begin in range(0, len(lines), _CHUNK):
        places = range(begin, min(len(lines), begin + _CHUNK))
        coloured: dict[int, Line] = {}
        for signs in (" -", " +"):
            side = [at for at in places if lines[at].sign in signs]
            texts = [lines[at].text for at in side]
            coloured |= dict(zip(side, colour_lines(texts, language), strict=True))
        for at in places:
            sign = lines[at].sign
            other = partners.get(at)
            words: Sequence[WordSpan] = []
            if other is not None:
                left, right = (other, at) if sign == "+" else (at, other)
                both = find_changed_words(lines[left].text, lines[right].text)
                words = both[sign == "+"]
            spans = tuple(shade_line(mark_words(coloured[at], words), sign))
            yield ChangeRow(sign, old if sign == "-" else new, spans)
            old += sign in " -"
            new += sign in " +"


def _make_hunk(
    before: Sequence[str], after: Sequence[str], group: Sequence[_Opcode], first: int
) -> "PatchHunk":
    from quarterdeck.fleet.review.patch import PatchHunk, PatchLine

    lines: list[PatchLine] = []
    for tag, a, b, c, d in group:
        if tag == "equal":
            lines += [PatchLine(" ", line) for line in after[c:d]]
        else:
            lines += [PatchLine("-", line) for line in before[a:b]]
            lines += [PatchLine("+", line) for line in after[c:d]]
    begin = next((at for at, line in enumerate(lines) if line.sign != " " or line.text.strip()), 0)
    end = len(lines)
    while end > begin and lines[end - 1].sign == " " and not lines[end - 1].text.strip():
        end -= 1  # empty lines at the edge show no surroundings
    old, new = group[0][1] + first + begin, group[0][3] + first + begin
    return PatchHunk(old=old, new=new, lines=lines[begin:end])


def draw_change(
    rows: Iterable[ChangeRow], width: int, *, digits: int = 3, numbers: bool = True
) -> Iterator[Line]:
    """Rows as lines that are exactly so wide, long ones wrapped beside their number.

    ``numbers``: they are known; the lines of a piece of a file have none.
    """
    numbers = numbers and width - digits - 3 >= _LEAST_ROOM
    wide = digits + 1 if numbers else 0
    room = max(1, width - wide - 2)
    for row in rows:
        if not row.sign:
            yield plain(f"{'…':>{max(1, digits)}}", "faint")
            continue
        ground = _BACKGROUNDS.get(row.sign)
        number = f"{row.number:>{digits}} " if numbers else ""
        before: Line = ((number, "faint"), (f"{row.sign} ", SIGN_ROLES.get(row.sign, "faint")))
        for line in wrap(row.spans, room):
            gap = " " * max(0, room - width_of(line))
            rest: Line = ((gap, f"text/{ground}" if ground else "text"),) if ground else ()
            yield tuple(span for span in (*before, *line, *rest) if span[0])
            before = ((" " * (wide + 2), "text"),)


def diff_lines(path: str, old: str | None, new: str) -> Iterator[Line]:
    """The lines of a unified diff, each with the role of its kind; not wrapped."""
    added, removed = count_changed_lines(old, new)
    kind = "new file" if old is None else "changed"
    yield (
        (sanitize_line(path), "strong"),
        (f"  {kind}  +{added} {glyphs.MINUS}{removed}", "faint"),
    )
    if len(old or "") + len(new) > LONGEST_DIFF:
        yield plain("this change is too large to show here", "faint")
        return
    before, after = sanitize_text(old or "").splitlines(), sanitize_text(new).splitlines()
    for group in _grouped(_compare(before, after), _AROUND):
        yield plain(f"@@ line {group[0][3] + 1}", "faint")
        for sign, text in _make_hunk(before, after, group, 1).lines:
            yield plain(f"{sign} {text}", SIGN_ROLES.get(sign, "text"))


def patch_lines(patch: str) -> Iterator[Line]:
    """The lines of a patch as it was written, each in the role of its sign."""
    roles = {"+": "diff-added", "-": "diff-removed", "@": "faint", "*": "strong"}
    for line in sanitize_text(patch.rstrip("\n")).split("\n"):
        yield plain(line, roles.get(line[:1], "text"))


def _compare(before: Sequence[str], after: Sequence[str]) -> list[_Opcode]:
    """What is the same and what is not; what both begin and end with is not compared again."""
    start, most = 0, min(len(before), len(after))
    while start < most and before[start] == after[start]:
        start += 1
    end = 0
    while end < most - start and before[-1 - end] == after[-1 - end]:
        end += 1
    left, right = before[start : len(before) - end], after[start : len(after) - end]
    codes: list[_Opcode] = [("equal", 0, start, 0, start)] if start else []
    if max(len(left), len(right)) > _MOST_MATCHED:
        codes.append(("replace", start, start + len(left), start, start + len(right)))
    elif left or right:
        matcher = difflib.SequenceMatcher(None, left, right, autojunk=True)
        codes += [
            (tag, a + start, b + start, c + start, d + start)
            for tag, a, b, c, d in matcher.get_opcodes()
        ]
    if end:
        codes.append(("equal", len(before) - end, len(before), len(after) - end, len(after)))
    return codes


def _grouped(codes: Sequence[_Opcode], around: int) -> Iterator[list[_Opcode]]:
    """Changes with so many lines around them; those whose surroundings meet are together."""
    group: list[_Opcode] = []
    is_changed: Callable[[_Opcode], bool] = lambda code: code[0] != "equal"  # noqa: E731
    for at, (tag, a, b, c, d) in enumerate(codes):
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        is_first, is_last = not group, not any(map(is_changed, islice(codes, at, None)))
        if is_first:
            cut = max(0, b - a - around)
            group = [(tag, a + cut, b, c + cut, d)]
        elif is_last:
            group.append((tag, a, min(b, a + around), c, min(d, c + around)))
        elif b - a > 2 * around:
            group.append((tag, a, a + around, c, c + around))
            yield group
            group = [(tag, b - around, b, d - around, d)]
        else:
            group.append((tag, a, b, c, d))
    if any(map(is_changed, group)):
        yield group
