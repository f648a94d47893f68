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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quarterdeck.system.descendants import MARK_VARIABLE, Tree, start_of
from quarterdeck.system.environment import child_environment, find_program
from quarterdeck.system.errors import CommandNotFound, NotExecutable, SpawnFault
from quarterdeck.system.guard import Guard
from quarterdeck.system.paths import Roots
from quarterdeck.system.port import Command

__all__ = ["Input", "Started", "set_size", "start"]

_SHELL = "/bin/sh"
_ON_TERMINAL = (_SHELL, "-c", 'exec "$@" <"$0" >"$0" 2>&1')
"""A terminal controls the first of a session that opens it; the program replaces the shell.

The alternative is to run Python between fork and exec, which is not safe where there are threads.
"""
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)

Input: TypeAlias = Literal["pipe", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A child that runs, and our ends of its pipes (-1 where there is none)."""

    tree: Tree
    stdin: int
    stdout: int
    stderr: int


def start(
    command: Command,
    roots: Roots | None,
    guard: Guard,
    *,
    stdin: Input = "pipe",
    merged: bool = False,
    size: tuple[int, int] | None = None,
) -> Started:
    """Start ``command``; ``merged`` sends its standard error to its standard output.

    With a ``size``, columns and rows, it gets a terminal of that size for all three streams, which
    also controls it; our ends are both the terminal's. ``roots`` confine its working directory.
    Blocks for some milliseconds.

    Raises:
        SpawnFault: It could not be started; nothing is left behind.
        PathFault: The working directory is outside the roots.
    """
    environment = child_environment(command.env, command.inherit)
    mark = secrets.token_hex(12)
    outer = os.environ.get(MARK_VARIABLE)
    environment[MARK_VARIABLE] = f"{outer}:{mark}" if outer else mark
    name = command.argv[0] if command.argv else ""
    if any("\0" in word for word in command.argv):
        raise SpawnFault(name, f"Command {name!r} has a NUL byte in its arguments. Remove it.")
    cwd = _directory(command, roots)
    program = find_program(name, environment, cwd)
    try:
        guard.begin(mark)
        if size is not None:
            streams = _Terminal(size)
            words = [*_ON_TERMINAL, streams.name, program, *command.argv[1:]]
            return _run(name, words, _SHELL, cwd, environment, mark, guard, streams)
        streams = _Pipes(stdin=stdin, merged=merged)
        return _run(name, command.argv, program, cwd, environment, mark, guard, streams)
    except OSError as error:  # no descriptors, no processes left
        raise SpawnFault(name, f"Command {name!r} cannot be started: {error}.") from error
    finally:
        guard.settle(mark)


def _run(
    name: str,
    words: Sequence[str],
    program: str,
    cwd: str,
    environment: dict[str, str],
    mark: str,
    guard: Guard,
    pipes: "_Pipes | _Terminal",
) -> Started:
    try:
        child = subprocess.Popen(
            list(words),
            executable=program,
            cwd=cwd,
            env=environment,
            stdin=pipes.child_stdin,
            stdout=pipes.child_stdout,
            stderr=pipes.child_stderr,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        pipes.close_ours()
        raise _fault_of(name, program, error) from error
    finally:
        pipes.close_theirs()
    child.returncode = 0  # we watch and reap it ourselves; Popen only started it
    tree = Tree(mark, child.pid, start_of(child.pid))
    try:
        guard.started(tree)
    except OSError:  # nobody would end it after our death: not started then
        os.killpg(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        pipes.close_ours()
        raise
    return Started(tree=tree, stdin=pipes.stdin, stdout=pipes.stdout, stderr=pipes.stderr)


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
    """Tell a pseudo-terminal how large its window is; who runs in it is told."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def _directory(command: Command, roots: Roots | None) -> str:
    if roots is not None:
        return roots.real(command.cwd if command.cwd is not None else ".")
    return os.fspath(command.cwd) if command.cwd is not None else "/"


def _fault_of(name: str, program: str, error: OSError | ValueError) -> SpawnFault:
    """What the operating system said, in our words."""
    if isinstance(error, ValueError) or error.errno in _SHORTAGES:
        return SpawnFault(name, f"Command {name!r} cannot be started: {error}.")
    if error.errno != errno.ENOENT:
        return NotExecutable(name, program, (error.strerror or str(error)).lower())
    if os.access(program, os.F_OK):
        return NotExecutable(name, program, "the interpreter in its first line does not exist")
    return CommandNotFound(name, program)
