"""``ps``, ``sessions``, ``search``, and ``sessions turns``, ``diff`` and ``restore``."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.ids import SessionId

from ..command_io import (
    as_json_option,
    echo_json,
    echo_lines,
    resolve_directory,
    terminal_width,
    with_fleet,
)
from ..lazy_group import LazyCommand, LazyGroup
from ..output import count, escape_controls, escape_to_line, format_age, table
from ..remote.host_option import find_remote, refuse_remote

if TYPE_CHECKING:
    from pathlib import Path

    from quarterdeck.agent.checkpoints.file_state import Manifest
    from quarterdeck.agent.checkpoints.turn_history import TurnState
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.journal import SearchHit, SessionSummary
    from quarterdeck.wire.events import Redone, Rewound
    from quarterdeck.wire.usage import Cost

__all__ = [
    "agent_table",
    "diff",
    "pin",
    "ps",
    "restore",
    "search",
    "sessions",
    "turns",
    "unpin",
]

session_argument = click.argument("session", required=False)


@click.command()
@session_argument
@as_json_option
def turns(session: str | None, as_json: bool) -> None:
    """List the turns of a session and their outcomes.

    SESSION is an id or an agent's name; without one, the newest in this directory.
    """
    from quarterdeck.agent.checkpoints.commands import turn_line

    found = asyncio.run(_turns(session))
    if as_json:
        echo_json({"turns": found})
        return
    echo_lines(escape_controls(turn_line(turn)) for turn in found)


@click.command()
@session_argument
@click.option("--turn", metavar="N", help="Only this turn, by number or id.")
@click.option("--stat", is_flag=True, help="Only list the files.")
def diff(session: str | None, turn: str | None, stat: bool) -> None:
    """Show the file changes of a session's turns.

    SESSION is an id or an agent's name; without one, the newest in this directory. Undone turns are
    included only if named.
    """
    for line in asyncio.run(_diff(session, turn, stat)):
        click.echo(escape_controls(line))


@click.command()
@click.argument("session")
@click.option("--turn", metavar="N", help="Go back to the start of this turn; number or id.")
@click.option("--files", "only", flag_value="files", help="Only the files.")
@click.option("--conversation", "only", flag_value="conversation", help="Only the conversation.")
@click.option("--redo", is_flag=True, help="Redo the last restore.")
@click.option("--force", is_flag=True, help="Overwrite files changed since then.")
@as_json_option
def restore(
    session: str, turn: str | None, only: str | None, redo: bool, force: bool, as_json: bool
) -> None:
    """Undo turns of a session: its files and its conversation.

    Refuses if a file changed since. `quarterdeck undo` and `rewind` keep such changes, and work
    for agents of the host too.
    """
    from quarterdeck.agent.checkpoints.commands import describe_move

    if redo == (turn is not None):
        raise click.UsageError("choose a turn with --turn N, or use --redo")
    done, state = asyncio.run(_restore(session, turn, only, force))
    if as_json:
        echo_json(done)
        return
    click.echo(escape_controls(describe_move(done, state)))


@click.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
def pin(sessions: tuple[str, ...]) -> None:
    """Keep sessions: the settings host.session_days and host.session_size never delete them.

    SESSION is an id or an agent's name.
    """
    from quarterdeck.fleet.sessions.pins import pin_session

    for id_ in with_fleet(lambda fleet: _find_ids(fleet, sessions)):
        if not pin_session(_state(), id_):
            click.echo(f"{id_} is already pinned")


@click.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
def unpin(sessions: tuple[str, ...]) -> None:
    """Undo pin."""
    from quarterdeck.fleet.sessions.pins import unpin_session

    for id_ in with_fleet(lambda fleet: _find_ids(fleet, sessions)):
        if not unpin_session(_state(), id_):
            click.echo(f"{id_} is not pinned")


async def _find_ids(fleet: "HostClient", sessions: Sequence[str]) -> list[SessionId]:
    return [(await fleet.agent(session)).session for session in sessions]


def _state() -> "Path":
    from quarterdeck.config.places import Places

    return Places.find().state


async def _turns(session: str | None) -> "tuple[TurnState, ...]":
    from quarterdeck.fleet.sessions.rewind import open_rewind

    places, id_ = await _meant(session)
    async with open_rewind(places, id_) as way:
        return (await way.history.ledger()).turns


async def _diff(session: str | None, turn: str | None, stat: bool) -> list[str]:
    from quarterdeck.agent.checkpoints.commands import diff_lines, summary_lines
    from quarterdeck.fleet.sessions.rewind import open_rewind

    places, id_ = await _meant(session)
    async with open_rewind(places, id_) as way:
        manifest: Manifest = await way.history.changes(turn)
        if stat:
            return list(summary_lines(manifest))
        return await asyncio.to_thread(lambda: list(diff_lines(manifest, way.blobs)))


async def _restore(
    session: str, turn: str | None, only: str | None, force: bool
) -> "tuple[Rewound | Redone, TurnState]":
    from quarterdeck.fleet.sessions.rewind import open_rewind

    places, id_ = await _meant(session)
    async with open_rewind(places, id_, write=True) as way:
        done: Rewound | Redone
        if turn is None:
            done = await way.history.redo(force=force)
        else:
            done = await way.history.rewind(
                turn, files=only != "conversation", conversation=only != "files", force=force
            )
        states = (await way.history.ledger()).turns
    return done, next(state for state in states if state.id == done.to)


async def _meant(session: str | None) -> "tuple[Places, str]":
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.sessions.rewind import find_newest_session

    refuse_remote("sessions turns, diff and restore")
    places = Places.find()
    if session is not None:
        return places, session
    here = await asyncio.to_thread(resolve_directory, None)
    return places, await find_newest_session(places, here)


_HEAD = ("NAME", "AGENT", "STATE", "WAITING FOR", "AGE", "TOKENS", "COST", "TITLE")
_SESSION_HEAD = ("SESSION", "NAME", "AGENT", "STATE", "CHANGED", "TITLE")
_DEEPEST = 10
"""Sub-agents of sub-agents that are listed."""


@click.command()
@click.option("-a", "--all", "archived", is_flag=True, help="Also archived ones.")
@as_json_option
def ps(archived: bool, as_json: bool) -> None:
    """List the agents; those that need you come first."""
    agents = with_fleet(lambda fleet: fleet.agents(archived=archived))
    if as_json:
        echo_json({"agents": agents})
        return
    if not agents:
        click.echo('No agents. Start one: quarterdeck spawn "…"')
        return
    echo_lines(agent_table(agents, terminal_width(), read_wall_clock()))
    damage = _damage()
    for agent in agents:
        if agent.session in damage:
            click.echo(
                f"{escape_controls(agent.name)}: {damage[agent.session]}; quarterdeck journal check"
            )
    if needed := sum(agent.needs_person for agent in agents):
        click.echo(f"{needed} need{'s' * (needed == 1)} you: quarterdeck inbox")


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    later={
        "pin": LazyCommand(
            "quarterdeck.cli.fleet.sessions:pin", "Keep sessions that would be deleted by age."
        ),
        "unpin": LazyCommand("quarterdeck.cli.fleet.sessions:unpin", "Undo pin."),
        "turns": LazyCommand(
            "quarterdeck.cli.fleet.sessions:turns", "List the turns of a session.", hidden=True
        ),
        "diff": LazyCommand(
            "quarterdeck.cli.fleet.sessions:diff", "Show the file changes of turns.", hidden=True
        ),
        "restore": LazyCommand(
            "quarterdeck.cli.fleet.sessions:restore", "Undo turns.", hidden=True
        ),
    },
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Maximum number of sessions.",
)
@as_json_option
@click.pass_context
def sessions(context: click.Context, limit: int, as_json: bool) -> None:
    """List every session: of agents, archived ones, and those of `run` and of editors.

    All of them can be resumed, forked, attached to and sent prompts by their id. Sub-agents are
    listed below the session that started them.
    """
    if context.invoked_subcommand is not None:
        return
    from quarterdeck.fleet.sessions.pins import load_pins

    agents, alone, below = with_fleet(lambda fleet: _sessions(fleet, limit))
    pinned = load_pins(_state())
    if as_json:
        children = [child for some in below.values() for child in some]
        echo_json(
            {
                "agents": agents,
                "standalone": alone,
                "sub_agents": children,
                "pinned": sorted(pinned),
            }
        )
        return
    damage = _damage()
    rows = [(agent.updated, _agent_session(agent, damage)) for agent in agents]
    rows += [(summary.updated, _alone(summary)) for summary in alone]
    rows = [(updated, _marked(row, pinned)) for updated, row in rows]
    rows.sort(key=lambda row: row[0], reverse=True)
    lines = [line for _, row in rows[:limit] for line in (row, *_below(row[0], below, 1))]
    echo_lines(table(_SESSION_HEAD, lines, terminal_width()))


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Maximum number of hits.",
)
@as_json_option
def search(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Search the messages of agents and people for WORDS, newest first.

    Sessions of `run` and of editors are searched too.
    All words must match; "several words" is a phrase, begin* a prefix.
    """
    hits, names = with_fleet(lambda fleet: _search(fleet, " ".join(words), limit))
    if as_json:
        echo_json({"hits": hits})
        return
    for hit in hits:
        name = names.get(hit.session, hit.session)
        click.echo(f"{escape_controls(name)} {hit.seq} {hit.type}: {escape_to_line(hit.snippet)}")


