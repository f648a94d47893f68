"""``quarterdeck permissions``: rules and grants, and what they decide."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.settings import PermissionMode

from .command_io import (
    DURATION,
    as_json_option,
    echo_json,
    echo_lines,
    resolve_directory,
    terminal_width,
    with_fleet,
)
from .output import echo, escape_controls, escape_to_line, format_age, table
from .permission_history import suggest, test

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.permissions.explanation import (
        CallExplanation,
        ConsideredRule,
        EffectivePermissions,
        EffectiveRule,
    )
    from quarterdeck.policy.grants import Grant
    from quarterdeck.wire.ids import SessionId

__all__ = [
    "NoSuchGrantError",
    "PermissionSubject",
    "TooBroadRuleError",
    "add",
    "explain",
    "find_permission_subject",
    "list_",
    "permissions",
    "revoke",
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
    from quarterdeck.fleet.permissions.grants import find_agent_entry

    member = await find_agent_entry(places, name)
    if member is not None:
        options = member.spawn.options
        return PermissionSubject(
            agent=options.agent,
            session=member.session,
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
@as_json_option
def list_(
    place: str | None, agent: str | None, session: str | None, everywhere: bool, as_json: bool
) -> None:
    """List rules and grants, and where each comes from.

    Deny beats ask, ask beats allow.
    """
    found = asyncio.run(_look(place, agent, session, everywhere))
    if as_json:
        echo_json(found)
        return
    echo_lines(_format_rules(found))


async def _look(
    place: str | None, agent: str | None, session: str | None, everywhere: bool
) -> "EffectivePermissions":
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.permissions.explanation import find_effective_permissions
    from quarterdeck.fleet.permissions.grants import load_all_grants

    places = Places.find()
    who = await find_permission_subject(places, agent)
    grants = await load_all_grants(places)
    if session is not None:
        from quarterdeck.fleet.sessions.retention import load_standalone_grants

        grants += await load_standalone_grants(places, session)
    return await find_effective_permissions(
        places,
        dict(os.environ),
        resolve_directory(place) if place or who.cwd is None else who.cwd,
        grants,
        everywhere=everywhere,
        agent=who.agent,
        session=who.session,
    )


def _format_rules(found: "EffectivePermissions") -> Iterator[str]:
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
    if found.grants:
        head = ("ID", "STANDING ANSWER", "FOR", "BY", "SINCE", "ENDS")
        yield from table(head, [_row(grant) for grant in found.grants], terminal_width())
    else:
        yield "No grants."


def _source(rule: "EffectiveRule") -> str:
    place = rule.place or rule.layer
    return f"{place}:{rule.line}" if rule.line else f"{place} {rule.key}"


def _row(grant: "Grant") -> tuple[str, ...]:
    now = read_wall_clock()
    ends: list[str] = []
    if grant.uses is not None:
        ends.append(f"after {grant.uses} calls")
    if grant.expires is not None:
        left = f"in {format_age(now, grant.expires)}" if grant.expires > now else "has ended"
        ends.append(left)
    return (
        grant.id,
        f"{grant.effect} {grant.pattern}",
        _reach(grant),
        grant.by,
        format_age(grant.created, now),
        ", ".join(ends),
    )


def _reach(grant: "Grant") -> str:
    place = {"session": grant.session, "project": grant.project}.get(grant.scope)
    reach = f"{grant.scope} {place}" if place else grant.scope
    return f"{reach}, {grant.agent} only" if grant.agent else reach


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


_MOST_LISTED = 20


class TooBroadRuleError(QuarterdeckError):
    """A rule allows more than people mostly mean; the message says what."""


class NoSuchGrantError(QuarterdeckError):
    """No standing answer has this id, or several begin with it; the message lists them."""


@click.command()
@click.argument("rule")
@click.option("--user", "everywhere", is_flag=True, help="In every project.")
@click.option("--project", "here", is_flag=True, help="In this project only (default).")
@click.option("-C", "place", metavar="DIR", help="The project; default: the current directory's.")
@click.option("--for", "agent", metavar="AGENT", help="Only for this agent, such as codex.")
@click.option("--expires", type=DURATION, metavar="TIME", help="Ends after 30m, 8h, 7d…")
@click.option("--yes", is_flag=True, help="Add it even if it allows a lot.")
@as_json_option
def add(
    rule: str,
    everywhere: bool,
    here: bool,
    place: str | None,
    agent: str | None,
    expires: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Add a grant: a standing answer for matching calls, effective immediately.

    RULE is allow, ask or deny and a pattern: "allow bash(git log:*)", "deny read(.env)", "ask
    fetch(*.example.com)".
    """
    if everywhere and here:
        raise click.UsageError("--user and --project cannot be used together")
    made = asyncio.run(_add(rule, everywhere, place, agent, expires, yes))
    if as_json:
        echo_json(made)
        return
    reach = f"in {escape_to_line(made.project)}" if made.project else "in every project"
    whom = f" for {escape_to_line(made.agent)}" if made.agent else ""
    echo(f"{made.id}: {escape_to_line(made.effect)} {escape_to_line(made.pattern)} {reach}{whom}")


