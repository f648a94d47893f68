"""``quarterdeck acp``: our own agent for editors, over standard input and output."""

import os
from pathlib import Path

import click

from quarterdeck.policy.modes import MODES

from .output import echo

__all__ = ["acp"]


@click.command()
@click.option("-m", "--model", metavar="VENDOR/MODEL", help="The model of new sessions.")
@click.option("--mode", type=click.Choice(MODES), help="The permission mode of new sessions.")
@click.option("--setup", is_flag=True, help="Show which model would be used, or what is missing.")
@click.option("--verbose", is_flag=True, help="Write more details to standard error.")
def acp(model: str | None, mode: str | None, setup: bool, verbose: bool) -> None:
    """Serve our own agent to an editor, over the Agent Client Protocol.

    An editor starts this command and uses its standard input and output; it ends when its input
    ends. Diagnostics go to standard error.
    """
    environment = dict(os.environ)
    # A flag outranks the variable of the same meaning, which outranks every file.
    environment |= {"QUARTERDECK_MODEL": model} if model else {}
    environment |= {"QUARTERDECK_MODE": mode} if mode else {}
    if setup:
        import asyncio  # late, as the server, so that --help does not wait for them

        asyncio.run(_tell_setup(environment))
        return
    from quarterdeck.serve.standard_streams import serve_standard_streams

    serve_standard_streams(environment, verbose=verbose)


async def _tell_setup(environment: dict[str, str]) -> None:
    """Say what a session would use. Raises ModelSetupError with what to do."""
    from quarterdeck.agent.environment import model_options, prepare_environment
    from quarterdeck.config.places import Places
    from quarterdeck.models.registry import choose_model_name

    session_environment = await prepare_environment(
        Places.find(environment), environment, str(Path.cwd())
    )
    name = await choose_model_name(environment, model_options(session_environment.settings))
    echo(f"A session here uses the model {name}.")
