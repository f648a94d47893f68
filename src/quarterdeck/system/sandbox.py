"""A sandbox for commands: they can change nothing but the workspace, and be offline.

``detect_sandbox`` says what this machine offers: bubblewrap, else Landlock, else nothing and why.
``SandboxedTerminals`` are this machine's terminals with every command inside; who uses them sees
the port and no difference. A *sealed* command can change nothing at all but its temporary files,
and has no network. Files stay confined by the roots; programs that we talk with (``processes``)
are not the model's and run outside.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from quarterdeck.system import bubblewrap, landlock
from quarterdeck.system.api import CommandSpec, PathLike
from quarterdeck.system.environment import child_environment, find_program
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.local_terminals import LocalTerminal, LocalTerminals
from quarterdeck.system.paths import Roots
from quarterdeck.system.process_guard import ProcessGuard
from quarterdeck.system.seccomp import has_seccomp, seccomp_program
from quarterdeck.system.spawn import Confinement, open_data
from quarterdeck.wire.git_link import read_git_link

__all__ = [
    "SANDBOX_VARIABLE",
    "LinkedDirectory",
    "NoSandboxError",
    "Sandbox",
    "SandboxKind",
    "SandboxProfile",
    "SandboxedSystem",
    "SandboxedTerminals",
    "confine_command",
    "detect_sandbox",
    "detect_sandbox_now",
    "detect_sealed_sandbox",
    "find_linked_directory",
    "probe_bubblewrap",
    "probe_landlock",
]

_SHARED = ("objects", "refs/heads", "logs/refs/heads")
_SETTINGS = ("commondir", "gitdir", "config.worktree")


class LinkedDirectory(NamedTuple):
    """Where git writes for a linked worktree; all paths are real and exist.

    A sandbox that confines a command to the worktree lets it write there as well, as far as a
    commit needs it: not to hooks, settings, other worktrees or references of ours.
    """

    writable: tuple[str, ...]
    read_only: tuple[str, ...]
    """What stays as it is although it lies in a writable directory."""
    common: str
    """What git reads for every worktree of the repository: settings, references, exclusions."""


def find_linked_directory(top: str) -> LinkedDirectory | None:
    """Where git writes for the linked worktree at ``top``; None: it is none, or a link leads away
    from its repository.
    """
    link = read_git_link(top)
    if link is None:
        return None
    common, own = link.common_dir, link.git_dir
    # Names may be no text, and are joined as they are.
    places = [f"{common}/{name}" for name in _SHARED]
    shared = [path for path in places if os.path.isdir(path)]  # noqa: PTH112
    if any(os.path.realpath(path) != path for path in shared):
        return None
    kept = [f"{own}/{name}" for name in _SETTINGS if os.path.lexists(f"{own}/{name}")]
    return LinkedDirectory(writable=(own, *shared), read_only=tuple(kept), common=common)


SandboxKind: TypeAlias = Literal["bubblewrap", "landlock", "none"]

SANDBOX_VARIABLE = "QUARTERDECK_SANDBOX"
"""Environment variable of the person that names the one kind of sandbox to use, for tests and to
find out what is wrong: ``bubblewrap``, ``landlock`` or ``none``."""


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
    seals: bool = False
    """A sealed command changes nothing and cannot communicate, so that it may run unasked."""

    @property
    def is_there(self) -> bool:
        """Whether commands can be held at all."""
        return self.kind != "none"


class NoSandboxError(OperatingSystemError):
    """A sandbox was wanted and there is none here."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Commands cannot be sandboxed here: {reason}. Install bubblewrap, or run without."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxProfile:
    """What a command in the sandbox may do; paths are real ones."""

    scratch: str
    """The directory for temporary files; what ``/tmp`` is with bubblewrap."""
    writable: tuple[str, ...] = ()
    network: bool = False
    sealed: bool = False
    """It must not change the permissions and times of files either, wherever they are."""
    read_only: tuple[str, ...] = ()
    """Paths inside ``writable`` that stay as they are; Landlock cannot do that."""
    readable: tuple[str, ...] = ()
    """Directories to show though they lie below ``/tmp``."""
    hidden: tuple[str, ...] = ()
    """Directories that are empty inside; Landlock cannot do that."""


async def detect_sandbox() -> Sandbox:
    """What this machine offers; looked at once, in a thread (some 20 ms)."""
    return await asyncio.to_thread(detect_sandbox_now)


async def detect_sealed_sandbox() -> Sandbox:
    """What sealed commands run in: Landlock where it lacks nothing for that, else as
    ``detect_sandbox``.

    A sealed command is to look at this machine. Name spaces of its own would show it no process
    and no mount of others, without a word, and take several times as long.
    """
    if not os.environ.get(SANDBOX_VARIABLE) and landlock.landlock_abi() >= landlock.SCOPED_SIGNALS:
        found = probe_landlock("it is faster, and sandboxed commands see the same processes")
        if found.seals:
            return found
    return await detect_sandbox()


