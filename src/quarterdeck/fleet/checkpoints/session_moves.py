"""Undo, rewind and redo of one session, whether it is live or only in a log."""

import asyncio
from typing import Protocol

from quarterdeck.agent.checkpoints.commands import diff_lines, summary_lines
from quarterdeck.agent.checkpoints.errors import NothingToUndoError
from quarterdeck.agent.checkpoints.file_state import BlobStore
from quarterdeck.agent.checkpoints.turn_history import (
    MoveOptions,
    TurnHistory,
    TurnLedger,
    TurnState,
    find_turn,
)
from quarterdeck.wire.events import Redone, Rewound
from quarterdeck.wire.ids import SessionId

from .api import (
    ConversationOutcome,
    KeptFile,
    TurnChanges,
    TurnFileState,
    TurnInfo,
    UndoResult,
)

__all__ = [
    "RewindUnsupportedError",
    "SessionMover",
    "make_result",
    "make_turn_info",
    "read_changes",
    "rewind_turns",
    "undo_turn",
]

_MOST_LINES = 100_000
_NOT_STORED = "its content is not stored"


class RewindUnsupportedError(NothingToUndoError):
    """The agent keeps its conversation itself and cannot go back in it."""

    def __init__(self, agent: str) -> None:
        super().__init__(
            f"{agent!r} cannot go back in its own conversation; undo its files, or start a new "
            "agent"
        )
        self.agent = agent


class SessionMover(Protocol):
    """Goes back and forth in a session; see ``agent.checkpoints.turn_history.TurnHistory``."""

    async def ledger(self) -> TurnLedger:
        """The turns so far."""
        ...

    async def undo(
        self, *, files: bool, conversation: bool, force: bool, via: MoveOptions
    ) -> Rewound:
        """Take the newest turn back that is not taken back yet."""
        ...

    async def undo_files(self, turn: str, *, force: bool, via: MoveOptions) -> Rewound:
        """Take back what one turn did to files."""
        ...

    async def rewind(
        self, turn: str, *, files: bool, conversation: bool, force: bool, via: MoveOptions
    ) -> Rewound:
        """Go back to where a turn began."""
        ...

    async def redo(self, *, force: bool, via: MoveOptions) -> Redone:
        """Take the newest going back back."""
        ...


async def undo_turn(
    mover: SessionMover,
    via: MoveOptions,
    *,
    turn: str | None,
    files: bool,
    conversation: bool,
    force: bool,
) -> Rewound:
    """Undo one turn; None: the newest. Raises as ``FleetCheckpoints.undo``."""
    if turn is None:
        return await mover.undo(files=files, conversation=conversation, force=force, via=via)
    turns = (await mover.ledger()).turns
    target = find_turn(turns, turn)
    later = [one for one in turns if one.number > target.number]
    if any(one.in_conversation or one.has_files for one in later):
        if not files:
            raise NothingToUndoError(
                f"turn {target.number} is not the last one, and a conversation can only go back "
                "from its end; use rewind"
            )
        return await mover.undo_files(target.id, force=force, via=via)
    return await mover.rewind(
        target.id, files=files, conversation=conversation, force=force, via=via
    )


async def rewind_turns(
    mover: SessionMover,
    via: MoveOptions,
    *,
    turn: str,
    files: bool,
    conversation: bool,
    force: bool,
) -> Rewound:
    """Go back to where a turn began. Raises as ``FleetCheckpoints.rewind``."""
    return await mover.rewind(turn, files=files, conversation=conversation, force=force, via=via)


async def read_changes(
    history: TurnHistory, blobs: BlobStore, turn: str | None, lines: int
) -> TurnChanges:
    """What turns did to files. Raises as ``FleetCheckpoints.turn_changes``."""
    manifest = await history.changes(turn)
    summary = tuple(summary_lines(manifest))
    if lines <= 0:
        return TurnChanges(summary=summary)
    found = await asyncio.to_thread(lambda: list(diff_lines(manifest, blobs)))
    most = min(lines, _MOST_LINES)
    return TurnChanges(summary=summary, diff=tuple(found[:most]), is_cut=len(found) > most)


def make_result(
    session: SessionId,
    name: str,
    event: Rewound | Redone,
    ledger: TurnLedger,
    conversation: ConversationOutcome,
) -> UndoResult:
    """What was done, as callers see it; ``ledger`` is that from before or after."""
    turn = find_turn(ledger.turns, event.to)
    reasons = event.reasons or (_NOT_STORED,) * len(event.kept)
    return UndoResult(
        session=session,
        name=name,
        action="undo" if isinstance(event, Rewound) else "redo",
        turn=turn.id,
        number=turn.number,
        prompt=turn.prompt,
        restored=event.changed,
        merged=event.merged,
        kept=tuple(
            KeptFile(path=path, reason=reason)
            for path, reason in zip(event.kept, reasons, strict=False)
        ),
        forced=event.forced,
        conversation=conversation,
        uncovered=_uncovered(event, ledger),
    )


def _uncovered(event: Rewound | Redone, ledger: TurnLedger) -> tuple[str, ...]:
    """What is not recorded of the turns that were undone, but for the files that are named."""
    if isinstance(event, Redone):
        return ()
    done = [one.checkpoint for one in ledger.turns if one.id in event.files]
    found = dict.fromkeys(reason for one in done if one is not None for reason in one.uncovered)
    named = tuple(f"{path}: " for path in event.kept)
    return tuple(one for one in found if not one.startswith(named))


def make_turn_info(turn: TurnState) -> TurnInfo:
    """A turn as callers see it."""
    info = TurnInfo(
        number=turn.number,
        turn=turn.id,
        prompt=turn.prompt,
        time=turn.time,
        files=_file_state(turn),
        in_conversation=turn.in_conversation,
    )
    if turn.checkpoint is None:
        return info
    done = turn.checkpoint
    return TurnInfo(
        number=turn.number,
        turn=turn.id,
        prompt=turn.prompt,
        time=turn.time,
        files=_file_state(turn),
        in_conversation=turn.in_conversation,
        changed=done.changed,
        created=done.created,
        deleted=done.deleted,
        paths=done.paths,
        shared=done.shared,
        uncovered=done.uncovered,
    )


def _file_state(turn: TurnState) -> TurnFileState:
    if turn.checkpoint is None:
        return "none"
    if turn.is_applied:
        return "in place"
    return "partly undone" if turn.is_partial else "undone"
