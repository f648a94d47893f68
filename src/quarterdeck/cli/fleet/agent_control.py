"""Commands that steer agents and wait for them: ``send``, ``wait``, ``interrupt``, ``kill`` …"""

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

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

from ..command_io import as_json_option, echo_json, read_given_text, with_fleet
from ..output import echo, escape_controls
from .exit_codes import ENDED_BADLY, OK, TIMED_OUT, rest_code

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from quarterdeck.fleet.api import AgentInfo, Fleet, SpawnOptions, WaitFor
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.handover.api import HandoverBrief
    from quarterdeck.wire.content import ContentBlock
    from quarterdeck.wire.record import Record

__all__ = [
    "archive",
    "close",
    "hand_over",
    "interrupt",
    "kill",
    "read_backward",
    "read_last_message",
    "read_last_records",
    "rename",
    "report_joined",
    "report_rest",
    "report_start",
    "send",
    "spawn_and_wait",
    "wait",
    "wait_for",
]

agents_argument = click.argument("agents", nargs=-1, required=True)


@click.command()
@click.argument("agent")
@click.argument("prompt")
@click.option(
    "--steer",
    is_flag=True,
    help="Send it to the running turn, which reads it at its next step.",
)
@click.option("--no-resume", is_flag=True, help="Refuse if the agent has ended.")
@as_json_option
def send(agent: str, prompt: str, steer: bool, no_resume: bool, as_json: bool) -> None:
    """Send AGENT a prompt; it is queued after earlier ones. ``-`` reads standard input.

    AGENT is a name or the id of a session, also of one from `run` or an editor. An agent that has
    ended is resumed.

    With ``--steer`` the running turn gets it. If no turn is running, it is queued; an agent that
    cannot be steered refuses it.
    """
    from quarterdeck.wire.content import text

    content = (text(read_given_text(prompt) or ""),)
    if steer:
        sent = with_fleet(lambda fleet: fleet.steer(agent, content, resume=not no_resume))
        if as_json:
            echo_json(sent)
        elif not sent.steered:
            echo("no turn is running; queued as a prompt", err=True)
        return
    raise SystemExit(with_fleet(lambda fleet: _send(fleet, agent, content, not no_resume, as_json)))


async def _send(
    fleet: "HostClient",
    agent: str,
    content: "tuple[ContentBlock, ...]",
    resume: bool,
    as_json: bool,
) -> int:
    """Send a prompt; one that resumes an agent also says if it does not start."""
    before = await fleet.agent(agent)
    message = await fleet.send(agent, content, resume=resume)
    now = await fleet.agent(before.session)
    if as_json:
        echo_json({"message": message})
    if before.is_live or before.state == "starting":
        return OK
    echo(f"quarterdeck: resumed {now.name}", err=True)
    return await report_start(fleet, now, has_prompt=True)


@click.command("hand-over")
@click.argument("agent")
@click.option("--to", "kind", metavar="NAME", help="The agent that takes over.")
@click.option("-n", "--name", help="Name of the new agent.")
@click.option("-m", "--model", help="Model of the new agent.")
@click.option("--keep", is_flag=True, help="Keep the old agent, with its queued prompts.")
@click.option("--summary", is_flag=True, help="Ask the old agent for a summary first.")
@click.option("--show", is_flag=True, help="Only print what the new agent would be sent.")
@click.argument("prompt", required=False)
@as_json_option
def hand_over(
    agent: str, kind: str | None, prompt: str | None, show: bool, as_json: bool, **options: Any
) -> None:
    """Hand AGENT's work to another agent.

    The new agent works in the same directory. It gets the goal, the plan, decisions, open
    questions, the files and the diff, and can read the whole transcript; queued prompts go along.
    A running turn of the old agent ends, and the old agent is closed; it can be resumed. PROMPT is
    the next task; without one the new agent continues the work.
    """
    from quarterdeck.fleet.api import HandoverOptions

    if show:
        brief = with_fleet(lambda fleet: fleet.handover_brief(agent))
        _show_brief(brief, as_json)
        return
    if kind is None:
        raise click.UsageError("--to NAME is needed: the agent that takes over")
    words = read_given_text(prompt) if prompt is not None else None
    request = HandoverOptions(to=kind, prompt=words, **options)
    info = with_fleet(lambda fleet: fleet.hand_over(agent, request))
    if as_json:
        echo_json(info)
    else:
        echo(info.name)


def _show_brief(brief: "HandoverBrief", as_json: bool) -> None:
    from quarterdeck.fleet.handover.brief import compose_brief

    if as_json:
        echo_json(brief)
    else:
        echo(compose_brief(brief, transcript=""))


