"""Changes of a text, for people (whole, or its hunks) and for the model (unified, short)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from quarterdeck.wire.tool_calls import Diff

from .truncation import TruncatedText, keep_head, shorten

__all__ = ["Hunk", "diff_content", "first_change", "hunks", "unified"]

WHOLE_CHARACTERS = 200_000
"""Old and new text up to this long together are shown to people whole, longer ones as hunks."""
_SHOWN_HUNKS = 50
_UNIFIED_LINES = 120
_UNIFIED_BYTES = 8_000
_CONTEXT = 3
_COMPARED = 4_000_000
"""Old times new lines beyond which a changed region is one hunk: comparing takes seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """A region of changed lines with some lines around it; line numbers count from 1."""

    old_line: int
    new_line: int
    lines: tuple[tuple[str, str], ...]
    """Pairs of sign (blank, ``-``, ``+``) and line with its line end."""

    def side(self, sign: str) -> str:
        """The text of one side: ``-`` for old, ``+`` for new."""
        return "".join(line for mark, line in self.lines if mark in (" ", sign))


def diff_content(path: str, old: str | None, new: str) -> tuple[Diff, ...]:
    """The change as people see it: the whole texts, or the hunks of large ones.

    Takes time for large texts; call it in a thread.
    """
    if old is None or len(old) + len(new) <= WHOLE_CHARACTERS:
        if len(new) > WHOLE_CHARACTERS:
            left = len(new) - WHOLE_CHARACTERS
            new = f"{new[:WHOLE_CHARACTERS]}\n[… {left} more characters, not shown]\n"
        return (Diff(path=path, old_text=old, new_text=new),)
    shown: list[Diff] = []
    room = 2 * WHOLE_CHARACTERS
    for hunk in hunks(old, new):
        before, after = hunk.side("-"), hunk.side("+")
        room -= len(before) + len(after)
        if shown and (room < 0 or len(shown) >= _SHOWN_HUNKS):
            break
        shown.append(Diff(path=path, old_text=before, new_text=after))
    return tuple(shown)


def unified(old: str, new: str) -> str:
    """The change as the model sees it: hunks with three lines around, cut with a count."""
    kept = keep_head(_unified_lines(old, new), max_lines=_UNIFIED_LINES, max_bytes=_UNIFIED_BYTES)
    return kept.text + _left_out(kept)


def first_change(old: str, new: str) -> int:
    """The number of the first line that differs, counted from 1 in the new text."""
    before, after = old.split("\n"), new.split("\n")
    same = _common(before, after)
    return min(same + 1, len(after))


def hunks(old: str, new: str) -> Iterator[Hunk]:
    """The changed regions, in order, with up to three unchanged lines around each."""
    before, after = _lines(old), _lines(new)
    for group in _groups(_changes(before, after)):
        (_, first_old, _, first_new, _) = group[0]
        lines: list[tuple[str, str]] = []
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                lines += ((" ", line) for line in before[a1:a2])
                continue
            lines += (("-", line) for line in before[a1:a2])
            lines += (("+", line) for line in after[b1:b2])
        yield Hunk(old_line=first_old + 1, new_line=first_new + 1, lines=tuple(lines))


_Change = tuple[str, int, int, int, int]


def _changes(before: list[str], after: list[str]) -> list[_Change]:
    """What ``SequenceMatcher.get_opcodes`` gives, in bounded time."""
    head = _common(before, after)
    most = min(len(before), len(after)) - head
    tail = _common(before[head:][::-1], after[head:][::-1], most)
    a, b = head, head
    changes: list[_Change] = [("equal", 0, head, 0, head)]
    for a2, b2 in _anchors(before, after, head, tail):
        changes += _compared(before, after, (a, a2, b, b2))
        a, b = a2 + 1, b2 + 1
        changes.append(("equal", a2, a, b2, b))
    end, new_end = len(before) - tail, len(after) - tail
    changes += _compared(before, after, (a, end, b, new_end))
    changes.append(("equal", end, len(before), new_end, len(after)))
    return _joined(changes)


