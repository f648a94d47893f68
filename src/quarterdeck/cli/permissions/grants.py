"""``permissions add`` and ``permissions revoke``."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import new_grant_id

from ..command_io import DURATION, as_json_option, echo_json, resolve_directory, with_fleet
from ..output import echo
from ..text_table import escape_to_line

if TYPE_CHECKING:
    from quarterdeck.policy.grants import Grant

__all__ = ["NoSuchGrantError", "TooBroadRuleError", "add", "revoke"]

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
    from quarterdeck.fleet.permissions.session_gate import open_grants
    from quarterdeck.policy.breadth import explain_breadth
    from quarterdeck.policy.grammar import parse_rule, print_pattern
    from quarterdeck.policy.grants import Grant

    rule = parse_rule(text)
    reason = await asyncio.to_thread(explain_breadth, rule)
    if reason is not None and not yes:
        raise TooBroadRuleError(f"{text!r} was not added: {reason}; use --yes to add it")
    places = Places.find()
    root = await asyncio.to_thread(lambda: find_workspace(Path(resolve_directory(place))).root)
    kind = (await asyncio.to_thread(find_agent, agent, places)).name if agent else None
    now = read_wall_clock()
    grant = Grant(
        id=new_grant_id(),
        pattern=print_pattern(rule.pattern),
        effect=rule.effect,
        scope="user" if everywhere else "project",
        project=None if everywhere else str(root),
        agent=kind,
        created=now,
        by="command line",
        expires=None if expires is None else now + expires,
    )
    await (await open_grants(places)).add([grant])
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
    told = "several begin with" if found else "there is no grant"
    listed = [f"  {_described(grant)}" for grant in (found or known)[:_MOST_LISTED]]
    rest = "; there are:\n" + "\n".join(listed) if listed else "; there are none"
    raise NoSuchGrantError(f"{told} {beginning!r}{rest}")


def _described(grant: "Grant") -> str:
    where = f" in {escape_to_line(grant.project)}" if grant.project else ""
    what = f"{grant.effect} {escape_to_line(grant.pattern)}"
    return f"{escape_to_line(grant.id)}: {what} ({grant.scope}{where})"


if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient
