"""Error codes of JSON-RPC 2.0, and the errors that only this package raises."""

from quarterdeck.wire.errors import QuarterdeckError, RpcError

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "REQUEST_CANCELLED",
    "FrameTooLargeError",
    "MethodNotFoundError",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

_SHOWN_NAME = 100


class MethodNotFoundError(RpcError):
    """A handler does not know this method.

    Raised for a request it becomes the answer; raised for a notification it means "ignore it".
    """

    def __init__(self, method: str) -> None:
        super().__init__(METHOD_NOT_FOUND, f"unknown method {method[:_SHOWN_NAME]!r}")
        self.method = method


class FrameTooLargeError(QuarterdeckError):
    """A message of ours is longer than the peer may be sent; nothing was written."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the message has {size} bytes, more than the limit of {limit}; "
            f"send less at once or raise Limits.max_frame_bytes on both sides"
        )
        self.size = size
        self.limit = limit
