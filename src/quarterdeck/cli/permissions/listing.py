"""``permissions list``."""

import asyncio
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..fleet.connecting import as_json_option, directory, echo_json, echo_lines, terminal_width
from ..fleet.text import one_line, since, table

if TYPE_CHECKING:
    from quarterdeck.fleet.standing import Standing, StandingRule
    from quarterdeck.policy.grants import Grant

__all__ = ["list_"]


@click.command("list")
@click.option(
    "--project", "-C", "place", metavar="DIR", help="Whose rules; the current directory's."
)
@click.option("--agent", metavar="NAME", help="Only what holds for this agent.")
@click.option("--session", metavar="ID", help="Also those of this session, run without a host.")
@click.option("--all", "everywhere", is_flag=True, help="Also standing answers of other projects.")
@as_json_option
def list_(
    place: str | None, agent: str | None, session: str | None, everywhere: bool, as_json: bool
) -> None:
    """List rules and standing answers, and where each comes from.

    Deny beats ask, ask beats allow.
    """
    found = asyncio.run(_look(place, agent, session, everywhere))
    if as_json:
        echo_json(found)
        return
    echo_lines(_shown(found))


async def _look(
    place: str | None, agent: str | None, session: str | None, everywhere: bool
) -> "Standing":
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.granted import grants_on_disk
    from quarterdeck.fleet.standing import stands_in

    from .whose import whose

    places = Places.find()
    who = await whose(places, agent)
    grants = await grants_on_disk(places)
    if session is not None:
        from quarterdeck.fleet.keeping import own_grants

        grants += await own_grants(places, session)
    return await stands_in(
        places,
        dict(os.environ),
        directory(place) if place or who.cwd is None else who.cwd,
        grants,
        everywhere=everywhere,
        agent=who.agent,
        session=who.session,
    )


def _shown(found: "Standing") -> Iterator[str]:
    trust = "trusted" if found.trusted else "not trusted"
    yield f"{one_line(found.project)} ({trust}), mode {found.mode}"
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
        yield "No standing answers."


def _source(rule: "StandingRule") -> str:
    place = rule.place or rule.layer
    return f"{place}:{rule.line}" if rule.line else f"{place} {rule.key}"


def _row(grant: "Grant") -> tuple[str, ...]:
    now = time.time_ns() // 1000
    ends: list[str] = []
    if grant.uses is not None:
        ends.append(f"after {grant.uses} calls")
    if grant.expires is not None:
        left = f"in {since(now, grant.expires)}" if grant.expires > now else "has ended"
        ends.append(left)
    return (
        grant.id,
        f"{grant.effect} {grant.pattern}",
        _reach(grant),
        grant.by,
        since(grant.created, now),
        ", ".join(ends),
    )


def _reach(grant: "Grant") -> str:
    place = {"session": grant.session, "project": grant.project}.get(grant.scope)
    reach = f"{grant.scope} {place}" if place else grant.scope
    return f"{reach}, {grant.agent} only" if grant.agent else reach
