"""Some lines of a change, applied or reverted: pure functions over contents and hunks.

A content is a list of lines with their ends; only a line feed ends one. Hunks are those between two
contents, without context. Within a group of changed lines the old ones come first, as in a patch.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .api import LineRange, ReviewSelection
from .patch import PatchHunk

__all__ = [
    "AcceptedContent",
    "ChangedLines",
    "LineSet",
    "accept_lines",
    "changed_lines",
    "find_line",
    "merge_lines",
    "reject_lines",
    "select_hunks",
    "split_lines",
    "trace_lines",
]

LineSet = frozenset[int]


def split_lines(data: bytes) -> list[bytes]:
    """The lines of a content, with their ends; the last may have none."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


@dataclass(frozen=True, slots=True)
class ChangedLines:
    """Lines by their numbers from 1: of the old content, and of the new one."""

    old: LineSet
    new: LineSet

    @classmethod
    def selected(cls, selection: ReviewSelection) -> "ChangedLines":
        """Those that a selection names."""
        return cls(_numbers(selection.old), _numbers(selection.new))


_MOST_LINES = 10_000_000


def _numbers(ranges: Iterable[LineRange]) -> LineSet:
    return frozenset(
        number
        for first, last in ranges
        for number in range(max(1, first), min(last, first + _MOST_LINES) + 1)
    )


def changed_lines(hunks: Iterable[PatchHunk]) -> ChangedLines:
    """Those that the hunks remove and add."""
    old: set[int] = set()
    new: set[int] = set()
    for hunk in hunks:
        for sign, before, after in _walk(hunk):
            if sign == "-":
                old.add(before)
            elif sign == "+":
                new.add(after)
    return ChangedLines(frozenset(old), frozenset(new))


def _walk(hunk: PatchHunk) -> Iterator[tuple[str, int, int]]:
    """The sign of each line with the numbers that it has on the sides that it is on."""
    has_old = any(sign in " -" for sign, _ in hunk.lines)
    has_new = any(sign in " +" for sign, _ in hunk.lines)
    # Where a side has no lines, its number is that of the line before.
    before = hunk.old if has_old else hunk.old + 1
    after = hunk.new if has_new else hunk.new + 1
    for sign, _ in hunk.lines:
        if sign == "\\":
            continue
        yield sign, before, after
        before += sign in " -"
        after += sign in " +"


def select_hunks(
    file: str, hunks: Iterable[PatchHunk], *, content: str | None = None
) -> ReviewSelection:
    """The changed lines of hunks as a selection."""
    lines = changed_lines(hunks)
    return ReviewSelection(
        file=file, content=content, old=_ranges(lines.old), new=_ranges(lines.new)
    )


def _ranges(numbers: Iterable[int]) -> tuple[LineRange, ...]:
    found: list[LineRange] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def merge_lines(
    old: Sequence[bytes],
    new: Sequence[bytes],
    hunks: Iterable[PatchHunk],
    keeps_old: Callable[[int], bool],
    keeps_new: Callable[[int], bool],
) -> list[bytes]:
    """A content between two: of each group of changed lines those that are kept, the old first.

    Lines that did not change are taken from ``new``.
    """
    found: list[bytes] = []
    at = 0
    for hunk in hunks:
        for group in _groups(hunk):
            found += new[at : group.after]
            at = group.after + group.news
            found += [
                old[n] for n in range(group.before, group.before + group.olds) if keeps_old(n + 1)
            ]
            found += [new[n] for n in range(group.after, at) if keeps_new(n + 1)]
    return _with_ends([*found, *new[at:]])


def _with_ends(lines: list[bytes]) -> list[bytes]:
    """Every line but the last must end."""
    for at, line in enumerate(lines[:-1]):
        if not line.endswith(b"\n"):
            lines[at] = line + b"\n"
    return lines


@dataclass(frozen=True, slots=True)
class _Group:
    """Old lines that were replaced by new ones; counted from 0."""

    before: int
    olds: int
    after: int
    news: int


