"""Waiting for agents, and what they said last."""

from typing import TYPE_CHECKING

import click

from .codes import TIMED_OUT, rest_code
from .connecting import echo_json
from .text import literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.port import AgentInfo, Spawn, WaitFor

__all__ = ["last_words", "spawn_and_wait", "wait_for"]

_LOOK_BACK = 2_000


async def spawn_and_wait(
    fleet: "HostClient", wish: "Spawn", timeout: float | None, as_json: bool
) -> int:
    """Start an agent, wait until it is at rest, print its last words; returns the exit code."""
    info = await fleet.spawn(wish)
    click.echo(f"quarterdeck: {literal(info.name)} works", err=True)
    rested = await fleet.wait([info.session], timeout=timeout)
    now = await fleet.agent(info.session)
    words = await last_words(fleet, now)
    if as_json:
        echo_json({"agent": now, "text": words})
    elif words:
        click.echo(literal(words, keep="\n\t").rstrip("\n"))
    if not rested:
        click.echo(f"quarterdeck: {literal(now.name)} is not at rest yet", err=True)
        return TIMED_OUT
    _tell(now)
    return rest_code(rested)


async def wait_for(
    fleet: "HostClient", agents: "Sequence[str]", until: "WaitFor", timeout: float | None
) -> "tuple[int, list[AgentInfo]]":
    """Wait until any or all are at rest; the exit code, and those that are."""
    rested = await fleet.wait(agents, until=until, timeout=timeout)
    is_enough = bool(rested) if until == "any" else len(rested) == len(set(agents))
    return (rest_code(rested) if is_enough else TIMED_OUT), rested


async def last_words(fleet: "HostClient", info: "AgentInfo") -> str:
    """The last message of an agent; empty if it said nothing since its last prompt."""
    from quarterdeck.wire.content import TextContent
    from quarterdeck.wire.events import MessageChunk, Prompted, ToolCallStarted

    records = await fleet.read(info.session, before=info.last_seq + 1, limit=_LOOK_BACK)
    pieces: list[str] = []
    message = None
    for record in reversed(records):
        match record.event:
            case MessageChunk(role="agent", content=TextContent(text=text), message=of):
                if pieces and of != message:
                    break
                message = of
                pieces.append(text)
            case Prompted():
                break
            case ToolCallStarted() if pieces:
                break
            case _:
                continue
    return "".join(reversed(pieces))


def _tell(info: "AgentInfo") -> None:
    if info.needs_person:
        click.echo(f"quarterdeck: {literal(info.name)} needs you: quarterdeck inbox", err=True)
    elif info.reason:
        click.echo(f"quarterdeck: {info.state}: {literal(info.reason)}", err=True)
