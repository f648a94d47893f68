"""When a failed call is tried again. Pure: the waiting is the caller's."""

from collections.abc import Callable

from .errors import CallError, ModelError

__all__ = ["CAP", "FIRST", "JITTER", "retry_delay"]

FIRST = 1.0
"""Seconds before the first retry, when the vendor does not say."""
CAP = 60.0
"""The longest delay in seconds, when the vendor does not say."""
JITTER = 0.25
"""The share by which a delay of ours may be longer or shorter."""


def retry_delay(
    attempt: int, error: ModelError, *, retries: int, draw: Callable[[], float]
) -> float | None:
    """Seconds to wait after attempt number ``attempt`` (from 1) failed; None: give up.

    What the vendor asks for is waited exactly; else the delay doubles up to ``CAP``, moved by
    ``JITTER`` by what ``draw`` gives, a number from 0 to 1.
    """
    if not isinstance(error, CallError) or not error.retryable or attempt > retries:
        return None
    if error.retry_after is not None:
        return error.retry_after
    delay = min(CAP, FIRST * 2.0 ** min(attempt - 1, 32))
    return delay * (1 + JITTER * (2 * draw() - 1))
