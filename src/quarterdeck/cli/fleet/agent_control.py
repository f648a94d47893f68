"""Commands that steer agents: ``send``, ``hand-over``, ``interrupt``, ``kill`` and so on."""

from typing import TYPE_CHECKING, Any

import click

from ..command_io import as_json_option, echo_json, read_given_text, with_fleet
from ..output import echo
from ..text_table import escape_controls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.client import HostClient

__all__ = ["archive", "close", "hand_over", "interrupt", "kill", "rename", "send", "wait"]

agents_argument = click.argument("agents", nargs=-1, required=True)


@click.command()
@click.argument("agent")
@click.argument("prompt")
@click.option(
    "--steer",
    is_flag=True,
    help="Send it to the running turn, which reads it at its next step.",
)
@as_json_option
def send(agent: str, prompt: str, steer: bool, as_json: bool) -> None:
    """Send AGENT a prompt; it is queued after earlier ones. ``-`` reads standard input.

    With ``--steer`` the running turn gets it. If no turn is running, it is queued; an agent that
    cannot be steered refuses it.
    """
    from quarterdeck.wire.content import text

    content = (text(read_given_text(prompt) or ""),)
    if steer:
        sent = with_fleet(lambda fleet: fleet.steer(agent, content))
        if as_json:
            echo_json(sent)
        elif not sent.steered:
            echo("no turn is running; queued as a prompt", err=True)
        return
    message = with_fleet(lambda fleet: fleet.send(agent, content))
    if as_json:
        echo_json({"message": message})


@click.command("hand-over")
@click.argument("agent")
@click.option("--to", "kind", required=True, metavar="KIND", help="The agent that takes over.")
@click.option("-n", "--name", help="Name of the new agent.")
@click.option("-m", "--model", help="Model of the new agent.")
@click.argument("prompt", required=False)
@as_json_option
def hand_over(
    agent: str,
    kind: str,
    name: str | None,
    model: str | None,
    prompt: str | None,
    as_json: bool,
) -> None:
    """Hand AGENT's work to another agent.

    The new agent gets a summary of the old agent's prompts, answers and actions. PROMPT is its next
    task; without one it continues the work.
    """
    from quarterdeck.fleet.sessions.handover import hand_over as hand

    words = read_given_text(prompt) if prompt is not None else None
    info = with_fleet(lambda fleet: hand(fleet, agent, kind, name=name, model=model, prompt=words))
    if as_json:
        echo_json(info)
    else:
        echo(info.name)


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
    """Close agents in order; they can be resumed."""
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
    from .agent_wait import wait_for

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
    """Do it to each in turn; the first refusal ends it, and is told."""

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