async def _add(
    text: str,
    everywhere: bool,
    place: str | None,
    agent: str | None,
    expires: int | None,
    yes: bool,
) -> "Grant":
    from quarterdeck.config.places import Places
    from quarterdeck.config.workspace import find_workspace
    from quarterdeck.drivers.catalogue import find_agent
    from quarterdeck.fleet.permissions.grants import add_lasting_grants
    from quarterdeck.policy.advice import explain_breadth
    from quarterdeck.policy.grammar import parse_rule

    rule = parse_rule(text)
    reason = await asyncio.to_thread(explain_breadth, rule)
    if reason is not None and not yes:
        raise TooBroadRuleError(f"{text!r} was not added: {reason}; use --yes to add it")
    places = Places.find()
    root = await asyncio.to_thread(lambda: find_workspace(Path(resolve_directory(place))).project)
    kind = (await asyncio.to_thread(find_agent, agent, places)).name if agent else None
    (grant,) = await add_lasting_grants(
        places,
        (rule,),
        project=None if everywhere else str(root),
        agent=kind,
        lasts=expires,
        by="command line",
    )
    return grant


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--session", metavar="ID", help="Grants of this session, which ran without a host.")
@as_json_option
def revoke(ids: tuple[str, ...], session: str | None, as_json: bool) -> None:
    """Revoke grants by id; a prefix is enough.

    Running sessions ask again on their next call. If one id is wrong, none is revoked.
    """
    if session is not None:
        gone = asyncio.run(_revoke_own(session, ids))
    else:
        lasting, for_sessions = asyncio.run(_revoke(ids))
        if for_sessions:
            _revoke_in_host([grant.id for grant in for_sessions])
        gone = [*lasting, *for_sessions]
    if as_json:
        echo_json({"revoked": gone})
        return
    for grant in gone:
        echo(f"revoked {_described(grant)}")


async def _revoke(ids: Sequence[str]) -> "tuple[list[Grant], list[Grant]]":
    """Take back the lasting ones; returns them, and those that only a host can take back."""
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.permissions.grants import load_all_grants
    from quarterdeck.fleet.permissions.session_gate import open_grants

    places = Places.find()
    known = await load_all_grants(places)
    meant = _meant(ids, known)
    lasting = [grant for grant in meant if grant.scope != "session"]
    book = await open_grants(places)
    for grant in lasting:
        await book.revoke(grant.id)
    return lasting, [grant for grant in meant if grant.scope == "session"]


async def _revoke_own(session: str, ids: Sequence[str]) -> "list[Grant]":
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.sessions.retention import (
        load_standalone_grants,
        revoke_standalone_grants,
    )
    from quarterdeck.wire.permissions import Decider

    places = Places.find()
    meant = _meant(ids, await load_standalone_grants(places, session))
    by = Decider(kind="person", name="cli")
    await revoke_standalone_grants(places, session, [grant.id for grant in meant], by)
    return meant


def _revoke_in_host(ids: Sequence[str]) -> None:
    async def revoke_each(fleet: "HostClient") -> None:
        for id_ in ids:
            await fleet.revoke(id_, by="cli")

    with_fleet(revoke_each)


def _meant(ids: Sequence[str], known: "Sequence[Grant]") -> "list[Grant]":
    return list({grant.id: grant for grant in (_find(id_, known) for id_ in ids)}.values())


def _find(beginning: str, known: "Sequence[Grant]") -> "Grant":
    found = [grant for grant in known if grant.id.startswith(beginning)]
    exact = [grant for grant in found if grant.id == beginning]
    if len(exact or found) == 1:
        return (exact or found)[0]
    problem = "several begin with" if found else "there is no grant"
    listed = [f"  {_described(grant)}" for grant in (found or known)[:_MOST_LISTED]]
    rest = "; there are:\n" + "\n".join(listed) if listed else "; there are none"
    raise NoSuchGrantError(f"{problem} {beginning!r}{rest}")


def _described(grant: "Grant") -> str:
    where = f" in {escape_to_line(grant.project)}" if grant.project else ""
    what = f"{grant.effect} {escape_to_line(grant.pattern)}"
    return f"{escape_to_line(grant.id)}: {what} ({grant.scope}{where})"


for _command in (list_, add, revoke, explain, test, suggest):
    permissions.add_command(_command)
