"""The system a session works on, with a sandbox around those of its commands that need one.

Which do is decided with each call (``quarterdeck.policy``) and is a fact of the call from then on:
the code that runs it asks here for the terminals of its containment, and no later change of the
mode changes what it gets.
"""

from typing import TYPE_CHECKING, Protocol

from quarterdeck.policy.modes import Containment, SandboxState
from quarterdeck.system.api import Processes, System, Terminals
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.paths import Roots
from quarterdeck.wire.events import NoticePosted

if TYPE_CHECKING:
    from quarterdeck.system.sandbox import Sandbox as Offered
    from quarterdeck.system.sandbox import SandboxedTerminals

    from .environment import SessionEnvironment

__all__ = ["LocalSessionSystem", "SessionSystem", "make_local_system", "make_sandbox_notice"]


class SessionSystem(System, Protocol):
    """A system that can contain commands."""

    async def sandbox(self) -> SandboxState:
        """Make ready what contains commands, and say what it is."""
        ...

    def terminals_for(self, containment: Containment) -> Terminals:
        """Where a command runs that was permitted with this containment.

        Raises:
            NoSandboxError: It has to be contained, and nothing was made ready to do that.
        """
        ...

    async def close(self) -> None:
        """End everything that runs on it."""
        ...


class LocalSessionSystem:
    """This machine, with a sandbox for commands if there is one.

    ``writable`` and ``network`` are what the person allows to commands with a writable workspace;
    ``private`` directories are hidden from every contained command, where that can be done.
    ``required``: where there is no sandbox, no command runs.
    """

    def __init__(
        self,
        roots: tuple[str, ...],
        *,
        writable: tuple[str, ...] = (),
        private: tuple[str, ...] = (),
        network: bool = False,
        required: bool = False,
    ) -> None:
        self._local = LocalSystem(roots)
        self._writable = writable
        self._private = private
        self._network = network
        self._required = required
        self._offered: dict[Containment, Offered] = {}
        self._held: dict[Containment, SandboxedTerminals] = {}
        self.roots = self._local.roots
        self.files = self._local.files

    @property
    def processes(self) -> Processes:
        """Commands with byte streams; no sandbox is around them."""
        return self._local.processes

    @property
    def terminals(self) -> Terminals:
        """Those without a sandbox."""
        return self._local.terminals

    async def sandbox(self) -> SandboxState:
        """What contains commands."""
        from quarterdeck.system.sandbox import detect_sandbox, detect_sealed_sandbox

        found, seal = await detect_sandbox(), await detect_sealed_sandbox()
        self._offered = {"workspace": found, "sealed": seal}
        return SandboxState(
            in_force=found.is_there,
            network=self._network,
            seals=seal.seals,
            required=self._required,
        )

    def terminals_for(self, containment: Containment) -> Terminals:
        """Where a command runs that was permitted so."""
        if containment == "none":
            return self.terminals
        if containment not in self._held:
            self._held[containment] = self._make(containment)
        return self._held[containment]

    async def close(self) -> None:
        """End everything that runs."""
        try:
            for held in self._held.values():
                await held.close()
        finally:
            await self._local.close()

    def _make(self, containment: Containment) -> "SandboxedTerminals":
        from quarterdeck.system.sandbox import NoSandboxError, SandboxedTerminals

        found = self._offered.get(containment)
        if found is None or not found.is_there:
            raise NoSandboxError(found.reason if found is not None else "not checked yet")
        return SandboxedTerminals(
            Roots(self.roots),
            found,
            writable=self._writable,
            hidden=self._private,
            network=self._network,
            sealed=containment == "sealed",
        )


def make_local_system(
    roots: tuple[str, ...], session_environment: "SessionEnvironment"
) -> SessionSystem:
    """This machine, with the sandbox that the settings describe."""
    wanted = session_environment.settings.sandbox
    return LocalSessionSystem(
        roots,
        writable=wanted.writable,
        private=session_environment.private,
        network=wanted.network,
        required=wanted.require,
    )


async def make_sandbox_notice() -> NoticePosted:
    """The notice about the sandbox for a person when a session enters full-auto mode."""
    from quarterdeck.system.sandbox import detect_sandbox

    found = await detect_sandbox()
    if not found.is_there:
        return NoticePosted(
            title="No sandbox: full-auto asks before it runs commands",
            severity="warning",
            description=found.reason,
        )
    return NoticePosted(
        title=f"Commands run in a sandbox ({found.kind})",
        description="; ".join(found.gaps) or None,
    )
