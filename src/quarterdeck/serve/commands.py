"""Slash commands that are answered here and not by the model."""

from quarterdeck.agent.options import modes_of
from quarterdeck.agent.session import Session
from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.settings import Command, CommandInput, ConfigOption

__all__ = ["COMMANDS", "command_in", "run_command"]

COMMANDS = (
    Command(name="help", description="Say what can be done here."),
    Command(
        name="model",
        description="Show the model, or change it.",
        input=CommandInput(hint="vendor/model"),
    ),
    Command(
        name="mode",
        description="Show the permission mode, or change it.",
        input=CommandInput(hint="ask, accept-edits, plan, …"),
    ),
)
_NAMES = frozenset(command.name for command in COMMANDS)


def command_in(content: tuple[ContentBlock, ...]) -> tuple[str, str] | None:
    """The command that a prompt is, with what follows its name; None for any other prompt.

    Only a prompt that is nothing but the command counts: one with files attached is a prompt.
    """
    if len(content) != 1 or not isinstance(content[0], TextContent):
        return None
    name, _, rest = content[0].text.strip().partition(" ")
    if not name.startswith("/") or name[1:] not in _NAMES:
        return None
    return name[1:], rest.strip()


async def run_command(session: Session, name: str, rest: str) -> str:
    """Do what a command says and return what to say; what goes wrong is said, too."""
    try:
        match name:
            case "model":
                return await _model(session, rest)
            case "mode":
                return await _mode(session, rest)
            case _:
                return _help(session)
    except QuarterdeckError as error:
        return str(error)


async def _model(session: Session, name: str) -> str:
    if name:
        await session.set_model(name)
        return f"The model is now `{session.model.name}`, from the next prompt on."
    offered = next(option for option in session.options if option.id == "model")
    return f"The model is `{session.model.name}`. There are:\n\n{_choices(offered)}"


async def _mode(session: Session, name: str) -> str:
    if name:
        await session.set_mode(parse_mode(name))
        return f"The permission mode is now `{session.gate.mode}`."
    lines = "\n".join(f"- `{mode.id}`: {mode.description}" for mode in modes_of())
    return f"The permission mode is `{session.gate.mode}`. There are:\n\n{lines}"


def _choices(option: ConfigOption) -> str:
    return "\n".join(f"- `{choice.value}`" for choice in option.options or ())


def _help(session: Session) -> str:
    lines = "\n".join(
        f"- `/{command.name}{f' [{command.input.hint}]' if command.input else ''}`: "
        f"{command.description}"
        for command in COMMANDS
    )
    return (
        f"This is Quarterdeck's own agent, working in `{session.cwd}` with "
        f"`{session.model.name}`, mode `{session.gate.mode}`.\n\n{lines}"
    )
