"""Starting a command line in a terminal of the system."""

from dataclasses import dataclass

from quarterdeck.system.errors import CommandNotFound
from quarterdeck.system.port import Command, Terminal, Terminals

from .outputs import Outputs

__all__ = ["QUIET", "Started", "start"]

_SHELLS = ("/bin/bash", "bash", "/bin/sh")

QUIET = {
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "PIP_NO_INPUT": "1",
    "SYSTEMD_PAGER": "cat",
    "TERM": "dumb",
}
"""Variables that keep programs from paging, prompting and colouring: nobody sits there.

``CI`` is not among them: test runners then refuse to write what a developer wants written.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A command line that runs, and the file that gets all of its output."""

    terminal: Terminal
    file: str


async def start(
    terminals: Terminals, line: str, cwd: str, *, limit: int, outputs: Outputs
) -> Started:
    """Start a command line, keeping ``limit`` bytes of its output: a third head, the rest tail.

    Raises:
        SystemFault: It could not be started.
    """
    head = limit // 3
    missing: CommandNotFound | None = None
    for shell in _SHELLS:
        command = Command(argv=(shell, "-c", _waiting(line)), cwd=cwd, env=QUIET)
        file = await outputs.new_file()
        try:
            terminal = await terminals.create(command, head=head, tail=limit - head, spill=file)
        except CommandNotFound as error:
            missing = error
        else:
            return Started(terminal=terminal, file=file)
    assert missing is not None
    raise missing


def _waiting(line: str) -> str:
    """The line as the shell waits for all of it.

    A shell becomes the last command of its line. ``setsid`` then leads the process group, so it
    forks and ends at once, and what it runs seems to be over. Lines after it keep the shell.
    """
    return f"{line}\n\n" if "setsid" in line else line
