"""``logs``: what an agent said and did."""

from typing import TYPE_CHECKING, Any

import click

from ..command_io import as_json_option, plain_json, with_fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.fleet.client import HostClient

__all__ = ["logs", "write_flushed"]

_PATIENCE = 60.0


@click.command()
@click.argument("agent")
@click.option("-f", "--follow", is_flag=True, help="Follow new output; Ctrl-C ends it.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    default=200,
    show_default=True,
    help="Number of records to go back; more if needed to start with a whole message.",
)
@as_json_option
def logs(agent: str, follow: bool, limit: int, as_json: bool) -> None:
    """Show the transcript of AGENT; with --json one record per line."""
    with_fleet(lambda fleet: _logs(fleet, agent, follow, limit, as_json))


def write_flushed(text: str) -> None:
    """Write to standard output, where it is seen at once: ``echo`` leaves nothing behind."""
    click.echo(text, nl=False)


async def _logs(fleet: "HostClient", agent: str, follow: bool, limit: int, as_json: bool) -> None:
    from quarterdeck.wire.record import encode_record

    from .agent_wait import read_last_records
    from .transcript import TranscriptPrinter

    transcript = TranscriptPrinter(write_flushed)
    show: Callable[[Any], None] = transcript.record
    if as_json:
        show = lambda record: write_flushed(plain_json(encode_record(record)) + "\n")  # noqa: E731
    info = await fleet.agent(agent)
    last = info.last_seq
    for record in await read_last_records(fleet, info, limit):
        show(record)
    if follow:
        async for record in fleet.follow(last, agent=info.session, patience=_PATIENCE):
            show(record)
    transcript.end_line()
