"""What pursuing a goal may take."""

from msgspec import Struct

__all__ = ["NO_BUDGET", "Budget"]


class Budget(Struct, frozen=True, kw_only=True):
    """Bounds of all turns of a goal together; None means no bound."""

    tokens: int | None = None
    cost: float | None = None
    """US dollars; needs a model with known prices."""
    seconds: float | None = None
    """Time in which turns run."""
    turns: int | None = None


NO_BUDGET = Budget()
