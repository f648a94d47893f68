"""Connects to the host that runs, starts one, or stops one from outside."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Raw, Struct

from quarterdeck import __version__
from quarterdeck.config.places import Places, make_private
from quarterdeck.wire.errors import LinkBrokenError, LinkError
from quarterdeck.wire.rpc import ByteStream, MethodNotFoundError, Peer, RequestContext, connect_unix

from ..errors import HostError, NoHostError
from .lock import holder, lock_file, log_file, socket_path
from .methods import PROTOCOL, STOP
from .peer_credentials import read_peer_credentials

__all__ = [
    "REPORT_FORMAT",
    "START_SECONDS",
    "STOP_SECONDS",
    "HostReport",
    "Launcher",
    "dial_host",
    "ensure_host",
    "is_host_running",
    "launch_host",
    "report_host",
    "stop_host",
]


async def is_host_running(places: Places) -> bool:
    """Whether a process is the host of these places, even if it does not answer yet."""
    return (await asyncio.to_thread(holder, lock_file(places)))[0]


async def dial_host(places: Places) -> ByteStream:
    """Connect to the host of these places.

    Raises:
        NoHostError: none is running, or it does not listen (yet, or any more).
        HostError: what listens there belongs to someone else.
    """
    is_there, found = await asyncio.to_thread(holder, lock_file(places))
    if not is_there:
        raise NoHostError("no host is running; `quarterdeck host start` starts one")
    path = found.socket if found else str(socket_path(places))
    try:
        stream = await connect_unix(path)
    except LinkBrokenError as error:
        raise NoHostError(f"the host is not listening at {path!r}: {error}") from error
    try:
        who = read_peer_credentials(stream)
    except LinkBrokenError:
        await stream.close()
        raise
    if who.uid != os.getuid():
        await stream.close()
        raise HostError(
            f"the process listening at {path!r} belongs to user {who.uid}, not you; nothing was "
            "sent to it"
        )
    return stream


START_SECONDS = 30.0
"""How long a host may take until it answers; opening a log that was not closed takes time."""

Launcher: TypeAlias = Callable[[Places, Mapping[str, str]], subprocess.Popen[bytes]]

_PAUSE = 0.03
_LONGEST_PAUSE = 0.3
_LAUNCHES = 5


async def ensure_host(
    places: Places,
    environ: Mapping[str, str] | None = None,
    *,
    timeout: float = START_SECONDS,
    launcher: Launcher | None = None,
) -> ByteStream:
    """Connect to the host of these places, and start one if none is there.

    Args:
        places: whose host.
        environ: what a new host gets as its environment; None for ours. Agents run in it.
        timeout: seconds until it must answer.
        launcher: starts a process; ``launch_host`` by default.

    Raises:
        HostError: it does not start, or does not answer in time; the message has its last words.
    """
    environ = os.environ if environ is None else environ
    child: subprocess.Popen[bytes] | None = None
    launches, pause = 0, _PAUSE
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    return await dial_host(places)
                except NoHostError:
                    is_coming = child is not None and child.poll() is None
                if not is_coming and not await is_host_running(places):
                    # Who finds another host at work ends with 0: then look again.
                    if launches >= _LAUNCHES or (child is not None and child.returncode):
                        raise await _failed(places, "the host exits right after it starts")
                    launches += 1
                    child = await asyncio.to_thread(launcher or launch_host, places, environ)
                await asyncio.sleep(pause)
                pause = min(pause * 1.3, _LONGEST_PAUSE)
    except TimeoutError:
        raise await _failed(places, f"the host did not answer within {timeout:.0f} s") from None
    finally:
        if child is not None and child.poll() is None:
            # It outlives us on purpose: Popen must not complain that no one waited for it.
            child.returncode = 0


def launch_host(places: Places, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that tries to be the host, in a session of its own. Blocks shortly.

    Raises:
        UnusablePlaceError: its log cannot be written.
        HostError: the operating system refuses.
    """
    from quarterdeck.system.background_process import start_background

    path = log_file(places)
    make_private(path.parent)
    try:
        return start_background("host", "run", "--detached", log_file=path, environ=environ)
    except OSError as error:
        raise HostError(f"cannot start the host, which writes {str(path)!r}: {error}") from error


async def _failed(places: Places, what: str) -> HostError:
    from quarterdeck.system.background_process import read_last_lines

    path = log_file(places)
    last = await asyncio.to_thread(read_last_lines, path)
    return HostError("\n".join([f"{what}; see {str(path)!r}, which ends with:", *last]))


REPORT_FORMAT = 1
"""Of ``HostReport``; a reader that does not know a later one says so."""


class HostReport(Struct, frozen=True, kw_only=True):
    """What a client on another machine has to know; ``host report`` prints it as a line of JSON."""

    quarterdeck: str
    """The version of the program that reports."""
    format: int = REPORT_FORMAT
    protocol: int = PROTOCOL
    """What clients of this version speak with a host."""
    home: str
    """The home directory there."""
    socket: str | None = None
    """Where the host listens; None: no host is running."""


async def report_host(
    places: Places, environ: Mapping[str, str] | None = None, *, start: bool = False
) -> HostReport:
    """Find out what a client on another machine has to know; ``start`` starts a host first.

    A host that is there accepts connections when this returns.

    Raises:
        HostError: it does not start, or does not answer in time.
    """
    environ = os.environ if environ is None else environ
    try:
        stream = await (ensure_host(places, environ) if start else dial_host(places))
    except NoHostError:
        path = None
    else:
        path = _peer_path(stream)
        await stream.close()
    home = await asyncio.to_thread(Path.home)
    return HostReport(quarterdeck=__version__, home=str(home), socket=path)


def _peer_path(stream: Any) -> str:
    return str(stream.extra_info("socket").getpeername())


STOP_SECONDS = 30.0
"""How long a host may take to close its agents."""
_STOP_PAUSE = 0.05


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
    stream = await _dial_for_stop(places, timeout)
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


async def _dial_for_stop(places: Places, timeout: float) -> ByteStream:
    """The way to the host; one that is starting is waited for."""
    until = asyncio.get_running_loop().time() + timeout
    while True:
        try:
            return await dial_host(places)
        except NoHostError:
            is_late = asyncio.get_running_loop().time() > until
            if is_late or not await is_host_running(places):
                raise
        await asyncio.sleep(_STOP_PAUSE)


async def _gone(places: Places, pid: int | None) -> None:
    """Wait until that process is no host any more; another one may be by then."""
    while True:
        is_there, found = await asyncio.to_thread(holder, lock_file(places))
        if not is_there or (found is not None and found.pid != pid):
            return
        await asyncio.sleep(_STOP_PAUSE)


async def _give_up(places: Places, pid: int | None, timeout: float, force: bool) -> None:
    if not force or pid is None:
        raise HostError(
            f"the host (process {pid or 'unknown'}) has not ended within {timeout:.0f} s; "
            "`quarterdeck host stop --force` kills it and its agents"
        )
    # The id is that of the one who listens at the socket now, not one that was written down once.
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(timeout):
            await _gone(places, pid)
    except TimeoutError:
        raise NoHostError(f"process {pid} was killed, yet the host's lock is held") from None
