"""The changes of files as rows, of which only some are in memory.

A file's patch comes in pages. Each page fills a slot; a slot whose page is not there has an
estimated height, so that a patch of any length can be scrolled through at once.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from quarterdeck.fleet.review.api import (
    Acceptance,
    ChangedFile,
    FilePatch,
    PlacedComment,
    ReviewSelection,
)
from quarterdeck.fleet.review.patch import PatchHunk
from quarterdeck.fleet.review.words import LinePair, pair_lines

from ...rendering.lines import Line

__all__ = [
    "PAGE_LINES",
    "ChangedLine",
    "NumberedHunk",
    "PatchDocument",
    "PatchPlace",
    "PatchRow",
    "PatchRowKind",
    "PatchSlot",
    "RowStyle",
    "SlotChange",
    "lay_out",
    "line_numbers",
    "select_lines",
]

PAGE_LINES = 1_000
"""Lines of hunks that are asked for at once."""
_MOST_SLOTS = 10
"""Pages that stay in memory."""

PatchRowKind: TypeAlias = Literal["file", "note", "hunk", "line", "pair", "comment", "blank"]


class PatchRow(NamedTuple):
    """A row on the screen; ``left`` and ``right`` are places in the lines of a hunk."""

    kind: PatchRowKind
    hunk: int = -1
    left: int = -1
    right: int = -1
    text: Line = ()
    """Of notes and comments."""
    comment: str = ""
    """The id of the comment."""


class ChangedLine(NamedTuple):
    """A line that was removed or added, by its number on that side."""

    file: str
    is_old: bool
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPlace:
    """A place in the changes that can be found again when rows come and go."""

    file: str
    """The id of the file."""
    old: int = 0
    """0: it is not in the old file."""
    new: int = 0
    kind: PatchRowKind = "file"
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStyle:
    """How patches are laid out."""

    is_split: bool = False
    """Old and new side by side."""
    is_single: bool = True
    """Only one file is shown, so that nothing has to separate it from the next."""
    comments: Sequence[PlacedComment] = ()
    draw_comment: Callable[[PlacedComment], list[Line]] = lambda _: []
    draw_notes: Callable[[ChangedFile, FilePatch], list[Line]] = lambda file, page: []


class NumberedHunk:
    """A hunk, with the numbers that its lines have in the old and in the new file."""

    __slots__ = ("accepted", "hunk", "news", "olds")

    def __init__(self, hunk: PatchHunk, accepted: Acceptance) -> None:
        self.hunk = hunk
        self.accepted: Acceptance = accepted
        signs = [line.sign for line in hunk.lines]
        # Where a side has no lines, its number is that of the line before.
        old = hunk.old if any(sign in " -" for sign in signs) else hunk.old + 1
        new = hunk.new if any(sign in " +" for sign in signs) else hunk.new + 1
        self.olds: list[int] = []
        self.news: list[int] = []
        for sign in signs:
            self.olds.append(old if sign in " -" else 0)
            self.news.append(new if sign in " +" else 0)
            old += sign in " -"
            new += sign in " +"

    def changed_lines(self, file: str) -> Iterator[ChangedLine]:
        """The lines that it removes and adds."""
        for at, line in enumerate(self.hunk.lines):
            if line.sign == "-":
                yield ChangedLine(file, True, self.olds[at])
            elif line.sign == "+":
                yield ChangedLine(file, False, self.news[at])


@dataclass(slots=True, kw_only=True, eq=False)
class PatchSlot:
    """Where a page of a file's patch stands."""

    file: ChangedFile
    after: int
    lines: int
    """How many lines of hunks it has; a guess until the first page is there."""
    is_first: bool = False
    is_last: bool = False
    height: int = 0
    page: FilePatch | None = None
    hunks: list[NumberedHunk] = field(default_factory=list[NumberedHunk])
    pairs: list[list[LinePair]] = field(default_factory=list["list[LinePair]"])
    """For each hunk the lines that stand beside each other."""
    rows: list[PatchRow] = field(default_factory=list[PatchRow])
    span: tuple[int, int] = (0, 0)
    """The first and the last line of the new file on it, as far as it was ever known."""

    @property
    def is_loaded(self) -> bool:
        """Whether its page is in memory."""
        return self.page is not None


