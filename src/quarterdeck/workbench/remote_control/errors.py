"""What can be wrong with a call to the screen."""

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["RefusedCallError"]


class RefusedCallError(QuarterdeckError):
    """A call that is not known, or whose arguments are wrong."""
