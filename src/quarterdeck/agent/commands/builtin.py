"""The commands that come with us."""

from functools import partial
from typing import TYPE_CHECKING

from ..checkpoints.seam import COMMANDS as CHECKPOINT_COMMANDS
from ..context.commands import COMMANDS as CONTEXT_COMMANDS
from ..context.commands import answer as answer_about_context
from .command import BUILT_IN, Answered, Command

if TYPE_CHECKING:
    from quarterdeck.wire.settings import ConfigOption

    from ..session import Session

__all__ = ["builtin_commands"]


def builtin_commands() -> tuple[Command, ...]:
    """Make them, in the order in which they are listed."""
    return (
        Answered(name="help", description="Say what can be done here", answer=_help),
        Answered(
            name="model",
            description="Show the model, or change it",
            hint="vendor/model",
            answer=_model,
        ),
        Answered(
            name="mode",
            description="Show the permission mode, or change it",
            hint="ask, accept-edits, plan, …",
            answer=_mode,
        ),
        *(
            Answered(
                name=command.name,
                description=command.description,
                hint=command.hint,
                answer=partial(_about_context, command.name),
            )
            for command in CONTEXT_COMMANDS
        ),
        *(
            Answered(
                name=command.name,
                description=command.description,
                hint=command.hint,
                answer=partial(_about_files, command.name),
            )
            for command in CHECKPOINT_COMMANDS
        ),
    )


async def _about_context(name: str, session: "Session", words: str) -> str:
    return await answer_about_context(session.context, name, words)


async def _about_files(name: str, session: "Session", words: str) -> str:
    from ..checkpoints.commands import answer

    return await answer(session.checkpoints, name, words)


async def _model(session: "Session", name: str) -> str:
    if name:
        await session.set_model(name)
        return f"The model is now `{session.model.name}`, from the next prompt on."
    offered = next(option for option in session.options if option.id == "model")
    return f"The model is `{session.model.name}`. There are:\n\n{_choices(offered)}"


async def _mode(session: "Session", name: str) -> str:
    from quarterdeck.policy.modes import parse_mode

    from ..options import modes_of

    if name:
        await session.set_mode(parse_mode(name))
        return f"The permission mode is now `{session.gate.mode}`."
    lines = "\n".join(f"- `{mode.id}`: {mode.description}" for mode in modes_of())
    return f"The permission mode is `{session.gate.mode}`. There are:\n\n{lines}"


def _choices(option: "ConfigOption") -> str:
    return "\n".join(f"- `{choice.value}`" for choice in option.options or ())


async def _help(session: "Session", _: str) -> str:
    book = session.commands
    lines = [
        f"This is Quarterdeck's own agent, working in `{session.cwd}` with "
        f"`{session.model.name}`, mode `{session.gate.mode}`.\n",
        *map(_line, book.all),
    ]
    for command in book.hidden:
        winner = next(each for each in book.all if each.name == command.name)
        lines.append(f"- not `/{command.name}` of {command.source}: {winner.source} has that name")
    return "\n".join(lines)


def _line(command: Command) -> str:
    hint = f" [{command.hint}]" if command.hint else ""
    source = "" if command.source == BUILT_IN else f" ({command.source})"
    return f"- `/{command.name}{hint}`: {command.description}{source}"