class SlotChange(NamedTuple):
    """Rows that have another height now: those after them moved."""

    start: int
    before: int
    after: int


class PatchDocument:
    """Rows of one file or of several, by their place from the top.

    Args:
        files: whose changes it has.
        tree: ``AgentChanges.new`` that the files are of; pages are read of the same.
    """

    def __init__(self, files: Iterable[ChangedFile] = (), tree: str | None = None) -> None:
        self.tree = tree
        self.slots: list[PatchSlot] = []
        for file in files:
            self.slots += _slots_of(file)
        self._starts: list[int] = []
        self._measure()

    @property
    def height(self) -> int:
        """Rows, estimated where pages are not there."""
        return self._starts[-1] + self.slots[-1].height if self.slots else 0

    @property
    def files(self) -> list[ChangedFile]:
        """The files in order."""
        return [slot.file for slot in self.slots if slot.is_first]

    def find_slot(self, y: int) -> tuple[PatchSlot, int] | None:
        """The slot at a row, and which of its rows it is; None: it is outside."""
        if not self.slots or not 0 <= y < self.height:
            return None
        at = bisect_right(self._starts, y) - 1
        return self.slots[at], y - self._starts[at]

    def row(self, y: int) -> tuple[PatchSlot, PatchRow] | None:
        """The row at a place; None: it is outside, or not loaded."""
        found = self.find_slot(y)
        if found is None or found[1] >= len(found[0].rows):
            return None
        return found[0], found[0].rows[found[1]]

    def start_of(self, slot: PatchSlot) -> int:
        """The place of a slot's first row."""
        return self._starts[self.slots.index(slot)]

    def slots_in(self, first: int, last: int) -> list[PatchSlot]:
        """The slots of these rows."""
        if not self.slots:
            return []
        begin = max(0, bisect_right(self._starts, first) - 1)
        return self.slots[begin : bisect_right(self._starts, last)]

    def fill(self, slot: PatchSlot, page: FilePatch) -> SlotChange | None:
        """Take a page that was laid out with ``lay_out``; None: its slot is gone."""
        if slot not in self.slots:
            return None
        change = SlotChange(self.start_of(slot), slot.height, len(slot.rows))
        at = self.slots.index(slot)
        slot.height = len(slot.rows)
        self._split(at, page)
        self._measure()
        self._evict(at)
        return change

    def lay_out_again(self, style: RowStyle) -> None:
        """Make the rows of all pages that are there anew."""
        for at, slot in enumerate(self.slots):
            if slot.page is not None:
                lay_out(slot, slot.page, style, self._before(at))
                slot.height = len(slot.rows)
        self._measure()

    def before(self, slot: PatchSlot) -> int:
        """The last line of the new file that is known to be above a slot."""
        return self._before(self.slots.index(slot)) if slot in self.slots else 0

    def place(self, y: int) -> PatchPlace | None:
        """The place of a row, to find it again."""
        found = self.row(y)
        if found is None:
            near = self.find_slot(y)
            return PatchPlace(file=near[0].file.id) if near is not None else None
        slot, row = found
        old, new = line_numbers(slot, _above(slot, row) if row.kind == "comment" else row)
        return PatchPlace(file=slot.file.id, old=old, new=new, kind=row.kind, comment=row.comment)

    def find(self, place: PatchPlace) -> int | None:
        """The row of a place, or the one nearest to it; None: its file is not here."""
        best: tuple[int, int] | None = None
        for start, slot in zip(self._starts, self.slots, strict=True):
            if slot.file.id != place.file:
                continue
            best = best or (1_000_000_000, start)
            for at, row in enumerate(slot.rows):
                distance = _distance(slot, row, place)
                if distance is not None and distance < best[0]:
                    best = distance, start + at
        return best[1] if best is not None else None

    def hunk_rows(self, first: int, last: int) -> Iterator[int]:
        """Places where hunks begin, among pages that are there; a hunk that goes on is none."""
        for slot in self.slots_in(first, last):
            start = self.start_of(slot)
            for at, row in enumerate(slot.rows):
                if row.kind == "hunk" and first <= start + at <= last:
                    yield start + at

    def file_row(self, file: str) -> int | None:
        """Where a file begins, by its id."""
        for start, slot in zip(self._starts, self.slots, strict=True):
            if slot.file.id == file and slot.is_first:
                return start
        return None

    def neighbour(self, slot: PatchSlot, step: int) -> PatchSlot | None:
        """The slot of the same file after or before this one."""
        at = self.slots.index(slot) + step
        if 0 <= at < len(self.slots) and self.slots[at].file.id == slot.file.id:
            return self.slots[at]
        return None

    def _split(self, at: int, page: FilePatch) -> None:
        """Follow what the page says of the file's length."""
        slot = self.slots[at]
        taken = sum(len(hunk.lines) for hunk in page.patch.hunks)
        slot.lines = taken
        rest = [one for one in self.slots[at + 1 :] if one.file.id == slot.file.id]
        slot.is_last = page.next is None
        if page.next is None:
            for one in rest:
                self.slots.remove(one)
        elif not rest or rest[0].after != page.next:
            for one in rest:
                self.slots.remove(one)
            left = max(1, page.lines - page.next)
            self.slots[at + 1 : at + 1] = _cut(slot.file, page.next, left)

    def _evict(self, keep: int) -> None:
        """Forget the pages that are furthest from one."""
        there = [at for at, slot in enumerate(self.slots) if slot.is_loaded]
        there.sort(key=lambda at: abs(at - keep))
        for at in there[_MOST_SLOTS:]:
            slot = self.slots[at]
            slot.page, slot.hunks, slot.pairs, slot.rows = None, [], [], []

    def _before(self, at: int) -> int:
        before = self.slots[at - 1] if at else None
        return before.span[1] if before and before.file.id == self.slots[at].file.id else 0

    def _measure(self) -> None:
        self._starts = list(accumulate((slot.height for slot in self.slots[:-1]), initial=0))
        if not self.slots:
            self._starts = []


