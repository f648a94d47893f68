"""Slash commands: what one is, the built-in ones, and the registry of a session.

Commands that users write in files are in ``agent.library``.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import CommandsChanged, Event, Prompted
from quarterdeck.wire.settings import Command as Listed
from quarterdeck.wire.settings import CommandInput

from .config_options import modes_of
from .context.window import SessionContext
from .ports import CHECKPOINT_COMMANDS

if TYPE_CHECKING:
    from quarterdeck.models.model import ModelInfo
    from quarterdeck.policy.gate import Gate
    from quarterdeck.policy.modes import Mode
    from quarterdeck.wire.settings import ConfigOption

    from .checkpoints.service import Checkpoints

__all__ = [
    "BUILT_IN",
    "CONTEXT_COMMANDS",
    "AnsweredCommand",
    "Command",
    "CommandCall",
    "CommandList",
    "CommandRegistry",
    "CommandSession",
    "CommandSource",
    "ContextCommand",
    "ExpandedCommand",
    "FoundCommands",
    "builtin_commands",
    "run_context_command",
]

BUILT_IN = "built in"


class _Named(Struct, frozen=True, kw_only=True):
    """What people see of a command."""

    name: str
    """Without the slash; no white space."""
    description: str
    hint: str = ""
    """What may be typed after the name."""
    source: str = BUILT_IN
    """Where it comes from: ``built in``, or its file."""


class AnsweredCommand(_Named, frozen=True, kw_only=True):
    """A command that we answer; it is never sent to the model."""

    answer: Callable[["CommandSession", str], Awaitable[str]]
    """Does it, in a turn of its own, with what was typed after the name; gives what to say.

    A ``QuarterdeckError`` is shown as the answer, too. May be cancelled.
    """


class ExpandedCommand(_Named, frozen=True, kw_only=True):
    """A command that expands to a prompt: the model sees the prompt, people see what was typed."""

    expand: Callable[["CommandSession", str], Awaitable[tuple[ContentBlock, ...]]]
    """Gives the prompt. A ``QuarterdeckError`` is shown instead, and the model is not asked."""


Command: TypeAlias = AnsweredCommand | ExpandedCommand


class CommandList(Protocol):
    """The commands of a session, for one that lists them."""

    @property
    def all(self) -> tuple[Command, ...]:
        """Those that can be called."""
        ...

    @property
    def hidden(self) -> tuple[Command, ...]:
        """Those that cannot be called because another has their name."""
        ...


class CommandSession(Protocol):
    """What a command may do with the session in which it was typed."""

    gate: "Gate"
    context: "SessionContext"
    checkpoints: "Checkpoints"

    @property
    def cwd(self) -> str:
        """The directory the session works in."""
        ...

    @property
    def model(self) -> "ModelInfo":
        """The model that the next turn asks."""
        ...

    @property
    def options(self) -> "tuple[ConfigOption, ...]":
        """The session's settings as people see them."""
        ...

    @property
    def commands(self) -> CommandList:
        """Its commands."""
        ...

    async def set_model(self, name: str) -> None:
        """Change the model from the next turn on; raises ``ModelSetupError``."""
        ...

    async def set_mode(self, mode: "Mode") -> None:
        """Change the permission mode."""
        ...


_SPEAKERS = ("person", "schedule")
"""Origins of prompts that can be commands."""


class CommandCall(Struct, frozen=True):
    """A prompt that is a command, and what was typed after its name."""

    command: Command
    words: str


class FoundCommands(Struct, frozen=True):
    """The commands of a library as they are now, and what a person should know about them."""

    commands: tuple[Command, ...]
    notices: tuple[Event, ...] = ()


CommandSource = Callable[[], Awaitable["FoundCommands | None"]]
"""Looks for commands that come and go, such as those in files; None: nothing has changed."""


async def _nothing() -> FoundCommands | None:
    return None


class CommandRegistry:
    """Commands by name. Ours win over a library's; the first of a library's wins over others."""

    def __init__(self, commands: Iterable[Command], library: CommandSource = _nothing) -> None:
        self._ours = {command.name: command for command in commands}
        self._theirs: tuple[Command, ...] = ()
        self._library = library

    def add(self, *commands: Command) -> None:
        """Add commands of ours, or replace those of the same name; before the session begins."""
        self._ours |= {command.name: command for command in commands}

    async def refresh(self) -> tuple[Event, ...]:
        """Look again for commands that come and go; the events that report what has changed."""
        found = await self._library()
        if found is None:
            return ()
        self._theirs = found.commands
        return (*found.notices, self.changed())

    @property
    def all(self) -> tuple[Command, ...]:
        """Those that can be called, ours first, each name once."""
        named = {command.name: command for command in reversed(self._theirs)}
        theirs = [named[name] for name in sorted(named) if name not in self._ours]
        return (*self._ours.values(), *theirs)

    @property
    def hidden(self) -> tuple[Command, ...]:
        """Those that cannot be called because another has their name."""
        called = self.all
        return tuple(command for command in self._theirs if command not in called)

    @property
    def listed(self) -> tuple[Listed, ...]:
        """The commands as they are sent to clients."""
        return tuple(
            Listed(
                name=command.name,
                description=command.description,
                input=CommandInput(hint=command.hint) if command.hint else None,
            )
            for command in self.all
        )

    def changed(self) -> CommandsChanged:
        """The event that lists all commands."""
        return CommandsChanged(commands=self.listed)

    def find(self, prompted: Prompted) -> CommandCall | None:
        """The command that a prompt is; None for any other prompt.

        Its first block must begin with the name. What we answer takes words alone: with a file
        attached it is a prompt as any other. So is what another agent says: it must not change
        what this one may do.
        """
        content = prompted.content
        if prompted.origin not in _SPEAKERS or not content:
            return None
        if not isinstance(content[0], TextContent) or not content[0].text.startswith("/"):
            return None
        name, *words = re.split(r"\s+", content[0].text[1:], maxsplit=1)
        command = next((each for each in self.all if each.name == name), None)
        if command is None or (len(content) > 1 and isinstance(command, AnsweredCommand)):
            return None
        return CommandCall(command, "".join(words).strip())

    def answers(self, prompted: Prompted) -> bool:
        """Whether a prompt is a command that is never sent to the model."""
        call = self.find(prompted)
        return call is not None and isinstance(call.command, AnsweredCommand)


