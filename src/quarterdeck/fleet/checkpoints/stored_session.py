"""Undo and redo of a session that no host has: on its log."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from quarterdeck.agent.checkpoints.turn_history import MoveOptions
from quarterdeck.config.places import Places
from quarterdeck.wire.events import Redone, Rewound

from ..sessions.rewind import RewindableSession, open_rewind
from .api import ConversationOutcome, TurnChanges, TurnInfo, UndoResult
from .selective_restore import SelectivePlanner
from .session_moves import (
    RewindUnsupportedError,
    make_result,
    make_turn_info,
    read_changes,
    rewind_turns,
    undo_turn,
)

__all__ = ["StoredSession", "open_stored_session"]


@asynccontextmanager
async def open_stored_session(
    places: Places, session: str, *, write: bool = False
) -> AsyncGenerator["StoredSession"]:
    """Open a session by its id or its agent's name; ``write``: to change something.

    Raises:
        NoSuchSessionError: there is none.
        SessionInUseError: another process has its log open, with ``write``.
    """
    async with open_rewind(places, session, write=write) as opened:
        yield StoredSession(opened, session)


class StoredSession:
    """The methods of ``FleetCheckpoints`` for one session; ``name`` is what people call it."""

    def __init__(self, opened: RewindableSession, name: str) -> None:
        self._opened = opened
        self._name = name
        self._is_native = opened.agent == "native"
        kept = opened.kept
        self._via = MoveOptions(planner=SelectivePlanner(kept.directory, kept.blobs, kept.root))

    async def turns(self) -> list[TurnInfo]:
        """The turns, oldest first."""
        return [make_turn_info(turn) for turn in (await self._opened.history.ledger()).turns]

    async def turn_changes(self, *, turn: str | None = None, lines: int = 400) -> TurnChanges:
        """What turns did to files."""
        return await read_changes(self._opened.history, self._opened.blobs, turn, lines)

    async def undo(
        self, *, turn: str | None, files: bool, conversation: bool, force: bool
    ) -> UndoResult:
        """Undo one turn."""
        goes_back = self._expect(files, conversation)
        event = await undo_turn(
            self._opened.history,
            self._via,
            turn=turn,
            files=files,
            conversation=goes_back,
            force=force,
        )
        return await self._result(event)

    async def rewind(
        self, turn: str, *, files: bool, conversation: bool, force: bool
    ) -> UndoResult:
        """Go back to where a turn began."""
        goes_back = self._expect(files, conversation)
        event = await rewind_turns(
            self._opened.history,
            self._via,
            turn=turn,
            files=files,
            conversation=goes_back,
            force=force,
        )
        return await self._result(event)

    async def redo(self, *, force: bool) -> UndoResult:
        """Revert the last undo or rewind."""
        return await self._result(await self._opened.history.redo(force=force, via=self._via))

    def _expect(self, files: bool, conversation: bool) -> bool:
        if conversation and not files and not self._is_native:
            raise RewindUnsupportedError(self._name)
        return conversation and self._is_native

    async def _result(self, event: Rewound | Redone) -> UndoResult:
        outcome: ConversationOutcome = "unchanged"
        if isinstance(event, Rewound) and event.conversation:
            outcome = "rewound"
        elif isinstance(event, Rewound) and event.changed:
            outcome = "noted"
        ledger = await self._opened.history.ledger()
        return make_result(self._opened.session, self._name, event, ledger, outcome)