def _groups(hunk: PatchHunk) -> Iterator[_Group]:
    before = after = None
    olds = news = 0
    for sign, old, new in _walk(hunk):
        if sign == " " or (sign == "-" and news):
            if before is not None and after is not None:
                yield _Group(before, olds, after, news)
            before, after, olds, news = None, None, 0, 0
        if sign != " ":
            if before is None:
                before, after = old - 1, new - 1
            olds += sign == "-"
            news += sign == "+"
    if before is not None and after is not None:
        yield _Group(before, olds, after, news)


def reject_lines(
    old: Sequence[bytes], new: Sequence[bytes], hunks: Iterable[PatchHunk], chosen: ChangedLines
) -> list[bytes]:
    """The new content without the chosen lines of its change."""
    return merge_lines(old, new, hunks, lambda n: n in chosen.old, lambda n: n not in chosen.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedContent:
    """A content that has some of a change, and how it stands between the old and the new one."""

    old: Sequence[bytes]
    new: Sequence[bytes]
    current: Sequence[bytes]
    change: Sequence[PatchHunk]
    """From the old content to the new one."""
    done: Sequence[PatchHunk]
    """From the old content to the current one."""
    left: Sequence[PatchHunk]
    """From the current content to the new one."""

    def with_lines(self, chosen: ChangedLines) -> list[bytes]:
        """The content with the chosen lines of the change too."""
        has = self.measure()
        if self._compose(has) == list(self.current):
            return self._compose(ChangedLines(has.old | chosen.old, has.new | chosen.new))
        # It has lines that are neither old nor new, such as an earlier version of the change.
        return accept_lines(self.current, self.new, self.left, trace_lines(self.done), chosen)

    def measure(self) -> ChangedLines:
        """The lines of the change that the content has."""
        lines = changed_lines(self.change)
        missing, gone = changed_lines(self.left).new, changed_lines(self.done).old
        return ChangedLines(lines.old & gone, lines.new - missing)

    def _compose(self, lines: ChangedLines) -> list[bytes]:
        return merge_lines(
            self.old,
            self.new,
            self.change,
            lambda n: n not in lines.old,
            lambda n: n in lines.new,
        )


def accept_lines(
    current: Sequence[bytes],
    new: Sequence[bytes],
    hunks: Sequence[PatchHunk],
    origins: Callable[[int], int | None],
    chosen: ChangedLines,
) -> list[bytes]:
    """A content with the chosen lines of a change, which may have some of it already.

    Args:
        current: the content.
        new: what the change leads to.
        hunks: between these two.
        origins: the line of the old content that a line of the current one is; None: it is none.
        chosen: lines of the old and of the new content. A line of the current content that is in
            neither gives way when something of its group is chosen.
    """
    givers: set[int] = set()
    for hunk in hunks:
        for group in _groups(hunk):
            befores = range(group.before + 1, group.before + group.olds + 1)
            afters = range(group.after + 1, group.after + group.news + 1)
            removed = {n for n in befores if origins(n) in chosen.old}
            if removed or any(n in chosen.new for n in afters):
                removed |= {n for n in befores if origins(n) is None}
            givers |= removed
    return merge_lines(current, new, hunks, lambda n: n not in givers, lambda n: n in chosen.new)


def trace_lines(hunks: Iterable[PatchHunk]) -> Callable[[int], int | None]:
    """Finds the line of the old content that a line of the new one is; None: it is none."""
    groups = [group for hunk in hunks for group in _groups(hunk)]
    starts = [group.after for group in groups]

    def trace(line: int) -> int | None:
        at = bisect_left(starts, line) - 1
        if at < 0:
            return line
        group = groups[at]
        if line <= group.after + group.news:
            return None
        return line - (group.after + group.news) + group.before + group.olds

    return trace


def find_line(hunks: Iterable[PatchHunk], line: int) -> tuple[int, bool]:
    """Where a line of the old content is in the new one, and whether it is still there.

    For one that is gone: what stands in its place.
    """
    shift = 0
    for hunk in hunks:
        for group in _groups(hunk):
            if line <= group.before:
                return line + shift, True
            if line <= group.before + group.olds:
                inside = min(line - group.before - 1, max(0, group.news - 1))
                return group.after + 1 + inside, False
            shift = group.after + group.news - group.before - group.olds
    return line + shift, True
