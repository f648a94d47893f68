"""How a process ends: its exit is noticed without a thread, and its whole tree is ended in
stages.

Linux has a descriptor for a process, the BSDs and macOS a queue of events; elsewhere the children
are checked twenty times a second. The child is not reaped by the check where the system allows
that: as long as it is a zombie, its id, its group and its session cannot be reused.
"""

import asyncio
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from quarterdeck.system.api import EndingDeadlines, ProcessExit
from quarterdeck.system.errors import StillRunningError
from quarterdeck.system.process_tree import (
    ProcessInfo,
    ProcessTree,
    find_processes,
    list_processes,
    send_signal,
)

__all__ = [
    "ExitWatch",
    "end_tree",
    "kill_group",
    "peek_exit",
    "reap_child",
]

_POLL_SECONDS = 0.05


class ExitWatch:
    """Calls ``callback`` once, from the running loop, when child ``pid`` has left.

    ``polls`` forces the way that works everywhere.
    """

    def __init__(
        self, pid: int, callback: Callable[[ProcessExit], None], *, polls: bool = False
    ) -> None:
        self._pid = pid
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor, self._close = (None, None) if polls else _handle(pid)
        if self._descriptor is None:
            self._timer = self._loop.call_later(0, self._look)
        else:
            self._loop.add_reader(self._descriptor, self._look)

    def stop(self) -> None:
        """Give the watch up; nothing happens when it is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._descriptor is not None and self._close is not None:
            self._loop.remove_reader(self._descriptor)
            self._close()
            self._descriptor = None

    def _look(self) -> None:
        self.stop()
        found = peek_exit(self._pid)
        if found is not None:
            self._callback(found)
        else:  # the news of a death can be ahead of the status
            self._timer = self._loop.call_later(_POLL_SECONDS, self._look)


def peek_exit(pid: int) -> ProcessExit | None:
    """How child ``pid`` ended; None while it runs. Reaps it only where there is no other way."""
    try:
        if not hasattr(os, "waitid"):
            done, status = os.waitpid(pid, os.WNOHANG)
            return _exit_of(os.waitstatus_to_exitcode(status)) if done else None
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # it was reaped elsewhere: how it ended is lost
        return ProcessExit()
    if found is None:
        return None
    return _exit_of(found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)


def reap_child(pid: int) -> None:
    """Take notice of a child that has left; nothing happens when that was done already."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _exit_of(code: int) -> ProcessExit:
    if code >= 0:
        return ProcessExit(code=code)
    try:
        return ProcessExit(signal=signal.Signals(-code).name)
    except ValueError:  # a real-time signal has no name
        return ProcessExit(signal=f"SIG{-code}")


def _handle(pid: int) -> tuple[int | None, Callable[[], None] | None]:
    """A descriptor that becomes readable when the process leaves, and how to close it."""
    try:
        if hasattr(os, "pidfd_open"):
            descriptor = os.pidfd_open(pid)
            return descriptor, lambda: os.close(descriptor)
        if sys.platform == "darwin":
            queue = select.kqueue()
            event = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            queue.control([event], 0)
            return queue.fileno(), queue.close
    except OSError:  # no such call in this kernel, or the child has left already
        return None, None
    return None, None


_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


async def end_tree(
    tree: ProcessTree,
    ending: EndingDeadlines,
    ask: Callable[[], None],
    wait_for_exit: Callable[[], Awaitable[object]],
) -> None:
    """Ask, then SIGTERM, then SIGKILL; each to the whole tree, each with its deadline.

    ``ask`` asks the first process to leave; ``wait_for_exit`` waits until it has. The first
    process must not have been reaped, so that its group is still its own. Returns as soon as
    nothing is left, whatever the stage.

    Raises:
        StillRunningError: Something survived SIGKILL until the deadline.
    """
    ask()
    if ending.ask > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(ending.ask):
                await wait_for_exit()
    if ending.terminate > 0:
        await _signal_until_gone(tree, signal.SIGTERM, ending.terminate)
    # Also when none was seen: one look misses a process that forks and leaves while we look.
    kill_group(tree.pid)
    left = await _signal_until_gone(tree, signal.SIGKILL, ending.kill)
    if left:
        raise StillRunningError(sorted(left))


def kill_group(pid: int) -> None:
    """SIGKILL to a whole process group at once: even a child forked this instant gets it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _signal_until_gone(tree: ProcessTree, number: int, seconds: float) -> set[int]:
    """Signal all of the tree, newcomers too, until none is left or time is up: who is left."""
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    signalled: set[tuple[int, str]] = set()
    while left := await asyncio.to_thread(_signal, tree, number, signalled):
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return left


def _signal(tree: ProcessTree, number: int, signalled: set[tuple[int, str]]) -> set[int]:
    """Signal each process of the tree once (SIGKILL: each time), and say which there are."""
    found = find_processes([tree], _fresh_table())
    for one in found:
        if number != signal.SIGKILL and (one.pid, one.start) in signalled:
            continue
        signalled.add((one.pid, one.start))
        send_signal(one, number)
        if number != signal.SIGKILL:
            send_signal(one, signal.SIGCONT)  # a stopped process cannot act on a signal
    return {one.pid for one in found}


_looking = threading.Lock()
_last_look: tuple[float, dict[int, ProcessInfo]] = (-1.0, {})


def _fresh_table() -> dict[int, ProcessInfo]:
    """Every process, looked at after this call began; who waits for the same look shares it.

    A look costs some 10 µs per process of the machine, and fifty agents may end at once.
    """
    global _last_look
    asked = time.monotonic()
    with _looking:
        begun, table = _last_look
        if begun <= asked:
            begun = time.monotonic()
            table = list_processes()
            _last_look = begun, table
        return table
