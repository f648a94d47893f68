"""Starting a child: the part that blocks, for a thread.

The child gets a session and a process group of its own, clean signals, no descriptor of ours but
its three streams, and a mark in its environment that its descendants inherit.
"""

import errno
import fcntl
import os
import secrets
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from quarterdeck.system.api import CommandSpec
from quarterdeck.system.environment import child_environment, find_program
from quarterdeck.system.errors import CommandNotFoundError, NotExecutableError, SpawnError
from quarterdeck.system.paths import Roots
from quarterdeck.system.process_guard import ProcessGuard
from quarterdeck.system.process_tree import MARK_VARIABLE, ProcessTree, start_of

__all__ = ["Confinement", "Input", "StartedChild", "open_data", "set_size", "start_child"]

_SHELL = "/bin/sh"
_ON_TERMINAL = (_SHELL, "-c", 'exec "$@" <"$0" >"$0" 2>&1')
"""A terminal controls the first of a session that opens it; the program replaces the shell.

The alternative is to run Python between fork and exec, which is not safe where there are threads.
"""
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)

Input: TypeAlias = Literal["pipe", "nothing"]


class StartedChild(Struct, frozen=True, kw_only=True):
    """A child that runs, and our ends of its pipes (-1 where there is none)."""

    tree: ProcessTree
    stdin: int
    stdout: int
    stderr: int


class Confinement(Struct, frozen=True, kw_only=True):
    """What is done to a child before its program begins."""

    restrict: Callable[[], None] | None = None
    """Called in a thread that then starts the child and ends: what it gives up the child lacks.
    Raises OSError; then there is no child."""
    data: tuple[tuple[str, bytes], ...] = ()
    """Options of the program, to be put before all others, each with what it reads from the
    descriptor that it is given; some kilobytes at the most."""


_UNCONFINED = Confinement()


def start_child(
    command: CommandSpec,
    roots: Roots | None,
    guard: ProcessGuard,
    *,
    stdin: Input = "pipe",
    merged: bool = False,
    size: tuple[int, int] | None = None,
    confinement: Confinement | None = None,
) -> StartedChild:
    """Start ``command``; ``merged`` sends its standard error to its standard output.

    With a ``size``, columns and rows, it gets a terminal of that size for all three streams, which
    also controls it; our ends are both the terminal's. ``roots`` confine its working directory.
    Blocks for some milliseconds.

    Raises:
        SpawnError: It could not be started; nothing is left behind.
        PathError: The working directory is outside the roots.
    """
    environment = child_environment(command.env, command.inherit)
    mark = secrets.token_hex(12)
    outer = os.environ.get(MARK_VARIABLE)
    environment[MARK_VARIABLE] = f"{outer}:{mark}" if outer else mark
    name = command.argv[0] if command.argv else ""
    if any("\0" in word for word in command.argv):
        raise SpawnError(name, f"Command {name!r} has a NUL byte in its arguments. Remove it.")
    cwd = _directory(command, roots)
    program = find_program(name, environment, cwd)
    try:
        guard.begin(mark)
        if size is not None:
            streams = _Terminal(size)
            words = [*_ON_TERMINAL, streams.name, program, *command.argv[1:]]
            return _run(name, words, _SHELL, cwd, environment, mark, guard, streams)
        streams = _Pipes(stdin=stdin, merged=merged)
        held = confinement or _UNCONFINED
        return _run(name, command.argv, program, cwd, environment, mark, guard, streams, held)
    except OSError as error:  # no descriptors, no processes left
        raise SpawnError(name, f"Command {name!r} cannot be started: {error}.") from error
    finally:
        guard.settle(mark)


