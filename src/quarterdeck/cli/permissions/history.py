"""``permissions test`` and ``permissions suggest``: rules tried on recorded requests."""

import asyncio
import datetime
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.wire.clock import format_local_time, read_wall_clock
from quarterdeck.wire.errors import QuarterdeckError

from ..command_io import (
    DURATION,
    as_json_option,
    echo_json,
    echo_lines,
    resolve_directory,
    with_fleet,
)
from ..output import echo, escape_to_line

if TYPE_CHECKING:
    from quarterdeck.fleet.api import InboxItem
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.permissions.api import BackTest, RuleSuggestion, TriedRequest
    from quarterdeck.policy.grants import Grant
    from quarterdeck.wire.ids import RequestId

__all__ = [
    "DeniedElsewhereError",
    "NoSuchSuggestionError",
    "Since",
    "suggest",
    "test",
    "try_offered_rules",
]

_WEEK = 7 * 86_400 * 1_000_000
"""Microseconds."""


class NoSuchSuggestionError(QuarterdeckError):
    """There is no suggestion of this number or text; the message says what there is."""


class DeniedElsewhereError(QuarterdeckError):
    """A rule for every project would allow what a person denied in one; the message says what."""


class Since(click.ParamType[int]):
    """A time in the past: a duration (``7d``, ``12h``) or a local day; microseconds."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        try:
            day = datetime.datetime.fromisoformat(text).astimezone()
        except ValueError:
            if text[:4].isdigit() and "-" in text:
                self.fail(f"{text!r} is not a day; write it as 2026-11-09 or 7d", param, ctx)
            return read_wall_clock() - DURATION.convert(text, param, ctx)
        return int(day.timestamp() * 1_000_000)


_since_option = click.option(
    "--since", type=Since(), metavar="TIME", help="Only requests since then: 7d, 12h, 2026-11-09."
)


def _find_project(place: str | None) -> str:
    from quarterdeck.config.workspace import find_workspace

    return str(find_workspace(Path(resolve_directory(place))).project)


@click.command(
    epilog='For example: test "allow bash(npm test:*)"; test --since 7d "deny bash(git push)".'
)
@click.argument("rules", nargs=-1, required=True, metavar="RULE...")
@_since_option
@click.option("--project", "-C", "place", metavar="DIR", help="Only requests of this project.")
@click.option("--limit", default=20, show_default=True, help="How many disagreements to list.")
@as_json_option
@click.pass_context
def test(
    context: click.Context,
    rules: tuple[str, ...],
    since: int | None,
    place: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Try rules on every permission request in the log, of agents of every vendor.

    Shows how many they would allow, ask about and deny, in the mode of that time, and where people
    answered differently. The rules stand alone: settings and grants do not count. Changes nothing.
    Exits with 1 if the rules would have allowed something that a person denied.
    """
    _check_rules(rules)
    project = _find_project(place) if place else None
    found = with_fleet(
        lambda fleet: fleet.back_test(rules, since=since, project=project, limit=limit)
    )
    if as_json:
        echo_json(found)
    else:
        echo_lines(_format_test(found))
    context.exit(1 if found.allowed_denied else 0)


def _check_rules(rules: Sequence[str]) -> None:
    from quarterdeck.policy.errors import RuleError
    from quarterdeck.policy.grammar import parse_rule

    for text in rules:
        try:
            parse_rule(text)
        except RuleError as error:
            raise click.UsageError(escape_to_line(str(error))) from None


def _format_test(found: "BackTest") -> Iterator[str]:
    yield f"{found.requests} requests were put to a person. These rules would"
    yield f"  allow {found.allowed}"
    yield f"  deny {found.denied}"
    yield f"  ask about {found.asked}"
    if found.decided:
        yield f"{found.decided} further calls were decided by rules or modes then."
    if found.uncertain:
        yield (
            f"{found.uncertain} of them depend on files (programs, matches of patterns, "
            "directories) and may be decided differently today."
        )
    if found.unread:
        yield f"{found.unread} decisions could not be tried: their calls are not in the log."
    yield ""
    if not found.disagreements and not found.is_cut:
        yield "No disagreement with what was decided then."
        return
    yield (
        f"Would allow {found.allowed_denied} that a person denied, and deny "
        f"{found.denied_allowed} that were allowed:"
    )
    for one in found.disagreements:
        yield f"  {_format_request(one)}"
    if found.is_cut:
        yield "  and more; --limit shows them"


def _format_request(one: "TriedRequest") -> str:
    when, name = format_local_time(one.time), escape_to_line(one.name)
    files = ", depends on files" if one.depends_on_files else ""
    answer = {"allow": "allowed", "deny": "denied", "none": "not answered"}[one.then]
    return (
        f"{one.now:<5} {escape_to_line(one.what)}  "
        f"({name}, {when}, {answer} by {escape_to_line(one.by)}{files})"
    )


