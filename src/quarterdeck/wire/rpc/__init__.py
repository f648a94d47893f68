"""JSON-RPC 2.0 between two equal peers, over any stream of bytes.

``stream``, ``pipes`` and ``unix`` are the byte streams; ``frames`` turns bytes into messages and
back; ``peer`` is the link, made of ``dispatch`` (what arrives), ``outbox`` (what leaves) and
``pending`` (what we asked); ``handler`` is what a program gives to it.
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
from quarterdeck.wire.rpc.frames import RequestId
from quarterdeck.wire.rpc.handler import (
    Direction,
    Handler,
    Observer,
    RequestContext,
    RequestPeer,
    RpcCounters,
    RpcLimits,
)
from quarterdeck.wire.rpc.peer import Peer
from quarterdeck.wire.rpc.pipes import join_streams, pipe_stream, stdio_stream
from quarterdeck.wire.rpc.stream import ByteStream, memory_pair
from quarterdeck.wire.rpc.unix_socket import connect_unix, serve_unix

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
