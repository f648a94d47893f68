"""Terminals that an ACP agent opens through us, with the sandbox of their commands."""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quarterdeck.config.places import Places
from quarterdeck.policy.modes import Containment, SandboxState
from quarterdeck.policy.shell.command_line import render_argv
from quarterdeck.policy.shell.wrappers import is_harmless_assignment
from quarterdeck.system.api import CommandSpec, ProcessExit, Terminal
from quarterdeck.system.errors import (
    CommandNotFoundError,
    NoSuchTerminalError,
    OperatingSystemError,
    PathError,
    SpawnError,
)
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.paths import Roots
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.errors import RESOURCE_NOT_FOUND
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.events import Event, TerminalExited, TerminalOutput
from quarterdeck.wire.ids import TerminalId
from quarterdeck.wire.rpc.errors import INVALID_PARAMS, INVALID_REQUEST
from quarterdeck.wire.tasks import BackgroundTasks

from ..link import LinkHost, ServedCall
from .files import path_error_text, plain_path

if TYPE_CHECKING:
    from quarterdeck.system.sandbox import SandboxedTerminals

__all__ = ["ContainedTerminals", "ServedTerminals"]


class ContainedTerminals:
    """Starts commands in what they were permitted for. ``close`` it."""

    def __init__(self, system: LocalSystem) -> None:
        self._system = system
        self._held: dict[Containment, SandboxedTerminals] = {}

    async def sandbox(self) -> SandboxState:
        """What this machine can hold a command with."""
        from quarterdeck.system.sandbox import detect_sandbox, detect_sealed_sandbox

        return SandboxState(
            in_force=(await detect_sandbox()).is_there, seals=(await detect_sealed_sandbox()).seals
        )

    async def create(
        self, command: CommandSpec, containment: Containment, *, tail: int
    ) -> Terminal:
        """Start a command.

        Raises:
            NoSandboxError: it has to be held, and there is nothing to hold it with.
            SpawnError, PathError: it cannot be started there.
        """
        if containment == "none":
            return await self._system.terminals.create(command, tail=tail)
        if containment not in self._held:
            self._held[containment] = await self._make(containment)
        return await self._held[containment].create(command, tail=tail)

    async def _make(self, containment: Containment) -> "SandboxedTerminals":
        from quarterdeck.system.sandbox import (
            NoSandboxError,
            SandboxedTerminals,
            detect_sandbox,
            detect_sealed_sandbox,
        )

        places = Places.find()  # our log and sockets are not for agents
        is_sealed = containment == "sealed"
        found = await (detect_sealed_sandbox() if is_sealed else detect_sandbox())
        if not found.is_there:
            raise NoSandboxError(found.reason)
        return SandboxedTerminals(
            Roots(self._system.roots),
            found,
            hidden=(places.state, places.runtime),
            sealed=is_sealed,
            guard=shared_guard(),
        )

    async def close(self) -> None:
        """End every command that was held, and remove its temporary files."""
        for terminals in self._held.values():
            await terminals.close()


_KEPT = 1_048_576
"""Bytes of output that are kept where the agent gives no limit."""
_MOST_KEPT = 8 * 1_048_576
_MOST = 100
"""Terminals that may be open at once."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of a variable that a shell can read."""
_OWN_SHELLS = frozenset(("/bin/sh", "/bin/bash", "/usr/bin/bash", "/bin/zsh", "/usr/bin/zsh"))
_PLAIN = re.compile(r"[\w./+@%:,-]+")
"""A command of this form is a program's name; any other is a line for a shell."""


@dataclass(slots=True)
class _Open:
    terminal: Terminal
    printed: AsyncIterator[str]
    """What it prints, from its first byte on."""
    following: "asyncio.Task[None] | None" = None


