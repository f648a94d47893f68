"""``sessions turns``, ``sessions diff`` and ``sessions restore``: see and take back turns."""

import asyncio
from typing import TYPE_CHECKING

import click

from .connecting import as_json_option, directory, echo_json, echo_lines
from .text import literal

if TYPE_CHECKING:
    from quarterdeck.agent.checkpoints.entries import Manifest
    from quarterdeck.agent.checkpoints.ledger import TurnState
    from quarterdeck.config.places import Places
    from quarterdeck.wire.events import Redone, Rewound

__all__ = ["diff", "restore", "turns"]

session_argument = click.argument("session", required=False)


@click.command()
@session_argument
@as_json_option
def turns(session: str | None, as_json: bool) -> None:
    """List the turns of a session, and what became of them.

    SESSION is an id or an agent's name; without one, the newest that worked here.
    """
    from quarterdeck.agent.checkpoints.commands import turn_line

    found = asyncio.run(_turns(session))
    if as_json:
        echo_json({"turns": found})
        return
    echo_lines(literal(turn_line(turn)) for turn in found)


@click.command()
@session_argument
@click.option("--turn", metavar="N", help="Only this turn; by its number or id.")
@click.option("--stat", is_flag=True, help="Only which files.")
def diff(session: str | None, turn: str | None, stat: bool) -> None:
    """Show what the turns of a session did to files.

    SESSION is an id or an agent's name; without one, the newest that worked here. Turns that
    were undone count only if they are named.
    """
    for line in asyncio.run(_diff(session, turn, stat)):
        click.echo(literal(line))


@click.command()
@click.argument("session")
@click.option("--turn", metavar="N", help="Go back to where this turn began; number or id.")
@click.option("--files", "only", flag_value="files", help="Only the files.")
@click.option("--conversation", "only", flag_value="conversation", help="Only what was said.")
@click.option("--redo", is_flag=True, help="Take the last going back back.")
@click.option("--force", is_flag=True, help="Overwrite files that somebody changed since.")
@as_json_option
def restore(
    session: str, turn: str | None, only: str | None, redo: bool, force: bool, as_json: bool
) -> None:
    """Take turns of a session back: its files, and what the model is told.

    A session that another process runs is taken back there, by /undo or /rewind.
    """
    from quarterdeck.agent.checkpoints.commands import told

    if redo == (turn is not None):
        raise click.UsageError("say where to go: --turn N, or --redo")
    done, state = asyncio.run(_restore(session, turn, only, force))
    if as_json:
        echo_json(done)
        return
    click.echo(literal(told(done, state)))


async def _turns(session: str | None) -> "tuple[TurnState, ...]":
    from quarterdeck.fleet.going_back import way_back

    places, id_ = await _meant(session)
    async with way_back(places, id_) as way:
        return (await way.history.ledger()).turns


async def _diff(session: str | None, turn: str | None, stat: bool) -> list[str]:
    from quarterdeck.agent.checkpoints.showing import diff_lines, summary_lines
    from quarterdeck.fleet.going_back import way_back

    places, id_ = await _meant(session)
    async with way_back(places, id_) as way:
        manifest: Manifest = await way.history.changes(turn)
        if stat:
            return list(summary_lines(manifest))
        return await asyncio.to_thread(lambda: list(diff_lines(manifest, way.blobs)))


async def _restore(
    session: str, turn: str | None, only: str | None, force: bool
) -> "tuple[Rewound | Redone, TurnState]":
    from quarterdeck.fleet.going_back import way_back

    places, id_ = await _meant(session)
    async with way_back(places, id_, write=True) as way:
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
    from quarterdeck.fleet.going_back import newest_session

    places = Places.find()
    if session is not None:
        return places, session
    here = await asyncio.to_thread(directory, None)
    return places, await newest_session(places, here)
