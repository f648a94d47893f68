"""Which words of a line changed, and which lines of a hunk stand beside each other.

Pure functions for screens; the time they take is bounded, whatever the lines are.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

from .patch import PatchHunk, PatchLine

__all__ = ["LinePair", "WordSpan", "find_changed_words", "pair_lines", "split_words"]

WordSpan: TypeAlias = tuple[int, int]
"""Characters of a line: from, and up to but not with."""
LinePair: TypeAlias = tuple[int | None, int | None]
"""Places of lines in a hunk, left and right; None: nothing stands there. The same place twice is a
line that did not change."""

_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
_LONGEST = 1_000
"""Characters of a line that are compared."""
_MOST_WORDS = 400
_MOST_PAIRED = 100
"""Lines of a group that are compared with each other; of a larger one the first with the first."""
_ALIKE = 0.35
"""How alike two lines must be for their words to be compared; else all of it is another line."""


def split_words(line: str) -> list[str]:
    """Words, white space and single signs; together they are the line."""
    return _WORDS.findall(line)


def find_changed_words(old: str, new: str) -> tuple[list[WordSpan], list[WordSpan]]:
    """The parts of the old and of the new line that the other has not.

    Empty for both where the lines are the same, or so different that marks would not help.
    """
    if old == new or max(len(old), len(new)) > _LONGEST:
        return [], []
    left, right = split_words(old), split_words(new)
    if max(len(left), len(right)) > _MOST_WORDS:
        return [], []
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    blocks = matcher.get_matching_blocks()
    same = sum(len(word) for at, _, n in blocks for word in left[at : at + n] if not word.isspace())
    longest = max(len("".join(old.split())), len("".join(new.split())))
    if longest and same / longest < _ALIKE:
        return [], []
    olds: list[WordSpan] = []
    news: list[WordSpan] = []
    left_ends, right_ends = _ends(left), _ends(right)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            continue
        _append(olds, left_ends[a], left_ends[b])
        _append(news, right_ends[c], right_ends[d])
    return olds, news


def _ends(words: Sequence[str]) -> list[int]:
    found = [0]
    for word in words:
        found.append(found[-1] + len(word))
    return found


def _append(spans: list[WordSpan], start: int, end: int) -> None:
    if start == end:
        return
    if spans and spans[-1][1] == start:
        spans[-1] = (spans[-1][0], end)
    else:
        spans.append((start, end))


def pair_lines(hunk: PatchHunk) -> list[LinePair]:
    """The lines of a hunk side by side: what did not change, and old lines beside new ones.

    In a group of changed lines those that are most alike stand beside each other, in order; without
    likeness the first beside the first.
    """
    found: list[LinePair] = []
    olds: list[int] = []
    news: list[int] = []
    for at, line in enumerate(hunk.lines):
        if line.sign == "-" and not news:
            olds.append(at)
        elif line.sign == "+":
            news.append(at)
        elif line.sign == "\\":
            continue
        else:
            found += _pair_group(hunk.lines, olds, news)
            olds, news = ([at], []) if line.sign == "-" else ([], [])
            found += [(at, at)] if line.sign == " " else []
    return found + _pair_group(hunk.lines, olds, news)


def _pair_group(lines: Sequence[PatchLine], olds: list[int], news: list[int]) -> list[LinePair]:
    if not olds or not news:
        return [*((at, None) for at in olds), *((None, at) for at in news)]
    if len(olds) == len(news) or len(olds) * len(news) > _MOST_PAIRED:
        return _pair_in_order(olds, news)
    return _pair_alike(lines, olds, news)


def _pair_in_order(olds: list[int], news: list[int]) -> list[LinePair]:
    longest = max(len(olds), len(news))
    left: list[int | None] = [*olds, *[None] * (longest - len(olds))]
    right: list[int | None] = [*news, *[None] * (longest - len(news))]
    return list(zip(left, right, strict=True))


def _pair_alike(lines: Sequence[PatchLine], olds: list[int], news: list[int]) -> list[LinePair]:
    """The pairs, in order, whose likeness is greatest together."""
    like = [[_likeness(lines[a].text, lines[b].text) for b in news] for a in olds]
    best = [[0.0] * (len(news) + 1) for _ in range(len(olds) + 1)]
    for a in reversed(range(len(olds))):
        for b in reversed(range(len(news))):
            paired = best[a + 1][b + 1] + like[a][b] if like[a][b] > _ALIKE else -1.0
            best[a][b] = max(best[a + 1][b], best[a][b + 1], paired)
    found: list[LinePair] = []
    a = b = 0
    while a < len(olds) and b < len(news):
        is_pair = like[a][b] > _ALIKE and best[a][b] == best[a + 1][b + 1] + like[a][b]
        if is_pair:
            found.append((olds[a], news[b]))
            a, b = a + 1, b + 1
        elif best[a][b] == best[a + 1][b]:
            found.append((olds[a], None))
            a += 1
        else:
            found.append((None, news[b]))
            b += 1
    return found + [(at, None) for at in olds[a:]] + [(None, at) for at in news[b:]]


def _likeness(old: str, new: str) -> float:
    if max(len(old), len(new)) > _LONGEST:
        return float(old == new)
    left, right = set(split_words(old.strip())), set(split_words(new.strip()))
    if not left or not right:
        return float(left == right)
    return 2 * len(left & right) / (len(left) + len(right))
