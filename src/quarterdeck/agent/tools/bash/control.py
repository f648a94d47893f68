"""The tool ``commands``: look after what runs in the background."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from quarterdeck.wire.events import TerminalExited, TerminalOutput
from quarterdeck.wire.ids import TerminalId
from quarterdeck.wire.toolcalls import ToolKind

from ..describe import describe
from ..tool import Arguments, Live, Outcome, Prepared, Tool, ToolError, said
from ..workspace import Workspace
from .background import BackgroundCommand, Commands, commands_of
from .report import ended, title_of

__all__ = ["CommandsArguments", "CommandsTool"]

_WAIT = 30.0


class CommandsArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``commands``."""

    action: Literal["list", "read", "wait", "kill"]
    id: Annotated[str | None, Meta(description="Which command; all but `list` need it.")] = None
    seconds: Annotated[
        float | None, Meta(description="With `wait`: how long at most; 30 if left out.")
    ] = None


class CommandsTool:
    """Lists, reads, awaits and ends background commands.

    To the policy this is no deed of its own: leave was given when the command was started, and
    only the session's own commands can be reached.
    """

    name = "commands"
    kind: ToolKind = "execute"
    arguments = CommandsArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return describe(__package__, "commands")

    async def prepare(self, arguments: CommandsArguments, workspace: Workspace) -> Prepared:
        """Find the command; nothing is done to it."""
        commands = commands_of(workspace)
        call = workspace.call(self.name, "think")
        if arguments.action == "list":
            return Prepared(title="Background commands", call=call, run=partial(_list, commands))
        if arguments.id is None:
            raise ToolError(f"{arguments.action!r} needs the id of a command.")
        command = commands.find(arguments.id)
        seconds = _WAIT if arguments.seconds is None else max(arguments.seconds, 0.0)
        run = {
            "read": partial(_read, command),
            "wait": partial(_wait, command, min(seconds, workspace.options.bash_max_timeout)),
            "kill": partial(_kill, command),
        }[arguments.action]
        title = f"{arguments.action.capitalize()} {command.id}: {title_of(command.line)}"
        return Prepared(title=title, call=call, run=run)


async def _list(commands: Commands, live: Live) -> Outcome:
    lines = [
        f"{command.id} {ended(command.exit, command.seconds)} {title_of(command.line)}"
        for command in commands.all
    ]
    return said("\n".join(lines) or "There are no background commands.")


async def _wait(command: BackgroundCommand, seconds: float, live: Live) -> Outcome:
    await command.wait(seconds)
    return await _read(command, live)


async def _kill(command: BackgroundCommand, live: Live) -> Outcome:
    await command.kill()
    return await _read(command, live)


async def _read(command: BackgroundCommand, live: Live) -> Outcome:
    """Tell what is new, and show it in the command's terminal."""
    dropped, text = command.take()
    await _show(command, text, live)
    if dropped:
        text = f"[… {dropped} characters are not shown; all is in {command.file} …]\n{text}"
    status = ended(command.exit, command.seconds)
    return said(f"{text.rstrip() or '(nothing new)'}\n{status}")


async def _show(command: BackgroundCommand, text: str, live: Live) -> None:
    terminal = TerminalId(command.terminal.id)
    if text:
        await live.emit(TerminalOutput(terminal=terminal, data=text))
    if (left := command.exit) is not None and not command.was_exit_told:
        command.was_exit_told = True
        await live.emit(TerminalExited(terminal=terminal, exit_code=left.code, signal=left.signal))


if TYPE_CHECKING:
    _tool: Tool = CommandsTool()
