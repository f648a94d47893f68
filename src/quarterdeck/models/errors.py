"""What can go wrong with a model, and when a failed call is tried again.

::

    ModelError
    ├── ModelSetupError          no model can be asked at all: no key, unknown vendor …
    └── CallError                a call failed
        ├── UnauthorizedError        the key was refused
        ├── RequestRejectedError     the vendor refused the request itself (400, 404 …)
        ├── ContextOverflowError     the request is larger than the model's window
        ├── QuotaExceededError       the account may not spend more
        ├── RateLimitedError         too many requests; ``retry_after`` may say how long to wait
        ├── OverloadedError          the vendor failed (5xx, 529)
        ├── VendorUnreachableError   no connection
        └── StreamBrokenError        the stream stopped, stalled or was garbage
"""

from typing import TYPE_CHECKING, ClassVar

from quarterdeck.wire.conversation import Message
from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from random import Random

__all__ = [
    "CAP",
    "FIRST",
    "JITTER",
    "CallError",
    "ContextOverflowError",
    "ModelError",
    "ModelSetupError",
    "OverloadedError",
    "QuotaExceededError",
    "RateLimitedError",
    "RequestRejectedError",
    "StreamBrokenError",
    "UnauthorizedError",
    "VendorUnreachableError",
    "retry_delay",
]


class ModelError(QuarterdeckError):
    """Base of every error of this room."""


class ModelSetupError(ModelError):
    """No model can be asked: the message says what is missing and how to supply it."""


class CallError(ModelError):
    """A call failed.

    ``retryable`` says whether the same request may succeed later; ``retry_after`` is the
    vendor's own wish in seconds; ``partial`` is what had arrived of the reply.
    """

    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        partial: Message | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.partial = partial


class UnauthorizedError(CallError):
    """The key was refused."""


class RequestRejectedError(CallError):
    """The vendor refused the request itself."""


class ContextOverflowError(CallError):
    """The request is larger than the model's window."""


class QuotaExceededError(CallError):
    """The account may not spend more."""


class RateLimitedError(CallError):
    """Too many requests."""

    retryable = True


class OverloadedError(CallError):
    """The vendor failed."""

    retryable = True


class VendorUnreachableError(CallError):
    """No connection."""

    retryable = True


class StreamBrokenError(CallError):
    """The stream stopped, stalled or was garbage."""

    retryable = True


FIRST = 1.0
"""Seconds before the first retry, when the vendor does not say."""
CAP = 60.0
"""The longest delay in seconds, when the vendor does not say."""
JITTER = 0.25
"""The share by which a delay of ours may be longer or shorter."""


def retry_delay(attempt: int, error: ModelError, *, retries: int, random: "Random") -> float | None:
    """Seconds to wait after attempt number ``attempt`` (from 1) failed; None: give up.

    What the vendor asks for is waited exactly; else the delay doubles up to ``CAP``, moved by
    ``JITTER`` with the help of ``random``.
    """
    if not isinstance(error, CallError) or not error.retryable or attempt > retries:
        return None
    if error.retry_after is not None:
        return error.retry_after
    delay = min(CAP, FIRST * 2.0 ** min(attempt - 1, 32))
    return delay * (1 + JITTER * (2 * random.random() - 1))
