"""Starting a command line in a terminal of the system, the files that keep its output, and its
report.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from msgspec import Struct

from quarterdeck.system.api import CommandSpec, OutputView, ProcessExit, Terminal, Terminals
from quarterdeck.system.errors import CommandNotFoundError

__all__ = [
    "QUIET",
    "OutputFiles",
    "StartedCommand",
    "command_output_text",
    "ended",
    "start_command",
    "title_of",
]


class OutputFiles:
    """Names for output files in a directory that we alone can read; ``close`` removes it."""

    def __init__(self) -> None:
        self._making: asyncio.Lock = asyncio.Lock()
        self._directory: str | None = None
        self._count = 0

    async def new_file(self) -> str:
        """The path of a file that does not exist yet."""
        async with self._making:
            if self._directory is None:
                self._directory = await asyncio.to_thread(tempfile.mkdtemp, "", "quarterdeck-")
        self._count += 1
        return f"{self._directory}/output-{self._count}.txt"

    async def drop(self, file: str) -> None:
        """Remove a file whose path was never reported."""
        await asyncio.to_thread(Path(file).unlink, missing_ok=True)

    async def close(self) -> None:
        """Remove every output; may be called again."""
        directory, self._directory = self._directory, None
        if directory is not None:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


_TITLE = 100


def title_of(line: str) -> str:
    """A call's title: the first line of the command, cut; never what the model says it does."""
    first, _, rest = line.strip().partition("\n")
    text = first if len(first) <= _TITLE else first[: _TITLE - 1] + "…"
    return f"{text} …" if rest else text


def command_output_text(view: OutputView, file: str) -> str:
    """The output, with the number of bytes that are missing and where they are."""
    if not view.is_truncated:
        return view.text.rstrip("\n") or "(no output)"
    return (
        f"{view.head}\n[… {view.dropped} of {view.total} bytes are not shown; "
        f"the whole output is in {file} …]\n{view.tail}"
    ).rstrip("\n")


def ended(left: ProcessExit | None, seconds: float) -> str:
    """How the command ended, in one line; None: it still runs."""
    return f"[{left or 'still running'}, {seconds:.1f} s]"


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
"""Variables that keep programs from paging, prompting and colouring: there is no person to answer.

``CI`` is not among them: test runners then refuse to write what a developer wants written.
"""


class StartedCommand(Struct, frozen=True, kw_only=True):
    """A command line that runs, and the file that gets all of its output."""

    terminal: Terminal
    file: str


async def start_command(
    terminals: Terminals, line: str, cwd: str, *, limit: int, outputs: OutputFiles
) -> StartedCommand:
    """Start a command line, keeping ``limit`` bytes of its output: a third head, the rest tail.

    Raises:
        OperatingSystemError: It could not be started.
    """
    head = limit // 3
    missing: CommandNotFoundError | None = None
    for shell in _SHELLS:
        command = CommandSpec(argv=(shell, "-c", _waiting(line)), cwd=cwd, env=QUIET)
        file = await outputs.new_file()
        try:
            terminal = await terminals.create(command, head=head, tail=limit - head, spill=file)
        except CommandNotFoundError as error:
            missing = error
        else:
            return StartedCommand(terminal=terminal, file=file)
    assert missing is not None
    raise missing


def _waiting(line: str) -> str:
    """The line as the shell waits for all of it.

    A shell becomes the last command of its line. ``setsid`` then leads the process group, so it
    forks and ends at once, and what it runs seems to be over. Lines after it keep the shell.
    """
    return f"{line}\n\n" if "setsid" in line else line
