"""Goes back and forth in a session's turns: its log, and its files."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import TypeVar

from msgspec.structs import replace

from quarterdeck.wire.events import Event, Redone, Rewound
from quarterdeck.wire.record import Record

from .entries import Change, Entry, Manifest
from .errors import NothingToUndo
from .keeping import Keeping
from .ledger import Ledger, TurnState, read_ledger
from .restoring import Plan, Restoring

__all__ = ["History", "find_turn"]

E = TypeVar("E", Rewound, Redone)


class History:
    """One session's past, to go back to. No turn may run while a method does.

    Args:
        keeping: what is kept of the session's files.
        records: reads the session's log, all that was appended so far.
        emit: appends an event to it and returns when it is durable.
    """

    def __init__(
        self,
        keeping: Keeping,
        records: Callable[[], AsyncIterable[Record]],
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._keeping = keeping
        self._records = records
        self._emit = emit
        self._restoring = Restoring(keeping.directory, keeping.blobs, keeping.root)

    async def ledger(self) -> Ledger:
        """The turns so far."""
        return read_ledger([record async for record in self._records()])

    async def changes(self, turn: str | None = None) -> Manifest:
        """What a turn did to files; None: all turns whose changes are in place, together.

        ``turn`` is a number or an id. Raises NothingToUndo, ContentMissing.
        """
        turns = (await self.ledger()).turns
        wanted = (
            [find_turn(turns, turn)] if turn is not None else [t for t in turns if t.is_applied]
        )
        return await asyncio.to_thread(self._together, wanted)

    async def undo(
        self, *, files: bool = True, conversation: bool = True, force: bool = False
    ) -> Rewound:
        """Take the newest turn back that is not taken back yet. Raises as ``rewind``."""
        turns = (await self.ledger()).turns
        for turn in reversed(turns):
            has_files = files and turn.is_applied and turn.checkpoint is not None
            if (conversation and turn.is_told) or has_files:
                return await self.rewind(
                    turn.id, files=files, conversation=conversation, force=force
                )
        raise NothingToUndo("there is no turn to undo" if turns else "no turn has run yet")

    async def rewind(
        self, turn: str, *, files: bool = True, conversation: bool = True, force: bool = False
    ) -> Rewound:
        """Go back to where a turn began; it and all later ones are taken back.

        Raises:
            NothingToUndo: there is no such turn, or nothing of it is left to take back.
            FilesChangedSince: somebody changed the files since; nothing was changed now.
            ContentMissing: what the files were is not kept any more.
            RestoreFailed: the system refused; the files are as they were.
        """
        ledger = await self.ledger()
        turns = ledger.turns
        target = find_turn(turns, turn)
        if not target.is_told and not (target.checkpoint and target.is_applied):
            raise NothingToUndo(f"turn {target.number} is taken back already")
        later = [one for one in turns if one.number >= target.number]
        undone = [one for one in reversed(later) if files and one.is_applied and one.checkpoint]
        said = [one.id for one in later if conversation and one.is_told]
        if not undone and not said:
            raise NothingToUndo(f"nothing of turn {target.number} is left to take back")
        # Of what is told, the first: the conversation can go back to nothing else.
        to, files_of = (said or [target.id])[0], tuple(one.id for one in undone)
        event = Rewound(to=to, conversation=bool(said), files=files_of)
        changes = await asyncio.to_thread(self._way_back, undone)
        return await self._restore(changes, event, ledger.moves, force)

    async def redo(self, *, force: bool = False) -> Redone:
        """Take the newest going back back, as it was done. Raises as ``rewind``."""
        ledger = await self.ledger()
        if not ledger.redoable:
            raise NothingToUndo("there is nothing to redo: nothing was undone since the last turn")
        last = ledger.redoable[-1]
        changes: tuple[Change, ...] = ()
        if last.restored is not None:
            manifest = await asyncio.to_thread(self._keeping.blobs.get_manifest, last.restored)
            changes = tuple(change.reversed for change in manifest.changes)
        return await self._restore(changes, Redone(to=last.to), ledger.moves, force)

    async def finish(self) -> None:
        """Carry through what a process that was killed had begun; at the session's opening."""
        intent = await asyncio.to_thread(self._restoring.left_over)
        if intent is None:
            return
        if (await self.ledger()).moves == intent.moves:
            kept = await asyncio.to_thread(self._restoring.finish, intent)
            await self._emit(replace(intent.event, kept=(*intent.event.kept, *kept)))
        await asyncio.to_thread(self._restoring.done)

    async def _restore(self, changes: Iterable[Change], event: E, moves: int, force: bool) -> E:
        """Bring files where they shall be, then write down that it was done."""
        plan, event = await asyncio.to_thread(self._plan, changes, event, force)
        working = asyncio.ensure_future(self._carry_out(plan, event, moves))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            await working  # half of it would be worse than a moment's waiting
            raise
        return event

    async def _carry_out(self, plan: Plan, event: Rewound | Redone, moves: int) -> None:
        if plan.changes:
            await asyncio.to_thread(self._restoring.carry_out, plan, event, moves)
        await self._emit(event)
        await asyncio.to_thread(self._restoring.done)

    def _plan(self, changes: Iterable[Change], event: E, force: bool) -> tuple[Plan, E]:
        plan = self._restoring.plan(changes, force=force)
        told = replace(event, changed=len(plan.changes), kept=plan.kept, forced=plan.forced)
        if isinstance(told, Rewound) and plan.changes:
            manifest = Manifest(root=self._keeping.root, changes=plan.changes)
            told = replace(told, restored=self._keeping.blobs.put_manifest(manifest))
        return plan, told

    def _way_back(self, turns: list[TurnState]) -> tuple[Change, ...]:
        """From what the newest of the turns left to what the oldest found; newest first.

        Where somebody changed a file between two of them, it starts at what is not there: the
        file counts as changed since.
        """
        found: dict[bytes, Change] = {}
        for turn in turns:
            for change in self._manifest(turn).changes:
                later = found.get(change.path)
                if later is None:
                    found[change.path] = change.reversed
                elif later.after == change.after:
                    found[change.path] = replace(later, after=change.before)
                else:
                    astray = Entry(kind="file", digest="changed between two turns")
                    found[change.path] = Change(
                        path=change.path, before=astray, after=change.before
                    )
        return tuple(change for change in found.values() if change.before != change.after)

    def _together(self, turns: list[TurnState]) -> Manifest:
        found: dict[bytes, Change] = {}
        uncovered: list[str] = []
        for turn in turns:
            manifest = self._manifest(turn)
            uncovered += manifest.uncovered
            for change in manifest.changes:
                first = found.get(change.path, change)
                found[change.path] = replace(change, before=first.before)
        changes = tuple(c for _, c in sorted(found.items()) if c.before != c.after)
        return Manifest(root=self._keeping.root, changes=changes, uncovered=tuple(uncovered))

    def _manifest(self, turn: TurnState) -> Manifest:
        if turn.checkpoint is None:
            return Manifest(root=self._keeping.root)
        return self._keeping.blobs.get_manifest(turn.checkpoint.manifest)


def find_turn(turns: Iterable[TurnState], wanted: str) -> TurnState:
    """A turn by its number or its id. Raises NothingToUndo."""
    known = list(turns)
    for turn in known:
        if wanted in (turn.id, str(turn.number)):
            return turn
    there = f"turns 1 to {len(known)}" if known else "none yet"
    raise NothingToUndo(f"there is no turn {wanted!r}; there are {there}")
