"""The workbench as agents see it: calls that change the layout, the theme and the keys."""

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["RefusedCallError"]


class RefusedCallError(QuarterdeckError):
    """A call that is not known, or whose arguments are wrong."""