def _run(
    name: str,
    words: Sequence[str],
    program: str,
    cwd: str,
    environment: dict[str, str],
    mark: str,
    guard: ProcessGuard,
    pipes: "_Pipes | _Terminal",
    held: Confinement = _UNCONFINED,
) -> StartedChild:
    options: list[str] = []
    given: list[int] = []

    def begin() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*words[:1], *options, *words[1:]],
            executable=program,
            cwd=cwd,
            env=environment,
            stdin=pipes.child_stdin,
            stdout=pipes.child_stdout,
            stderr=pipes.child_stderr,
            start_new_session=True,
            pass_fds=given,
        )

    try:
        options, given = open_data(held)
        child = begin() if held.restrict is None else _restricted(name, held.restrict, begin)
    except (OSError, ValueError, SpawnError) as error:
        pipes.close_ours()
        if isinstance(error, SpawnError):
            raise
        raise _spawn_error(name, program, error) from error
    finally:
        pipes.close_theirs()
        _close(*given)
    child.returncode = 0  # we watch and reap it ourselves; Popen only started it
    tree = ProcessTree(mark, child.pid, start_of(child.pid))
    try:
        guard.started(tree)
    except OSError:  # nothing would end it after our death: not started then
        os.killpg(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        pipes.close_ours()
        raise
    return StartedChild(tree=tree, stdin=pipes.stdin, stdout=pipes.stdout, stderr=pipes.stderr)


def open_data(confinement: Confinement) -> tuple[list[str], list[int]]:
    """The options of a confinement, and the descriptors that they name: to be passed and closed.

    Raises:
        OSError: There are no descriptors left.
    """
    words: list[str] = []
    descriptors: list[int] = []
    try:
        for option, data in confinement.data:
            theirs, ours = os.pipe()
            descriptors.append(theirs)
            with open(ours, "wb", buffering=0) as file:  # noqa: PTH123
                file.write(data)
            words += [option, str(theirs)]
    except BaseException:
        _close(*descriptors)
        raise
    return words, descriptors


def _restricted(
    name: str, restrict: Callable[[], None], begin: Callable[[], "subprocess.Popen[bytes]"]
) -> "subprocess.Popen[bytes]":
    """Start a child from a thread that has given up what the child must not have.

    The thread ends here: none that is used again may be restricted.
    """
    done: list[subprocess.Popen[bytes] | OSError | ValueError | SpawnError] = []

    def work() -> None:
        try:
            restrict()
        except OSError as error:
            why = f"Command {name!r} was not started: the sandbox could not be set up: {error}."
            done.append(SpawnError(name, why))
            return
        try:
            done.append(begin())
        except (OSError, ValueError) as error:
            done.append(error)

    thread = threading.Thread(target=work, name="start in a sandbox")
    try:
        thread.start()
    except RuntimeError as error:
        raise SpawnError(name, f"Command {name!r} cannot be started: {error}.") from error
    thread.join()
    if not done:
        raise SpawnError(name, f"Command {name!r} was not started: its thread failed.")
    if isinstance(done[0], Exception):
        raise done[0]
    return done[0]


class _Pipes:
    def __init__(self, *, stdin: Input, merged: bool) -> None:
        self.stdin = self.stdout = self.stderr = -1
        self.child_stdin, self.child_stdout = subprocess.DEVNULL, subprocess.DEVNULL
        self.child_stderr = subprocess.STDOUT
        try:
            if stdin == "pipe":
                self.child_stdin, self.stdin = os.pipe()
            self.stdout, self.child_stdout = os.pipe()
            if not merged:
                self.stderr, self.child_stderr = os.pipe()
        except OSError:
            self.close_theirs()
            self.close_ours()
            raise

    def close_theirs(self) -> None:
        _close(self.child_stdin, self.child_stdout, self.child_stderr)

    def close_ours(self) -> None:
        _close(self.stdin, self.stdout, self.stderr)


class _Terminal:
    """A pseudo-terminal: one end for all streams of the child, the other, twice, ours."""

    def __init__(self, size: tuple[int, int]) -> None:
        columns, rows = size
        self.stdin = self.stdout = self.stderr = self.child_stdin = -1
        try:
            self.stdout, self.child_stdin = os.openpty()
            self.stdin = os.dup(self.stdout)
            set_size(self.stdout, columns, rows)
            self.name = os.ttyname(self.child_stdin)
        except OSError:
            self.close_theirs()
            self.close_ours()
            raise
        self.child_stdout = self.child_stderr = self.child_stdin

    def close_theirs(self) -> None:
        _close(self.child_stdin)

    def close_ours(self) -> None:
        _close(self.stdin, self.stdout)


def set_size(terminal: int, columns: int, rows: int) -> None:
    """Set the window size of a pseudo-terminal; the programs in it get a signal."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def _directory(command: CommandSpec, roots: Roots | None) -> str:
    if roots is not None:
        return roots.real(command.cwd if command.cwd is not None else ".")
    return os.fspath(command.cwd) if command.cwd is not None else "/"


def _spawn_error(name: str, program: str, error: OSError | ValueError) -> SpawnError:
    """The operating system's error, in our words."""
    if isinstance(error, ValueError) or error.errno in _SHORTAGES:
        return SpawnError(name, f"Command {name!r} cannot be started: {error}.")
    if error.errno != errno.ENOENT:
        return NotExecutableError(name, program, (error.strerror or str(error)).lower())
    if os.access(program, os.F_OK):
        return NotExecutableError(name, program, "the interpreter in its first line does not exist")
    return CommandNotFoundError(name, program)
