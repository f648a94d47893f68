"""``spawn``, ``resume`` and ``fork``: agents begin to work."""

import os
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.policy.modes import MODES

from ..command_io import as_json_option, echo_json, read_given_text, resolve_directory, with_fleet
from ..text_table import escape_controls

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from quarterdeck.fleet.api import AgentInfo, SpawnOptions
    from quarterdeck.fleet.client import HostClient

__all__ = ["fork", "resume", "spawn", "start_agent"]


@click.command(
    epilog="Exit codes: 0 it works, 5 it did not start. With --wait: 0 at rest, 4 it needs you, "
    "5 it failed or was ended, 124 not in time."
)
@click.argument("prompt", required=False)
@click.option("-a", "--agent", default="native", show_default=True, help="Which agent.")
@click.option("-n", "--name", help="What it is called; made up by default.")
@click.option("-C", "--cwd", type=click.Path(file_okay=False, exists=True), help="Work there.")
@click.option("-m", "--model", help="The model, as the agent names it.")
@click.option("--mode", type=click.Choice(MODES), help="What may be done without asking.")
@click.option("--agent-mode", metavar="MODE", help="A mode of the agent's own.")
@click.option("--system-prompt", metavar="TEXT", help="Told to the agent before all else.")
@click.option("--tool", "tools", metavar="NAME", multiple=True, help="Only these tools.")
@click.option("--allow", metavar="RULE", multiple=True, help="Allow calls, e.g. 'bash(git log:*)'.")
@click.option("--deny", metavar="RULE", multiple=True, help="Deny calls; wins over every allow.")
@click.option(
    "--root",
    "roots",
    type=click.Path(file_okay=False, exists=True),
    multiple=True,
    help="A further directory it may work in.",
)
@click.option("--transport", help="How the agent is spoken to; see `quarterdeck agents`.")
@click.option(
    "-e",
    "--env",
    "variables",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Set for the agent, or pass on; not kept.",
)
@click.option("--resume", "session", metavar="ID", help="Go on with a session of the agent's own.")
@click.option("--wait", is_flag=True, help="Wait until it is at rest; print its last words.")
@click.option("--timeout", type=float, metavar="S", help="With --wait: seconds at the most.")
@as_json_option
def spawn(prompt: str | None, wait: bool, timeout: float | None, as_json: bool, **o: Any) -> None:
    """Start an agent on PROMPT; it goes on when this command ends. ``-`` reads standard input."""
    wish = _wish(read_given_text(prompt), o)
    if not wait:
        raise SystemExit(
            with_fleet(
                lambda fleet: start_agent(
                    fleet, fleet.spawn(wish), wish.prompt is not None, as_json
                )
            )
        )
    from .agent_wait import spawn_and_wait

    raise SystemExit(with_fleet(lambda fleet: spawn_and_wait(fleet, wish, timeout, as_json)))


@click.command()
@click.argument("agent")
@click.argument("prompt", required=False)
@as_json_option
def resume(agent: str, prompt: str | None, as_json: bool) -> None:
    """Start AGENT again where it ended, and give it PROMPT if there is one."""
    text = read_given_text(prompt)
    raise SystemExit(
        with_fleet(
            lambda fleet: start_agent(fleet, _resume(fleet, agent, text), bool(text), as_json)
        )
    )


@click.command()
@click.argument("agent")
@click.argument("prompt", required=False)
@click.option("-n", "--name", help="What the copy is called; made up by default.")
@as_json_option
def fork(agent: str, prompt: str | None, name: str | None, as_json: bool) -> None:
    """Start a copy of AGENT with the same past."""
    text = read_given_text(prompt)
    raise SystemExit(
        with_fleet(
            lambda fleet: start_agent(
                fleet, fleet.fork(agent, name=name, prompt=text), bool(text), as_json
            )
        )
    )


def _wish(prompt: str | None, o: dict[str, Any]) -> "SpawnOptions":
    from quarterdeck.fleet.api import SpawnOptions

    return SpawnOptions(
        agent=o["agent"],
        cwd=resolve_directory(o["cwd"]),
        name=o["name"],
        prompt=prompt,
        roots=tuple(resolve_directory(root) for root in o["roots"]),
        transport=o["transport"],
        environment=_environment(o["variables"]),
        model=o["model"],
        mode=o["mode"],
        agent_mode=o["agent_mode"],
        system_prompt=o["system_prompt"],
        tools=o["tools"] or None,
        allow=o["allow"],
        deny=o["deny"],
        resume=o["session"],
    )


def _environment(variables: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for variable in variables:
        name, is_set, value = variable.partition("=")
        if not is_set and name not in os.environ:
            raise click.UsageError(f"--env {name!r}: there is no such variable; give it a value")
        found[name] = value if is_set else os.environ[name]
    return found


async def start_agent(
    fleet: "HostClient", starting: "Awaitable[AgentInfo]", has_prompt: bool, as_json: bool
) -> int:
    """Start an agent, print its name, and say if it does not start; returns the exit code."""
    from .agent_wait import report_start

    info = await starting
    if as_json:
        echo_json(info)
    else:
        click.echo(escape_controls(info.name))
    return await report_start(fleet, info, has_prompt=has_prompt)


async def _resume(fleet: "HostClient", agent: str, prompt: str | None) -> "AgentInfo":
    from quarterdeck.wire.content import text

    info = await fleet.resume(agent)
    if prompt:
        await fleet.wait([info.session], timeout=60)
        await fleet.send(info.session, (text(prompt),))
    return info