def _slots_of(file: ChangedFile) -> list[PatchSlot]:
    # With the lines around a change, which the counts do not have.
    slots = _cut(file, 0, file.added + file.removed + min(6, file.added + file.removed))
    slots[0].is_first = True
    slots[0].height += 2
    return slots


def _cut(file: ChangedFile, after: int, lines: int) -> list[PatchSlot]:
    slots: list[PatchSlot] = []
    while lines > 0 or not slots:
        part = min(PAGE_LINES, max(0, lines))
        slots.append(PatchSlot(file=file, after=after, lines=part, height=max(1, part)))
        after, lines = after + part, lines - part
    slots[-1].is_last = True
    return slots


def lay_out(slot: PatchSlot, page: FilePatch, style: RowStyle, before: int) -> None:
    """Make the rows of a page; takes some time, so that long ones are laid out in a thread.

    ``before``: the last line of the new file that stands above.
    """
    if page is not slot.page:
        accepted: dict[int, Acceptance] = dict(enumerate(page.accepted))
        slot.hunks = [
            NumberedHunk(hunk, accepted.get(at, "none")) for at, hunk in enumerate(page.patch.hunks)
        ]
        slot.pairs = [pair_lines(hunk) for hunk in page.patch.hunks]
        slot.page = page
    news = [number for hunk in slot.hunks for number in hunk.news if number]
    slot.span = (min(news, default=slot.span[0]), max(news, default=before))
    slot.rows = list(_rows(slot, page, style, before))


def _rows(slot: PatchSlot, page: FilePatch, style: RowStyle, before: int) -> Iterator[PatchRow]:
    mine = _comments_by_row(slot, style, before)
    if slot.is_first:
        yield PatchRow("file")
        for line in style.draw_notes(page.changed, page):
            yield PatchRow("note", text=line)
        yield from _comment_rows(mine.get((-1, -1), ()), style)
    for number, numbered in enumerate(slot.hunks):
        if not numbered.hunk.is_continued:
            yield PatchRow("hunk", number)
        make = _pair_rows if style.is_split else _line_rows
        for row in make(slot, number):
            yield row
            keys = dict.fromkeys(((number, row.left), (number, row.right)))
            for key in keys:
                if key[1] >= 0:
                    yield from _comment_rows(mine.get(key, ()), style)
    if slot.is_last and not style.is_single:
        yield PatchRow("blank")


