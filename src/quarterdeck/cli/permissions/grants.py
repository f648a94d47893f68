"""Grants at the command line: listed with their use, added, and revoked one by one or in bulk."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quarterdeck.wire.clock import format_local_time, read_wall_clock
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.terminal_text import count_noun

from ..command_io import (
    DURATION,
    as_json_option,
    echo_json,
    echo_lines,
    resolve_directory,
    terminal_width,
    with_fleet,
)
from ..output import echo, escape_to_line, format_age, table
from .history import Since

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.permissions.grant_uses import GrantUse
    from quarterdeck.fleet.permissions.grants import GrantLimits
    from quarterdeck.policy.grants import Grant

__all__ = [
    "GrantListing",
    "NoSuchGrantError",
    "TooBroadRuleError",
    "add",
    "find_unused",
    "format_grants",
    "list_grants",
    "revoke",
]

_MOST_LISTED = 20


class TooBroadRuleError(QuarterdeckError):
    """A rule allows more than people mostly mean; the message says what."""


class NoSuchGrantError(QuarterdeckError):
    """No standing answer has this id, or several begin with it; the message lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantListing:
    """A grant as it is listed."""

    grant: "Grant"
    use: "GrantUse"
    name: str = ""
    """The name of the agent that it is for; empty: it has none, or is for no single one."""
    is_idle: bool = False
    """The agent that it is for, or that leads its tree, is not live."""


async def list_grants(places: "Places", grants: "Sequence[Grant]") -> list[GrantListing]:
    """Grants with their use and the names of agents."""
    from quarterdeck.fleet.permissions.grant_uses import load_grant_uses
    from quarterdeck.fleet.permissions.grants import find_agent_entry

    uses = await load_grant_uses(places, grants)
    subjects = {one.session or one.tree for one in grants} - {None}
    entries = {id_: await find_agent_entry(places, id_) for id_ in subjects if id_}
    found: list[GrantListing] = []
    for grant in grants:
        entry = entries.get(grant.session or grant.tree or "")
        is_idle = grant.tree is not None and (entry is None or not entry.is_started)
        name = entry.name if entry is not None else ""
        found.append(GrantListing(grant=grant, use=uses[grant.id], name=name, is_idle=is_idle))
    return found


def find_unused(grants: Sequence[GrantListing], since: int | None) -> list[GrantListing]:
    """Those that were never used, or not since a moment; one that is newer than that is left out,
    because it had no time to be used.
    """
    if since is None:
        return [one for one in grants if one.use.last is None]
    old = [one for one in grants if one.grant.created < since]
    return [one for one in old if one.use.last is None or one.use.last < since]


def format_grants(grants: Sequence[GrantListing]) -> Iterator[str]:
    """Grants as a table."""
    if not grants:
        yield "No grants."
        return
    has_reasons = any(one.grant.reason for one in grants)
    head = ("ID", "STANDING ANSWER", "FOR", "BY", "SINCE", "ENDS", "USED")
    rows = [_row(one) + ((one.grant.reason or "",) if has_reasons else ()) for one in grants]
    yield from table((*head, "REASON") if has_reasons else head, rows, terminal_width())


def _row(one: GrantListing) -> tuple[str, ...]:
    grant, now = one.grant, read_wall_clock()
    used = "never"
    if one.use.last is not None:
        times = f"{one.use.uses} times" if one.use.uses != 1 else "once"
        used = f"{times}, {format_age(one.use.last, now)} ago"
    return (
        grant.id,
        f"{grant.effect} {grant.pattern}",
        _reach(grant, one.name),
        grant.by,
        format_age(grant.created, now),
        _end(one, now),
        used,
    )


def _end(one: GrantListing, now: int) -> str:
    grant = one.grant
    ends: list[str] = []
    if grant.uses is not None:
        left = f"after {count_noun(grant.uses, 'call')}"
        ends.append(left if grant.uses > 0 else "is used up")
    if grant.expires is not None:
        is_left = grant.expires > now
        ends.append(f"in {format_age(now, grant.expires)}" if is_left else "has ended")
    if grant.tree is not None:
        ends.append("rests: its agent does not run" if one.is_idle else "with its agent")
    return ", ".join(ends)


def _reach(grant: "Grant", name: str = "") -> str:
    subject = grant.subject
    reach = {
        "agent": f"agent {name or grant.session}",
        "tree": f"tree of {name or grant.tree}",
        "project": f"project {grant.project}",
        "all": "all",
    }[subject]
    if subject in ("agent", "tree") and grant.project and grant.scope != "session":
        reach += f" in {grant.project}"
    return f"{reach}, {grant.agent} only" if grant.agent else reach