def agent_table(agents: "Sequence[AgentInfo]", width: int | None, now: int) -> Iterator[str]:
    """Agents as lines; ``now`` in microseconds."""
    return table(_HEAD, [_row(agent, now) for agent in agents], width)


def _row(agent: "AgentInfo", now: int) -> tuple[str, ...]:
    return (
        agent.name,
        agent.agent,
        "archived" if agent.is_archived else agent.state_word,
        agent.waits_for or "-",
        format_age(agent.spawned, now),
        count(agent.usage.total),
        _cost(agent.cost),
        agent.lost or agent.reason or agent.title or "",
    )


def _cost(cost: "Cost | None") -> str:
    if cost is None:
        return "-"
    return f"{cost.amount:.2f} {'$' if cost.currency == 'USD' else cost.currency}"


async def _sessions(
    fleet: "HostClient", limit: int
) -> "tuple[list[AgentInfo], list[SessionSummary], Mapping[SessionId, list[SessionSummary]]]":
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.sessions.sub_agents import load_sub_agents

    alone = await fleet.standalone_sessions(limit=limit)
    agents = await fleet.agents(archived=True)
    if find_remote() is not None:  # logs of sub-agents are there
        return agents, alone, {}
    return agents, alone, await load_sub_agents(Places.find(), [one.id for one in alone])