class ServedTerminals:
    """Answers ``terminal/…``. ``close`` it after the system that runs the commands."""

    def __init__(
        self,
        terminals: ContainedTerminals,
        host: LinkHost,
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._terminals = terminals
        self._host = host
        self._emit = emit
        self._open: dict[str, _Open] = {}
        self._following = BackgroundTasks()

    async def create(self, request: acp.CreateTerminalRequest) -> acp.CreateTerminalResponse:
        """Start a command.

        Raises:
            RpcError: it cannot be started, a variable's name is none that a shell can read, its
                directory is outside of the roots, or too many are open.
            NotPermittedError: it may not be run.
        """
        if len(self._open) >= _MOST:
            raise RpcError(INVALID_REQUEST, f"{_MOST} terminals are open; release one first")
        if request.cwd:
            request = replace(request, cwd=plain_path(request.cwd))
        line = _line(request)
        where = {"cwd": request.cwd} if request.cwd else {}
        call = ServedCall(
            name="terminal",
            kind="execute",
            title=line,
            raw_input={"command": line, **where},
            sandbox=await self._terminals.sandbox(),
        )
        terminal = await self._host.carry_out(call, lambda how: self._begin(request, how))
        return acp.CreateTerminalResponse(terminal_id=terminal.id)

    async def _begin(self, request: acp.CreateTerminalRequest, how: Containment) -> Terminal:
        try:
            terminal = await self._start(request, how)
        except CommandNotFoundError as error:
            raise RpcError(RESOURCE_NOT_FOUND, str(error)) from error
        except SpawnError as error:
            raise RpcError(INVALID_PARAMS, str(error)) from error
        except PathError as error:
            raise path_error_text(error) from error
        except OperatingSystemError as error:  # nothing here can hold it
            raise RpcError(INVALID_REQUEST, f"not allowed here: {error}") from error
        self._open[terminal.id] = _Open(terminal, terminal.follow())
        self._host.shows(terminal.id)
        return terminal

    async def output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        """What was printed so far: the last part of it, cut between characters."""
        view = await self._found(request.terminal_id).terminal.output()
        return acp.TerminalOutputResponse(
            output=view.text,
            truncated=view.is_truncated,
            exit_status=None
            if view.exit is None
            else acp.TerminalExitStatus(exit_code=view.exit.code, signal=view.exit.signal),
        )

    async def wait(
        self, request: acp.WaitForTerminalExitRequest
    ) -> acp.WaitForTerminalExitResponse:
        """Wait until the command has ended and all of its output has been emitted."""
        one = self._found(request.terminal_id)
        left = await one.terminal.wait()
        await _caught_up(one)
        return acp.WaitForTerminalExitResponse(exit_code=left.code, signal=left.signal)

    async def kill(self, request: acp.KillTerminalRequest) -> acp.Empty:
        """End the command; the terminal stays."""
        await self._found(request.terminal_id).terminal.kill()
        return acp.Empty()

    async def release(self, request: acp.ReleaseTerminalRequest) -> acp.Empty:
        """End the command and forget the terminal."""
        one = self._found(request.terminal_id)
        del self._open[request.terminal_id]
        await one.terminal.release()
        await _caught_up(one)
        return acp.Empty()

    def show(self, terminal_id: str) -> None:
        """A tool call shows this terminal: emit its output. One that is not ours is left."""
        one = self._open.get(terminal_id)
        if one is not None and one.following is None:
            one.following = self._following.start(
                self._follow(one), name=f"output of {terminal_id}"
            )

    async def close(self, grace: float) -> None:
        """Emit the last output, for at most ``grace`` seconds, and forget everything."""
        self._open.clear()
        await self._following.close(grace)

    async def _start(self, request: acp.CreateTerminalRequest, how: Containment) -> Terminal:
        limit = request.output_byte_limit
        tail = _KEPT if limit is None else max(0, min(limit, _MOST_KEPT))
        environment = {variable.name: variable.value for variable in request.env}
        command = CommandSpec(argv=_argv(request), cwd=request.cwd, env=environment)
        return await self._terminals.create(command, how, tail=tail)

    async def _follow(self, one: _Open) -> None:
        id_ = TerminalId(one.terminal.id)
        async for data in one.printed:
            await self._emit(TerminalOutput(terminal=id_, data=data))
        left: ProcessExit = await one.terminal.wait()
        await self._emit(TerminalExited(terminal=id_, exit_code=left.code, signal=left.signal))

    def _found(self, terminal_id: str) -> _Open:
        one = self._open.get(terminal_id)
        if one is None:
            raise RpcError(RESOURCE_NOT_FOUND, str(NoSuchTerminalError(terminal_id)))
        return one


def _is_line(request: acp.CreateTerminalRequest) -> bool:
    """Say whether a whole command line stands in the place of the program's name."""
    return not request.args and not _PLAIN.fullmatch(request.command)


def _argv(request: acp.CreateTerminalRequest) -> tuple[str, ...]:
    """What runs; a shell reads a whole line, as policy has read it."""
    if _is_line(request):
        return "/bin/sh", "-c", request.command
    return request.command, *request.args


def _line(request: acp.CreateTerminalRequest) -> str:
    """The command as a shell would read it, with the variables that may change what it does.

    Raises:
        RpcError: a variable's name would be read as something else.
    """
    for variable in request.env:
        if not _VARIABLE.fullmatch(variable.name):
            raise RpcError(
                INVALID_PARAMS,
                f"{variable.name!r} is not the name of a variable: use letters, digits and _",
            )
    variables = [
        f"{variable.name}={shlex.quote(variable.value)}"
        for variable in request.env
        if not _is_harmless(variable.name, variable.value)
    ]
    if _is_line(request) and not variables:
        return request.command
    # In front of a whole line a variable would be read as one of its first command only.
    return " ".join((*variables, render_argv(_argv(request))))


def _is_harmless(name: str, value: str) -> bool:
    return is_harmless_assignment(name, value) or (name == "SHELL" and value in _OWN_SHELLS)


async def _caught_up(one: _Open) -> None:
    if one.following is not None:
        await asyncio.wait([one.following])
