"""A session's checkpoints: watches turns, and lets people see, undo and redo what they did.

The modules that do the work are imported when a call may change a file, or on the first request.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from quarterdeck.journal.errors import JournalError
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import Event, Redone, Rewound
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.tasks import start_task

from ..ports import NO_TURN_WATCH, TurnWatch, make_snapshot_notice
from ..tools.tool import footprint_of
from .errors import NothingToUndoError

if TYPE_CHECKING:
    from quarterdeck.journal import Journal
    from quarterdeck.policy.call import Call
    from quarterdeck.system.api import Files
    from quarterdeck.wire.record import Record

    from ..conversation import Conversation
    from ..ports import Turn
    from ..session_setup import SessionSetup
    from .file_state import Manifest
    from .snapshot import PendingSnapshot, TurnSnapshots
    from .turn_history import MoveOptions, TurnHistory, TurnLedger

__all__ = ["Checkpoints", "SessionLog", "may_change_files"]

_log = logging.getLogger(__name__)
_HURRY = 0.5
"""Seconds that a cancelled turn waits."""
_CHANGING = ("edit", "delete", "move", "execute", "other")
"""Kinds of calls that may change files even if they name none."""
_BY_OTHERS = ("spawn_agent",)
"""Tools that let another agent work."""


E = TypeVar("E", Rewound, Redone)


class SessionLog(NamedTuple):
    """The part of the log that is one session's."""

    session: SessionId
    journal: "Journal"
    last_seq: Callable[[], int]
    """The last record of the session that was appended."""