def detect_sandbox_now() -> Sandbox:
    """What this machine offers, or the one kind that the person's environment names. Blocks."""
    return _detect(os.environ.get(SANDBOX_VARIABLE, ""))


@cache
def _detect(wanted: str) -> Sandbox:
    if sys.platform != "linux":
        return Sandbox(kind="none", reason=f"there is no sandbox for {sys.platform} yet")
    if wanted == "none":
        return Sandbox(kind="none", reason=f"{SANDBOX_VARIABLE} says 'none'")
    if wanted == "landlock":
        return probe_landlock(f"{SANDBOX_VARIABLE} says 'landlock'")
    if wanted not in ("", "bubblewrap"):
        why = f"{SANDBOX_VARIABLE} is {wanted!r}; write 'bubblewrap', 'landlock' or 'none'"
        return Sandbox(kind="none", reason=why)
    found = probe_bubblewrap()
    return found if found.is_there or wanted else probe_landlock(found.reason)


def probe_bubblewrap() -> Sandbox:
    """Try bubblewrap out; blocks."""
    program = shutil.which("bwrap")
    if program is None:
        return Sandbox(kind="none", reason="bubblewrap (bwrap) is not installed")
    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as scratch:
        profile = SandboxProfile(scratch=scratch, sealed=True)
        held = Sandbox(kind="bubblewrap", program=program)
        try:
            tried = _try(*confine_command(CommandSpec(argv=["true"]), held, profile, cwd="/"))
        except (OSError, OperatingSystemError, subprocess.TimeoutExpired) as error:
            return Sandbox(kind="none", reason=f"bubblewrap does not run: {error}")
    if tried.returncode != 0:
        errors = tried.stderr.decode("utf-8", "replace").strip()
        return Sandbox(kind="none", reason=f"bubblewrap does not work here: {errors}")
    gaps = () if has_seccomp() else ("local sockets of daemons can be used",)
    return Sandbox(kind="bubblewrap", program=program, gaps=gaps, seals=has_seccomp())


def _try(command: CommandSpec, confinement: Confinement) -> "subprocess.CompletedProcess[bytes]":
    options, descriptors = open_data(confinement)
    try:
        return subprocess.run(
            [command.argv[0], *options, *command.argv[1:]],
            env=child_environment(),
            capture_output=True,
            timeout=10,
            check=False,
            pass_fds=descriptors,
        )
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def probe_landlock(reason: str = "") -> Sandbox:
    """Look what the kernel's Landlock can do; ``reason`` says why it is not bubblewrap."""
    version = landlock.landlock_abi()
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
    if not has_seccomp():
        only = "only TCP is" if version >= 4 else "nothing is"
        gaps.append(f"of the network {only} blocked; local sockets can be used")
    seals = version >= 3 and has_seccomp()
    return Sandbox(kind="landlock", reason=reason, gaps=tuple(gaps), seals=seals)


def confine_command(
    command: CommandSpec, sandbox: Sandbox, profile: SandboxProfile, *, cwd: str
) -> tuple[CommandSpec, Confinement]:
    """How ``command`` is run in the sandbox; ``cwd`` is its real directory. Blocks.

    Raises:
        SpawnError: There is no such program.
        NoSandboxError: There is nothing to hold it with.
    """
    name = command.argv[0] if command.argv else ""
    environment = {**command.env, **(_QUIET if profile.sealed else {})}
    program = find_program(name, child_environment(environment, command.inherit), cwd)
    argv = [program, *command.argv[1:]]
    if sandbox.kind == "bubblewrap":
        words = bubblewrap.wrap_command(
            sandbox.program,
            argv,
            cwd=cwd,
            scratch=profile.scratch,
            writable=profile.writable,
            read_only=profile.read_only,
            readable=profile.readable,
            hidden=profile.hidden,
            network=profile.network,
            sealed=profile.sealed,
        )
        data: tuple[tuple[str, bytes], ...] = ()
        if has_seccomp():
            # Offline it has a loopback of its own, and memory of its own always.
            filters = seccomp_program(internet=True, shared_memory=True, sealed=profile.sealed)
            data = (("--seccomp", filters),)
        return replace(command, argv=words, cwd=cwd, env=environment), Confinement(data=data)
    if sandbox.kind == "landlock":
        places = (*profile.writable, profile.scratch)
        restrict = partial(
            landlock.restrict_thread, places, network=profile.network, sealed=profile.sealed
        )
        environment["TMPDIR"] = profile.scratch
        inside = replace(command, argv=argv, cwd=cwd, env=environment)
        return inside, Confinement(restrict=restrict)
    raise NoSandboxError(sandbox.reason)


_QUIET = {"GIT_OPTIONAL_LOCKS": "0"}
"""What keeps programs that only look from trying to write."""


