"""Finding a host that runs, and connecting to it."""

import asyncio
import os

from quarterdeck.config.places import Places
from quarterdeck.wire.errors import Broken
from quarterdeck.wire.rpc import ByteStream, connect_unix

from ..errors import HostError, NoHost
from .credentials import peer_credentials
from .lock import holder
from .place import lock_file, socket_path

__all__ = ["dial", "is_held"]


async def is_held(places: Places) -> bool:
    """Whether a process is the host of these places, even if it does not answer yet."""
    return (await asyncio.to_thread(holder, lock_file(places)))[0]


async def dial(places: Places) -> ByteStream:
    """Connect to the host of these places.

    Raises:
        NoHost: none is running, or it does not listen (yet, or any more).
        HostError: what listens there belongs to somebody else.
    """
    is_there, told = await asyncio.to_thread(holder, lock_file(places))
    if not is_there:
        raise NoHost("no host is running; `quarterdeck host start` starts one")
    path = told.socket if told else str(socket_path(places))
    try:
        stream = await connect_unix(path)
    except Broken as error:
        raise NoHost(f"the host does not listen at {path!r}: {error}") from error
    try:
        who = peer_credentials(stream)
    except Broken:
        await stream.close()
        raise
    if who.uid != os.getuid():
        await stream.close()
        raise HostError(f"user {who.uid} listens at {path!r}, not you; nothing was said to it")
    return stream
