"""A change of a file as lines: what was there, what is there, and a little around."""

import difflib
from collections.abc import Iterator

from ..sanitize import sanitize_line, sanitize_text
from .lines import Line

__all__ = ["LONGEST", "diff_counts", "diff_lines"]

LONGEST = 200_000
"""Characters of both sides; a bigger change is only counted."""
_AROUND = 3


def diff_counts(old: str | None, new: str) -> tuple[int, int]:
    """How many lines come and how many go; an estimate where the change is very big."""
    before, after = (old or "").splitlines(), new.splitlines()
    if len(old or "") + len(new) > LONGEST:
        return len(after), len(before)
    added = removed = 0
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=True)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            added += d - c
            removed += b - a
    return added, removed


def diff_lines(path: str, old: str | None, new: str) -> Iterator[Line]:
    """The lines of a unified diff, each with the role of its kind; not wrapped."""
    added, removed = diff_counts(old, new)
    kind = "new file" if old is None else "changed"
    yield ((sanitize_line(path), "strong"), (f"  {kind}  +{added} −{removed}", "faint"))
    if len(old or "") + len(new) > LONGEST:
        yield (("this change is too large to show here", "faint"),)
        return
    before, after = sanitize_text(old or "").splitlines(), sanitize_text(new).splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=True)
    for group in matcher.get_grouped_opcodes(_AROUND):
        first = group[0]
        yield ((f"@@ line {first[3] + 1}", "faint"),)
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from ((("  " + line, "text"),) for line in after[c:d])
                continue
            yield from ((("- " + line, "diff-removed"),) for line in before[a:b])
            yield from ((("+ " + line, "diff-added"),) for line in after[c:d])
