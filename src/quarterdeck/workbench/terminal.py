"""The terminal that we run on."""

import select
import sys

__all__ = ["is_hung_up"]


def is_hung_up() -> bool:
    """Whether the terminal of our input is gone. Does not wait."""
    try:
        watch = select.poll()
        watch.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, select.POLLIN)
        return any(event & (select.POLLHUP | select.POLLNVAL) for _, event in watch.poll(0))
    except (OSError, ValueError):
        return True
