"""This machine as a ``System``."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quarterdeck.system.files import LocalFiles
from quarterdeck.system.paths import Roots

if TYPE_CHECKING:
    from quarterdeck.system.local_terminals import LocalTerminals
    from quarterdeck.system.process import LocalProcesses
    from quarterdeck.system.process_guard import ProcessGuard

__all__ = ["LocalSystem"]


class LocalSystem:
    """Files, processes and terminals of this machine, confined to ``roots``.

    Making one costs nothing and touches no disk. Leaving its ``async with`` (or ``close``) ends
    every process and terminal that was started through it.

    Raises:
        ValueError: No root, or one that is not absolute.
    """

    def __init__(
        self, roots: Sequence[str | os.PathLike[str]], *, guard: "ProcessGuard | None" = None
    ) -> None:
        self._confined = Roots(roots)
        self._guard = guard
        self.roots: tuple[str, ...] = self._confined.directories
        self.files = LocalFiles(self._confined)
        self._processes: LocalProcesses | None = None
        self._terminals: LocalTerminals | None = None

    # The two are imported when something is started: many a session only reads and talks.

    @property
    def processes(self) -> "LocalProcesses":
        """Commands with byte streams."""
        if self._processes is None:
            from quarterdeck.system.process import LocalProcesses

            self._processes = LocalProcesses(self._confined, guard=self._guard)
        return self._processes

    @property
    def terminals(self) -> "LocalTerminals":
        """Commands whose output is kept."""
        if self._terminals is None:
            from quarterdeck.system.local_terminals import LocalTerminals

            self._terminals = LocalTerminals(self._confined, guard=self._guard)
        return self._terminals

    async def __aenter__(self) -> "LocalSystem":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End every process and terminal; may be called again. Raises StillRunningError."""
        try:
            if self._terminals is not None:
                await self._terminals.close()
        finally:
            if self._processes is not None:
                await self._processes.close()


if TYPE_CHECKING:
    from quarterdeck.system.api import System

    _system: System = LocalSystem(["/"])
