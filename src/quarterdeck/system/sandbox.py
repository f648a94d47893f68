"""A sandbox for commands: they can change nothing but the workspace, and be offline.

``detect`` says what this machine offers: bubblewrap, else Landlock, else nothing and why.
``SandboxedSystem`` is this machine with every terminal's command inside; who uses it sees the
port and no difference. Files stay confined by the roots; programs that we talk with
(``processes``) are not the model's and run outside.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from quarterdeck.system import bubblewrap, landlock
from quarterdeck.system.environment import child_environment, find_program
from quarterdeck.system.errors import SystemFault
from quarterdeck.system.guard import Guard
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.paths import Roots
from quarterdeck.system.port import Command, PathLike
from quarterdeck.system.terminal import LocalTerminal, LocalTerminals

__all__ = [
    "Cage",
    "NoSandbox",
    "Sandbox",
    "SandboxKind",
    "SandboxedSystem",
    "SandboxedTerminals",
    "detect",
    "probe_bubblewrap",
    "probe_landlock",
    "sandboxed",
]

SandboxKind: TypeAlias = Literal["bubblewrap", "landlock", "none"]

_KEPT = (".git/hooks", ".git/config", ".quarterdeck")
"""What programs outside run or believe later; bubblewrap keeps it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What this machine offers."""

    kind: SandboxKind
    reason: str = ""
    """Why it is not a better one."""
    gaps: tuple[str, ...] = ()
    """What it does not hold, in words for people."""
    program: str = ""
    """The path of bwrap."""

    @property
    def is_there(self) -> bool:
        """Whether commands can be held at all."""
        return self.kind != "none"


class NoSandbox(SystemFault):
    """A sandbox was wanted and there is none here."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Commands cannot be sandboxed here: {reason}. Install bubblewrap, or run without."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cage:
    """What a command in the sandbox may do; paths are real ones."""

    writable: tuple[str, ...]
    scratch: str
    """The directory for temporary files; what ``/tmp`` is with bubblewrap."""
    network: bool = False
    read_only: tuple[str, ...] = ()
    """Paths inside ``writable`` that stay as they are; Landlock cannot do that."""
    readable: tuple[str, ...] = ()
    """Directories to show though they lie below ``/tmp``."""


async def detect() -> Sandbox:
    """What this machine offers; looked at once, in a thread (some 20 ms)."""
    return await asyncio.to_thread(_detect)


@cache
def _detect() -> Sandbox:
    if sys.platform != "linux":
        return Sandbox(kind="none", reason=f"there is none for {sys.platform} yet")
    found = probe_bubblewrap()
    return found if found.is_there else probe_landlock(found.reason)


