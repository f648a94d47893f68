"""The turns of a session: what the log says of them, and undo, rewind and redo of conversation
and files.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    Checkpointed,
    Event,
    ModelCallFinished,
    Prompted,
    Redone,
    Rewound,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId, TurnId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import run_to_end

from ..content_parts import model_content
from ..conversation import Conversation
from .errors import NothingToUndoError
from .file_state import FileChange, FileState, Manifest
from .restore import FileRestorer, RestorePlan, RestorePlanner, RestoreStep
from .snapshot import TurnSnapshots

__all__ = [
    "PLAIN_MOVE",
    "MoveOptions",
    "TurnHistory",
    "TurnLedger",
    "TurnState",
    "begins_turn",
    "conversation_records",
    "find_turn",
    "read_ledger",
    "rebuild_conversation",
]

_LONGEST = 80


class TurnState(Struct, frozen=True, kw_only=True):
    """A turn and its present state."""

    number: int
    """Counted from 1 in the order of the log; never changes."""
    id: TurnId
    prompt: str
    """Its beginning, in one line."""
    time: int
    """Microseconds since the epoch."""
    checkpoint: Checkpointed | None = None
    """None: it changed no files."""
    in_conversation: bool = True
    """The model hears of it."""
    is_applied: bool = True
    """Its changes to files are in place."""
    is_partial: bool = False
    """Some of its changes could not be taken back and are in place."""

    @property
    def has_files(self) -> bool:
        """Whether changes of files are in place that can be taken back."""
        return self.checkpoint is not None and (self.is_applied or self.is_partial)


class TurnLedger(Struct, frozen=True, kw_only=True):
    """The turns of a session, oldest first."""

    turns: tuple[TurnState, ...]
    redoable: tuple[Rewound, ...]
    """What can be redone, the newest last."""
    moves: int
    """How often the session went back or forth."""


def read_ledger(records: Iterable[Record]) -> TurnLedger:
    """Read the log of one session. Turns that only answered a command are no turns here."""
    turns: dict[TurnId, TurnState] = {}
    prompts: dict[MessageId | None, tuple[Prompted, int]] = {}
    """Of agents that we drive: what they are asked comes before the turn has its id."""
    done: list[tuple[Rewound, dict[TurnId, TurnState]]] = []
    moves = 0
    for record in records:
        moves += isinstance(record.event, Rewound | Redone)
        match record.event:
            case Prompted(steers=False) as prompted if record.turn is None:
                prompts[prompted.message] = (prompted, record.time)
            case TurnStarted(prompt=message) if message in prompts and record.turn is not None:
                _begin(turns, record.turn, *prompts.pop(message))
                done.clear()
            case Prompted() as prompted if begins_turn(record, prompted):
                assert record.turn is not None
                _begin(turns, record.turn, prompted, record.time)
                done.clear()
            case Checkpointed(turn=turn) as event if turn in turns:
                turns[turn] = replace(turns[turn], checkpoint=event)
            case Rewound() as event if event.to in turns:
                done.append((event, dict(turns)))
                _rewind(turns, event)
            case Redone() if done:
                turns |= done.pop()[1]
            case _:
                pass
    redoable = tuple(event for event, _ in done)
    return TurnLedger(turns=tuple(turns.values()), redoable=redoable, moves=moves)


def _begin(turns: dict[TurnId, TurnState], turn: TurnId, prompted: Prompted, time: int) -> None:
    turns[turn] = TurnState(number=len(turns) + 1, id=turn, prompt=_line(prompted), time=time)


def conversation_records(records: Iterable[Record]) -> list[Record]:
    """The records that the conversation with the model is made of."""
    kept: list[Record] = []
    undone: list[list[Record]] = []
    for record in records:
        match record.event:
            case Rewound(conversation=conversation, to=to):
                at = _place(kept, to) if conversation else len(kept)
                undone.append(kept[at:])
                del kept[at:]
            case Redone() if undone:
                kept += undone.pop()
            case Prompted() as prompted if begins_turn(record, prompted):
                undone.clear()
                kept.append(record)
            case _:
                kept.append(record)
    return kept


def rebuild_conversation(records: Iterable[Record]) -> Conversation:
    """The conversation, as it is sent now; ids of calls that are no longer sent stay taken."""
    kept = list(records)
    conversation = Conversation(record.event for record in conversation_records(kept))
    for record in kept:
        if isinstance(record.event, ModelCallFinished) and record.event.reply is not None:
            conversation.reserve(record.event.reply)
    return conversation


def begins_turn(record: Record, prompted: Prompted) -> bool:
    """Whether a turn of the model begins here."""
    return record.turn is not None and not prompted.steers and bool(model_content(prompted))


def _place(records: list[Record], turn: TurnId) -> int:
    for at, record in enumerate(records):
        if record.turn == turn:
            return at
    return len(records)


def _rewind(turns: dict[TurnId, TurnState], event: Rewound) -> None:
    first = turns[event.to].number
    for id_, turn in turns.items():
        turns[id_] = replace(
            turn,
            in_conversation=turn.in_conversation
            and not (event.conversation and turn.number >= first),
            is_applied=turn.is_applied and id_ not in event.files,
            is_partial=bool(event.kept) if id_ in event.files else turn.is_partial,
        )


def _line(prompted: Prompted) -> str:
    texts = (block.text for block in prompted.content if isinstance(block, TextContent))
    return " ".join(" ".join(texts).split())[:_LONGEST]


E = TypeVar("E", Rewound, Redone)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOptions:
    """How a session goes back, where it is not done in the plain way."""

    planner: RestorePlanner | None = None
    """Decides about each file; None: all files must be as the turns left them."""
    rewind_agent: Callable[[int], Awaitable[bool]] | None = None
    """Takes so many turns out of the agent's own conversation, once it is certain that the files
    can be restored; False: it did not. None: the log is the conversation."""


PLAIN_MOVE = MoveOptions()


class TurnHistory:
    """One session's past, to go back to. No turn may run while a method does.

    Args:
        snapshots: what is kept of the session's files.
        records: reads the session's log, all that was appended so far.
        emit: appends an event to it and returns when it is durable.
    """

    def __init__(
        self,
        snapshots: TurnSnapshots,
        records: Callable[[], AsyncIterable[Record]],
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._snapshots = snapshots
        self._records = records
        self._emit = emit
        self._restoring = FileRestorer(snapshots.directory, snapshots.blobs, snapshots.root)

    async def ledger(self) -> TurnLedger:
        """The turns so far."""
        return read_ledger([record async for record in self._records()])

    async def changes(self, turn: str | None = None) -> Manifest:
        """What a turn did to files; None: all turns whose changes are in place, together.

        ``turn`` is a number or an id. Raises NothingToUndoError, ContentMissingError.
        """
        turns = (await self.ledger()).turns
        wanted = (
            [find_turn(turns, turn)] if turn is not None else [t for t in turns if t.is_applied]
        )
        return await asyncio.to_thread(self._together, wanted)

    async def undo(
        self,
        *,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
        via: MoveOptions = PLAIN_MOVE,
    ) -> Rewound:
        """Take the newest turn back that is not taken back yet. Raises as ``rewind``."""
        turns = (await self.ledger()).turns
        for turn in reversed(turns):
            has_files = files and turn.is_applied and turn.checkpoint is not None
            if (conversation and turn.in_conversation) or has_files:
                return await self.rewind(
                    turn.id, files=files, conversation=conversation, force=force, via=via
                )
        raise NothingToUndoError("there is no turn to undo" if turns else "no turn has run yet")

    async def undo_files(self, turn: str, *, force: bool = False, via: MoveOptions) -> Rewound:
        """Take back what one turn did to files, whatever came after it. Raises as ``rewind``."""
        ledger = await self.ledger()
        target = find_turn(ledger.turns, turn)
        if target.checkpoint is None:
            raise NothingToUndoError(f"turn {target.number} changed no files")
        if not target.has_files:
            raise NothingToUndoError(f"turn {target.number} is already undone")
        event = Rewound(to=target.id, files=(target.id,))
        return await self._go_back([target], event, ledger.moves, force, via)

    async def rewind(
        self,
        turn: str,
        *,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
        via: MoveOptions = PLAIN_MOVE,
    ) -> Rewound:
        """Go back to where a turn began; it and all later ones are taken back.

        Raises:
            NothingToUndoError: there is no such turn, or nothing of it is left to take back.
            FilesChangedError: someone changed the files since; nothing was changed now.
            ContentMissingError: what the files were is not kept any more.
            RestoreError: the system refused; the files are as they were.
        """
        ledger = await self.ledger()
        turns = ledger.turns
        target = find_turn(turns, turn)
        if not target.in_conversation and not target.has_files:
            raise NothingToUndoError(f"turn {target.number} is already undone")
        later = [one for one in turns if one.number >= target.number]
        undone = [one for one in reversed(later) if files and one.has_files]
        forgotten = [one.id for one in later if conversation and one.in_conversation]
        if not undone and not forgotten:
            raise NothingToUndoError(f"nothing is left to undo in turn {target.number}")
        # Of what is reported, the first: the conversation can go back to nothing else.
        to, files_of = (forgotten or [target.id])[0], tuple(one.id for one in undone)
        event = Rewound(to=to, conversation=bool(forgotten), files=files_of)
        return await self._go_back(
            undone, event, ledger.moves, force, via, forgotten=len(forgotten)
        )

    async def redo(self, *, force: bool = False, via: MoveOptions = PLAIN_MOVE) -> Redone:
        """Take the newest going back back, as it was done. Raises as ``rewind``."""
        ledger = await self.ledger()
        if not ledger.redoable:
            raise NothingToUndoError(
                "there is nothing to redo: nothing was undone since the last turn"
            )
        last = ledger.redoable[-1]
        changes: tuple[FileChange, ...] = ()
        if last.restored is not None:
            manifest = await asyncio.to_thread(self._snapshots.blobs.get_manifest, last.restored)
            changes = tuple(change.reversed for change in manifest.changes)
        steps = [RestoreStep(change=change) for change in changes]
        event = Redone(to=last.to)
        plan, event = await asyncio.to_thread(self._plan, changes, steps, event, force, via.planner)
        return await self._restore(plan, event, ledger.moves)

    async def _go_back(
        self,
        turns: list[TurnState],
        event: Rewound,
        moves: int,
        force: bool,
        via: MoveOptions,
        forgotten: int = 0,
    ) -> Rewound:
        """Take these turns back, the newest first; ``forgotten`` of them leave the conversation."""
        steps, changes = await asyncio.to_thread(self._read_way_back, turns, via.planner)
        plan, event = await asyncio.to_thread(self._plan, changes, steps, event, force, via.planner)
        if forgotten and via.rewind_agent is not None and not await via.rewind_agent(forgotten):
            if not event.files:
                raise NothingToUndoError("the agent did not go back in its conversation")
            event = replace(event, conversation=False)
        return await self._restore(plan, event, moves)

    async def finish(self) -> None:
        """Carry through what a process that was killed had begun; at the session's opening."""
        intent = await asyncio.to_thread(self._restoring.left_over)
        if intent is None:
            return
        if (await self.ledger()).moves == intent.moves:
            kept = await asyncio.to_thread(self._restoring.finish, intent)
            await self._emit(replace(intent.event, kept=(*intent.event.kept, *kept)))
        await asyncio.to_thread(self._restoring.done)

    async def _restore(self, plan: RestorePlan, event: E, moves: int) -> E:
        """Bring files where they are to be, then write down that it was done."""
        # Half of it would be worse than a moment's waiting.
        await run_to_end(self._carry_out(plan, event, moves), name="restore files")
        return event

    async def _carry_out(self, plan: RestorePlan, event: Rewound | Redone, moves: int) -> None:
        if plan.changes:
            await asyncio.to_thread(self._restoring.carry_out, plan, event, moves)
        await self._emit(event)
        await asyncio.to_thread(self._restoring.done)

    def _plan(
        self,
        changes: Iterable[FileChange],
        steps: Sequence[RestoreStep],
        event: E,
        force: bool,
        planner: RestorePlanner | None,
    ) -> tuple[RestorePlan, E]:
        if planner is not None:
            plan = planner.plan(steps, force=force)
        else:
            plan = self._restoring.plan(changes, force=force)
        kept = replace(
            event,
            changed=len(plan.changes),
            kept=plan.kept,
            forced=plan.forced,
            merged=plan.merged,
            reasons=plan.reasons,
        )
        if isinstance(kept, Rewound) and plan.changes:
            manifest = Manifest(root=self._snapshots.root, changes=plan.changes)
            kept = replace(kept, restored=self._snapshots.blobs.put_manifest(manifest))
        return plan, kept

    def _read_way_back(
        self, turns: list[TurnState], planner: RestorePlanner | None
    ) -> tuple[list[RestoreStep], tuple[FileChange, ...]]:
        """What is to be done: step by step for a planner, else in one for each path."""
        if planner is None:
            return [], self._way_back(turns)
        steps: list[RestoreStep] = []
        for turn in turns:
            manifest = self._manifest(turn)
            agents = {one.path: one.agents for one in manifest.shared}
            steps += [
                RestoreStep(change=change.reversed, agents=agents.get(change.path, ()))
                for change in reversed(manifest.changes)
            ]
        return steps, ()

    def _way_back(self, turns: list[TurnState]) -> tuple[FileChange, ...]:
        """From what the newest of the turns left to what the oldest found; newest first.

        Where someone changed a file between two of them, or may have changed it during one, it
        starts at what is not there: the file counts as changed since.
        """
        found: dict[bytes, FileChange] = {}
        for turn in turns:
            manifest = self._manifest(turn)
            shared = {one.path for one in manifest.shared}
            for change in reversed(manifest.changes):
                later = found.get(change.path)
                before = change.after if later is None else later.before
                if change.path in shared or (later is not None and later.after != change.after):
                    before = FileState(kind="file", digest="changed by another")
                found[change.path] = FileChange(
                    path=change.path, before=before, after=change.before
                )
        return tuple(change for change in found.values() if change.before != change.after)

    def _together(self, turns: list[TurnState]) -> Manifest:
        found: dict[bytes, FileChange] = {}
        uncovered: list[str] = []
        for turn in turns:
            manifest = self._manifest(turn)
            uncovered += manifest.uncovered
            for change in manifest.changes:
                first = found.get(change.path, change)
                found[change.path] = replace(change, before=first.before)
        changes = tuple(c for _, c in sorted(found.items()) if c.before != c.after)
        return Manifest(root=self._snapshots.root, changes=changes, uncovered=tuple(uncovered))

    def _manifest(self, turn: TurnState) -> Manifest:
        if turn.checkpoint is None:
            return Manifest(root=self._snapshots.root)
        return self._snapshots.blobs.get_manifest(turn.checkpoint.manifest)


def find_turn(turns: Iterable[TurnState], wanted: str) -> TurnState:
    """A turn by its number or its id. Raises NothingToUndoError."""
    known = list(turns)
    for turn in known:
        if wanted in (turn.id, str(turn.number)):
            return turn
    there = f"turns 1 to {len(known)}" if known else "none yet"
    raise NothingToUndoError(f"there is no turn {wanted!r}; there are {there}")
