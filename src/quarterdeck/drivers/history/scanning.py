"""Whether words occur in a file at all, before anybody reads it with care."""

from collections.abc import Iterable
from pathlib import Path

from .errors import HistoryUnreadable
from .files import Budget, open_plain

__all__ = ["may_have"]

_CHUNK = 1024 * 1024


def may_have(paths: Iterable[Path], words: tuple[str, ...], budget: Budget) -> bool:
    """Whether every word may be in one of the files; casefolded words, JSON's escapes beside them.

    False where the budget is used up or a file cannot be read. Words with letters beyond ASCII
    may be escaped in many ways and count as found.
    """
    left = {word.encode() for word in words if word.isascii() and not set('"\\\n\t') & set(word)}
    try:
        for path in paths:
            left = _left(path, left, budget)
            if not left:
                break
    except (HistoryUnreadable, OSError):
        return False
    return not left


def _left(path: Path, left: set[bytes], budget: Budget) -> set[bytes]:
    """Those of the words that are not in a file."""
    longest = max((len(word) for word in left), default=0)
    kept = b""
    with open_plain(path) as file:
        while left and (given := budget.take(_CHUNK)):
            data = file.read(given)
            budget.give_back(given - len(data))
            if not data:
                break
            seen = kept + data.lower()
            left = {word for word in left if word not in seen}
            kept = seen[-longest:]
    return left
