"""The tool ``bash``: run a command line, show its output while it runs, report how it ended."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from quarterdeck.policy.lookup import look_up
from quarterdeck.system.api import Terminal
from quarterdeck.system.local_disk import LocalDisk
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.events import TerminalExited, TerminalOutput, ToolCallUpdated
from quarterdeck.wire.ids import TerminalId
from quarterdeck.wire.tool_calls import ContentItem, TerminalItem, ToolKind

from ..tool import Arguments, LiveCall, PreparedCall, Tool, ToolError, ToolOutcome, read_description
from ..workspace import ToolWorkspace
from .background import BackgroundCommands, CommandsTool, commands_of
from .shell import StartedCommand, command_output_text, ended, start_command, title_of

__all__ = ["BashArguments", "BashTool", "CommandsTool"]

_PAUSE = 0.05
"""Seconds between two pieces of live output, so that a flood makes few events."""
_MOST_SHOWN = 1_000_000
"""Characters of live output; the rest is in the output's file, and its end in the result."""


class BashArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``bash``."""

    command: Annotated[str, Meta(description="The command line, as bash reads it.")]
    timeout: Annotated[float | None, Meta(description="Timeout in seconds; default: 120.")] = None
    workdir: Annotated[
        str | None, Meta(description="Directory to run in; default: the working directory.")
    ] = None
    background: Annotated[
        bool, Meta(description="Return an id immediately and run the command in the background.")
    ] = False
    description: Annotated[
        str | None, Meta(description="What the command does, in five to ten words, for the person.")
    ] = None


class BashTool:
    """Runs a command line."""

    name = "bash"
    kind: ToolKind = "execute"
    arguments = BashArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__package__)

    async def prepare(self, arguments: BashArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Find the directory; nothing is started."""
        line = arguments.command
        if not line.strip():
            raise ToolError("The command is empty; give a command to run.")
        if "\0" in line:
            raise ToolError(
                "The command contains a NUL character, which cannot be passed to a program."
            )
        cwd = await _directory(arguments.workdir, workspace)
        commands = commands_of(workspace)
        if arguments.background:
            commands.check_room()
        order = _Order(
            line=line,
            cwd=cwd,
            timeout=_seconds(arguments.timeout, workspace),
            workspace=workspace,
            commands=commands,
        )
        call = workspace.call(self.name, self.kind, command=line, cwd=cwd)
        return PreparedCall(
            title=title_of(line),
            call=await asyncio.to_thread(look_up, call, LocalDisk()),
            run=partial(_run_on if arguments.background else _run, order),
            content=(ContentItem(content=text(_shown(arguments, cwd))),),
            shows={"command": line, "cwd": cwd},
        )


class _Order(Struct, frozen=True, kw_only=True):
    """What to run, where and how long."""

    line: str
    cwd: str
    timeout: float
    workspace: ToolWorkspace
    commands: BackgroundCommands

    @property
    def limit(self) -> int:
        return self.workspace.options.output_bytes


async def _directory(workdir: str | None, workspace: ToolWorkspace) -> str:
    """Where the command runs; the system refuses what is outside of the roots."""
    if workdir is None:
        return workspace.cwd
    found = await workspace.system.files.stat(workdir)
    if found.kind != "directory":
        raise ToolError(f"{workdir!r} is a {found.kind}; workdir must be a directory.")
    return found.path


def _seconds(timeout: float | None, workspace: ToolWorkspace) -> float:
    options = workspace.options
    if timeout is None:
        return min(options.bash_timeout, options.bash_max_timeout)
    if not timeout > 0:
        raise ToolError(f"A timeout of {timeout:g} s is too short; give more than 0.")
    return min(timeout, options.bash_max_timeout)


def _shown(arguments: BashArguments, cwd: str) -> str:
    """The whole command and its directory, for the person who is asked."""
    note = f"# {arguments.description}\n" if arguments.description else ""
    behind = "(in the background) " if arguments.background else ""
    return f"{note}{behind}{cwd}$ {arguments.command}"


async def _show_terminal(live: LiveCall, terminal: Terminal) -> None:
    item = TerminalItem(terminal_id=terminal.id)
    await live.emit(ToolCallUpdated(call=live.call, content=(item,)))


async def _run_on(order: _Order, live: LiveCall) -> ToolOutcome:
    """Start a command in the background."""
    terminals = order.workspace.terminals(live.containment)
    command = await order.commands.start(terminals, order.line, order.cwd, order.limit)
    await _show_terminal(live, command.terminal)
    text = (
        f"Started in the background as {command.id!r}. Use the tool `commands` to read its "
        f"output, wait for it or end it. All of its output is also in {command.file}."
    )
    return ToolOutcome(result=(TextPart(text=text),), raw_output={"id": command.id})


async def _run(order: _Order, live: LiveCall) -> ToolOutcome:
    """Run a command to its end, or until its time is over."""
    begun = time.monotonic()
    started = await start_command(
        order.workspace.terminals(live.containment),
        order.line,
        order.cwd,
        limit=order.limit,
        outputs=order.commands.outputs,
    )
    terminal, pieces = started.terminal, started.terminal.follow()
    try:
        await _show_terminal(live, terminal)
        async with asyncio.TaskGroup() as group:
            group.create_task(_show(terminal, pieces, live))
            in_time = await _wait(terminal, order.timeout)
            await terminal.kill()  # also what the command left running
        return await _outcome(order, started, time.monotonic() - begun, in_time)
    finally:
        await _end(terminal, live)


async def _wait(terminal: Terminal, seconds: float) -> bool:
    """Wait for the end; False when it did not come in time."""
    try:
        async with asyncio.timeout(seconds):
            await terminal.wait()
    except TimeoutError:
        return False
    return True


async def _show(terminal: Terminal, pieces: AsyncIterator[str], live: LiveCall) -> None:
    """Send the output to the session while it is printed."""
    shown, hidden, last = 0, 0, ""
    async for piece in pieces:
        if shown > _MOST_SHOWN:
            hidden, last = hidden + len(piece), piece
            continue
        shown += len(piece)
        await live.emit(TerminalOutput(terminal=TerminalId(terminal.id), data=piece))
        await asyncio.sleep(_PAUSE)
    if hidden:
        end = last[-4000:]
        mark = f"\n[… {hidden - len(end)} characters …]\n"
        await live.emit(TerminalOutput(terminal=TerminalId(terminal.id), data=mark + end))


async def _end(terminal: Terminal, live: LiveCall) -> None:
    """Leave no process behind, also when the call was cancelled, and say that it is over."""
    try:
        await terminal.kill()
        left = await terminal.wait()
        exited = TerminalExited(
            terminal=TerminalId(terminal.id), exit_code=left.code, signal=left.signal
        )
        await live.emit(exited)
    finally:
        await terminal.release()


async def _outcome(
    order: _Order, started: StartedCommand, seconds: float, in_time: bool
) -> ToolOutcome:
    view = await started.terminal.output()
    if not view.is_truncated:
        await order.commands.outputs.drop(started.file)
    lines = [command_output_text(view, started.file)]
    if in_time:
        lines.append(ended(view.exit, seconds))
    else:
        lines.append(
            f"[timed out after {order.timeout:g} s and was killed with all processes it started; "
            "give it more time, or run it in the background]"
        )
    code, signal = (view.exit.code, view.exit.signal) if view.exit else (None, None)
    return ToolOutcome(
        result=(TextPart(text="\n".join(lines)),),
        raw_output={"exit_code": code, "signal": signal, "output_bytes": view.total},
        is_error=not in_time,
    )


if TYPE_CHECKING:
    _tool: Tool = BashTool()