def probe_bubblewrap() -> Sandbox:
    """Try bubblewrap out; blocks."""
    program = shutil.which("bwrap")
    if program is None:
        return Sandbox(kind="none", reason="bubblewrap (bwrap) is not installed")
    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as scratch:
        argv = bubblewrap.wrapped(
            program, ["true"], cwd="/", scratch=scratch, writable=(), network=False
        )
        try:
            tried = subprocess.run(
                argv, env=child_environment(), capture_output=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Sandbox(kind="none", reason=f"bubblewrap does not run: {error}")
    if tried.returncode != 0:
        said = tried.stderr.decode("utf-8", "replace").strip()
        return Sandbox(kind="none", reason=f"bubblewrap does not work here: {said}")
    return Sandbox(kind="bubblewrap", program=program)


def probe_landlock(reason: str = "") -> Sandbox:
    """Look what the kernel's Landlock can do; ``reason`` says why it is not bubblewrap."""
    version = landlock.abi()
    if version < 1:
        return Sandbox(kind="none", reason=f"{reason}; the kernel has no Landlock".lstrip("; "))
    gaps = [
        ".git/hooks and settings in the workspace can be changed",
        "permissions and times of files outside can be changed, not their content",
    ]
    if version < 3:
        gaps.append("files outside can be emptied")
    if version < 6:
        gaps.append("processes outside can be signalled")
    if not landlock.has_seccomp():
        only = "only TCP is" if version >= 4 else "nothing is"
        gaps.append(f"of the network {only} held back; local sockets can be used")
    return Sandbox(kind="landlock", reason=reason, gaps=tuple(gaps))


def sandboxed(command: Command, sandbox: Sandbox, cage: Cage, *, cwd: str) -> Command:
    """The command that runs ``command`` in the cage; ``cwd`` is its real directory. Blocks.

    Raises:
        SpawnFault: There is no such program.
        NoSandbox: There is nothing to hold it with.
    """
    name = command.argv[0] if command.argv else ""
    program = find_program(name, child_environment(command.env, command.inherit), cwd)
    argv = [program, *command.argv[1:]]
    if sandbox.kind == "bubblewrap":
        words = bubblewrap.wrapped(
            sandbox.program,
            argv,
            cwd=cwd,
            scratch=cage.scratch,
            writable=cage.writable,
            read_only=cage.read_only,
            readable=cage.readable,
            network=cage.network,
        )
        return replace(command, argv=words, cwd=cwd)
    if sandbox.kind == "landlock":
        places = [*cage.writable, cage.scratch]
        words = landlock.launcher(places, argv, network=cage.network)
        environment = {**command.env, "TMPDIR": cage.scratch}
        return replace(command, argv=words, cwd=cwd, env=environment)
    raise NoSandbox(sandbox.reason)


class SandboxedTerminals:
    """The ``Terminals`` port with every command in the sandbox.

    With bubblewrap a command that a signal ended has the exit code 128 + the signal's number.
    """

    def __init__(
        self,
        roots: Roots,
        sandbox: Sandbox,
        *,
        writable: Sequence[PathLike] = (),
        network: bool = False,
        guard: Guard | None = None,
    ) -> None:
        self._roots = roots
        self._sandbox = sandbox
        self._writable = tuple(os.fspath(path) for path in writable)
        self._network = network
        # The launcher may begin anywhere; the directory of the command was checked before.
        self._terminals = LocalTerminals(guard=guard)
        self._scratch: str | None = None
        self._shown: set[str] = set()

    async def create(
        self,
        command: Command,
        *,
        head: int = 0,
        tail: int = 1_048_576,
        spill: PathLike | None = None,
    ) -> LocalTerminal:
        """Start a command in the sandbox and keep what it prints."""
        if spill is not None:
            self._shown.add(str(Path(spill).parent))
        inside = await asyncio.to_thread(self._wrap, command)
        return await self._terminals.create(inside, head=head, tail=tail, spill=spill)

    def get(self, terminal_id: str) -> LocalTerminal:
        """The terminal of this id."""
        return self._terminals.get(terminal_id)

    async def close(self) -> None:
        """Release every terminal and remove the temporary files."""
        try:
            await self._terminals.close()
        finally:
            scratch, self._scratch = self._scratch, None
            if scratch is not None:
                await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    def _wrap(self, command: Command) -> Command:
        cwd = self._roots.real(command.cwd if command.cwd is not None else ".")
        return sandboxed(command, self._sandbox, self._cage(), cwd=cwd)

    def _cage(self) -> Cage:
        if self._scratch is None:
            self._scratch = tempfile.mkdtemp(prefix="quarterdeck-scratch-")
        roots = [os.path.realpath(root) for root in self._roots.directories]
        return Cage(
            writable=(*roots, *map(os.path.realpath, self._writable)),
            scratch=self._scratch,
            network=self._network,
            read_only=tuple(f"{root}/{name}" for root in roots for name in _KEPT),
            readable=tuple(sorted(self._shown)),
        )


class SandboxedSystem:
    """This machine, confined to ``roots``, with the commands of terminals in a sandbox.

    ``writable`` names further directories that commands may change. Leaving its ``async with``
    (or ``close``) ends everything that was started through it.

    Raises:
        NoSandbox: There is none.
        ValueError: No root, or one that is not absolute.
    """

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]],
        sandbox: Sandbox,
        *,
        writable: Sequence[PathLike] = (),
        network: bool = False,
        guard: Guard | None = None,
    ) -> None:
        if not sandbox.is_there:
            raise NoSandbox(sandbox.reason)
        self.sandbox = sandbox
        self.network = network
        self._local = LocalSystem(roots, guard=guard)
        self.roots: tuple[str, ...] = self._local.roots
        self.files = self._local.files
        self.processes = self._local.processes
        self.terminals = SandboxedTerminals(
            Roots(roots), sandbox, writable=writable, network=network, guard=guard
        )

    async def __aenter__(self) -> "SandboxedSystem":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End every process and terminal; may be called again."""
        try:
            await self.terminals.close()
        finally:
            await self._local.close()


if TYPE_CHECKING:
    from quarterdeck.system.port import System

    _system: System = SandboxedSystem(["/"], Sandbox(kind="none"))