class SandboxedTerminals:
    """The ``Terminals`` port with every command in the sandbox.

    ``sealed``: commands can change nothing but temporary files, and have no network, whatever
    else is given. ``hidden`` directories are empty inside, where the sandbox can do that;
    ``readable`` ones are shown though they lie below ``/tmp`` or in a hidden one. ``commits``:
    in a linked worktree commands can write what a commit writes outside of it. With bubblewrap a
    command that a signal ended has the exit code 128 + the signal's number.
    """

    def __init__(
        self,
        roots: Roots,
        sandbox: Sandbox,
        *,
        writable: Sequence[PathLike] = (),
        hidden: Sequence[PathLike] = (),
        readable: Sequence[PathLike] = (),
        network: bool = False,
        sealed: bool = False,
        commits: bool = True,
        guard: ProcessGuard | None = None,
    ) -> None:
        self._roots = roots
        self._readable = tuple(os.fspath(path) for path in readable)
        self._commits = commits
        self._sandbox = sandbox
        self._writable = tuple(os.fspath(path) for path in writable)
        self._hidden = tuple(os.fspath(path) for path in hidden)
        self._network = network
        self._sealed = sealed
        # The launcher may begin anywhere; the directory of the command was checked before.
        self._terminals = LocalTerminals(guard=guard)
        self._scratch: str | None = None
        self._placeholders: set[str] = set()
        self._shown: set[str] = set()

    async def create(
        self,
        command: CommandSpec,
        *,
        head: int = 0,
        tail: int = 1_048_576,
        spill: PathLike | None = None,
    ) -> LocalTerminal:
        """Start a command in the sandbox and keep what it prints."""
        if spill is not None:
            self._shown.add(str(Path(spill).parent))
        inside, confinement = await asyncio.to_thread(self._confine, command)
        return await self._terminals.create(
            inside, head=head, tail=tail, spill=spill, confinement=confinement
        )

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
            await asyncio.to_thread(self._remove_placeholders)

    def _remove_placeholders(self) -> None:
        for path in self._placeholders:
            with suppress(OSError):  # something was put there, or another session did this
                os.rmdir(path)  # noqa: PTH106
        self._placeholders.clear()

    def _confine(self, command: CommandSpec) -> tuple[CommandSpec, Confinement]:
        cwd = self._roots.real(command.cwd if command.cwd is not None else ".")
        return confine_command(command, self._sandbox, self._profile(), cwd=cwd)

    def _profile(self) -> SandboxProfile:
        if self._scratch is None:
            self._scratch = tempfile.mkdtemp(prefix="quarterdeck-scratch-")
        roots = tuple(os.path.realpath(root) for root in self._roots.directories)
        shown = (*sorted(self._shown), *map(os.path.realpath, self._readable))
        hidden = tuple(map(os.path.realpath, self._hidden))
        if self._sealed:
            return SandboxProfile(
                scratch=self._scratch, sealed=True, readable=(*shown, *roots), hidden=hidden
            )
        kept, linked = self._kept(roots), _find_linked(roots) if self._commits else []
        return SandboxProfile(
            writable=(
                *roots,
                *(path for each in linked for path in each.writable),
                *map(os.path.realpath, self._writable),
                *(path for path, changes in kept if changes),
            ),
            scratch=self._scratch,
            network=self._network,
            read_only=(
                *(path for path, changes in kept if not changes),
                *(path for each in linked for path in each.read_only),
            ),
            # Below /tmp it would be missing.
            readable=(*shown, *(each.common for each in linked)),
            hidden=hidden,
        )

    def _kept(self, roots: tuple[str, ...]) -> list[tuple[str, bool]]:
        if self._sandbox.kind != "bubblewrap":
            return []
        self._placeholders.update(filter(None, map(bubblewrap.make_settings_folder, roots)))
        return [each for root in roots for each in bubblewrap.protected_paths(root)]


def _find_linked(roots: Iterable[str]) -> list[LinkedDirectory]:
    """Where git writes for those roots that are linked worktrees: who works there may commit."""
    return [found for root in roots if (found := find_linked_directory(root)) is not None]


class SandboxedSystem:
    """This machine, confined to ``roots``, with the commands of terminals in a sandbox.

    ``writable`` names further directories that commands may change; for the rest see
    ``SandboxedTerminals``. Leaving its ``async with`` (or ``close``) ends everything that was
    started through it.

    Raises:
        NoSandboxError: There is none.
        ValueError: No root, or one that is not absolute.
    """

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]],
        sandbox: Sandbox,
        *,
        writable: Sequence[PathLike] = (),
        hidden: Sequence[PathLike] = (),
        network: bool = False,
        sealed: bool = False,
        guard: ProcessGuard | None = None,
    ) -> None:
        if not sandbox.is_there:
            raise NoSandboxError(sandbox.reason)
        self.sandbox = sandbox
        self.network = network
        self._local = LocalSystem(roots, guard=guard)
        self.roots: tuple[str, ...] = self._local.roots
        self.files = self._local.files
        self.processes = self._local.processes
        self.terminals = SandboxedTerminals(
            Roots(roots),
            sandbox,
            writable=writable,
            hidden=hidden,
            network=network,
            sealed=sealed,
            guard=guard,
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
    from quarterdeck.system.api import System

    _system: System = SandboxedSystem(["/"], Sandbox(kind="none"))
