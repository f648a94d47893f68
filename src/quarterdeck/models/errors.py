"""What can go wrong with a model.

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

from typing import ClassVar

from quarterdeck.wire.conversation import Message
from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
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
]


class ModelError(QuarterdeckError):
    """Base of every error of this room."""


class ModelSetupError(ModelError):
    """No model can be asked: the message says what is missing and how to supply it."""


class CallError(ModelError):
    """A call failed.

    ``retryable`` says whether the same request may succeed later; ``retry_after`` is the
    delay that the vendor asks for, in seconds; ``partial`` is what had arrived of the reply.
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
