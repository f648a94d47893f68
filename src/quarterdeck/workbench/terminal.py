"""The terminal that we run on, and the signals that end us."""

import asyncio
import select
import signal
import sys
from collections.abc import Callable

__all__ = ["is_hung_up", "leave_on_signals"]

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def is_hung_up() -> bool:
    """Whether the terminal of our input is gone. Does not wait."""
    try:
        watch = select.poll()
        watch.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, select.POLLIN)
        return any(event & (select.POLLHUP | select.POLLNVAL) for _, event in watch.poll(0))
    except (OSError, ValueError):
        return True


def leave_on_signals(leave: Callable[[int], None]) -> None:
    """Leave in good order when told to end: whoever just dies leaves the terminal as it was drawn.

    ``leave`` gets the exit code that a shell gives for the signal.
    """
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, leave, 128 + number)
