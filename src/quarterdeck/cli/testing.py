"""``quarterdeck testing``: the fakes that ship, as programs. For tests and for trying things."""

from typing import TYPE_CHECKING

import click

from .lazy_group import LazyCommand, LazyGroup

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "FAKES",
    "acp_agent",
    "claude_cli",
    "daemon",
    "mcp_server",
    "oneshot_cli",
    "testing",
    "tui",
]

FAKES = {
    "acp-agent": LazyCommand(
        "quarterdeck.cli.testing:acp_agent", "Run an ACP agent whose prompts are commands."
    ),
    "claude-cli": LazyCommand(
        "quarterdeck.cli.testing:claude_cli", "Play Claude Code's CLI; prompts are commands."
    ),
    "oneshot-cli": LazyCommand(
        "quarterdeck.cli.testing:oneshot_cli", "Play an agent's CLI that runs once for each turn."
    ),
    "daemon": LazyCommand(
        "quarterdeck.cli.testing:daemon", "Play an agent that is a server; prompts are commands."
    ),
    "tui": LazyCommand("quarterdeck.cli.testing:tui", "Play an agent that has only a terminal."),
    "mcp-server": LazyCommand(
        "quarterdeck.cli.testing:mcp_server", "Run an MCP server that misbehaves on request."
    ),
    "model-server": LazyCommand(
        "quarterdeck.testing.model_server:model_server_command",
        "Serve a scripted model on loopback, in every vendor's form.",
    ),
}


@click.group(cls=LazyGroup, later=FAKES)
def testing() -> None:
    """Run the fakes that tests use."""


def _fake(run: "Callable[[tuple[str, ...]], None]") -> click.Command:
    """A command whose words all go to the program that it runs."""
    arguments = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(
        run.__name__.replace("_", "-"),
        callback=run,
        params=[arguments],
        help=run.__doc__,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )


def _answer_help(arguments: tuple[str, ...]) -> None:
    """Show the help of a command whose program has none."""
    if arguments in (("--help",), ("-h",)):
        context = click.get_current_context()
        click.echo(context.get_help())
        context.exit()


@_fake
def acp_agent(arguments: tuple[str, ...]) -> None:
    """Run an ACP agent whose prompts are commands."""
    from quarterdeck.testing.acp_agent.program import main

    main(arguments)


@_fake
def claude_cli(arguments: tuple[str, ...]) -> None:
    """Play Claude Code's CLI; prompts are commands.

    ARGUMENTS are the options of Claude Code, such as --print and --resume ID; others are refused.
    The variable FAKE_QUIRKS names what it does wrong, separated by commas. docs/fake-agent.md
    lists the commands.
    """
    _answer_help(arguments)
    from quarterdeck.testing.claude_cli.program import main

    main(arguments)


@_fake
def daemon(arguments: tuple[str, ...]) -> None:
    """Play an agent that is a server; prompts are commands.

    ARGUMENTS begin with --as codex app-server, or --as opencode serve, followed by the options of
    that program. Sessions are kept in the directory that the variable FAKE_STATE names.
    docs/fake-agent.md lists the commands.
    """
    _answer_help(arguments)
    from quarterdeck.testing.daemons import main

    main(arguments)


@_fake
def oneshot_cli(arguments: tuple[str, ...]) -> None:
    """Play an agent's CLI that runs once for each turn.

    ARGUMENTS begin with --as NAME (codex, gemini, opencode, cursor, pi or generic), followed by
    the options of that program and a prompt of commands. Sessions are kept in the directory that
    the variable FAKE_STATE names. docs/fake-agent.md lists the commands.
    """
    _answer_help(arguments)
    from quarterdeck.testing.oneshot_cli.program import main

    main(arguments)


@_fake
def tui(arguments: tuple[str, ...]) -> None:
    """Play an agent that has only a terminal; prompts are commands."""
    from quarterdeck.testing.tui import main

    main(arguments)


@_fake
def mcp_server(arguments: tuple[str, ...]) -> None:
    """Run an MCP server that misbehaves on request.

    It uses standard input and output, or with --http a port on loopback. The other ARGUMENTS name
    what it does wrong, such as silent, garbage, dies, slow=SECONDS or era=modern.
    """
    _answer_help(arguments)
    from quarterdeck.testing.mcp_server import main

    main(arguments)