@click.command()
@agents_argument
@click.option("--drop-queue", is_flag=True, help="Also drop queued prompts.")
@as_json_option
def interrupt(agents: tuple[str, ...], drop_queue: bool, as_json: bool) -> None:
    """Interrupt the running turn of each agent; the agent stays."""
    _each(agents, as_json, lambda fleet, one: fleet.interrupt(one, keep_queue=not drop_queue))


@click.command()
@agents_argument
@click.option("--reason", help="Reason, stored in the log.")
@as_json_option
def kill(agents: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Kill agents, their children and all their processes."""
    _each(agents, as_json, lambda fleet, one: fleet.kill(one, reason=reason))


@click.command()
@agents_argument
@as_json_option
def close(agents: tuple[str, ...], as_json: bool) -> None:
    """Close agents; they can be resumed."""
    _each(agents, as_json, lambda fleet, one: fleet.close(one))


@click.command()
@agents_argument
@click.option("--undo", is_flag=True, help="Unarchive them.")
@as_json_option
def archive(agents: tuple[str, ...], undo: bool, as_json: bool) -> None:
    """Archive agents: end them, keep their transcripts, and hide them from lists."""
    _each(agents, as_json, lambda fleet, one: fleet.archive(one, archived=not undo))


@click.command()
@click.argument("agent")
@click.argument("name")
@as_json_option
def rename(agent: str, name: str, as_json: bool) -> None:
    """Rename AGENT."""
    info = with_fleet(lambda fleet: fleet.rename(agent, name))
    if as_json:
        echo_json(info)


@click.command(
    epilog=(
        "Exit codes: 0 idle, 4 an agent needs you, 5 an agent failed or was killed, 124 timeout."
    )
)
@agents_argument
@click.option("--any", "is_any", is_flag=True, help="Wait until one of them is idle.")
@click.option("--timeout", type=float, metavar="S", help="Timeout in seconds.")
@as_json_option
def wait(agents: tuple[str, ...], is_any: bool, timeout: float | None, as_json: bool) -> None:
    """Wait until agents are idle: done, failed, or waiting for a person."""
    code, rested = with_fleet(
        lambda fleet: wait_for(fleet, agents, "any" if is_any else "all", timeout)
    )
    _show(rested, as_json)
    raise SystemExit(code)


def _each(
    agents: tuple[str, ...],
    as_json: bool,
    act: "Callable[[HostClient, str], Awaitable[Any]]",
) -> None:
    """Do it to each in turn; the first refusal ends it, and is reported."""

    async def act_on_all(fleet: "HostClient") -> "list[AgentInfo]":
        for agent in agents:
            await act(fleet, agent)
        return [await fleet.agent(agent) for agent in agents] if as_json else []

    done = with_fleet(act_on_all)
    if as_json:
        echo_json({"agents": done})


def _show(agents: "list[AgentInfo]", as_json: bool) -> None:
    if as_json:
        echo_json({"agents": agents})
        return
    for agent in agents:
        echo(f"{escape_controls(agent.name)} {agent.state}")


_PAGE = 500
_START = 10.0
"""Seconds that the start of an agent is waited for."""
_OPENED = 0.2
"""Seconds that an agent without a prompt is watched once it has started."""


async def report_joined(fleet: "HostClient", info: "AgentInfo", request: "SpawnOptions") -> None:
    """Say on standard error if a worktree that was asked for by name has other agents too."""
    wanted = request.options.worktree
    if wanted is None or wanted.name is None or info.worktree is None:
        return
    for one in await fleet.worktrees(repository=info.worktree.repository):
        others = ", ".join(name for name in one.agents if name != info.name)
        if one.worktree.path == info.worktree.path and others:
            words = f"joined the worktree {one.name} of {others}"
            click.echo(escape_controls(f"quarterdeck: {words}"), err=True)


async def spawn_and_wait(
    fleet: "HostClient", request: "SpawnOptions", timeout: float | None, as_json: bool
) -> int:
    """Start an agent, wait until it is at rest, print its last words; returns the exit code."""
    info = await fleet.spawn(request)
    await report_joined(fleet, info, request)
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
    """The last message of an agent, whole; empty if there is none since its last prompt."""
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
            if len(found) >= limit and not (_is_message(record) and _is_message(found[-1])):
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


def _is_message(record: "Record") -> bool:
    return isinstance(record.event, MessageChunk)


def report_rest(info: "AgentInfo") -> None:
    """Say on standard error why an agent is at rest, if it is not because it is done."""
    if info.needs_person:
        click.echo(
            f"quarterdeck: {escape_controls(info.name)} needs you: quarterdeck inbox", err=True
        )
    elif info.reason:
        echo(f"quarterdeck: {info.name}: {info.state}: {info.reason}", err=True)
