"""Processes that a server has lost: what it started, and what no chain of parents leads to it."""

import asyncio
import signal
import sys

from quarterdeck.system.descendants import Running, Tree, find, running, send

__all__ = ["Strays"]

_LOOKS = (0.0, 0.05, 0.15)
"""Seconds before each look: one that is forked just now is seen by the next."""


class Strays:
    """Ends what an interrupted command leaves behind.

    Codex, told to stop while the sandbox of a command is starting, kills the sandbox's first
    process and forgets the others, which run on as orphans (seen with 0.166.0, one time in ten).
    Orphans that were there before are somebody's on purpose, and stay.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._before: set[tuple[int, str]] = set()

    async def remember(self) -> None:
        """Those that are there now stay."""
        self._before = {_name(one) for one in await asyncio.to_thread(self._find)}

    async def end(self) -> int:
        """End those that have come since ``remember``; how many there were."""
        ended: set[tuple[int, str]] = set()
        for pause in _LOOKS:
            await asyncio.sleep(pause)
            ended |= await asyncio.to_thread(self._kill)
        return len(ended)

    def _find(self) -> list[Running]:
        if sys.platform != "linux":  # no other sandbox of codex has processes of its own
            return []
        table = running()
        return [one for one in find([self._tree], table) if not self._is_below(one, table)]

    def _is_below(self, one: Running, table: dict[int, Running]) -> bool:
        """Whether the server is among its parents, or is it."""
        seen: set[int] = set()
        pid = one.pid
        while pid in table and pid not in seen:
            if pid == self._tree.pid:
                return True
            seen.add(pid)
            pid = table[pid].parent
        return False

    def _kill(self) -> set[tuple[int, str]]:
        found = [one for one in self._find() if _name(one) not in self._before]
        for one in found:
            send(one, signal.SIGKILL)
        return {_name(one) for one in found}


def _name(one: Running) -> tuple[int, str]:
    return one.pid, one.start
