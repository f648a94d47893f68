"""The commands ``/undo``, ``/redo``, ``/rewind`` and ``/changes``, for agents of every vendor."""

from typing import TYPE_CHECKING

from quarterdeck.agent.checkpoints.commands import read_move_words
from quarterdeck.agent.checkpoints.errors import NothingToUndoError
from quarterdeck.fleet.checkpoints.result_text import describe_result, describe_turn
from quarterdeck.fleet.errors import AgentNotReadyError

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.checkpoints.api import UndoResult

    from ..app import Workbench
    from ..screens.dialogs import ReadingSection

__all__ = ["redo_agent", "rewind_agent", "show_changes", "undo_agent"]


async def undo_agent(app: "Workbench", words: str) -> None:
    """Undo the newest turn, or the one that is named. Raises QuarterdeckError."""
    agent, move = _agent_of(app), read_move_words(words)
    done = await app.context.fleet.undo(
        agent.session,
        turn=move.turn,
        files=move.files,
        conversation=move.conversation,
        force=move.force,
    )
    _tell(app, done)


async def redo_agent(app: "Workbench", words: str) -> None:
    """Revert the last undo or rewind. Raises QuarterdeckError."""
    agent, move = _agent_of(app), read_move_words(words)
    if move.turn is not None:
        raise NothingToUndoError(f"{move.turn!r} is not valid here; redo reverts the last undo")
    _tell(app, await app.context.fleet.redo(agent.session, force=move.force))


async def rewind_agent(app: "Workbench", words: str) -> None:
    """Go back to the start of a turn, or list the turns. Raises QuarterdeckError."""
    agent, move = _agent_of(app), read_move_words(words)
    fleet = app.context.fleet
    if move.turn is None:
        turns = await fleet.turns(agent.session)
        rows = [("", describe_turn(turn)) for turn in turns] or [("", "no turn has run yet")]
        _show(app, f"turns of {agent.name}", [("/rewind N goes back to the start of turn N", rows)])
        return
    done = await fleet.rewind(
        agent.session,
        move.turn,
        files=move.files,
        conversation=move.conversation,
        force=move.force,
    )
    _tell(app, done)


async def show_changes(app: "Workbench", words: str) -> None:
    """Show what turns did to files. Raises QuarterdeckError."""
    agent, move = _agent_of(app), read_move_words(words)
    found = await app.context.fleet.turn_changes(agent.session, turn=move.turn)
    lines = list(found.diff)
    if found.is_cut:
        lines.append("… more lines are not shown")
    parts: list[ReadingSection] = [
        ("files", [("", line) for line in found.summary or ("no files were changed",)])
    ]
    if lines:
        parts.append(("changes", [("", line) for line in lines]))
    _show(app, f"changes of {agent.name}", parts)


def _agent_of(app: "Workbench") -> "AgentInfo":
    agent = app.context.agent
    if agent is None:
        raise AgentNotReadyError("no agents yet; press ctrl+t to start one")
    return agent


def _tell(app: "Workbench", done: "UndoResult") -> None:
    app.show_message(describe_result(done))
    app.feed.refresh()


def _show(app: "Workbench", title: str, parts: "list[ReadingSection]") -> None:
    from ..screens.dialogs import ReadingScreen

    app.push_screen(ReadingScreen(title, parts))
