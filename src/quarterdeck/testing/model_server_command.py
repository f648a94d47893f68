"""The command that runs the scripted model server."""

import asyncio
import contextlib
import json
import signal
from pathlib import Path

import click

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["main", "model_server_command"]


@click.command("model-server")
@click.option("--port", default=0, show_default="a free one", help="The port to listen on.")
@click.option("--script", default="default", show_default=True, help="A shipped script, or a file.")
@click.option(
    "--log", type=click.Path(dir_okay=False, path_type=Path), help="Append each request here."
)
def model_server_command(port: int, script: str, log: Path | None) -> None:
    """Serve a scripted model on loopback, in every vendor's form.

    Prints one line of JSON with the port when it is ready, and runs until it is interrupted.
    """
    try:
        asyncio.run(_serve(port, script, log))
    except (QuarterdeckError, OSError) as error:
        raise click.ClickException(str(error)) from error


async def _serve(port: int, script: str, log: Path | None) -> None:
    from quarterdeck.testing.model_server import ModelServer

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    async with ModelServer(script, port=port, log=log, keep=0) as server:
        click.echo(json.dumps({"port": server.port, "url": server.url}))
        await stopped.wait()


def main() -> None:
    """Run the command with the arguments of this process."""
    model_server_command()