class Checkpoints:
    """What turns of one session did to files, and the ways back and forth.

    The methods for people wait for the running turn, but those of ``history``.

    Args:
        setup: says where what files were is kept, and how long that may take.
        emit: appends an event of the session that belongs to no turn.
        turns: held while a turn runs.
        close_context: ends a summary that is under way.
    """

    def __init__(
        self,
        log: SessionLog,
        setup: "SessionSetup",
        conversation: "Conversation",
        emit: Callable[[Event], Awaitable[None]],
        turns: asyncio.Lock,
        close_context: Callable[[], Awaitable[None]],
    ) -> None:
        self._log = log
        self._close_context = close_context
        self.emit = emit
        self._setup = setup
        self._conversation = conversation
        self._turns = turns
        self._state = setup.checkpoints
        self._recorder = setup.recorder if self._state is not None else None
        self._snapshots: TurnSnapshots | None = None
        self._history: TurnHistory | None = None
        self._watch: _Watch | None = None

    def watch(self, turn: TurnId) -> TurnWatch:
        """Who watches a turn that begins."""
        if self._state is None:
            return NO_TURN_WATCH
        if self._recorder is not None:
            return self._recorder.watch(turn)
        self._watch = _Watch(self, turn, self._watch)
        return self._watch

    async def opened(self) -> None:
        """Finish what a process that was killed left: a restoring, a turn; once, by the maker."""
        if self._state is None or not await asyncio.to_thread(self._is_left_over):
            return
        await (await self._made()).finish()
        snapshots = self._snapshots
        assert snapshots is not None
        pending = await asyncio.to_thread(snapshots.left_over)
        if pending is not None:
            pending.problems.append("the program was stopped; changes made since are included")
            known = {turn.id for turn in (await self.ledger()).turns if turn.checkpoint is None}
            if pending.turn in known:
                for event in await asyncio.to_thread(snapshots.finish, pending):
                    await self.emit(event)
            await asyncio.to_thread(snapshots.forget)
        await self._retell()

    async def settle(self) -> None:
        """Wait until what turns that were cancelled left is written down."""
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.settle()
        if self._recorder is not None:
            await self._recorder.settle()

    async def ledger(self) -> "TurnLedger":
        """The turns so far."""
        return await (await self._made()).ledger()

    async def changes(self, turn: str | None = None) -> "Manifest":
        """What a turn did to files, by its number or id; None: all that is in place.

        Raises as ``TurnHistory.changes``.
        """
        async with self._turns:
            return await (await self.history()).changes(turn)

    async def undo(
        self,
        *,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
        via: "MoveOptions | None" = None,
    ) -> Rewound:
        """Take the newest turn back. Raises as ``TurnHistory.rewind``."""
        return await self._move(
            lambda history, how: history.undo(
                files=files, conversation=conversation, force=force, via=how
            ),
            conversation,
            via,
        )

    async def undo_files(
        self, turn: str, *, force: bool = False, via: "MoveOptions | None" = None
    ) -> Rewound:
        """Take back what one turn did to files. Raises as ``TurnHistory.rewind``."""
        return await self._move(
            lambda history, how: history.undo_files(turn, force=force, via=how), False, via
        )

    async def rewind(
        self,
        turn: str,
        *,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
        via: "MoveOptions | None" = None,
    ) -> Rewound:
        """Go back to where a turn began, by its number or id. Raises as ``TurnHistory.rewind``."""
        return await self._move(
            lambda history, how: history.rewind(
                turn, files=files, conversation=conversation, force=force, via=how
            ),
            conversation,
            via,
        )

    async def redo(self, *, force: bool = False, via: "MoveOptions | None" = None) -> Redone:
        """Take the newest going back back. Raises as ``TurnHistory.rewind``."""
        return await self._move(lambda history, how: history.redo(force=force, via=how), True, via)

    async def _move(
        self,
        move: "Callable[[TurnHistory, MoveOptions], Awaitable[E]]",
        conversation: bool,
        via: "MoveOptions | None",
    ) -> E:
        from .turn_history import PLAIN_MOVE

        async with self._turns:
            done = await move(await self.history(conversation), via or PLAIN_MOVE)
            await self._retell()
            return done

    async def history(self, conversation: bool = False) -> "TurnHistory":
        """Undo and redo, for a caller that holds ``turns``; call ``retold`` after using them.

        ``conversation``: messages may be taken back, so no summary of them may be under way.
        """
        await self.settle()
        if conversation:
            await self._close_context()
        return await self._made()

    async def retold(self) -> None:
        """Rebuild the conversation from the log."""
        await self._retell()

    async def snapshots(self) -> "TurnSnapshots":
        """What keeps the files of this session; made when first asked for."""
        if self._state is None:
            raise NothingToUndoError("this session has no checkpoints")
        if self._snapshots is None:
            from .snapshot import TurnSnapshots

            roots, patience = self._setup.workspace.system.roots, self._setup.checkpoint_patience
            # In a thread, because it looks where links lead.
            self._snapshots = await asyncio.to_thread(
                TurnSnapshots, self._state, self._log.session, roots, patience=patience
            )
        return self._snapshots

    async def _made(self) -> "TurnHistory":
        if self._history is None:
            from .turn_history import TurnHistory

            self._history = TurnHistory(await self.snapshots(), self._records, self._commit)
        return self._history

    async def _records(self) -> "AsyncIterator[Record]":
        log = self._log
        await log.journal.durable(log.last_seq())
        async for record in log.journal.history(session=log.session):
            yield record

    async def _commit(self, event: Event) -> None:
        await self.emit(event)
        await self._log.journal.durable(self._log.last_seq())

    async def _retell(self) -> None:
        from .turn_history import rebuild_conversation

        records = [record async for record in self._records()]
        self._conversation.become(rebuild_conversation(records))

    def _is_left_over(self) -> bool:
        assert self._state is not None
        directory = self._state / "checkpoints" / self._log.session
        return any((directory / name).exists() for name in ("pending", "restoring"))


