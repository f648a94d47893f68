"""``quarterdeck hooks``: which hooks our own agent runs, and what they answer."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quarterdeck.config.schema import HOOK_POINTS

from .command_io import echo_json, echo_lines, resolve_directory, terminal_width
from .output import escape_to_line, table

if TYPE_CHECKING:
    from quarterdeck.agent.environment import SessionEnvironment
    from quarterdeck.agent.hooks.hook import Hook
    from quarterdeck.agent.ports import HookPoint, HookVerdict
    from quarterdeck.wire.events import Event

__all__ = ["FORMAT", "hooks"]

FORMAT = 1
"""Of the JSON; grows when a field changes its meaning or goes away."""

C = TypeVar("C", bound=Callable[..., Any])


def _options(command: C) -> C:
    place = click.option(
        "--project",
        "-C",
        "place",
        metavar="DIR",
        help=("The directory whose hooks to use; default: the current one."),
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
def hooks() -> None:
    """Show and test the hooks of our own agent.

    Hooks are declared in the settings, under hooks; a project's hooks apply once it is trusted.
    """


@hooks.command("list")
@_options
def list_(place: str | None, how: str) -> None:
    """List the hooks in the order in which they run. Runs none."""
    found = _declared(asyncio.run(_load_environment(resolve_directory(place))))
    if how == "json":
        rows = [_described(point, hook) for point, one in found.items() for hook in one]
        echo_json({"format": FORMAT, "hooks": rows})
        return
    echo_lines(_listed(found))


@hooks.command()
@click.argument("point", type=click.Choice(HOOK_POINTS))
@click.option("--facts", default="{}", metavar="JSON", help="Additional facts.")
@_options
def test(point: "HookPoint", facts: str, place: str | None, how: str) -> None:
    """Run the hooks of POINT, whatever they match, and show their combined answer.

    Exits with 1 if one of them failed.
    """
    try:
        given: dict[str, Any] | list[Any] = json.loads(facts)
    except ValueError as error:
        raise click.UsageError(f"--facts is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise click.UsageError("--facts must be a JSON object")
    verdict, problems = asyncio.run(_run(resolve_directory(place), point, given))
    if how == "json":
        answer = {key: value for key, value in _plain(verdict).items() if value}
        echo_json({"format": FORMAT, "answer": answer, "problems": problems})
    else:
        echo_lines(_verdict_lines(verdict, problems))
    if problems:
        raise SystemExit(1)


async def _load_environment(where: str) -> "SessionEnvironment":
    from quarterdeck.agent.environment import prepare_environment
    from quarterdeck.config.places import Places

    return await prepare_environment(Places.find(), dict(os.environ), where)


def _declared(loaded: "SessionEnvironment") -> "dict[HookPoint, tuple[Hook, ...]]":
    from quarterdeck.agent.hooks.runner import read_hooks

    return read_hooks(loaded.config)


async def _run(
    where: str, point: "HookPoint", facts: dict[str, Any]
) -> "tuple[HookVerdict, list[str]]":
    from quarterdeck.agent.native import find_hooks
    from quarterdeck.wire.events import NoticePosted

    loaded = await _load_environment(where)
    problems: list[str] = []

    async def emit(event: "Event") -> None:
        if isinstance(event, NoticePosted):
            problems.append(f"{event.title}: {event.description}")

    found = await asyncio.to_thread(find_hooks, loaded, dict(os.environ), "test")
    return await found.run(point, facts, emit), problems


def _plain(verdict: "HookVerdict") -> dict[str, Any]:
    return {
        "refused": verdict.refused,
        "effect": verdict.effect,
        "reason": verdict.reason,
        "by": verdict.by,
        "input": verdict.input,
        "context": list(verdict.context),
        "again": verdict.again,
    }


def _described(point: "HookPoint", hook: "Hook") -> dict[str, Any]:
    return {
        "point": point,
        "runs": list(hook.argv) or hook.target,
        "match": hook.match,
        "timeout": hook.timeout,
        "source": hook.source,
    }


def _listed(found: "dict[HookPoint, tuple[Hook, ...]]") -> Iterator[str]:
    rows = [
        (point, escape_to_line(hook.name), hook.match or "", f"{hook.timeout:g} s", hook.source)
        for point, hooks_ in found.items()
        for hook in hooks_
    ]
    if not rows:
        yield "There are no hooks. They are declared in the settings, as [[hooks.before_tool]]."
        return
    yield from table(("point", "runs", "match", "time", "declared in"), rows, terminal_width())


def _verdict_lines(verdict: "HookVerdict", problems: list[str]) -> Iterator[str]:
    answer = {key: value for key, value in _plain(verdict).items() if value}
    for key, value in answer.items():
        yield f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
    if not answer:
        yield "No answer."
    yield from problems
