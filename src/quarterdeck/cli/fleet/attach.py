"""``attach``: one agent in a plain terminal."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from ..command_io import as_json_option, with_fleet
from ..text_table import escape_controls
from .exit_codes import rest_code
from .logs import write_flushed

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient

__all__ = ["attach", "follow_agent"]


@click.command(epilog="Exit codes: 0 detached or idle, 4 it needs you, 5 it failed or was killed.")
@click.argument("agent")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Number of earlier records to show.",
)
@click.option("--answer-only", is_flag=True, help="Show and answer requests; send no prompts.")
@as_json_option
def attach(agent: str, limit: int, answer_only: bool, as_json: bool) -> None:
    """Follow AGENT in this terminal; type to send prompts.

    Requests are shown and answered here. Ctrl-C interrupts the agent, Ctrl-C twice detaches; the
    agent keeps running. From a pipe or a file, every line is sent, and the command ends when the
    agent is idle. With --json each record is one line.
    """
    raise SystemExit(
        with_fleet(lambda fleet: follow_agent(fleet, agent, limit, answer_only, as_json))
    )


async def follow_agent(
    fleet: "HostClient",
    agent: str,
    limit: int = 50,
    answer_only: bool = False,
    as_json: bool = False,
) -> int:
    """Follow an agent in this terminal until the person leaves; the exit code that tells how."""
    from .agent_console import AgentConsole, LineInput, run_agent_console
    from .agent_wait import read_last_records
    from .transcript import RecordPrinter, TranscriptPrinter

    info = await fleet.agent(agent)
    is_terminal = sys.stdin.isatty()
    kind = RecordPrinter if as_json else TranscriptPrinter
    transcript = kind(write_flushed, only_requests=answer_only)
    ring = _ring if is_terminal and await asyncio.to_thread(_wants_bell) else None
    attached = AgentConsole(fleet, info, transcript, answer_only=answer_only, ring=ring)
    if is_terminal:
        transcript.line(
            f"= {escape_controls(info.name)} ({info.agent}, {info.state}); /help shows commands"
        )
    # Read before the list of what is open: what is asked in between comes as a record.
    last = info.last_seq
    if not answer_only:
        for record in await read_last_records(fleet, info, limit):
            transcript.record(record)
    await attached.show_open()
    await run_agent_console(
        fleet, attached, last, info.session, LineInput(), is_terminal=is_terminal
    )
    transcript.end_line()
    return 0 if is_terminal else rest_code([await fleet.agent(info.session)])


def _ring() -> None:
    write_flushed("\a")


def _wants_bell() -> bool:
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.places import Places

    return load_config(Places.find()).settings.notifications.bell