def _line_rows(slot: PatchSlot, number: int) -> Iterator[PatchRow]:
    for at, line in enumerate(slot.hunks[number].hunk.lines):
        left = at if line.sign in " -" else -1
        right = at if line.sign in " +\\" else -1
        yield PatchRow("line", number, left, right)


def _pair_rows(slot: PatchSlot, number: int) -> Iterator[PatchRow]:
    for left, right in slot.pairs[number]:
        yield PatchRow("pair", number, -1 if left is None else left, -1 if right is None else right)


def _comment_rows(comments: Iterable[PlacedComment], style: RowStyle) -> Iterator[PatchRow]:
    for placed in comments:
        for line in style.draw_comment(placed):
            yield PatchRow("comment", text=line, comment=placed.comment.id)


def _comments_by_row(
    slot: PatchSlot, style: RowStyle, before: int
) -> dict[tuple[int, int], list[PlacedComment]]:
    """Comments by the line that they stand below: its hunk and its place; -1: above all."""
    found: dict[tuple[int, int], list[PlacedComment]] = {}
    for placed in style.comments:
        if placed.file == slot.file.id and _is_on(slot, placed, before):
            found.setdefault(_row_of(slot, placed), []).append(placed)
    return found


def _is_on(slot: PatchSlot, placed: PlacedComment, before: int) -> bool:
    line = placed.end_line or placed.line or 0
    if placed.comment.is_old and any(line in hunk.olds for hunk in slot.hunks):
        return True
    starts = slot.is_first or line > before
    return starts and (slot.is_last or line <= slot.span[1])


def _row_of(slot: PatchSlot, placed: PlacedComment) -> tuple[int, int]:
    line = placed.end_line or placed.line or 0
    best = (-1, -1)
    for number, hunk in enumerate(slot.hunks):
        if placed.comment.is_old and line in hunk.olds:
            return number, hunk.olds.index(line)
        for at, new in enumerate(hunk.news):
            if new == line and not placed.comment.is_old:
                return number, at
            if 0 < new < line:
                best = number, at
    return best


def line_numbers(slot: PatchSlot, row: PatchRow) -> tuple[int, int]:
    """The numbers of a row in the old and in the new file; 0: it is not there."""
    if not 0 <= row.hunk < len(slot.hunks):
        return 0, 0
    hunk = slot.hunks[row.hunk]
    if row.kind == "hunk":
        return next((n for n in hunk.olds if n), 0), next((n for n in hunk.news if n), 0)
    old = hunk.olds[row.left] if row.left >= 0 else 0
    new = hunk.news[row.right] if row.right >= 0 else 0
    return old, new


def _above(slot: PatchSlot, row: PatchRow) -> PatchRow:
    """The line that a comment stands below."""
    at = slot.rows.index(row)
    return next((one for one in slot.rows[at::-1] if one.kind in ("line", "pair")), row)


def _distance(slot: PatchSlot, row: PatchRow, place: PatchPlace) -> int | None:
    """How far a row is from a place; None: it is of another kind."""
    if row.kind == "comment":
        return 0 if place.kind == "comment" and row.comment == place.comment else None
    if place.kind in ("file", "note"):
        return 0 if row.kind == place.kind else None
    if row.kind not in ("line", "pair", "hunk"):
        return None
    old, new = line_numbers(slot, row)
    other = 0 if row.kind == place.kind or "hunk" not in (row.kind, place.kind) else 1
    other += place.kind == "comment"
    if place.new and new:
        return 4 * abs(new - place.new) + other
    if place.old and old:
        return 4 * abs(old - place.old) + other + (2 if place.new else 0)
    return None


def select_lines(
    lines: Iterable[ChangedLine], contents: dict[str, str]
) -> tuple[ReviewSelection, ...]:
    """Lines as selections, one for each file; ``contents``: what each file was when looked at."""
    files: dict[str, tuple[set[int], set[int]]] = {}
    for line in lines:
        sides = files.setdefault(line.file, (set(), set()))
        sides[0 if line.is_old else 1].add(line.number)
    return tuple(
        ReviewSelection(file=file, content=contents.get(file), old=_ranges(olds), new=_ranges(news))
        for file, (olds, news) in files.items()
    )


def _ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)
