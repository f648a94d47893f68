"""``inbox`` and ``answer``: what agents need a person for."""

import time
from typing import TYPE_CHECKING

import click

from ..output import echo
from .codes import ANSWERED
from .connecting import as_json_option, echo_json, with_fleet
from .text import literal, since

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient

__all__ = ["answer", "inbox"]


@click.command()
@as_json_option
def inbox(as_json: bool) -> None:
    """Show what agents ask for, with every argument, oldest first."""
    items = with_fleet(lambda fleet: fleet.inbox())
    if as_json:
        echo_json({"inbox": items})
        return
    if not items:
        echo("Nobody needs you.")
    from .requests import describe

    now = time.time_ns() // 1_000
    for number, item in enumerate(items):
        if number:
            echo()
        echo(f"{literal(item.name)}  {item.request}  {since(item.since, now)} ago")
        for line in describe(item):
            echo(f"  {line}")
    if items:
        echo("\nquarterdeck answer NAME allow|deny|OPTION")


@click.command(epilog="Exit codes: 0 answered, 1 error, 6 somebody else had answered before.")
@click.argument("request_or_agent")
@click.argument("choice")
@click.option("--feedback", metavar="TEXT", help="Told to the agent along with a denial.")
@as_json_option
def answer(request_or_agent: str, choice: str, feedback: str | None, as_json: bool) -> None:
    """Answer a request, by its id or by the agent that asks.

    CHOICE is allow, deny, always, or an option's number, id or kind. For a question it is the
    value that it asks for, a JSON object, deny or cancel.
    """
    is_first, request = with_fleet(lambda fleet: _answer(fleet, request_or_agent, choice, feedback))
    if as_json:
        echo_json({"request": request, "answered": is_first})
    elif not is_first:
        echo("quarterdeck: somebody else had answered before", err=True)
    raise SystemExit(0 if is_first else ANSWERED)


async def _answer(
    fleet: "HostClient", wanted: str, choice: str, feedback: str | None
) -> tuple[bool, str]:
    from quarterdeck.fleet.errors import NoSuchRequest
    from quarterdeck.wire.ids import RequestId

    from .requests import answer_item, find_item

    try:
        item = await find_item(fleet, wanted)
    except NoSuchRequest:
        # Not open: the fleet knows whether it ever was.
        return await fleet.answer(RequestId(wanted), choice, by="cli"), wanted
    return await answer_item(fleet, item, choice, feedback), item.request
