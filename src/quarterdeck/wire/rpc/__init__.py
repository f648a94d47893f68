"""JSON-RPC 2.0 between two equal peers, over any stream of bytes.

``stream`` has the byte streams; ``frames`` turns bytes into messages and back, and holds those on
their way; ``peer`` is the link, with the ``Dispatcher`` of what arrives; ``handler`` is what a
program gives to it.
"""

from quarterdeck.wire.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    FrameTooLargeError,
    MethodNotFoundError,
)
from quarterdeck.wire.rpc.handler import (
    Direction,
    Handler,
    Observer,
    RequestContext,
    RequestId,
    RequestPeer,
    RpcCounters,
    RpcLimits,
)
from quarterdeck.wire.rpc.peer import Peer
from quarterdeck.wire.rpc.stream import (
    ByteStream,
    connect_unix,
    join_streams,
    memory_pair,
    pipe_stream,
    serve_unix,
    stdio_stream,
)

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "REQUEST_CANCELLED",
    "ByteStream",
    "Direction",
    "FrameTooLargeError",
    "Handler",
    "MethodNotFoundError",
    "Observer",
    "Peer",
    "RequestContext",
    "RequestId",
    "RequestPeer",
    "RpcCounters",
    "RpcLimits",
    "connect_unix",
    "join_streams",
    "memory_pair",
    "pipe_stream",
    "serve_unix",
    "stdio_stream",
]
