"""Who is at the other end of a Unix socket, as the operating system knows it."""

import socket
import struct
import sys
from typing import Any

from msgspec import Struct

from quarterdeck.wire.errors import LinkBrokenError

__all__ = ["PeerCredentials", "read_peer_credentials"]

# <sys/un.h> of macOS; Python's socket module has no names for them.
_SOL_LOCAL = 0
_LOCAL_PEERCRED = 0x001
_LOCAL_PEERPID = 0x002
_XUCRED = struct.Struct("=IIh2x16I")
_UCRED = struct.Struct("=iII")


class PeerCredentials(Struct, frozen=True, kw_only=True):
    """The user and the process behind a socket."""

    uid: int
    pid: int | None = None


def read_peer_credentials(stream: Any, platform: str = sys.platform) -> PeerCredentials:
    """Who is behind a stream over a Unix socket.

    Raises:
        LinkBrokenError: the system does not tell; such a peer is not to be trusted.
    """
    found = stream.extra_info("socket")
    if found is None:
        raise LinkBrokenError("the stream is not a socket; its peer is unknown")
    try:
        return _ask_darwin(found) if platform == "darwin" else _ask_linux(found)
    except (OSError, AttributeError, struct.error) as error:
        raise LinkBrokenError(
            f"the system does not report the peer of the socket: {error}"
        ) from error


def _ask_linux(found: Any) -> PeerCredentials:
    data = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(data)
    return PeerCredentials(uid=uid, pid=pid or None)


def _ask_darwin(found: Any) -> PeerCredentials:
    data = found.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size)
    uid: int = _XUCRED.unpack(data)[1]
    pid: int = found.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
    return PeerCredentials(uid=uid, pid=pid or None)
