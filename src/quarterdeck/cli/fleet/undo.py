"""``turns``, ``changes``, ``undo``, ``redo`` and ``rewind``: what turns did to files, and back."""

import asyncio
from typing import TYPE_CHECKING, TypeVar

import click

from ..command_io import as_json_option, echo_json, echo_lines, resolve_directory
from ..output import echo, escape_controls
from ..remote.host_option import find_remote

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from quarterdeck.config.places import Places
    from quarterdeck.fleet.checkpoints.api import UndoResult
    from quarterdeck.fleet.checkpoints.stored_session import StoredSession
    from quarterdeck.fleet.client import HostClient

__all__ = ["changes", "redo", "rewind", "turns", "undo"]

T = TypeVar("T")
_ALL_LINES = 100_000

agent_argument = click.argument("agent", required=False)
force_option = click.option(
    "--force", is_flag=True, help="Overwrite what others changed since; redo brings it back."
)
files_option = click.option("--files-only", is_flag=True, help="Keep the conversation.")
conversation_option = click.option("--conversation-only", is_flag=True, help="Keep the files.")


@click.command()
@agent_argument
@as_json_option
def turns(agent: str | None, as_json: bool) -> None:
    """List the turns of AGENT and what became of them.

    AGENT is a name or a session; without one, the newest session in this directory.
    """
    from quarterdeck.fleet.checkpoints.result_text import describe_turn

    found = _carry_out(agent, lambda fleet, name: fleet.turns(name), lambda one: one.turns())
    if as_json:
        echo_json({"turns": found})
    elif not found:
        echo("No turns yet.")
    else:
        echo_lines(escape_controls(describe_turn(turn)) for turn in found)


@click.command()
@agent_argument
@click.option("--turn", metavar="N", help="Only this turn, by number or id.")
@click.option("--stat", is_flag=True, help="Only list the files.")
@as_json_option
def changes(agent: str | None, turn: str | None, stat: bool, as_json: bool) -> None:
    """Show what the turns of AGENT did to files, without undone turns.

    AGENT is a name or a session; without one, the newest session in this directory. Undone turns
    are included only if named.
    """
    lines = 0 if stat else _ALL_LINES
    found = _carry_out(
        agent,
        lambda fleet, name: fleet.turn_changes(name, turn=turn, lines=lines),
        lambda one: one.turn_changes(turn=turn, lines=lines),
    )
    if as_json:
        echo_json(found)
        return
    shown = found.summary if stat else found.diff
    echo_lines(escape_controls(line) for line in shown or ("No files were changed.",))
    if found.is_cut:
        echo("More lines are not shown; use --turn.", err=True)


@click.command()
@click.argument("agent")
@click.option("--turn", metavar="N", help="This turn alone, by number or id; default: the newest.")
@files_option
@conversation_option
@force_option
@as_json_option
def undo(
    agent: str,
    turn: str | None,
    files_only: bool,
    conversation_only: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Undo one turn of AGENT: what it did to files, and its messages.

    What others changed later in the same files stays. Files in which that cannot be separated are
    listed and not touched.
    """
    files, conversation = _choose(files_only, conversation_only)
    done = _carry_out(
        agent,
        lambda fleet, name: fleet.undo(
            name, turn=turn, files=files, conversation=conversation, force=force
        ),
        lambda one: one.undo(turn=turn, files=files, conversation=conversation, force=force),
        write=True,
    )
    _report(done, as_json)


@click.command()
@click.argument("agent")
@force_option
@as_json_option
def redo(agent: str, force: bool, as_json: bool) -> None:
    """Revert the last undo or rewind of AGENT, until it has run another turn."""
    done = _carry_out(
        agent,
        lambda fleet, name: fleet.redo(name, force=force),
        lambda one: one.redo(force=force),
        write=True,
    )
    _report(done, as_json)


@click.command()
@click.argument("agent")
@click.argument("turn")
@files_option
@conversation_option
@force_option
@as_json_option
def rewind(
    agent: str,
    turn: str,
    files_only: bool,
    conversation_only: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Take AGENT back to the start of TURN: undo it and all later turns."""
    files, conversation = _choose(files_only, conversation_only)
    done = _carry_out(
        agent,
        lambda fleet, name: fleet.rewind(
            name, turn, files=files, conversation=conversation, force=force
        ),
        lambda one: one.rewind(turn, files=files, conversation=conversation, force=force),
        write=True,
    )
    _report(done, as_json)


def _choose(files_only: bool, conversation_only: bool) -> tuple[bool, bool]:
    if files_only and conversation_only:
        raise click.UsageError("use one of --files-only and --conversation-only, or neither")
    return not conversation_only, not files_only


def _report(done: "UndoResult", as_json: bool) -> None:
    from quarterdeck.fleet.checkpoints.result_text import describe_result

    if as_json:
        echo_json(done)
    else:
        echo(escape_controls(describe_result(done)))


def _carry_out(
    agent: str | None,
    on_host: "Callable[[HostClient, str], Awaitable[T]]",
    on_log: "Callable[[StoredSession], Awaitable[T]]",
    *,
    write: bool = False,
) -> T:
    """Do it in the host that has the agent; if none has, on the log."""
    return asyncio.run(_run(agent, on_host, on_log, write))


async def _run(
    agent: str | None,
    on_host: "Callable[[HostClient, str], Awaitable[T]]",
    on_log: "Callable[[StoredSession], Awaitable[T]]",
    write: bool,
) -> T:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.checkpoints.stored_session import open_stored_session
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.errors import NoHostError, NoSuchAgentError

    if (remote := find_remote()) is not None:
        if agent is None:
            raise click.UsageError("with --host, name the agent; `quarterdeck ps` lists them")
        async with HostClient.connect_remote(remote, name="cli") as fleet:
            return await on_host(fleet, agent)
    places = Places.find()
    name = agent if agent is not None else await _find_newest(places)
    try:
        async with HostClient.connect(places, name="cli") as fleet:
            return await on_host(fleet, name)
    except (NoHostError, NoSuchAgentError):
        pass  # one that ran without a host has a log of its own
    async with open_stored_session(places, name, write=write) as stored:
        return await on_log(stored)


async def _find_newest(places: "Places") -> str:
    from quarterdeck.fleet.sessions.rewind import find_newest_session

    return await find_newest_session(places, await asyncio.to_thread(resolve_directory, None))
