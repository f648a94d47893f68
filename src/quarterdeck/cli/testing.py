"""``quarterdeck testing``: the fakes that ship, as programs. For tests and for trying things."""

import click

from .lazy_group import LazyCommand, LazyGroup

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


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def acp_agent(arguments: tuple[str, ...]) -> None:
    """Run an ACP agent whose prompts are commands."""
    from quarterdeck.testing.acp_agent.program import main

    main(arguments)


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def claude_cli(arguments: tuple[str, ...]) -> None:
    """Play Claude Code's CLI; prompts are commands."""
    from quarterdeck.testing.claude_cli.program import main

    main(arguments)


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def daemon(arguments: tuple[str, ...]) -> None:
    """Play an agent that is a server; prompts are commands."""
    from quarterdeck.testing.daemons import main

    main(arguments)


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def oneshot_cli(arguments: tuple[str, ...]) -> None:
    """Play an agent's CLI that runs once for each turn."""
    from quarterdeck.testing.oneshot_cli.program import main

    main(arguments)


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def tui(arguments: tuple[str, ...]) -> None:
    """Play an agent that has only a terminal; prompts are commands."""
    from quarterdeck.testing.tui import main

    main(arguments)


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mcp_server(arguments: tuple[str, ...]) -> None:
    """Run an MCP server that misbehaves on request."""
    from quarterdeck.testing.mcp_server import main

    main(arguments)
