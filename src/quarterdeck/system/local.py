"""This machine as a ``System``."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quarterdeck.system.files import LocalFiles
from quarterdeck.system.guard import Guard
from quarterdeck.system.paths import Roots
from quarterdeck.system.process import LocalProcesses
from quarterdeck.system.terminal import LocalTerminals

__all__ = ["LocalSystem"]


class LocalSystem:
    """Files, processes and terminals of this machine, confined to ``roots``.

    Making one costs nothing and touches no disk. Leaving its ``async with`` (or ``close``) ends
    every process and terminal that was started through it.

    Raises:
        ValueError: No root, or one that is not absolute.
    """

    def __init__(
        self, roots: Sequence[str | os.PathLike[str]], *, guard: Guard | None = None
    ) -> None:
        confined = Roots(roots)
        self.roots: tuple[str, ...] = confined.directories
        self.files = LocalFiles(confined)
        self.processes = LocalProcesses(confined, guard=guard)
        self.terminals = LocalTerminals(confined, guard=guard)

    async def __aenter__(self) -> "LocalSystem":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End every process and terminal; may be called again. Raises StillRunning."""
        try:
            await self.terminals.close()
        finally:
            await self.processes.close()


if TYPE_CHECKING:
    from quarterdeck.system.port import System

    _system: System = LocalSystem(["/"])
