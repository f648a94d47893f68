"""The system a session works on, with a sandbox around its commands in full-auto mode."""

from typing import TYPE_CHECKING, Protocol

from quarterdeck.policy.modes import Sandbox
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.paths import Roots
from quarterdeck.system.port import Processes, System, Terminals
from quarterdeck.wire.events import Notice

if TYPE_CHECKING:
    from quarterdeck.policy.gate import Gate
    from quarterdeck.system.sandbox import SandboxedTerminals as Held

    from .assembly import Ground

__all__ = ["Cage", "LocalCage", "local_cage", "tell_sandbox"]


class Cage(System, Protocol):
    """A system that knows what holds its commands."""

    async def sandbox(self) -> Sandbox:
        """Make ready what holds the commands in full-auto mode, and say what it is."""
        ...

    def follow(self, gate: "Gate") -> None:
        """Let the gate's mode decide whether a command runs in the sandbox."""
        ...

    async def close(self) -> None:
        """End everything that runs on it."""
        ...


class LocalCage:
    """This machine; in full-auto mode its commands run in the sandbox, if there is one."""

    def __init__(
        self, roots: tuple[str, ...], *, writable: tuple[str, ...] = (), network: bool = False
    ) -> None:
        self._local = LocalSystem(roots)
        self._writable = writable
        self._network = network
        self._held: Held | None = None
        self._gate: Gate | None = None
        self.roots = self._local.roots
        self.files = self._local.files

    @property
    def processes(self) -> Processes:
        """Commands with byte streams; no sandbox is around them."""
        return self._local.processes

    @property
    def terminals(self) -> Terminals:
        """Those that the mode of the moment wants."""
        if self._held is not None and self._gate is not None and self._gate.mode == "full-auto":
            return self._held
        return self._local.terminals

    async def sandbox(self) -> Sandbox:
        """What holds the commands in full-auto mode."""
        from quarterdeck.system.sandbox import SandboxedTerminals, detect

        found = await detect()
        if found.is_there and self._held is None:
            self._held = SandboxedTerminals(
                Roots(self.roots), found, writable=self._writable, network=self._network
            )
        return Sandbox(in_force=found.is_there, network=self._network)

    def follow(self, gate: "Gate") -> None:
        """Let the gate's mode decide."""
        self._gate = gate

    async def close(self) -> None:
        """End everything that runs."""
        try:
            if self._held is not None:
                await self._held.close()
        finally:
            await self._local.close()


def local_cage(roots: tuple[str, ...], ground: "Ground") -> Cage:
    """This machine, with the sandbox that the settings describe."""
    wanted = ground.settings.sandbox
    return LocalCage(roots, writable=wanted.writable, network=wanted.network)


async def tell_sandbox() -> Notice:
    """What a person is told about the sandbox when a session enters full-auto mode."""
    from quarterdeck.system.sandbox import detect

    found = await detect()
    if not found.is_there:
        return Notice(
            title="No sandbox: full-auto asks before it runs commands",
            severity="warning",
            description=found.reason,
        )
    return Notice(
        title=f"Commands run in a sandbox ({found.kind})",
        description="; ".join(found.gaps) or None,
    )
