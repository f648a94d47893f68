"""Changes of agents shown, marked, accepted and rejected: methods of ``FleetReviews``."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from quarterdeck.agent.checkpoints.errors import NothingToUndoError
from quarterdeck.wire.events import ReviewMarked
from quarterdeck.wire.worktrees import ReviewMark

from ..agent_entry import AgentEntry
from .acceptance import PreviousMark, ReviewOperation
from .api import (
    Acceptance,
    AgentChanges,
    FilePatch,
    PatchText,
    ReviewDecision,
    ReviewOutcome,
    ReviewSelection,
    ReviewSince,
)
from .comparison import Comparison, FileDifference, format_content
from .decision import DecisionPlanner
from .errors import ChangedMeanwhileError, NoSuchChangeError
from .file_list import list_changed, measure_hunks, within
from .patch import cut_page
from .source import ReviewSource, run_blocking

if TYPE_CHECKING:
    from .patch import PatchFile

__all__ = ["ReviewService"]

T = TypeVar("T")
_MOST_KEPT = 12
_MOST_LINES = 5_000
_PIECE = 500_000


class ReviewService:
    """Changes, marks and decisions; see ``FleetReviews`` for each method.

    Args:
        source: finds agents and compares their files.
    """

    def __init__(self, source: ReviewSource) -> None:
        self._source = source
        self._patches: OrderedDict[tuple[object, ...], tuple[PatchFile, bool]] = OrderedDict()
        self._texts: OrderedDict[tuple[object, ...], tuple[bytes, bool]] = OrderedDict()

    # Reading

    async def changes(
        self, agent: str, *, turn: str | None = None, since: ReviewSince | None = None
    ) -> AgentChanges:
        """What an agent changed, file by file."""
        entry, state = await self._source.agent(agent)
        compared = await self._source.compare(entry, state, turn, since)
        files = await self._source.reader.list_files(compared)
        operations = self._source.operations(entry.session)
        can_undo = await asyncio.to_thread(lambda: operations.has_any)
        return list_changed(entry, compared, files, state, can_undo=can_undo)

    async def patch(
        self,
        agent: str,
        file: str,
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
        context: int = 3,
        ignore_space: bool = False,
        after: int = 0,
        limit: int = 2_000,
        tree: str | None = None,
    ) -> FilePatch:
        """The change of one file, or a page of it."""
        entry, state, compared = await self._source.recall(agent, turn, since, tree)
        found = await self._source.find(entry, compared, file)
        key = (compared.old, compared.new, found.path, context, ignore_space)
        if key not in self._patches:
            self._patches[key] = await run_blocking(
                lambda: compared.read_patch(found, context=context, ignore_space=ignore_space)
            )
            _limit(self._patches)
        whole, is_cut = self._patches[key]
        limit = max(1, min(limit, _MOST_LINES))
        page, _, next_ = await asyncio.to_thread(cut_page, whole, after, limit)
        (changed,) = list_changed(entry, compared, (found,), state).files
        accepted: tuple[Acceptance, ...] = ()
        if since is None and turn is None:
            accepted = await run_blocking(lambda: measure_hunks(compared, found, page.hunks, state))
        return FilePatch(
            changed=changed,
            patch=page,
            accepted=accepted,
            after=after,
            next=next_,
            lines=sum(len(hunk.lines) for hunk in whole.hunks),
            is_cut=is_cut,
            tree=compared.new,
        )

    async def patch_text(
        self,
        agent: str,
        files: Sequence[str] = (),
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
        context: int = 3,
        ignore_space: bool = False,
        binary: bool = False,
        after: int = 0,
        tree: str | None = None,
    ) -> PatchText:
        """The changes as a patch, or a piece of it."""
        entry, _, compared = await self._source.recall(agent, turn, since, tree)
        listed = await self._source.reader.list_files(compared)
        chosen = listed
        if files:
            chosen = within(entry.name, compared, listed, files)
        if not chosen:
            return PatchText(data=b"")
        key = (compared.old, compared.new, tuple(files), context, ignore_space, binary)
        if key not in self._texts:
            # Without a choice git is not given every name: there may be more than it takes.
            named = chosen if files else ()
            self._texts[key] = await run_blocking(
                lambda: compared.read_patch_text(
                    named, context=context, ignore_space=ignore_space, binary=binary
                )
            )
            _limit(self._texts, 2)
        data, is_cut = self._texts[key]
        end = after + _PIECE
        is_last = end >= len(data)
        return PatchText(
            data=data[after:end],
            next=None if is_last else end,
            is_cut=is_cut and is_last,
            tree=compared.new,
        )

    # Marks

    async def mark_files(
        self, agent: str, files: Sequence[str], mark: Literal["viewed", "none"] = "viewed"
    ) -> None:
        """Mark files as viewed as they are now, or take their marks away."""
        await self._source.alone(agent, lambda entry: self._mark(entry, files, mark))

    async def _mark(self, entry: AgentEntry, files: Sequence[str], mark: ReviewMark) -> None:
        state = await self._source.state(entry)
        compared = await self._source.compare(entry, state)
        found = [await self._source.find(entry, compared, file) for file in files]
        if mark == "viewed":
            await run_blocking(lambda: [_keep(compared, one) for one in found])
        await self._source.notes.note(
            entry.session,
            *(
                ReviewMarked(path=compared.name(file.path), mark=mark, content=file.content)
                for file in found
            ),
        )

    # Decisions

    async def accept_changes(
        self,
        agent: str,
        selections: Sequence[ReviewSelection],
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
    ) -> ReviewOutcome:
        """Accept files or lines."""
        return await self._source.alone(
            agent, lambda entry: self._decide(entry, "accept", selections, turn, since)
        )

    async def reject_changes(
        self,
        agent: str,
        selections: Sequence[ReviewSelection],
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
    ) -> ReviewOutcome:
        """Reject files or lines."""
        return await self._source.alone(
            agent, lambda entry: self._decide(entry, "reject", selections, turn, since)
        )

    async def _decide(
        self,
        entry: AgentEntry,
        action: ReviewDecision,
        selections: Sequence[ReviewSelection],
        turn: str | None,
        since: ReviewSince | None,
    ) -> ReviewOutcome:
        if not selections:
            raise NoSuchChangeError("nothing is selected")
        state = await self._source.state(entry)
        compared = await self._source.compare(entry, state, turn, since)
        pairs = [(await self._source.find(entry, compared, one.file), one) for one in selections]
        for file, selection in pairs:
            if selection.content is not None and selection.content != file.content:
                raise ChangedMeanwhileError(compared.name(file.path))
        operations = self._source.operations(entry.session)
        planner = DecisionPlanner(compared, state.marks, operations)

        def carry_out() -> ReviewOperation:
            for file, selection in pairs:
                if action == "accept":
                    planner.accept(file, selection)
                else:
                    planner.reject(file, selection)
            operation = planner.make_operation(action)
            operations.carry_out(operation)
            return operation

        done = await run_blocking(carry_out)
        await self._source.notes.note(entry.session, *planner.events)
        return ReviewOutcome(action=action, files=done.names)

    async def undo_review(self, agent: str) -> ReviewOutcome:
        """Revert the newest acceptance or rejection."""
        return await self._source.alone(agent, self._undo)

    async def _undo(self, entry: AgentEntry) -> ReviewOutcome:
        operations = self._source.operations(entry.session)
        try:
            done, notes = await run_blocking(operations.undo)
        except NothingToUndoError as error:
            raise NothingToUndoError(f"{entry.name!r}: {error}") from error
        events = [event for marks in done.marks for event in _previous_marks(marks)]
        await self._source.notes.note(entry.session, *events)
        return ReviewOutcome(action=done.action, files=done.names, is_undone=True, notes=notes)


def _limit(kept: "OrderedDict[tuple[object, ...], T]", most: int = _MOST_KEPT) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


def _keep(compared: Comparison, file: FileDifference) -> None:
    """Keep what is viewed, to compare with it later."""
    if file.new is not None and not compared.store.has(file.new.id) and not file.is_submodule:
        compared.store.put_blob(compared.read_content(file.new))


def _previous_marks(marks: PreviousMark) -> list[ReviewMarked]:
    """The events after which a file has the marks that it had."""
    empty = format_content(marks.file, None)
    events = [ReviewMarked(path=marks.path, mark="none", content=empty)]
    earlier: tuple[tuple[ReviewMark, str | None], ...] = (
        ("viewed", marks.viewed),
        ("accepted", marks.accepted),
        ("rejected", marks.rejected),
    )
    events += [
        ReviewMarked(path=marks.path, mark=mark, content=content)
        for mark, content in earlier
        if content is not None
    ]
    return events
