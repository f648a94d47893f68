"""Where the commands of an agent's terminals run: as they are, or in one of two sandboxes."""

from typing import TYPE_CHECKING

from quarterdeck.config.places import Places
from quarterdeck.policy.modes import Containment, Sandbox
from quarterdeck.system.guard import shared_guard
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.paths import Roots
from quarterdeck.system.port import Command, Terminal

if TYPE_CHECKING:
    from quarterdeck.system.sandbox import SandboxedTerminals

__all__ = ["ContainedTerminals"]


class ContainedTerminals:
    """Starts commands in what they were permitted for. ``close`` it."""

    def __init__(self, system: LocalSystem) -> None:
        self._system = system
        self._held: dict[Containment, SandboxedTerminals] = {}

    async def sandbox(self) -> Sandbox:
        """What this machine can hold a command with."""
        from quarterdeck.system.sandbox import detect, detect_seal

        return Sandbox(in_force=(await detect()).is_there, seals=(await detect_seal()).seals)

    async def create(self, command: Command, containment: Containment, *, tail: int) -> Terminal:
        """Start a command.

        Raises:
            NoSandbox: it has to be held, and there is nothing to hold it with.
            SpawnFault, PathFault: it cannot be started there.
        """
        if containment == "none":
            return await self._system.terminals.create(command, tail=tail)
        if containment not in self._held:
            self._held[containment] = await self._make(containment)
        return await self._held[containment].create(command, tail=tail)

    async def _make(self, containment: Containment) -> "SandboxedTerminals":
        from quarterdeck.system.sandbox import NoSandbox, SandboxedTerminals, detect, detect_seal

        places = Places.find()  # our log and sockets are not for agents
        is_sealed = containment == "sealed"
        found = await (detect_seal() if is_sealed else detect())
        if not found.is_there:
            raise NoSandbox(found.reason)
        return SandboxedTerminals(
            Roots(self._system.roots),
            found,
            hidden=(places.state, places.runtime),
            sealed=is_sealed,
            guard=shared_guard(),
        )

    async def close(self) -> None:
        """End every command that was held, and remove its temporary files."""
        for terminals in self._held.values():
            await terminals.close()
