"""Where the commands of an agent's terminals run: as they are, or in one of two sandboxes."""

import asyncio
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from quarterdeck.policy.modes import Containment
from quarterdeck.policy.modes import Sandbox as Held
from quarterdeck.system.guard import shared_guard
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.paths import Roots
from quarterdeck.system.port import Command, Terminal
from quarterdeck.system.terminal import LocalTerminals

if TYPE_CHECKING:
    from quarterdeck.system.sandbox import Sandbox, SandboxedTerminals

__all__ = ["ContainedTerminals"]


class ContainedTerminals:
    """Starts commands in what they were permitted for. ``close`` it."""

    def __init__(self, system: LocalSystem) -> None:
        self._system = system
        self._found: Sandbox | None = None
        self._workspace: SandboxedTerminals | None = None
        self._sealed: LocalTerminals | None = None
        self._scratch: str | None = None

    async def sandbox(self) -> Held:
        """What this machine can hold a command with."""
        found = await self._detect()
        return Held(in_force=found.is_there, seals=found.is_there)

    async def create(self, command: Command, containment: Containment, *, tail: int) -> Terminal:
        """Start a command.

        Raises:
            NoSandbox: it has to be held, and there is nothing to hold it with.
            SpawnFault, PathFault: it cannot be started there.
        """
        if containment == "none":
            return await self._system.terminals.create(command, tail=tail)
        found = await self._detect()
        if containment == "sealed":
            return await self._create_sealed(command, found, tail)
        if self._workspace is None:
            from quarterdeck.system.sandbox import NoSandbox, SandboxedTerminals

            if not found.is_there:
                raise NoSandbox(found.reason)
            roots = Roots(self._system.roots)
            self._workspace = SandboxedTerminals(roots, found, guard=shared_guard())
        return await self._workspace.create(command, tail=tail)

    async def _create_sealed(self, command: Command, found: "Sandbox", tail: int) -> Terminal:
        if self._sealed is None:
            self._sealed = LocalTerminals(guard=shared_guard())
        inside = await asyncio.to_thread(self._seal, command, found)
        return await self._sealed.create(inside, tail=tail)

    def _seal(self, command: Command, found: "Sandbox") -> Command:
        from quarterdeck.system.sandbox import Cage, sandboxed

        if self._scratch is None:
            self._scratch = tempfile.mkdtemp(prefix="quarterdeck-scratch-")
        roots = tuple(os.path.realpath(root) for root in self._system.roots)
        cage = Cage(writable=(), scratch=self._scratch, readable=roots)
        cwd = Roots(self._system.roots).real(command.cwd if command.cwd is not None else ".")
        return sandboxed(command, found, cage, cwd=cwd)

    async def _detect(self) -> "Sandbox":
        if self._found is None:
            from quarterdeck.system.sandbox import detect

            self._found = await detect()
        return self._found

    async def close(self) -> None:
        """End every command that was held, and remove its temporary files."""
        try:
            for terminals in (self._workspace, self._sealed):
                if terminals is not None:
                    await terminals.close()
        finally:
            scratch, self._scratch = self._scratch, None
            if scratch is not None:
                await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
