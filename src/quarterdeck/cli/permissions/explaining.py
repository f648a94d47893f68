"""``permissions explain``."""

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from quarterdeck.wire.settings import PermissionMode

from ..fleet.connecting import as_json_option, directory, echo_json, echo_lines
from ..fleet.text import literal, one_line

if TYPE_CHECKING:
    from quarterdeck.fleet.deeds import Considered, Explained

__all__ = ["explain"]

_VERDICTS = {"allow": "Allowed", "ask": "A person is asked", "deny": "Denied"}


@click.command(
    epilog='For example: explain bash "git push --force"; explain edit src/x.py; '
    "explain fetch https://example.com; explain mcp github:create_issue."
)
@click.argument("words", nargs=-1, metavar="[TOOL WHAT...]")
@click.option("--tool", metavar="NAME", help="A tool as its agent calls it, with --input.")
@click.option("--input", "input_", metavar="JSON", default="{}", help="What the tool is given.")
@click.option("-C", "place", metavar="DIR", help="Where it would happen; the current directory.")
@click.option("--mode", metavar="MODE", help="In this permission mode; the configured one.")
@click.option("--agent", metavar="NAME", help="For this agent: a name of the fleet, or a kind.")
@click.option("-v", "--verbose", is_flag=True, help="Also the rules that do not hold.")
@as_json_option
def explain(
    words: tuple[str, ...],
    tool: str | None,
    input_: str,
    place: str | None,
    mode: str | None,
    agent: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Tell what would be decided about a call, why, and what would change it. Nothing is run."""
    if (tool is None) == (not words):
        raise click.UsageError("say what is called: bash COMMAND, edit PATH, … or --tool NAME")
    found = asyncio.run(_explain(words, tool, input_, place, mode, agent))
    if as_json:
        echo_json(found)
        return
    echo_lines(_shown(found, verbose))


async def _explain(
    words: tuple[str, ...],
    tool: str | None,
    input_: str,
    place: str | None,
    mode: str | None,
    agent: str | None,
) -> "Explained":
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.deeds import call_of, explain_call, read_input, scene_of, tool_call
    from quarterdeck.fleet.granted import grants_on_disk

    from .whose import whose

    places = Places.find()
    who = await whose(places, agent)
    scene = await scene_of(
        places,
        dict(os.environ),
        directory(place) if place or who.cwd is None else who.cwd,
        mode=_mode(mode or who.mode),
        allow=who.allow,
        deny=who.deny,
        agent=who.agent,
        session=who.session,
        grants=tuple(await grants_on_disk(places)),
    )
    if tool is not None:
        given = read_input(input_)
        call = await asyncio.to_thread(tool_call, tool, given, scene.around)
    else:
        call = await asyncio.to_thread(call_of, words, scene.around)
    return await explain_call(call, scene)


def _mode(name: str | None) -> PermissionMode | None:
    from quarterdeck.policy.modes import parse_mode

    return None if name is None else parse_mode(name)


def _shown(found: "Explained", verbose: bool) -> Iterator[str]:
    reason = f": {one_line(found.reason)}" if found.reason else ""
    yield f"{_VERDICTS[found.decision]}{reason}"
    for by in found.by:
        yield f"  by {one_line(by)}"
    yield f"  in {one_line(found.cwd)}, mode {found.mode}" + (
        "" if found.trusted else ", not trusted: allow rules of the project's files do nothing"
    )
    part = None
    for step in found.considered:
        if step.part != part:
            part = step.part
            yield f"\n{literal(part)}"
        if verbose or step.outcome != "does not hold":
            yield f"  {_considered(step)}"
    if found.changes:
        yield "\nThis would change it:"
    for change in found.changes:
        where = f" from {one_line(change.where)}" if change.where else ""
        yield f"  {change.do} {one_line(change.what)!r}{where}: {change.then}"


def _considered(step: "Considered") -> str:
    if step.kind == "mode":
        return f"mode {step.by}: {one_line(step.outcome)}"
    where = f" ({one_line(step.where)})" if step.where else ""
    return f"{one_line(step.by)}{where}: {step.outcome}"