async def try_offered_rules(
    fleet: "HostClient", items: "Sequence[InboxItem]"
) -> "dict[RequestId, dict[str, BackTest]]":
    """Try the rules that lasting answers to open requests would record, on the requests of this
    week in the project of each; by request and rule. A rule that cannot be tried is left out.
    """
    from quarterdeck.config.workspace import find_workspace
    from quarterdeck.policy.errors import RuleError
    from quarterdeck.workbench.screens.permission_model import merge_options

    if not items:
        return {}
    agents = {one.session: one for one in await fleet.agents()}
    found: dict[RequestId, dict[str, BackTest]] = {}
    for item in items:
        agent = agents.get(item.session)
        if item.permission is None or agent is None:
            continue
        rules = merge_options(item.permission.options).find_rules(with_more=True)
        since = read_wall_clock() - _WEEK
        workspace = await asyncio.to_thread(find_workspace, Path(agent.cwd))
        project = agent.worktree.repository if agent.worktree else str(workspace.project)
        for rule, allows in rules.items():
            with suppress(RuleError):
                tried = await fleet.back_test(allows, since=since, project=project, limit=0)
                found.setdefault(item.request, {})[rule] = tried
    return found


@click.command()
@_since_option
@click.option(
    "--project", "-C", "place", metavar="DIR", help="The project; default: the current directory's."
)
@click.option("--all", "everywhere", is_flag=True, help="Requests of all projects.")
@click.option(
    "--accept", metavar="N", help="Save suggestion N, a number or the pattern, as a grant."
)
@click.option(
    "--scope",
    type=click.Choice(("project", "user")),
    default="project",
    show_default=True,
    help="Where an accepted rule applies; user: in every project.",
)
@as_json_option
def suggest(
    since: int | None,
    place: str | None,
    everywhere: bool,
    accept: str | None,
    scope: str,
    as_json: bool,
) -> None:
    """Suggest rules for what people always approved and never denied.

    They are rules that the permission dialog offers, the narrowest that cover the most requests,
    in the order of how many requests they save. Nothing changes without --accept.
    """
    if everywhere and place:
        raise click.UsageError("--all and --project cannot be used together")
    project = None if everywhere else _find_project(place)
    found = with_fleet(lambda fleet: fleet.suggest_rules(since=since, project=project))
    if accept is not None:
        chosen = _choose(found, accept)
        if chosen.is_wide and scope == "user":
            raise click.UsageError(
                "a rule that is wider than what was approved is accepted for a project only; "
                "to have it everywhere use permissions add --user"
            )
        if scope == "user":
            _check_everywhere(chosen)
        target = None if scope == "user" else (project or _find_project(None))
        grants = asyncio.run(_save(chosen, target))
        if as_json:
            echo_json(grants)
            return
        for grant in grants:
            reach = f"in {escape_to_line(grant.project)}" if grant.project else "in every project"
            echo(f"{grant.id}: allow {escape_to_line(grant.pattern)} {reach}")
        return
    if as_json:
        echo_json(found)
        return
    echo_lines(_format_suggestions(found))


def _check_everywhere(chosen: "RuleSuggestion") -> None:
    """Make sure that nothing was denied in another project either. Raises DeniedElsewhereError."""
    rules = tuple(f"allow {pattern}" for pattern in chosen.patterns)
    tried = with_fleet(lambda fleet: fleet.back_test(rules, limit=1))
    if tried.allowed_denied:
        what = escape_to_line(tried.disagreements[0].what)
        raise DeniedElsewhereError(
            f"not saved: in another project it would allow {what!r}, which was denied; "
            "accept it for this project, or use permissions add --user"
        )


def _choose(found: "Sequence[RuleSuggestion]", accept: str) -> "RuleSuggestion":
    for number, one in enumerate(found, 1):
        if accept in (str(number), ", ".join(one.patterns)):
            return one
    there = f"there are {len(found)}" if found else "there are none"
    raise NoSuchSuggestionError(f"there is no suggestion {accept!r}; {there}")


async def _save(chosen: "RuleSuggestion", project: str | None) -> "list[Grant]":
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.permissions.grants import GrantLimits, add_lasting_grants
    from quarterdeck.policy.grammar import parse_rule

    rules = [parse_rule(f"allow {pattern}") for pattern in chosen.patterns]
    limits = GrantLimits(project=project)
    return await add_lasting_grants(Places.find(), rules, limits, by="command line")


def _format_suggestions(found: "Sequence[RuleSuggestion]") -> Iterator[str]:
    if not found:
        yield "No suggestions: no call was approved twice or more and never denied."
        return
    for number, one in enumerate(found, 1):
        rule = ", ".join(f"allow {escape_to_line(pattern)}" for pattern in one.patterns)
        wide = ", wider than what was approved" if one.is_wide else ""
        yield f"{number}. {rule}"
        yield f"   saves {one.saved} requests{wide}; approved, for example:"
        for example in one.examples:
            yield f"     {escape_to_line(example.what)}"
        if one.others:
            yield f"   would also allow {one.others} recorded requests that no person approved:"
            for example in one.other_examples:
                yield f"     {escape_to_line(example.what)}"
        else:
            yield "   would allow nothing else that is recorded"
    yield ""
    yield "Accept one: quarterdeck permissions suggest --accept N"
