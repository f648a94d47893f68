"""The built-in slash commands: help, model, mode, and those about context and checkpoints."""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.errors import QuarterdeckError

from ..config_options import modes_of
from ..context.window import SessionContext
from ..ports import CHECKPOINT_COMMANDS
from .command import BUILT_IN, AnsweredCommand, Command, CommandSession

if TYPE_CHECKING:
    from quarterdeck.wire.settings import ConfigOption

__all__ = ["CONTEXT_COMMANDS", "ContextCommand", "builtin_commands", "run_context_command"]


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
    """Run one of ``CONTEXT_COMMANDS`` and give what it says; what went wrong is said too."""
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
    from ..checkpoints.commands import run_checkpoint_command

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
