"""``lead``: an agent that leads others, in the host, and this terminal with it."""

import sys
from typing import TYPE_CHECKING

import click

from quarterdeck.policy.modes import MODES

from .connecting import as_json_option, directory, given_text, with_fleet
from .text import literal

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.port import Spawn

__all__ = ["lead"]


@click.command(epilog="docs/orchestration.md tells what an agent that leads can do.")
@click.argument("prompt", required=False)
@click.option("-a", "--agent", default="native", show_default=True, help="Which agent leads.")
@click.option("-n", "--name", help="What it is called; made up by default.")
@click.option("-C", "--cwd", type=click.Path(file_okay=False, exists=True), help="Work there.")
@click.option("-m", "--model", help="The model, as the agent names it.")
@click.option("--mode", type=click.Choice(MODES), help="What it and its agents may do unasked.")
@click.option("--transport", metavar="NAME", help="How it is reached: acp or pipe.")
@click.option("--allow", metavar="RULE", multiple=True, help="Allow calls, e.g. 'bash(git log:*)'.")
@click.option("--deny", metavar="RULE", multiple=True, help="Deny calls, of its agents too.")
@click.option("-d", "--detach", is_flag=True, help="Do not attach; print its name.")
@as_json_option
def lead(prompt: str | None, detach: bool, as_json: bool, **options: object) -> None:
    """Start an agent that leads others on PROMPT, and follow it here.

    It starts agents of any make, waits for them and answers their questions. It goes on when this
    command ends. ``-`` reads the prompt from standard input.
    """
    wish = _wish(given_text(prompt), options)
    if detach or as_json:
        from .beginning import begin

        raise SystemExit(
            with_fleet(
                lambda fleet: begin(fleet, fleet.spawn(wish), wish.prompt is not None, as_json)
            )
        )
    raise SystemExit(with_fleet(lambda fleet: _lead(fleet, wish)))


async def _lead(fleet: "HostClient", wish: "Spawn") -> int:
    from .attach import follow_agent

    info = await fleet.spawn(wish)
    if not sys.stdin.isatty():
        click.echo(f"= {literal(info.name)}", err=True)
    return await follow_agent(fleet, info.session)


def _wish(prompt: str | None, o: dict[str, object]) -> "Spawn":
    import msgspec

    from quarterdeck.fleet.port import Spawn

    given = {name: value for name, value in o.items() if value is not None}
    cwd = o["cwd"]
    given |= {"cwd": directory(str(cwd) if cwd else None), "lead": True}
    if prompt is not None:
        given["prompt"] = prompt
    return msgspec.convert(given, Spawn)