def _compared(
    before: list[str], after: list[str], region: tuple[int, int, int, int]
) -> Iterator[_Change]:
    """The changes within a region; a region that would take too long is one change."""
    a1, a2, b1, b2 = region
    if a1 == a2 and b1 == b2:
        return
    if (a2 - a1) * (b2 - b1) > _COMPARED:
        yield "replace", a1, a2, b1, b2
        return
    matcher = SequenceMatcher(None, before[a1:a2], after[b1:b2], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        yield tag, a + a1, b + a1, c + b1, d + b1


def _anchors(
    before: list[str], after: list[str], head: int, tail: int
) -> Iterator[tuple[int, int]]:
    """Lines of a large region that are there once on both sides, in the same order.

    They cut the region into pieces that can be compared (as in the "patience" diff).
    """
    a2, b2 = len(before) - tail, len(after) - tail
    if (a2 - head) * (b2 - head) <= _COMPARED:
        return
    ours, theirs = Counter(before[head:a2]), Counter(after[head:b2])
    places = {line: index for index, line in enumerate(after[head:b2], head)}
    pairs = [
        (index, places[line])
        for index, line in enumerate(before[head:a2], head)
        if ours[line] == 1 and theirs[line] == 1
    ]
    yield from _longest_rising(pairs)


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of ``pairs`` (which rise in the first) that rises in the second too."""
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for index, (_, value) in enumerate(pairs):
        place = bisect_left(ends, value)
        previous.append(last[place - 1] if place else -1)
        ends[place : place + 1] = [value]
        last[place : place + 1] = [index]
    rising: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        rising.append(pairs[index])
        index = previous[index]
    return rising[::-1]


def _joined(changes: list[_Change]) -> list[_Change]:
    """Without empty changes, and with equal neighbours as one."""
    joined: list[_Change] = []
    for tag, a1, a2, b1, b2 in changes:
        if a1 == a2 and b1 == b2:
            continue
        if tag == "equal" and joined and joined[-1][0] == "equal":
            _, a0, _, b0, _ = joined.pop()
            a1, b1 = a0, b0
        joined.append((tag, a1, a2, b1, b2))
    return joined


def _groups(changes: list[_Change]) -> Iterator[list[_Change]]:
    """Group changes that are near each other, with their surroundings."""
    if not any(change[0] != "equal" for change in changes):
        return
    group: list[_Change] = []
    last = len(changes) - 1
    for index, (tag, a1, a2, b1, b2) in enumerate(changes):
        if tag != "equal":
            group.append((tag, a1, a2, b1, b2))
            continue
        lead = 0 if index == 0 else min(_CONTEXT, a2 - a1)
        follow = 0 if index == last else min(_CONTEXT, a2 - a1)
        if group and follow and a2 - a1 <= 2 * _CONTEXT:
            group.append((tag, a1, a2, b1, b2))
            continue
        if group:
            yield [*group, (tag, a1, a1 + lead, b1, b1 + lead)]
        group = [(tag, a2 - follow, a2, b2 - follow, b2)] if follow else []
    if any(change[0] != "equal" for change in group):
        yield group


def _unified_lines(old: str, new: str) -> Iterator[str]:
    for hunk in hunks(old, new):
        removed = sum(sign != "+" for sign, _ in hunk.lines)
        added = sum(sign != "-" for sign, _ in hunk.lines)
        yield f"@@ -{hunk.old_line},{removed} +{hunk.new_line},{added} @@"
        for sign, line in hunk.lines:
            yield sign + shorten(line.rstrip("\r\n"))


def _left_out(kept: TruncatedText) -> str:
    return f"\n[… {kept.dropped_lines} more lines of the diff]" if not kept.is_whole else ""


def _lines(text: str) -> list[str]:
    """Lines with their ends; only LF ends a line."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _common(before: list[str], after: list[str], most: int | None = None) -> int:
    """How many lines at the beginning are the same."""
    end = min(len(before), len(after)) if most is None else most
    return next((i for i in range(end) if before[i] != after[i]), end)
