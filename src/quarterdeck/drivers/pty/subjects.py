"""What a request for leave is about, as far as a screen shows it for certain.

A screen breaks long lines and leaves parts out. A path or a command that may be another than the
one that is shown is not certain, and what is not certain no rule and no mode may allow.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from .patterns import RequestPatterns

__all__ = ["is_certain", "named_files"]

_AROUND = 16
"""Columns that frames and margins take at the most."""


def named_files(asking: RequestPatterns, shown: str) -> tuple[str, ...]:
    """The files that a request to edit names; none if one of them is not shown for certain.

    ``shown``: what the patterns of ``asking.files`` are for.
    """
    for pattern in asking.files:
        found = [one["path"].strip(" ") for one in re.finditer(pattern, shown, re.MULTILINE)]
        if found:
            whole = [path for path in found if path and "\n" not in path]
            is_cut = any(re.search(asking.hidden, path) for path in whole)
            return () if is_cut or len(whole) < len(found) else tuple(whole)
    return ()


def is_certain(asking: RequestPatterns, command: str, columns: int) -> bool:
    """Whether a command is there, whole, and its lines are lines of it and not of the screen."""
    if not command.strip() or re.search(asking.hidden, command):
        return False
    width = columns - _AROUND
    return not any(_may_be_one(above, below, width) for above, below in pairwise(_rows(command)))


def _rows(command: str) -> Sequence[str]:
    return [line for line in command.split("\n") if line.strip()]


def _may_be_one(above: str, below: str, width: int) -> bool:
    """Whether the screen may have broken a line there: the next word had no room."""
    return _cells(above) + 1 + _cells(below.split()[0]) > width


def _cells(text: str) -> int:
    return sum(1 if char.isascii() else 2 for char in text)
