"""``meter``: where the meter listens, and which agents are behind it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..command_io import as_json_option, echo_json, echo_lines, terminal_width, with_fleet
from ..output import count, table

if TYPE_CHECKING:
    from quarterdeck.fleet.meter.api import MeteredSession, MeterStatus

__all__ = ["format_meter", "meter"]

_HEADS = ("AGENT", "KIND", "UPSTREAM", "CALLS", "RUNNING", "REFUSED", "FAILED", "TOKENS")


@click.command()
@as_json_option
def meter(as_json: bool) -> None:
    """Show the meter of model calls, and who is behind it.

    It is off until the setting `meter.agents` names an agent, and starts with the first of them.
    """
    status = with_fleet(lambda fleet: fleet.meter())
    if as_json:
        echo_json(status)
    else:
        echo_lines(format_meter(status, terminal_width()))


def format_meter(status: "MeterStatus", width: int | None) -> Iterator[str]:
    """The meter as lines for people; foreign names are escaped."""
    if status.address is None:
        yield "The meter is not running: no agent has needed it. The setting is meter.agents."
        return
    yield f"The meter listens at {status.address}."
    if not status.sessions:
        yield "No live agent is behind it."
        return
    yield ""
    yield from table(_HEADS, [_cells(one) for one in status.sessions], width)
    uncounted = sum(one.uncounted for one in status.sessions)
    if uncounted:
        yield ""
        yield f"{uncounted} answers had no counts that could be read; the agent's own count."


def _cells(one: "MeteredSession") -> tuple[str, ...]:
    figures = (one.calls, one.running, one.refused, one.failed)
    upstreams = ", ".join(one.upstreams.values())
    return one.name, one.agent, upstreams, *map(str, figures), count(one.tokens.total)