def _agent_session(agent: "AgentInfo", damage: "Mapping[SessionId, str]") -> tuple[str, ...]:
    state = "archived" if agent.is_archived else agent.state_word
    title = _titled(agent.title, damage.get(agent.session))
    return (
        agent.session,
        agent.name,
        agent.agent,
        state,
        format_age(agent.updated, read_wall_clock()),
        title,
    )


def _alone(summary: "SessionSummary") -> tuple[str, ...]:
    state = summary.ended or "open"
    changed = format_age(summary.updated, read_wall_clock())
    return (summary.id, "-", summary.agent, state, changed, _titled(summary.title, summary.damage))


def _marked(row: tuple[str, ...], pinned: Collection[str]) -> tuple[str, ...]:
    return (*row[:-1], _titled(row[-1], "pinned")) if row[0] in pinned else row


def _titled(title: str | None, damage: str | None) -> str:
    return " · ".join(part for part in (damage, title) if part)


def _damage() -> "Mapping[SessionId, str]":
    """What is known to be wrong with sessions of the host's log."""
    from quarterdeck.config.places import Places
    from quarterdeck.journal.damage import read_damage

    if find_remote() is not None:  # its log is there
        return {}
    return read_damage(Places.find().journal_file)


def _below(
    parent: str, children: "Mapping[SessionId, list[SessionSummary]]", depth: int
) -> Iterator[tuple[str, ...]]:
    """The rows of a session's sub-agents, and of theirs."""
    for child in children.get(SessionId(parent), ()) if depth <= _DEEPEST else ():
        id_, name, *rest = _alone(child)
        yield ("└" * depth + f" {id_}", name, *rest)
        yield from _below(id_, children, depth + 1)


async def _search(
    fleet: "HostClient", words: str, limit: int
) -> "tuple[list[SearchHit], dict[str, str]]":
    hits = await fleet.search(words, limit=limit)
    return hits, {agent.session: agent.name for agent in await fleet.agents(archived=True)}
