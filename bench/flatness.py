"""Whether a curve is flat: the one rule by which the bench judges what must not grow.

Only the second half counts, since caches fill in the first. Its slope is the median of the slopes
between all pairs of its points (Theil and Sen), which a few busy moments of the machine do not
move. The curve is flat if that slope, over the whole half, comes to no more than a share of the
half's median, or to no more than an amount that is noise.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

__all__ = ["FEWEST_POINTS", "Flatness", "Tolerance", "judge_flatness"]

FEWEST_POINTS = 8
"""A curve with fewer points is not judged."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much a curve may rise in its second half: the larger of the two."""

    share: float
    """Part of the half's median."""
    amount: float
    """In the unit of the curve."""


@dataclass(frozen=True, slots=True)
class Flatness:
    """What the second half of a curve does."""

    middle: float
    """Its median."""
    growth: float
    """By how much it rises over the half, by its slope; negative when it falls."""
    allowed: float
    is_flat: bool | None
    """None: too few points to tell."""


def judge_flatness(values: Sequence[float], tolerance: Tolerance) -> Flatness:
    """Judge a curve of points at equal distances; raises ``ValueError`` if there is none."""
    if not values:
        raise ValueError("a curve without points cannot be judged; sample at least once")
    half = values[len(values) // 2 :]
    middle = statistics.median(half)
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(half), 2)]
    growth = statistics.median(slopes) * (len(half) - 1) if slopes else 0.0
    allowed = max(tolerance.share * abs(middle), tolerance.amount)
    is_judged = len(values) >= FEWEST_POINTS
    return Flatness(middle, growth, allowed, growth <= allowed if is_judged else None)
