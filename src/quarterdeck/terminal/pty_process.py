"""Commands of this machine on a terminal of their own, for programs that draw."""

import os
import signal
from contextlib import suppress
from functools import partial

from quarterdeck.system.api import CommandSpec
from quarterdeck.system.paths import Roots
from quarterdeck.system.process import LocalProcess, start_in_thread
from quarterdeck.system.process_guard import ProcessGuard, shared_guard
from quarterdeck.system.spawn import StartedChild, set_size, start_child

__all__ = ["PtyProcess", "spawn_in_pty"]


class PtyProcess(LocalProcess):
    """A process whose three streams are a terminal, which controls it.

    What it prints is received as it draws it, what is sent is typed. Asking it to leave hangs its
    terminal up. The stream ends when nobody has the terminal open any more.
    """

    def __init__(self, started: StartedChild, guard: ProcessGuard) -> None:
        super().__init__(started, guard, ends_with_child=False)
        self._terminal = started.stdout

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of its terminal; it is told. Nothing happens when it is closed."""
        if self._stdout.is_open:
            set_size(self._terminal, columns, rows)

    def close_input(self) -> None:
        """Hang up."""
        if self.exit is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGHUP)
        super().close_input()


async def spawn_in_pty(
    command: CommandSpec,
    size: tuple[int, int],
    *,
    roots: Roots | None = None,
    guard: ProcessGuard | None = None,
) -> PtyProcess:
    """Start a command on a new terminal of this size, columns and rows.

    Raises:
        SpawnError, PathError: As the port says. Nothing is left behind, also when cancelled.
    """
    guard = guard or shared_guard()
    starting = partial(start_child, command, roots, guard, size=size)
    return PtyProcess(await start_in_thread(starting, guard), guard)
