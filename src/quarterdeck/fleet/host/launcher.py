"""Connects to the host that runs, or starts one."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias

from quarterdeck.config.places import Places, make_private
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.rpc import ByteStream, connect_unix

from ..errors import HostError, NoHostError
from .lock import holder
from .paths import lock_file, log_file, socket_path
from .peer_credentials import read_peer_credentials

__all__ = [
    "START_SECONDS",
    "Launcher",
    "dial_host",
    "ensure_host",
    "is_host_running",
    "launch_host",
]


async def is_host_running(places: Places) -> bool:
    """Whether a process is the host of these places, even if it does not answer yet."""
    return (await asyncio.to_thread(holder, lock_file(places)))[0]


async def dial_host(places: Places) -> ByteStream:
    """Connect to the host of these places.

    Raises:
        NoHostError: none is running, or it does not listen (yet, or any more).
        HostError: what listens there belongs to somebody else.
    """
    is_there, told = await asyncio.to_thread(holder, lock_file(places))
    if not is_there:
        raise NoHostError("no host is running; `quarterdeck host start` starts one")
    path = told.socket if told else str(socket_path(places))
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
_SHOWN_LINES = 5


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
            # It outlives us on purpose: Popen must not complain that nobody waited for it.
            child.returncode = 0


def launch_host(places: Places, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that tries to be the host, in a session of its own. Blocks shortly.

    Raises:
        UnusablePlaceError: its log cannot be written.
        HostError: the operating system refuses.
    """
    path = log_file(places)
    make_private(path.parent)
    try:
        output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise HostError(f"cannot write {str(path)!r}: {error.strerror}") from error
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "quarterdeck", "host", "run", "--detached"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        raise HostError(f"cannot start the host: {error}") from error
    finally:
        os.close(output)


async def _failed(places: Places, what: str) -> HostError:
    path = log_file(places)
    last = await asyncio.to_thread(_last_lines, places)
    return HostError("\n".join([f"{what}; see {str(path)!r}, which ends with:", *last]))


def _last_lines(places: Places) -> list[str]:
    try:
        with log_file(places).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ["  (nothing)"]
    return [f"  {line}" for line in lines[-_SHOWN_LINES:]]
