"""Ending a host from outside, also one of another version or one that hangs."""

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any

from msgspec import Raw

from quarterdeck.config.places import Places
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.rpc import MethodNotFoundError, Peer, RequestContext

from ..errors import HostError, NoHostError
from .launcher import dial_host
from .lock import holder
from .methods import STOP
from .paths import lock_file
from .peer_credentials import read_peer_credentials

__all__ = ["STOP_SECONDS", "stop_host"]

STOP_SECONDS = 30.0
"""How long a host may take to close its agents."""
_PAUSE = 0.05


class _Silent:
    """Answers nothing: the host asks nothing."""

    async def on_request(self, method: str, params: Raw | None, context: RequestContext) -> Any:
        raise MethodNotFoundError(method)

    def on_notification(self, method: str, params: Raw | None) -> None:
        raise MethodNotFoundError(method)


async def stop_host(
    places: Places, *, timeout: float = STOP_SECONDS, force: bool = False
) -> int | None:
    """Ask the host to end and wait until it is gone; returns the id of its process.

    It closes its agents first, so that they can be resumed. ``force`` kills a host that is not
    gone in time; its agents end with it.

    Raises:
        NoHostError: none is running.
        HostError: it is not gone in time.
    """
    stream = await dial_host(places)
    pid = read_peer_credentials(stream).pid
    try:
        async with asyncio.timeout(timeout):
            async with Peer(stream, _Silent(), name="the host") as peer:
                with suppress(LinkError):  # it may be gone before it has answered
                    await peer.request(STOP.name, {})
            await _gone(places, pid)
    except TimeoutError:
        await _give_up(places, pid, timeout, force)
    return pid


async def _gone(places: Places, pid: int | None) -> None:
    """Wait until that process is no host any more; another one may be by then."""
    while True:
        is_there, told = await asyncio.to_thread(holder, lock_file(places))
        if not is_there or (told is not None and told.pid != pid):
            return
        await asyncio.sleep(_PAUSE)


async def _give_up(places: Places, pid: int | None, timeout: float, force: bool) -> None:
    if not force or pid is None:
        raise HostError(
            f"the host (process {pid or 'unknown'}) has not ended within {timeout:.0f} s; "
            "`quarterdeck host stop --force` kills it and its agents"
        )
    # The id is that of whoever listens at the socket now, not one that was written down once.
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(timeout):
            await _gone(places, pid)
    except TimeoutError:
        raise NoHostError(f"process {pid} was killed, yet the host's lock is held") from None
