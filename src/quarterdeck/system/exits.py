"""Learning that a child has left, without a thread for each.

Linux has a descriptor for a process, the BSDs and macOS a queue of events; elsewhere the children
are looked at twenty times a second. The child is not reaped by looking where the system can do
that: as long as it is a zombie its id, its group and its session cannot become somebody else's.
"""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable

from quarterdeck.system.port import Exit

__all__ = ["ExitWatch", "peek", "reap"]

_POLL_SECONDS = 0.05


class ExitWatch:
    """Calls ``callback`` once, from the running loop, when child ``pid`` has left.

    ``polls`` forces the way that works everywhere.
    """

    def __init__(self, pid: int, callback: Callable[[Exit], None], *, polls: bool = False) -> None:
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
        found = peek(self._pid)
        if found is not None:
            self._callback(found)
        else:  # the news of a death can be ahead of the status
            self._timer = self._loop.call_later(_POLL_SECONDS, self._look)


def peek(pid: int) -> Exit | None:
    """How child ``pid`` ended; None while it runs. Reaps it only where there is no other way."""
    try:
        if not hasattr(os, "waitid"):
            done, status = os.waitpid(pid, os.WNOHANG)
            return _exit_of(os.waitstatus_to_exitcode(status)) if done else None
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # somebody else has reaped it: how it ended is lost
        return Exit()
    if found is None:
        return None
    return _exit_of(found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)


def reap(pid: int) -> None:
    """Take notice of a child that has left; nothing happens when that was done already."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _exit_of(code: int) -> Exit:
    if code >= 0:
        return Exit(code=code)
    try:
        return Exit(signal=signal.Signals(-code).name)
    except ValueError:  # a real-time signal has no name
        return Exit(signal=f"SIG{-code}")


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