class _Watch:
    """Watches one turn; one of an earlier turn that was cancelled comes first."""

    def __init__(self, checkpoints: Checkpoints, turn: TurnId, earlier: "_Watch | None") -> None:
        self._checkpoints = checkpoints
        self._turn = turn
        self._earlier = earlier if earlier is not None and earlier.is_open else None
        self._snapshots = asyncio.Lock()
        self._beginning: asyncio.Task[PendingSnapshot] | None = None
        self._finishing: asyncio.Task[tuple[Event, ...]] | None = None
        self._was_reported = False

    @property
    def is_open(self) -> bool:
        """Whether something is not written down yet."""
        return self._beginning is not None or self._earlier is not None

    async def before_call(self, turn: "Turn", call: "Call") -> None:
        """Keep what the call may change; if that is not possible, a notice says so once."""
        if not may_change_files(call):
            return
        try:
            async with self._snapshots:
                await self._keep(turn, call)
        except JournalError:
            raise
        except Exception as error:  # a turn goes on, also where nothing can be kept
            await self._tell_once(turn, _problem(error))

    async def finish(self, turn: "Turn", *, hurried: bool = False) -> None:
        """Write down what the turn changed."""
        if self._beginning is None:
            return
        work = self._work()
        await asyncio.wait([work], timeout=_HURRY if hurried else None)
        if work.done():
            await self.settle(turn.emit)

    async def settle(self, emit: Callable[[Event], Awaitable[None]] | None = None) -> None:
        """Write down what is not written yet; ``emit``: None for events outside of turns."""
        emit = emit or self._checkpoints.emit
        await self._settle_earlier()
        if self._beginning is None:
            return
        work = self._work()
        await asyncio.wait([work])
        self._beginning = None
        for event in work.result():
            await emit(event)
        await asyncio.to_thread((await self._checkpoints.snapshots()).forget)

    async def _tell_once(self, turn: "Turn", problem: str) -> None:
        if not self._was_reported:
            self._was_reported = True
            await turn.emit(make_snapshot_notice(problem))

    async def _settle_earlier(self) -> None:
        if self._earlier is not None:
            await self._earlier.settle()
            self._earlier = None

    async def _keep(self, turn: "Turn", call: "Call") -> None:
        await self._settle_earlier()
        snapshots = await self._checkpoints.snapshots()
        is_first = self._beginning is None
        if self._beginning is None:
            # A task of its own: who cancels the call must not leave half of it behind.
            work = asyncio.to_thread(snapshots.begin, self._turn)
            self._beginning = start_task(work, name="checkpoint: begin")
        pending = await asyncio.shield(self._beginning)
        if is_first and pending.problems:
            await self._tell_once(turn, "; ".join(pending.problems))
        for use in call.paths:
            if use.access == "write":
                shown = await _shown(turn.workspace.system.files, use.resolved)
                path = os.fsencode(use.resolved)
                await asyncio.to_thread(snapshots.keep, pending, path, shown)

    def _work(self) -> "asyncio.Task[tuple[Event, ...]]":
        if self._finishing is None:
            self._finishing = start_task(self._finished(), name="checkpoint: finish")
        return self._finishing

    async def _finished(self) -> tuple[Event, ...]:
        assert self._beginning is not None
        snapshots = await self._checkpoints.snapshots()
        try:
            pending = await asyncio.shield(self._beginning)
            return await asyncio.to_thread(snapshots.finish, pending)
        except Exception as error:  # a turn must come to its end
            problem = _problem(error)
            return () if self._was_reported else (make_snapshot_notice(problem),)


def _problem(error: Exception) -> str:
    """What went wrong, for people; an unexpected error is logged."""
    if isinstance(error, QuarterdeckError | OSError):
        return str(error)
    _log.error("could not take a snapshot of the files", exc_info=error)
    return f"an error in the program: {error!r}"


def may_change_files(call: "Call") -> bool:
    """Whether a call may change files; of one that names neither path nor command its kind says."""
    if call.command is None and not call.paths:
        return call.kind in _CHANGING or call.tool in _BY_OTHERS
    return bool(footprint_of(call).writes)


async def _shown(files: "Files", path: str) -> bytes | None:
    """What an editor shows of a file, where files are an editor's; None: what is on the disk."""
    if files.is_disk:
        return None
    try:
        return (await files.read(path)).data
    except OperatingSystemError:
        return None
