"""What a process that was killed left of a session: a turn that runs, files half restored."""

import asyncio
from collections.abc import Awaitable, Callable

from quarterdeck.agent.checkpoints.snapshot import TurnSnapshots
from quarterdeck.agent.checkpoints.turn_history import TurnHistory
from quarterdeck.config.schema import CheckpointSettings
from quarterdeck.wire.events import Event
from quarterdeck.wire.ids import SessionId, TurnId

from .turn_snapshots import LOST_HOST, FleetSnapshots, SessionFiles

__all__ = ["finish_left_over"]


async def finish_left_over(
    snapshots: FleetSnapshots,
    history: TurnHistory,
    kept: TurnSnapshots,
    session: SessionId,
    *,
    settings: CheckpointSettings,
    write: Callable[[Event, TurnId], Awaitable[None]],
) -> None:
    """Finish it, so that the turn can be undone; the session must not be live.

    ``write`` appends an event of a turn to the log. Raises OSError.
    """
    await history.finish()
    own = await asyncio.to_thread(_read_own, kept)
    watched = await snapshots.recover(session, kept.directory, kept.root, settings)
    left = ((own, kept), (watched, SessionFiles(kept.directory, kept.root)))
    for found, files in left:
        if found is None:
            continue
        turn, events = found
        known = {one.id: one.checkpoint for one in (await history.ledger()).turns}
        if turn in known and known[turn] is None:
            for event in events:
                await write(event, turn)
        await asyncio.to_thread(files.forget)


def _read_own(kept: TurnSnapshots) -> tuple[TurnId, tuple[Event, ...]] | None:
    """What our own agent notes of a turn itself, where no fleet watches it."""
    pending = kept.left_over()
    if pending is None:
        return None
    pending.problems.append(LOST_HOST)
    return pending.turn, kept.finish(pending)