class ContextCommand(NamedTuple):
    """A command; ``hint`` is what may be typed after its name."""

    name: str
    description: str
    hint: str = ""


CONTEXT_COMMANDS = (
    ContextCommand("context", "Show what fills the model's window"),
    ContextCommand("compact", "Summarise the conversation to make room", "what to keep"),
    ContextCommand("pin", "Pin a text, or the last message", "text"),
    ContextCommand("unpin", "Unpin a text, or all of them", "number"),
)


async def run_context_command(context: SessionContext, name: str, words: str) -> str:
    """Run one of ``CONTEXT_COMMANDS`` and give its answer or its error message."""
    words = words.strip()
    try:
        match name:
            case "context":
                return context.report()
            case "compact":
                return await context.compact(words)
            case "pin":
                return await context.pin(words)
            case "unpin":
                return await _unpin(context, words)
            case _:
                raise ValueError(f"{name!r} is not a context command")
    except QuarterdeckError as error:
        return f"Failed: {error}."


async def _unpin(context: SessionContext, words: str) -> str:
    if words and not words.isdecimal():
        return f"Failed: {words!r} is not the number of a pin."
    return await context.unpin(int(words) if words else None)


def builtin_commands() -> tuple[Command, ...]:
    """Make them, in the order in which they are listed."""
    return (
        AnsweredCommand(name="help", description="Show the available commands", answer=_help),
        AnsweredCommand(
            name="model",
            description="Show the model, or change it",
            hint="vendor/model",
            answer=_model,
        ),
        AnsweredCommand(
            name="mode",
            description="Show the permission mode, or change it",
            hint="ask, accept-edits, plan, …",
            answer=_mode,
        ),
        *(
            AnsweredCommand(
                name=command.name,
                description=command.description,
                hint=command.hint,
                answer=partial(_about_context, command.name),
            )
            for command in CONTEXT_COMMANDS
        ),
        *(
            AnsweredCommand(
                name=command.name,
                description=command.description,
                hint=command.hint,
                answer=partial(_about_files, command.name),
            )
            for command in CHECKPOINT_COMMANDS
        ),
    )


async def _about_context(name: str, session: CommandSession, words: str) -> str:
    return await run_context_command(session.context, name, words)


async def _about_files(name: str, session: CommandSession, words: str) -> str:
    from .checkpoints.commands import run_checkpoint_command

    return await run_checkpoint_command(session.checkpoints, name, words)


async def _model(session: CommandSession, name: str) -> str:
    if name:
        await session.set_model(name)
        return f"The model is now `{session.model.name}`, starting with the next prompt."
    offered = next(option for option in session.options if option.id == "model")
    return f"The model is `{session.model.name}`. Available:\n\n{_choices(offered)}"


async def _mode(session: CommandSession, name: str) -> str:
    if name:
        await session.set_mode(parse_mode(name))
        return f"The permission mode is now `{session.gate.mode}`."
    lines = "\n".join(f"- `{mode.id}`: {mode.description}" for mode in modes_of())
    return f"The permission mode is `{session.gate.mode}`. Available:\n\n{lines}"


def _choices(option: "ConfigOption") -> str:
    return "\n".join(f"- `{choice.value}`" for choice in option.options or ())


async def _help(session: CommandSession, _: str) -> str:
    book = session.commands
    lines = [
        f"This is Quarterdeck's own agent, working in `{session.cwd}` with "
        f"`{session.model.name}`, mode `{session.gate.mode}`.\n",
        *map(_line, book.all),
    ]
    for command in book.hidden:
        winner = next(each for each in book.all if each.name == command.name)
        lines.append(f"- `/{command.name}` from {command.source} is hidden by {winner.source}")
    return "\n".join(lines)


def _line(command: Command) -> str:
    hint = f" [{command.hint}]" if command.hint else ""
    source = "" if command.source == BUILT_IN else f" ({command.source})"
    return f"- `/{command.name}{hint}`: {command.description}{source}"
