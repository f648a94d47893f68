"""The client's files and terminals as the system that tools work on.

Files are the client's when it both reads and writes them, so that what stands unsaved in an
editor counts; commands are the client's when it has terminals. Everything else is this machine.
The tools do not know which.
"""

from typing import TYPE_CHECKING, TypeVar

from quarterdeck.agent.environment import SessionEnvironment
from quarterdeck.agent.session_system import SessionSystem, make_local_system
from quarterdeck.policy.modes import Containment, SandboxState
from quarterdeck.system.api import CommandSpec, Files, PathLike, Terminal, Terminals
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.errors import LinkError

from .delegated_files import DelegatedFiles
from .delegated_terminals import DelegatedTerminals
from .handshake import EditorClient

__all__ = ["DelegatedSystem", "Delegation"]

P = TypeVar("P")
R = TypeVar("R")


class Delegation:
    """The way to one client for one session; ``session_id`` is set once it is known."""

    def __init__(self, connection: AcpConnection, client: EditorClient) -> None:
        self.session_id = ""
        self._connection = connection
        self._client = client
        self._system: DelegatedSystem | None = None

    def make_system(
        self, roots: tuple[str, ...], session_environment: SessionEnvironment
    ) -> SessionSystem:
        """Make the system of the session; this machine's for a client that offers nothing."""
        inner = make_local_system(roots, session_environment)
        if not (self._client.edits_files or self._client.has_terminals):
            return inner
        self._system = DelegatedSystem(self, inner, self._client)
        return self._system

    def runs(self, terminal_id: str) -> bool:
        """Whether this is a terminal of the client."""
        return self._system is not None and self._system.runs(terminal_id)

    async def call(self, method: Method[P, R], params: P, *, timeout: float | None = None) -> R:
        """Ask the client.

        Raises:
            OperatingSystemError: it is gone.
            RpcError: it answered with an error.
            TimeoutError: it did not answer in time.
        """
        try:
            return await self._connection.call(method, params, timeout=timeout)
        except LinkError as error:
            raise OperatingSystemError(f"{self._client.name!r} disconnected: {error}") from error


class DelegatedSystem:
    """A system whose files, terminals or both are the client's.

    A sandbox of ours cannot hold what the client runs: a command that has to be contained runs
    here.
    """

    def __init__(self, link: Delegation, inner: SessionSystem, client: EditorClient) -> None:
        self.roots = inner.roots
        self.processes = inner.processes
        self._inner = inner
        self._theirs = DelegatedTerminals(link, inner.files) if client.has_terminals else None
        self.files: Files = DelegatedFiles(link, inner) if client.edits_files else inner.files

    @property
    def terminals(self) -> Terminals:
        """Where commands run that nothing contains."""
        return self._inner.terminals if self._theirs is None else self._theirs

    def terminals_for(self, containment: Containment) -> Terminals:
        """Where a command runs that was permitted so; the client's terminals contain nothing."""
        return self.terminals if containment == "none" else self._inner.terminals_for(containment)

    def runs(self, terminal_id: str) -> bool:
        """Whether this is a terminal of the client."""
        return self._theirs is not None and self._theirs.has_given(terminal_id)

    async def sandbox(self) -> SandboxState:
        """What can contain the commands that run here."""
        return await self._inner.sandbox()

    async def close(self) -> None:
        """End everything that runs, there and here."""
        try:
            if self._theirs is not None:
                await self._theirs.close()
        finally:
            await self._inner.close()


if TYPE_CHECKING:

    def _check(
        system: DelegatedSystem, terminals: DelegatedTerminals
    ) -> tuple[SessionSystem, Terminals]:
        return system, terminals

    async def _check_terminal(
        terminals: DelegatedTerminals, command: CommandSpec, spill: PathLike
    ) -> Terminal:
        return await terminals.create(command, spill=spill)

    _checked = (_check, _check_terminal)
