"""Waiting for agents, and what they said last."""

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import click

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAsked,
    Prompted,
    QuestionAsked,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    ToolCallStarted,
)

from ..command_io import echo_json
from ..output import echo
from ..text_table import escape_controls
from .exit_codes import ENDED_BADLY, OK, TIMED_OUT, rest_code

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from quarterdeck.fleet.api import AgentInfo, Fleet, SpawnOptions, WaitFor
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.wire.record import Record

__all__ = [
    "read_backward",
    "read_last_message",
    "read_last_records",
    "report_rest",
    "report_start",
    "spawn_and_wait",
    "wait_for",
]

_PAGE = 500
_START = 10.0
"""Seconds that the start of an agent is waited for."""
_OPENED = 0.2
"""Seconds that an agent without a prompt is watched once it has started."""


async def spawn_and_wait(
    fleet: "HostClient", wish: "SpawnOptions", timeout: float | None, as_json: bool
) -> int:
    """Start an agent, wait until it is at rest, print its last words; returns the exit code."""
    info = await fleet.spawn(wish)
    click.echo(f"quarterdeck: {escape_controls(info.name)} works", err=True)
    rested = await fleet.wait([info.session], timeout=timeout)
    now = await fleet.agent(info.session)
    words = await read_last_message(fleet, now)
    if as_json:
        echo_json({"agent": now, "text": words})
    elif words:
        click.echo(escape_controls(words, keep="\n\t").rstrip("\n"))
    if not rested:
        click.echo(f"quarterdeck: {escape_controls(now.name)} is not idle yet", err=True)
        return TIMED_OUT
    report_rest(now)
    return rest_code(rested)


async def report_start(fleet: "HostClient", info: "AgentInfo", *, has_prompt: bool) -> int:
    """Wait until an agent that was just started works; the exit code, and why if it failed.

    One that takes long to start is left to itself.
    """
    if info.state == "starting":
        with suppress(TimeoutError):
            await _started(fleet, info, has_prompt)
    now = await fleet.agent(info.session)
    if now.state == "starting":
        click.echo(f"quarterdeck: {escape_controls(now.name)} is still starting", err=True)
    if now.state in ("failed", "killed"):
        report_rest(now)
        return ENDED_BADLY
    return OK


async def _started(fleet: "HostClient", info: "AgentInfo", has_prompt: bool) -> None:
    """Wait until it works on its prompt, has nothing to work on, or has ended."""
    records = fleet.follow(info.last_seq, agent=info.session)
    async with asyncio.timeout(_START) as limit, aclosing(records):
        async for record in records:
            match record.event:
                case SessionEnded() | Prompted() | PermissionAsked() | QuestionAsked():
                    return
                case SessionOpened() | SessionResumed() if not has_prompt:
                    # The end of a start that failed follows at once.
                    limit.reschedule(asyncio.get_running_loop().time() + _OPENED)
                case _:
                    continue


async def wait_for(
    fleet: "HostClient", agents: "Sequence[str]", until: "WaitFor", timeout: float | None
) -> "tuple[int, list[AgentInfo]]":
    """Wait until any or all are at rest; the exit code, and those that are."""
    rested = await fleet.wait(agents, until=until, timeout=timeout)
    is_enough = bool(rested) if until == "any" else len(rested) == len(set(agents))
    return (rest_code(rested) if is_enough else TIMED_OUT), rested


async def read_last_message(fleet: "Fleet", info: "AgentInfo") -> str:
    """The last message of an agent, whole; empty if it said nothing since its last prompt."""
    pieces: list[str] = []
    message: str | None = None
    async with aclosing(read_backward(fleet, info)) as records:
        async for record in records:
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


async def read_last_records(fleet: "Fleet", info: "AgentInfo", limit: int) -> "list[Record]":
    """The last records of an agent, and so many more that a message is not cut."""
    found: list[Record] = []
    if not limit:
        return found
    async with aclosing(read_backward(fleet, info)) as records:
        async for record in records:
            if len(found) >= limit and not (_is_said(record) and _is_said(found[-1])):
                break
            found.append(record)
    return found[::-1]


async def read_backward(fleet: "Fleet", info: "AgentInfo") -> "AsyncGenerator[Record]":
    """The records of an agent from the last to the first."""
    before = info.last_seq + 1
    while records := await fleet.read(info.session, before=before, limit=_PAGE):
        for record in reversed(records):
            yield record
        before = records[0].seq


def _is_said(record: "Record") -> bool:
    return isinstance(record.event, MessageChunk)


def report_rest(info: "AgentInfo") -> None:
    """Say on standard error why an agent is at rest, if it is not because it is done."""
    if info.needs_person:
        click.echo(
            f"quarterdeck: {escape_controls(info.name)} needs you: quarterdeck inbox", err=True
        )
    elif info.reason:
        echo(f"quarterdeck: {info.name}: {info.state}: {info.reason}", err=True)
