"""Starting a child: the part that blocks, for a thread.

The child gets a session and a process group of its own, clean signals, no descriptor of ours but
its three streams, and a mark in its environment that its descendants inherit.
"""

import errno
import os
import secrets
import signal
import subprocess
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quarterdeck.system.descendants import MARK_VARIABLE, Tree, start_of
from quarterdeck.system.environment import child_environment, find_program
from quarterdeck.system.errors import CommandNotFound, NotExecutable, SpawnFault
from quarterdeck.system.guard import Guard
from quarterdeck.system.paths import Roots
from quarterdeck.system.port import Command

__all__ = ["Input", "Started", "start"]

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
    command: Command, roots: Roots | None, guard: Guard, *, stdin: Input, merged: bool
) -> Started:
    """Start ``command``; ``merged`` sends its standard error to its standard output.

    ``roots`` confine its working directory. Blocks for some milliseconds.

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
        return _run(command, program, cwd, environment, mark, guard, stdin, merged)
    except OSError as error:  # no descriptors, no processes left
        raise SpawnFault(name, f"Command {name!r} cannot be started: {error}.") from error
    finally:
        guard.settle(mark)


def _run(
    command: Command,
    program: str,
    cwd: str,
    environment: dict[str, str],
    mark: str,
    guard: Guard,
    stdin: Input,
    merged: bool,
) -> Started:
    pipes = _Pipes(stdin=stdin, merged=merged)
    try:
        child = subprocess.Popen(
            list(command.argv),
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
        raise _fault_of(command.argv[0], program, error) from error
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
