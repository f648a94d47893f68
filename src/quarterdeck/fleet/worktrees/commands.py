"""Commands of the project's settings that prepare a worktree, check it and clean up after it.

The settings name the command, but the files that it runs may be an agent's. Such a command runs in
the sandbox, where there is one: it can write to the worktree and to temporary files of its own.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from quarterdeck.config.schema import SandboxSettings
from quarterdeck.system.api import CommandSpec
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.system.local_terminals import LocalTerminals
from quarterdeck.system.paths import Roots
from quarterdeck.wire.events import CommandRan
from quarterdeck.wire.worktrees import CommandPurpose, Worktree

if TYPE_CHECKING:
    from quarterdeck.system.sandbox import SandboxedTerminals

__all__ = ["CommandContainment", "run_worktree_command", "worktree_variables"]

_TAIL = 16_000
_MOST_LINES = 60
_CANNOT_RUN = 126
"""What a shell exits with when a command cannot be executed."""


class CommandContainment(Struct, frozen=True, kw_only=True):
    """How a command is contained whose files an agent may have written."""

    settings: SandboxSettings
    setting: str
    """The name of the setting that turns it off, for people."""
    readable: tuple[str, ...] = ()
    """Directories that it needs to read, wherever they are: the repository's."""
    hidden: tuple[str, ...] = ()
    """Directories that it must not see: our own."""

    def describe(self) -> str:
        """What a person must know about a command that failed in it."""
        network = "with" if self.settings.network else "without"
        return (
            f"(it ran in the sandbox, {network} network; see the settings {self.setting}, "
            "sandbox.network and sandbox.writable)"
        )


def worktree_variables(worktree: Worktree, agent: str) -> dict[str, str]:
    """What a command is given to find its way."""
    return {
        "QUARTERDECK_WORKTREE": worktree.path,
        "QUARTERDECK_REPOSITORY": worktree.repository,
        "QUARTERDECK_BRANCH": worktree.branch or "",
        "QUARTERDECK_BASE": worktree.base,
        "QUARTERDECK_AGENT": agent,
    }


async def run_worktree_command(
    line: str,
    *,
    cwd: str,
    purpose: CommandPurpose,
    variables: Mapping[str, str],
    timeout: float,
    containment: CommandContainment | None = None,
) -> CommandRan:
    """Run a line of the shell in a directory and return what came of it; never raises for that.

    It gets the few variables that every child gets, and these. When the time is up, or this is
    cancelled, it is ended with all that it started. ``containment``: run it in the sandbox; where
    there is none it runs without, unless ``sandbox.require`` is set.
    """
    terminals = await _open_terminals(cwd, containment)
    begun = time.monotonic()
    if terminals is None:
        text = "there is no sandbox here, and the setting sandbox.require is on"
        return CommandRan(
            purpose=purpose, command=line, exit_code=_CANNOT_RUN, output=text, seconds=0.0
        )
    code: int | None = None
    output = ""
    try:
        spec = CommandSpec(argv=("sh", "-c", line), cwd=cwd, env=dict(variables))
        terminal = await terminals.create(spec, tail=_TAIL)
        try:
            async with asyncio.timeout(timeout):
                code = (await terminal.wait()).code
        except TimeoutError:
            await terminal.kill()
        view = await terminal.output()
        output = _last_lines(view.text, is_cut=view.is_truncated)
        if code is None and time.monotonic() - begun >= timeout:
            output = f"{output}\n(ended after {timeout:g} s)".lstrip("\n")
        elif code != 0 and containment is not None and not isinstance(terminals, LocalTerminals):
            output = f"{output}\n{containment.describe()}".lstrip("\n")
    except OperatingSystemError as error:
        output = str(error)
    finally:
        await terminals.close()
    seconds = round(time.monotonic() - begun, 3)
    return CommandRan(purpose=purpose, command=line, exit_code=code, output=output, seconds=seconds)


async def _open_terminals(
    cwd: str, containment: CommandContainment | None
) -> "LocalTerminals | SandboxedTerminals | None":
    """Where a command runs; None: it must not run here."""
    if containment is None:
        return LocalTerminals()
    from quarterdeck.system.sandbox import SandboxedTerminals, detect_sandbox

    found = await detect_sandbox()
    wanted = containment.settings
    if not found.is_there:
        return None if wanted.require else LocalTerminals()
    return SandboxedTerminals(
        Roots([cwd]),
        found,
        writable=wanted.writable,
        hidden=containment.hidden,
        readable=containment.readable,
        network=wanted.network,
        commits=False,
    )


def _last_lines(text: str, *, is_cut: bool) -> str:
    lines = text.rstrip().splitlines()
    shown = lines[-_MOST_LINES:]
    return "\n".join(["…", *shown] if is_cut or len(lines) > len(shown) else shown)
