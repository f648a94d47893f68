"""Pages of a patch: a bounded number of lines, and of characters."""

from msgspec.structs import replace

from .patch import PatchFile, PatchHunk, PatchLine

__all__ = ["LONGEST_LINE", "cut_page"]

LONGEST_LINE = 10_000
"""Characters of a line that are given."""
_MOST_CHARACTERS = 1_000_000


def cut_page(patch: PatchFile, after: int, limit: int) -> tuple[PatchFile, list[int], int | None]:
    """The lines of hunks after the first ``after`` ones.

    Returns the patch with the hunks of the page, which hunks they are counted from 0, and how many
    lines come before the next page; None: there is none.
    """
    hunks: list[PatchHunk] = []
    numbers: list[int] = []
    passed = taken = characters = 0
    for number, hunk in enumerate(patch.hunks):
        count = len(hunk.lines)
        if passed + count <= after and count:
            passed += count
            continue
        start = max(0, after - passed)
        room = limit - taken
        if room <= 0 or characters > _MOST_CHARACTERS:
            return replace(patch, hunks=hunks), numbers, passed
        lines: list[PatchLine] = []
        for line in hunk.lines[start : start + room]:
            if characters > _MOST_CHARACTERS and lines:
                break
            characters += min(len(line.text), LONGEST_LINE)
            lines.append(_clip(line))
        hunks.append(_part(hunk, start, lines))
        numbers.append(number)
        taken += len(lines)
        if start + len(lines) < count:
            return replace(patch, hunks=hunks), numbers, passed + start + len(lines)
        passed += count
    return replace(patch, hunks=hunks), numbers, None


def _clip(line: PatchLine) -> PatchLine:
    if len(line.text) <= LONGEST_LINE:
        return line
    left = len(line.text) - LONGEST_LINE
    return PatchLine(line.sign, f"{line.text[:LONGEST_LINE]}… ({left:,} more characters)")


def _part(hunk: PatchHunk, start: int, lines: list[PatchLine]) -> PatchHunk:
    """A hunk that begins with another of its lines; numbers of lines stay right."""
    if start == 0:
        return replace(hunk, lines=lines)
    before = hunk.lines[:start]
    has_old = any(sign in " -" for sign, _ in hunk.lines)
    has_new = any(sign in " +" for sign, _ in hunk.lines)
    old = hunk.old + (not has_old) + sum(sign in " -" for sign, _ in before)
    new = hunk.new + (not has_new) + sum(sign in " +" for sign, _ in before)
    # Where the rest has no lines of a side, its number is that of the line before.
    old -= not any(sign in " -" for sign, _ in lines)
    new -= not any(sign in " +" for sign, _ in lines)
    return replace(hunk, old=old, new=new, lines=lines, is_continued=True)