@click.command()
@click.argument("rule")
@click.option("--user", "everywhere", is_flag=True, help="In every project; as --for all.")
@click.option("--project", "here", is_flag=True, help="In this project only (default).")
@click.option("-C", "place", metavar="DIR", help="The project; default: the current directory's.")
@click.option(
    "--for",
    "subject",
    metavar="SUBJECT",
    help=(
        "agent:NAME, tree:NAME (an agent and all below it), project, all, or a kind of agent "
        "such as codex."
    ),
)
@click.option("--expires", type=DURATION, metavar="TIME", help="Ends after 30m, 8h, 7d…")
@click.option("--uses", type=int, metavar="N", help="Ends after N calls that it allowed.")
@click.option("--reason", metavar="TEXT", help="Why; shown by list.")
@click.option("--yes", is_flag=True, help="Add it even if it allows a lot.")
@as_json_option
def add(
    rule: str,
    everywhere: bool,
    here: bool,
    place: str | None,
    subject: str | None,
    expires: int | None,
    uses: int | None,
    reason: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Add a grant: a standing answer for matching calls, effective immediately.

    RULE is allow, ask or deny and a pattern: "allow bash(git log:*)", "deny read(.env)", "ask
    fetch(*.example.com)".
    """
    if everywhere and here:
        raise click.UsageError("--user and --project cannot be used together")
    if (subject or "").partition(":")[0] in ("agent", "tree", "all") and (here or place):
        raise click.UsageError(f"--for {subject} and a project cannot be used together")
    if (subject or "").partition(":")[0] in ("agent", "tree", "project") and everywhere:
        raise click.UsageError(f"--for {subject} and --user cannot be used together")
    made = asyncio.run(_add(rule, everywhere, place, subject, expires, uses, reason, yes))
    if as_json:
        echo_json(made)
        return
    echo(_described(made))


async def _add(
    text: str,
    everywhere: bool,
    place: str | None,
    subject: str | None,
    expires: int | None,
    uses: int | None,
    why: str | None,
    yes: bool,
) -> "Grant":
    import msgspec

    from quarterdeck.config.places import Places
    from quarterdeck.fleet.permissions.grants import add_lasting_grants
    from quarterdeck.policy.advice import explain_breadth
    from quarterdeck.policy.grammar import parse_rule

    rule = parse_rule(text)
    reason = await asyncio.to_thread(explain_breadth, rule)
    if reason is not None and not yes:
        raise TooBroadRuleError(f"{text!r} was not added: {reason}; use --yes to add it")
    places = Places.find()
    limits = await _find_subject(places, subject, None if everywhere else resolve_directory(place))
    limits = msgspec.structs.replace(limits, lasts=expires, uses=uses, reason=why)
    (grant,) = await add_lasting_grants(places, (rule,), limits, by="command line")
    return grant


async def _find_subject(
    places: "Places", subject: str | None, directory: str | None
) -> "GrantLimits":
    """Who is meant. Raises UnknownAgentError, NoSuchAgentError."""
    from quarterdeck.config.workspace import find_workspace
    from quarterdeck.drivers.catalogue import find_agent
    from quarterdeck.fleet.errors import NoSuchAgentError
    from quarterdeck.fleet.permissions.grants import GrantLimits, find_agent_entry

    kind, _, name = (subject or "project").partition(":")
    if kind in ("agent", "tree"):
        if not name:
            raise click.UsageError(f"--for {kind} needs a name; write it as {kind}:NAME")
        if (entry := await find_agent_entry(places, name)) is None:
            raise NoSuchAgentError(name)
        session = entry.session
        return GrantLimits(session=session) if kind == "agent" else GrantLimits(tree=session)
    project = None
    if directory is not None and subject != "all":
        found = await asyncio.to_thread(find_workspace, Path(directory))
        project = str(found.project)
    if subject in (None, "project", "all"):
        return GrantLimits(project=project)
    agent = await asyncio.to_thread(find_agent, subject, places)
    return GrantLimits(project=project, agent=agent.name)


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--session", metavar="ID", help="Grants of this session, which ran without a host.")
@click.option("--unused", is_flag=True, help="All that were not used; lists them without --yes.")
@click.option(
    "--since", type=Since(), metavar="TIME", help="With --unused: not used since then; 30d, 12h."
)
@click.option("--ended", is_flag=True, help="All that are used up or whose time is over.")
@click.option("--yes", is_flag=True, help="Revoke what --unused and --ended list.")
@as_json_option
def revoke(
    ids: tuple[str, ...],
    session: str | None,
    unused: bool,
    since: int | None,
    ended: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Revoke grants by id, or those that are not used any more; a prefix is enough.

    Running sessions ask again on their next call. If one id is wrong, none is revoked.
    """
    is_bulk = unused or ended
    if is_bulk == bool(ids):
        raise click.UsageError("name grants by id, or use --unused or --ended")
    if since is not None and not unused:
        raise click.UsageError("--since needs --unused")
    if session is not None and is_bulk:
        raise click.UsageError("--session needs ids")
    if is_bulk:
        found = asyncio.run(_find_bulk(unused, since, ended))
        if not yes or not found:
            _show_bulk(found, as_json)
            return
        ids = tuple(one.grant.id for one in found)
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


async def _find_bulk(unused: bool, since: int | None, ended: bool) -> list[GrantListing]:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.permissions.grants import load_all_grants

    places = Places.find()
    known = await list_grants(places, await load_all_grants(places))
    now = read_wall_clock()
    chosen = {one.grant.id for one in known if ended and one.grant.has_ended(now)}
    if unused:
        chosen |= {one.grant.id for one in find_unused(known, since)}
    # What denies or asks is no risk when it is not used.
    return [one for one in known if one.grant.id in chosen and one.grant.effect == "allow"]


def _show_bulk(found: Sequence[GrantListing], as_json: bool) -> None:
    if as_json:
        echo_json({"revoked": [], "found": [one.grant for one in found]})
        return
    echo_lines(format_grants(found))
    if found:
        echo("\nNothing was revoked; to revoke these grants use --yes.")


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
    limits = [_reach(grant)]
    if grant.uses is not None:
        limits.append(count_noun(grant.uses, "call"))
    if grant.expires is not None:
        limits.append(f"until {format_local_time(grant.expires)}")
    return escape_to_line(f"{grant.id}: {grant.effect} {grant.pattern} ({', '.join(limits)})")
