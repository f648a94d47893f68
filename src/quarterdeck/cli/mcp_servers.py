"""``quarterdeck mcp-servers``: which servers lend tools to our own agent, and whether they work."""

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quarterdeck.wire.redaction import mask_secrets

from .command_io import echo_json, echo_lines, resolve_directory, terminal_width
from .output import escape_to_line, table

if TYPE_CHECKING:
    from quarterdeck.agent.mcp.server import ServerTrial
    from quarterdeck.agent.mcp.servers import FoundServers
    from quarterdeck.agent.tool_servers import ServerDefinition

__all__ = ["FORMAT", "mcp_servers"]

FORMAT = 1
"""Of the JSON; grows when a field changes its meaning or goes away."""

C = TypeVar("C", bound=Callable[..., Any])


def _options(command: C) -> C:
    place = click.option(
        "--project",
        "-C",
        "place",
        metavar="DIR",
        help=("The directory whose servers to use; default: the current one."),
    )
    choice = click.option(
        "--format",
        "how",
        type=click.Choice(("text", "json")),
        default="text",
        show_default=True,
        help="Text for people, or one JSON object.",
    )
    flag = click.option("--json", "how", flag_value="json", help="The same as --format json.")
    return place(choice(flag(command)))


@click.group()
def mcp_servers() -> None:
    """Show and test the MCP servers of our own agent.

    They are configured in the settings, under mcp_servers, and in a trusted project's .mcp.json.
    """


@mcp_servers.command("list")
@_options
def list_(place: str | None, how: str) -> None:
    """List the servers, and where each is configured. Starts none."""
    found = asyncio.run(_find(resolve_directory(place)))
    if how == "json":
        servers = [_described(each) for each in found.definitions]
        echo_json({"format": FORMAT, "servers": servers, "problems": found.problems})
        return
    echo_lines(_listed(found))


@mcp_servers.command()
@click.argument("name", required=False)
@_options
def test(name: str | None, place: str | None, how: str) -> None:
    """Start every server, or NAME, and show its tools and what they cost.

    Exits with 1 if one does not work.
    """
    where = resolve_directory(place)
    found = asyncio.run(_find(where))
    if name is not None:
        found = _only(found, name)
    trials = asyncio.run(_try(found.definitions, where))
    if how == "json":
        echo_json(
            {
                "format": FORMAT,
                "servers": [{**_plain(trial), "tokens": trial.tokens} for trial in trials],
                "problems": found.problems,
            }
        )
    else:
        echo_lines(_tried(trials, found))
    if found.problems or not all(trial.works for trial in trials):
        raise SystemExit(1)


def _only(found: "FoundServers", name: str) -> "FoundServers":
    """One server, and what is wrong with it."""
    import msgspec

    problems = tuple(each for each in found.problems if name in each)
    chosen = tuple(each for each in found.definitions if each.name == name)
    if not chosen and not problems:
        known = ", ".join(each.name for each in found.definitions) or "none"
        raise click.UsageError(f"there is no MCP server {name!r}; available: {known}")
    return msgspec.structs.replace(found, definitions=chosen, problems=() if chosen else problems)


async def _find(where: str) -> "FoundServers":
    from quarterdeck.agent.environment import prepare_environment
    from quarterdeck.agent.mcp.servers import find_definitions
    from quarterdeck.config.places import Places

    environment = dict(os.environ)
    session_environment = await prepare_environment(Places.find(), environment, where)
    return await asyncio.to_thread(find_definitions, session_environment, environment)


async def _try(definitions: "tuple[ServerDefinition, ...]", where: str) -> "list[ServerTrial]":
    from quarterdeck.agent.mcp.server import try_server

    environment = dict(os.environ)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(try_server(each, roots=(where,), environment=environment))
            for each in definitions
        ]
    return [task.result() for task in tasks]


def _plain(trial: "ServerTrial") -> dict[str, Any]:
    import msgspec

    return msgspec.to_builtins(trial)


def _described(definition: "ServerDefinition") -> dict[str, Any]:
    """A server without what may be secret."""
    from quarterdeck.wire.redaction import mask_secrets

    return {
        "name": definition.name,
        "transport": "http" if definition.url else "stdio",
        "command": [mask_secrets(word) for word in definition.command] or None,
        "url": mask_secrets(definition.url) if definition.url else None,
        "variables": sorted(definition.env),
        "headers": sorted(definition.headers),
        "trusted": definition.trusted,
        "source": definition.source,
    }


def _listed(found: "FoundServers") -> Iterator[str]:
    if found.definitions:
        head = ("NAME", "TRANSPORT", "TRUSTED", "WHERE", "NAMED IN")
        rows = [
            (
                each.name,
                "http" if each.url else "stdio",
                "yes" if each.trusted else "no",
                mask_secrets(each.url or " ".join(each.command)),
                each.source,
            )
            for each in found.definitions
        ]
        yield from table(head, rows, terminal_width())
    else:
        yield "No MCP servers. Add one under [mcp_servers.NAME] in your settings; see docs/mcp.md."
    yield from _problems(found)


def _tried(trials: "list[ServerTrial]", found: "FoundServers") -> Iterator[str]:
    for trial in trials:
        if not trial.works:
            yield f"{trial.server}: does not work"
            yield from (f"  {escape_to_line(line)}" for line in (trial.reason or "").splitlines())
            continue
        who = f"{escape_to_line(trial.program)}, " if trial.program else ""
        yield (
            f"{trial.server}: works ({who}protocol {trial.version}), "
            f"{len(trial.tools)} tools, about {trial.tokens} tokens in every request, "
            f"{trial.start_seconds} s to start"
        )
        yield from (f"  {escape_to_line(tool.shown_as)}  {tool.tokens}" for tool in trial.tools)
        yield from (f"  skipped: {escape_to_line(problem)}" for problem in trial.problems)
    if not trials:
        yield "No MCP servers."
    yield from _problems(found)


def _problems(found: "FoundServers") -> Iterator[str]:
    yield from (f"not used: {escape_to_line(problem)}" for problem in found.problems)
