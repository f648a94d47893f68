"""``history import`` and ``history hand-over``: past sessions become agents of the fleet."""

import os
from typing import TYPE_CHECKING, Any

import click

from .fleet.connecting import as_json_option, echo_json, given_text, with_fleet
from .fleet.text import literal

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.port import AgentInfo, Imported

__all__ = ["hand_over", "import_"]

_name_option = click.option("-n", "--name", help="What it is called; made up by default.")
_cwd_option = click.option(
    "-C",
    "--cwd",
    type=click.Path(file_okay=False, exists=True, resolve_path=True),
    help="Where it worked, if its files do not tell.",
)


@click.command("import")
@click.argument("id_", metavar="ID")
@_name_option
@_cwd_option
@as_json_option
@click.pass_context
def import_(
    context: click.Context, id_: str, name: str | None, cwd: str | None, as_json: bool
) -> None:
    """Take a session into the log: it can be searched, and `quarterdeck resume` goes on with it.

    Taking it again adds what is new.
    """
    given: dict[str, Any] = context.obj
    done = with_fleet(lambda fleet: _import(fleet, given, id_, name, cwd))
    if as_json or given["as_json"]:
        echo_json(done)
        return
    skipped = f"; {done.skipped} entries could not be read" if done.skipped else ""
    click.echo(f"{literal(done.agent.name)}: {done.added} new events{skipped}")


@click.command("hand-over")
@click.argument("id_", metavar="ID")
@click.option("--to", "kind", required=True, metavar="KIND", help="The agent that takes over.")
@_name_option
@click.option("-m", "--model", help="The new one's model.")
@_cwd_option
@click.argument("prompt", required=False)
@as_json_option
@click.pass_context
def hand_over(
    context: click.Context,
    id_: str,
    kind: str,
    name: str | None,
    model: str | None,
    cwd: str | None,
    prompt: str | None,
    as_json: bool,
) -> None:
    """Hand a session to another agent.

    It is imported; the new one is told a summary, the end of what was said and where the whole
    transcript is. PROMPT is what it shall do now; without one it goes on.
    """
    given: dict[str, Any] = context.obj
    words = given_text(prompt)

    async def hand(fleet: "HostClient") -> "AgentInfo":
        from quarterdeck.config.places import Places
        from quarterdeck.fleet.inheriting import hand_past_over

        done = await _import(fleet, given, id_, None, cwd)
        return await hand_past_over(
            fleet, Places.find(), done.agent, kind, name=name, model=model, prompt=words
        )

    info = with_fleet(hand)
    if as_json or given["as_json"]:
        echo_json(info)
    else:
        click.echo(literal(info.name))


async def _import(
    fleet: "HostClient", given: dict[str, Any], id_: str, name: str | None, cwd: str | None
) -> "Imported":
    from quarterdeck.drivers.history.history import History
    from quarterdeck.drivers.history.homes import VARIABLES

    homes = {key: os.environ[key] for key in VARIABLES if key in os.environ}
    past = await History.of(homes).find(id_, agent=given["agent"], near=given["near"])
    return await fleet.import_session(past.agent, past.id, homes, name=name, cwd=cwd)
