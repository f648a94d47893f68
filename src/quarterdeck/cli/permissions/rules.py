"""``quarterdeck permissions``: rules and grants, and what they decide."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import msgspec

from quarterdeck.wire.settings import PermissionMode

from ..command_io import as_json_option, echo_json, echo_lines, resolve_directory, terminal_width
from ..output import escape_controls, escape_to_line, table
from .grants import GrantListing, add, find_unused, format_grants, list_grants, revoke
from .history import Since, suggest, test

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.permissions.explanation import (
        CallExplanation,
        ConsideredRule,
        EffectiveApprovers,
        EffectivePermissions,
        EffectiveRule,
    )
    from quarterdeck.wire.ids import SessionId

__all__ = [
    "PermissionSubject",
    "explain",
    "find_permission_subject",
    "list_",
    "permissions",
]


@click.group()
def permissions() -> None:
    """Show and change what agents may do without asking.

    The same rules apply to every agent, whatever its vendor.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionSubject:
    """An agent; nothing is set where all are meant."""

    agent: str | None = None
    """The kind, as the catalogue names it."""
    session: "SessionId | None" = None
    """The rest is set for an agent of the fleet."""
    leads: tuple[str, ...] = ()
    """The live agents that lead it, itself first."""
    cwd: str | None = None
    mode: str | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


async def find_permission_subject(places: "Places", name: str | None) -> PermissionSubject:
    """Find out who is meant; an agent of the fleet before a kind of the same name.

    Raises:
        UnknownAgentError: it is neither.
        JournalError: the log cannot be read.
    """
    if name is None:
        return PermissionSubject()
    from quarterdeck.drivers.catalogue import find_agent
    from quarterdeck.fleet.permissions.grants import find_agent_entry, find_leads_of

    member = await find_agent_entry(places, name)
    if member is not None:
        options = member.spawn.options
        return PermissionSubject(
            agent=options.agent,
            session=member.session,
            leads=await find_leads_of(places, member),
            cwd=options.cwd,
            mode=member.mode,
            allow=options.allow,
            deny=options.deny,
        )
    return PermissionSubject(agent=(await asyncio.to_thread(find_agent, name, places)).name)


@click.command("list")
@click.option(
    "--project",
    "-C",
    "place",
    metavar="DIR",
    help=("The directory whose rules to list; default: the current one."),
)
@click.option("--agent", metavar="NAME", help="Only what applies to this agent.")
@click.option(
    "--session", metavar="ID", help=("Also grants of this session, which ran without a host.")
)
@click.option("--all", "everywhere", is_flag=True, help="Also grants of other projects.")
@click.option("--unused", is_flag=True, help="Only grants that were not used.")
@click.option(
    "--since", type=Since(), metavar="TIME", help="With --unused: not used since then; 30d, 12h."
)
@as_json_option
def list_(
    place: str | None,
    agent: str | None,
    session: str | None,
    everywhere: bool,
    unused: bool,
    since: int | None,
    as_json: bool,
) -> None:
    """List rules and grants: where each comes from, who it is for, how often it was used.

    Deny beats ask, ask beats allow. Also lists which requests certain people have to allow.
    """
    if since is not None and not unused:
        raise click.UsageError("--since needs --unused")
    found, grants = asyncio.run(_look(place, agent, session, everywhere))
    if unused:
        grants = find_unused(grants, since)
    if as_json:
        listed = [one.grant for one in grants]
        uses = {one.grant.id: one.use for one in grants}
        whole = msgspec.to_builtins(found) | {"grants": listed, "uses": uses}
        echo_json({"unused": listed, "uses": uses} if unused else whole)
        return
    echo_lines(format_grants(grants) if unused else _format_rules(found, grants))


async def _look(
    place: str | None, agent: str | None, session: str | None, everywhere: bool
) -> "tuple[EffectivePermissions, list[GrantListing]]":
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.permissions.explanation import find_effective_permissions
    from quarterdeck.fleet.permissions.grants import load_all_grants

    places = Places.find()
    who = await find_permission_subject(places, agent)
    grants = await load_all_grants(places)
    if session is not None:
        from quarterdeck.fleet.sessions.retention import load_standalone_grants

        grants += await load_standalone_grants(places, session)
    found = await find_effective_permissions(
        places,
        dict(os.environ),
        resolve_directory(place) if place or who.cwd is None else who.cwd,
        grants,
        everywhere=everywhere,
        agent=who.agent,
        session=who.session,
        leads=who.leads,
    )
    return found, await list_grants(places, found.grants)


def _format_rules(found: "EffectivePermissions", grants: list[GrantListing]) -> Iterator[str]:
    trust = "trusted" if found.trusted else "not trusted"
    yield f"{escape_to_line(found.project)} ({trust}), mode {found.mode}"
    yield ""
    if found.rules:
        rows = [
            (f"{one.effect} {one.pattern}", _source(one), one.idle or "") for one in found.rules
        ]
        yield from table(("RULE", "FROM", "NOT IN FORCE"), rows, terminal_width())
    else:
        yield "No rules."
    yield ""
    yield from _format_approvers(found)
    yield ""
    yield from format_grants(grants)


