"""``lead``: an agent that leads others, in the host, and this terminal with it."""

import sys
from typing import TYPE_CHECKING

import click

from quarterdeck.policy.modes import MODES

from ..command_io import as_json_option, read_given_text, resolve_directory, with_fleet
from ..text_table import escape_controls

if TYPE_CHECKING:
    from quarterdeck.fleet.api import SpawnOptions
    from quarterdeck.fleet.client import HostClient

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
    wish = _wish(read_given_text(prompt), options)
    if detach or as_json:
        from .spawn import start_agent

        raise SystemExit(
            with_fleet(
                lambda fleet: start_agent(
                    fleet, fleet.spawn(wish), wish.prompt is not None, as_json
                )
            )
        )
    raise SystemExit(with_fleet(lambda fleet: _lead(fleet, wish)))


async def _lead(fleet: "HostClient", wish: "SpawnOptions") -> int:
    from .attach import follow_agent

    info = await fleet.spawn(wish)
    if not sys.stdin.isatty():
        click.echo(f"= {escape_controls(info.name)}", err=True)
    return await follow_agent(fleet, info.session)


def _wish(prompt: str | None, o: dict[str, object]) -> "SpawnOptions":
    import msgspec

    from quarterdeck.fleet.api import SpawnOptions

    given = {name: value for name, value in o.items() if value is not None}
    cwd = o["cwd"]
    given |= {"cwd": resolve_directory(str(cwd) if cwd else None), "lead": True}
    if prompt is not None:
        given["prompt"] = prompt
    return msgspec.convert(given, SpawnOptions)
