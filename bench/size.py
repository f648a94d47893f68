"""How much a run measures: all of it, less of it, or only that it still works."""

from enum import Enum
from typing import TypeVar

__all__ = ["Size"]

T = TypeVar("T")


class Size(Enum):
    """The size of a run. Each part says what it does for each, with ``choose``."""

    FULL = "full"
    """What the figures of docs/bench.md want: minutes a part."""
    QUICK = "quick"
    """Fewer rounds: for a first look."""
    TINY = "tiny"
    """One round of the least: every line runs, the figures mean nothing. For the tests."""

    def choose(self, full: T, quick: T, tiny: T) -> T:
        """Return the value for this size."""
        return {Size.FULL: full, Size.QUICK: quick, Size.TINY: tiny}[self]
