"""The life of a host: become the one, open the fleet, serve it, stop in order; its log file."""

import asyncio
import logging
import logging.handlers
import os
import queue
import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from quarterdeck import __version__
from quarterdeck.config.places import Places, make_private
from quarterdeck.config.schema import NotificationSettings
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.redaction import mask_secrets
from quarterdeck.wire.tasks import run_beside

from ..api import Fleet
from .lock import HostLock, LockHolder, lock_file, socket_path
from .server import FleetServer

if TYPE_CHECKING:
    from ..mcp.tool_context import PlanStarter

__all__ = [
    "FILES",
    "FILE_BYTES",
    "IDLE_SECONDS",
    "OpenFleet",
    "log_to_file",
    "open_local",
    "run_host",
]

FILE_BYTES = 1_000_000
FILES = 3
"""Old files that are kept."""
_MOST_WAITING = 10_000


class _Masked(logging.Formatter):
    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._environment = environment

    def format(self, record: logging.LogRecord) -> str:
        return mask_secrets(super().format(record), self._environment)


class _Queue(logging.handlers.QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        # A disk that hangs must not hang the host; what does not fit is lost.
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            return


class _PrivateFile(logging.handlers.RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        file = open(self.baseFilename, "ab", opener=opener)  # noqa: SIM115 - the handler closes it
        return TextIOWrapper(file, self.encoding, self.errors, line_buffering=True)


@contextmanager
def log_to_file(path: Path, environment: Mapping[str, str]) -> Generator[None]:
    """Write all logs of this process to ``path``. Blocks on files: enter it outside of a loop."""
    make_private(path.parent)
    file = _PrivateFile(
        path, maxBytes=FILE_BYTES, backupCount=FILES, encoding="utf-8", errors="backslashreplace"
    )
    file.setFormatter(_Masked(environment))
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(_MOST_WAITING)
    handler = _Queue(waiting)
    listener = logging.handlers.QueueListener(waiting, file)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    listener.start()
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        listener.stop()
        file.close()


log = logging.getLogger(__name__)

IDLE_SECONDS = 900.0
"""A host without clients, agents and terminals leaves after this time."""
_LOCK_SECONDS = 2.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

OpenFleet: TypeAlias = Callable[[Places, Mapping[str, str]], AbstractAsyncContextManager[Fleet]]


def open_local(
    places: Places,
    environment: Mapping[str, str],
    *,
    resume_running: bool = False,
    plans: "PlanStarter | None" = None,
) -> AbstractAsyncContextManager[Fleet]:
    """The fleet that a host owns; see ``LocalFleet.open``."""
    from ..local import LocalFleet

    return LocalFleet.open(places, environment, resume_running=resume_running, plans=plans)


async def run_host(
    places: Places,
    environment: Mapping[str, str],
    *,
    idle_seconds: float | None = IDLE_SECONDS,
    notifications: NotificationSettings | None = None,
    open_fleet: OpenFleet = open_local,
    ready: Callable[[], None] = lambda: None,
) -> str:
    """Be the host of these places until asked to stop; returns why it left.

    Agents are closed on the way out, so that they can be resumed; terminals end.

    Args:
        places: whose host.
        environment: in which agents run.
        idle_seconds: leave after so long without clients, agents and terminals; None: stay.
        notifications: how a person is notified; None: not at all.
        open_fleet: makes the fleet.
        ready: called when clients can connect.

    Raises:
        HostRunningError: another process is the host.
        QuarterdeckError: the log cannot be opened, or the socket not be made.
    """
    path = socket_path(places)
    lock = await asyncio.to_thread(HostLock.acquire, lock_file(places))
    try:
        stopping = _Stopping()
        with _signals(stopping):
            async with open_fleet(places, environment) as fleet:
                server = FleetServer(fleet, stop=lambda: stopping.ask("a client asked"))
                async with (
                    server.serve(path),
                    run_beside(
                        _watch_idle(fleet, server, idle_seconds, stopping), name="host: idle"
                    ),
                    run_beside(_watch_lock(lock, lock_file(places), stopping), name="host: lock"),
                    run_beside(_notify(fleet, notifications), name="host: notifications"),
                ):
                    await asyncio.to_thread(lock.sign, _holder(str(path)))
                    log.info("quarterdeck %s listens at %s", __version__, path)
                    ready()
                    why = await stopping.wait()
                    log.info("the host stops: %s", why)
        return why
    finally:
        await asyncio.to_thread(lock.release)


class _Stopping:
    """The request to stop, and why; the first one counts."""

    def __init__(self) -> None:
        self._why = ""
        self._asked = asyncio.Event()

    def ask(self, why: str) -> None:
        if not self._asked.is_set():
            self._why = why
            self._asked.set()

    async def wait(self) -> str:
        await self._asked.wait()
        return self._why


def _holder(path: str) -> LockHolder:
    started = read_wall_clock()
    return LockHolder(pid=os.getpid(), socket=path, version=__version__, started=started)


@contextmanager
def _signals(stopping: _Stopping) -> Generator[None]:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopping.ask, f"signal {signal.Signals(number).name}")
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def _notify(fleet: Fleet, settings: NotificationSettings | None) -> None:
    if settings is None or not (settings.desktop or settings.command):
        return
    from ..notifications import Notifier, tellers

    await Notifier(fleet, settings, tellers(settings)).run()


async def _watch_idle(
    fleet: Fleet, server: FleetServer, seconds: float | None, stopping: _Stopping
) -> None:
    if seconds is None:
        return
    loop = asyncio.get_running_loop()
    since = loop.time()
    while True:
        await asyncio.sleep(min(seconds / 4, 10.0))
        if server.clients or await _has_agents(fleet) or await _has_terminals(fleet):
            since = loop.time()
        elif loop.time() - since >= seconds:
            stopping.ask(f"no client, no agent and no terminal for {seconds:.0f} s")
            return


async def _watch_lock(lock: HostLock, path: Path, stopping: _Stopping) -> None:
    while True:
        await asyncio.sleep(_LOCK_SECONDS)
        if not await asyncio.to_thread(lock.is_current, path):
            stopping.ask(f"{str(path)!r} was removed, and another host may be running now")
            return


async def _has_terminals(fleet: Fleet) -> bool:
    return bool((await fleet.status()).terminals)


async def _has_agents(fleet: Fleet) -> bool:
    return any(agent.is_live or agent.state == "starting" for agent in await fleet.agents())