def _format_approvers(found: "EffectivePermissions") -> Iterator[str]:
    if not found.approvers:
        yield "Requests: the first answer decides."
        return
    rows = [
        (one.match or "every request", one.who, _file(one), one.idle or "")
        for one in found.approvers
    ]
    head = ("REQUEST", "NEEDS", "FROM", "NOT IN FORCE")
    yield from table(head, rows, terminal_width())
    if all(one.match is not None or one.idle for one in found.approvers):
        yield "Other requests: the first answer decides."


def _file(one: "EffectiveApprovers") -> str:
    place = one.place or one.layer
    return f"{place}:{one.line}" if one.line else place


def _source(rule: "EffectiveRule") -> str:
    place = rule.place or rule.layer
    return f"{place}:{rule.line}" if rule.line else f"{place} {rule.key}"


_VERDICTS = {"allow": "Allowed", "ask": "A person is asked", "deny": "Denied"}


@click.command(
    epilog='For example: explain bash "git push --force"; explain edit src/x.py; '
    "explain fetch https://example.com; explain mcp github:create_issue."
)
@click.argument("words", nargs=-1, metavar="[TOOL WHAT...]")
@click.option("--tool", metavar="NAME", help="A tool by its agent's name for it, with --input.")
@click.option("--input", "input_", metavar="JSON", default="{}", help="The input of the tool.")
@click.option(
    "-C",
    "place",
    metavar="DIR",
    help=("The working directory of the call; default: the current one."),
)
@click.option("--mode", metavar="MODE", help="The permission mode; default: the configured one.")
@click.option(
    "--agent", metavar="NAME", help="For this agent; a name from `quarterdeck ps` or `agents`."
)
@click.option("-v", "--verbose", is_flag=True, help="Also show rules that do not apply.")
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
    """Show how a call would be decided, why, and what would change that. Runs nothing."""
    if (tool is None) == (not words):
        raise click.UsageError("name a call: bash COMMAND, edit PATH, … or --tool NAME")
    found = asyncio.run(_explain(words, tool, input_, place, mode, agent))
    if as_json:
        echo_json(found)
        return
    echo_lines(_format_explanation(found, verbose))


async def _explain(
    words: tuple[str, ...],
    tool: str | None,
    input_: str,
    place: str | None,
    mode: str | None,
    agent: str | None,
) -> "CallExplanation":
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.permissions.explanation import (
        explain_call,
        make_tool_call,
        parse_call,
        parse_tool_input,
        prepare_hypothetical_session,
    )
    from quarterdeck.fleet.permissions.grants import load_all_grants

    places = Places.find()
    who = await find_permission_subject(places, agent)
    scene = await prepare_hypothetical_session(
        places,
        dict(os.environ),
        resolve_directory(place) if place or who.cwd is None else who.cwd,
        mode=_mode(mode or who.mode),
        allow=who.allow,
        deny=who.deny,
        agent=who.agent,
        session=who.session,
        leads=who.leads,
        grants=tuple(await load_all_grants(places)),
    )
    if tool is not None:
        given = parse_tool_input(input_)
        call = await asyncio.to_thread(make_tool_call, tool, given, scene.around)
    else:
        call = await asyncio.to_thread(parse_call, words, scene.around)
    return await explain_call(call, scene)


def _mode(name: str | None) -> PermissionMode | None:
    from quarterdeck.policy.modes import parse_mode

    return None if name is None else parse_mode(name)


def _format_explanation(found: "CallExplanation", verbose: bool) -> Iterator[str]:
    reason = f": {escape_to_line(found.reason)}" if found.reason else ""
    yield f"{_VERDICTS[found.decision]}{reason}"
    for by in found.by:
        yield f"  by {escape_to_line(by)}"
    yield f"  in {escape_to_line(found.cwd)}, mode {found.mode}" + (
        "" if found.trusted else ", not trusted: allow rules in the project's files have no effect"
    )
    part = None
    for step in found.considered:
        if step.part != part:
            part = step.part
            yield f"\n{escape_controls(part)}"
        if verbose or step.outcome != "does not apply":
            yield f"  {_considered(step)}"
    if found.changes:
        yield "\nThis would change it:"
    for change in found.changes:
        where = f" from {escape_to_line(change.where)}" if change.where else ""
        yield f"  {change.do} {escape_to_line(change.what)!r}{where}: {change.then}"


def _considered(step: "ConsideredRule") -> str:
    if step.kind == "mode":
        return f"mode {step.by}: {escape_to_line(step.outcome)}"
    where = f" ({escape_to_line(step.where)})" if step.where else ""
    return f"{escape_to_line(step.by)}{where}: {step.outcome}"


for _command in (list_, add, revoke, explain, test, suggest):
    permissions.add_command(_command)
