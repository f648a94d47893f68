"""Words with numbers: what a stream says, so that what is lost or doubled can be counted."""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["StreamCount", "count_numbers", "has_number", "write_numbers"]

_WORD = re.compile(r"\bno(\d+)\b|\bchunk (\d+)\b")
"""Ours count from one; the agents of ``quarterdeck testing`` say ``chunk 0`` and so on."""


@dataclass(frozen=True, slots=True)
class StreamCount:
    """What became of a stream of numbered words."""

    expected: int
    lost: int
    doubled: int
    out_of_order: int


def write_numbers(count: int) -> str:
    """``no1 no2 …``: the words of a stream."""
    return "".join(f"no{number} " for number in range(1, count + 1))


def has_number(text: str) -> bool:
    """Whether a numbered word is in it."""
    return _WORD.search(text) is not None


def count_numbers(text: str, count: int) -> StreamCount:
    """Compare what arrived with what was sent."""
    seen = [int(ours) if ours else int(other) + 1 for ours, other in _WORD.findall(text)]
    times = Counter(seen)
    lost = sum(1 for number in range(1, count + 1) if number not in times)
    doubled = sum(more - 1 for more in times.values())
    back = sum(1 for before, after in pairwise(seen) if after < before)
    return StreamCount(count, lost, doubled, back)
