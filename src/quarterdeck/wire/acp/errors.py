"""Error codes that ACP adds to JSON-RPC, and the errors that only this package raises."""

from ..errors import QuarterdeckError

__all__ = ["AUTH_REQUIRED", "RESOURCE_NOT_FOUND", "MalformedAnswerError", "UnstableMethodError"]

AUTH_REQUIRED = -32000
"""The agent wants a login first; a client shows ``authMethods``."""
RESOURCE_NOT_FOUND = -32002
"""A file or a session that is not there."""


class MalformedAnswerError(QuarterdeckError):
    """The peer answered a request with a result that is none, however leniently one reads it."""

    def __init__(self, method: str, reason: str) -> None:
        super().__init__(f"the answer to {method!r} cannot be read: {reason}")
        self.method = method
        self.reason = reason


class UnstableMethodError(QuarterdeckError):
    """A message that the protocol does not promise yet, on a connection that does not allow it."""

    def __init__(self, method: str) -> None:
        super().__init__(
            f"{method!r} is not stable yet; make the Router with unstable=True to use it"
        )
        self.method = method
