"""What can be done by name: from the palette and as ``/name`` in the input."""

from typing import TYPE_CHECKING

from .command import Command, Deed
from .commands_chat import CHAT_COMMANDS
from .commands_first import FIRST_COMMANDS
from .commands_layout import LAYOUT_COMMANDS
from .commands_looks import ROWS
from .commands_terminal import TERMINAL_COMMANDS

if TYPE_CHECKING:
    from quarterdeck.fleet.port import AgentInfo, Fleet

__all__ = ["COMMANDS", "Command", "Deed", "find_command"]


async def _interrupt(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.interrupt(agent.session)
    return f"{agent.name} is interrupted"


async def _kill(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.kill(agent.session)
    return f"{agent.name} is killed"


async def _close(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.close(agent.session)
    return f"{agent.name} is closed; /resume starts it again"


async def _archive(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.archive(agent.session, archived=not agent.is_archived)
    return f"{agent.name} is {'back' if agent.is_archived else 'put away'}"


async def _resume(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.resume(agent.session)
    return f"{agent.name} starts again"


async def _rename(fleet: "Fleet", agent: "AgentInfo", name: str) -> str:
    info = await fleet.rename(agent.session, name)
    return f"{agent.name} is now called {info.name}"


async def _fork(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    info = await fleet.fork(agent.session)
    return f"{info.name} goes on from where {agent.name} is"


async def _mode(fleet: "Fleet", agent: "AgentInfo", mode: str) -> str:
    await fleet.set_option(agent.session, "mode", mode)
    return f"{agent.name} works in mode {mode}"


async def _model(fleet: "Fleet", agent: "AgentInfo", model: str) -> str:
    await fleet.set_option(agent.session, "model", model)
    return f"{agent.name} uses {model}"


COMMANDS = (
    Command(name="spawn", help="start another agent", action="spawn"),
    Command(name="answer", help="answer what waits for you", action="answer"),
    Command(name="interrupt", help="end the turn of this agent", deed=_interrupt),
    Command(name="close", help="end this agent in good order", deed=_close),
    Command(name="kill", help="end this agent and its processes now", deed=_kill),
    Command(name="resume", help="start this agent again where it ended", deed=_resume),
    Command(name="fork", help="start a copy of this agent with the same past", deed=_fork),
    Command(name="rename", help="give this agent another name", deed=_rename, asks="new name"),
    Command(name="archive", help="put this agent away, or take it out again", deed=_archive),
    Command(
        name="mode",
        help="what this agent may do without asking",
        deed=_mode,
        asks="mode: ask, read-only, accept-edits, plan, full-auto, deny-all",
    ),
    Command(name="model", help="the model of this agent", deed=_model, asks="model"),
    Command(name="archived", help="show or hide agents that are put away", action="archived"),
    Command(name="unfold", help="unfold or fold every tool call", action="unfold"),
    Command(name="end", help="go to the end of the transcript", action="follow"),
    Command(name="host", help="start the host if it is not there", action="start_host"),
    *CHAT_COMMANDS,
    *FIRST_COMMANDS,
    *LAYOUT_COMMANDS,
    *TERMINAL_COMMANDS,
    Command(name="help", help="every key and every command", action="help"),
    Command(name="quit", help="leave; the agents go on", action="quit"),
    *(Command(name=n, help=h, target=t, asks=a) for n, h, t, a in ROWS),
)


def find_command(text: str) -> tuple[Command, str] | None:
    """The command that a text calls, and what follows its name; None: it calls none of ours.

    A text of several lines, or with a slash that begins a path, is a prompt.
    """
    if not text.startswith("/") or "\n" in text.strip():
        return None
    name, _, rest = text[1:].partition(" ")
    for command in COMMANDS:
        if command.name == name.strip():
            return command, rest.strip()
    return None
