"""Ending a tree of processes in stages, until nothing of it is left."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from quarterdeck.system.descendants import Running, Tree, find, running, send
from quarterdeck.system.errors import StillRunning
from quarterdeck.system.port import Ending

__all__ = ["end_tree", "kill_group"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


async def end_tree(
    tree: Tree,
    ending: Ending,
    ask: Callable[[], None],
    wait_for_exit: Callable[[], Awaitable[object]],
) -> None:
    """Ask, then SIGTERM, then SIGKILL; each to the whole tree, each with its deadline.

    ``ask`` tells the first process to leave; ``wait_for_exit`` waits until it has. The first
    process must not have been reaped, so that its group is still its own. Returns as soon as
    nothing is left, whatever the stage.

    Raises:
        StillRunning: Something survived SIGKILL until the deadline.
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
        raise StillRunning(sorted(left))


def kill_group(pid: int) -> None:
    """SIGKILL to a whole process group at once: even a child forked this instant gets it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _signal_until_gone(tree: Tree, number: int, seconds: float) -> set[int]:
    """Signal all of the tree, newcomers too, until none is left or time is up: who is left."""
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    told: set[tuple[int, str]] = set()
    while left := await asyncio.to_thread(_signal, tree, number, told):
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return left


def _signal(tree: Tree, number: int, told: set[tuple[int, str]]) -> set[int]:
    """Signal each process of the tree once (SIGKILL: each time), and say which there are."""
    found = find([tree], _fresh_table())
    for one in found:
        if number != signal.SIGKILL and (one.pid, one.start) in told:
            continue
        told.add((one.pid, one.start))
        send(one, number)
        if number != signal.SIGKILL:
            send(one, signal.SIGCONT)  # a stopped process cannot act on what it was told
    return {one.pid for one in found}


_looking = threading.Lock()
_last_look: tuple[float, dict[int, Running]] = (-1.0, {})


def _fresh_table() -> dict[int, Running]:
    """Every process, looked at after this call began; who waits for the same look shares it.

    A look costs some 10 µs per process of the machine, and fifty agents may end at once.
    """
    global _last_look
    asked = time.monotonic()
    with _looking:
        begun, table = _last_look
        if begun <= asked:
            begun = time.monotonic()
            table = running()
            _last_look = begun, table
        return table
