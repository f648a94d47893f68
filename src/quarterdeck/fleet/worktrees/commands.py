"""Commands of the project's settings that prepare a worktree and clean up after it."""

import asyncio
import time
from collections.abc import Mapping

from quarterdeck.system.api import CommandSpec
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.system.local_terminals import LocalTerminals
from quarterdeck.wire.events import CommandRan
from quarterdeck.wire.worktrees import CommandPurpose, Worktree

__all__ = ["run_worktree_command", "worktree_variables"]

_TAIL = 16_000
_MOST_LINES = 60


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
) -> CommandRan:
    """Run a line of the shell in a directory and return what came of it; never raises for that.

    It gets the few variables that every child gets, and these. When the time is up, or this is
    cancelled, it is ended with all that it started.
    """
    terminals = LocalTerminals()
    begun = time.monotonic()
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
    except OperatingSystemError as error:
        output = str(error)
    finally:
        await terminals.close()
    seconds = round(time.monotonic() - begun, 3)
    return CommandRan(purpose=purpose, command=line, exit_code=code, output=output, seconds=seconds)


def _last_lines(text: str, *, is_cut: bool) -> str:
    lines = text.rstrip().splitlines()
    shown = lines[-_MOST_LINES:]
    return "\n".join(["…", *shown] if is_cut or len(lines) > len(shown) else shown)
