"""The system a session works on, with a sandbox around its commands in full-auto mode."""

from typing import TYPE_CHECKING, Protocol

from quarterdeck.policy.modes import NO_SANDBOX, Sandbox
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.port import System

if TYPE_CHECKING:
    from .assembly import Ground
    from .gate import Gate

__all__ = ["Cage", "OpenCage", "local_cage"]


class Cage(System, Protocol):
    """A system that knows what holds its commands."""

    async def sandbox(self) -> Sandbox:
        """What can hold the commands here; looked up once."""
        ...

    def follow(self, gate: "Gate") -> None:
        """Let the gate's mode decide whether a command runs in the sandbox."""
        ...

    async def close(self) -> None:
        """End everything that runs on it."""
        ...


class OpenCage:
    """This machine, with no sandbox."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._local = LocalSystem(roots)
        self.roots = self._local.roots
        self.files = self._local.files
        self.processes = self._local.processes
        self.terminals = self._local.terminals

    async def sandbox(self) -> Sandbox:
        """None."""
        return NO_SANDBOX

    def follow(self, gate: "Gate") -> None:
        """Nothing to decide."""

    async def close(self) -> None:
        """End everything that runs."""
        await self._local.close()


def local_cage(roots: tuple[str, ...], ground: "Ground") -> Cage:
    """This machine."""
    return OpenCage(roots)
