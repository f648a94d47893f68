"""What a review shows and does, without a screen: it calls the fleet and notes what came of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from quarterdeck.fleet.review.api import (
    AgentChanges,
    ChangedFile,
    FilePatch,
    PlacedComment,
    ReviewOutcome,
    ReviewSelection,
    ReviewSince,
)
from quarterdeck.wire.errors import QuarterdeckError

from .document import (
    PAGE_LINES,
    ChangedLine,
    NumberedHunk,
    PatchDocument,
    PatchSlot,
    select_lines,
)

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, Fleet
    from quarterdeck.wire.ids import MessageId, SessionId

__all__ = ["CommentTarget", "ReviewModel", "conflicting_agents", "describe_outcome"]

_MOST_PAGES = 500
"""Pages that are read to find the end of a hunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentTarget:
    """The lines that a comment is about, or the comment that is changed."""

    file: str = ""
    """The id of the file."""
    line: int = 0
    end_line: int = 0
    is_old: bool = False
    content: str | None = None
    comment: str = ""
    """The id of an existing comment; empty: a new one."""

    @property
    def key(self) -> str:
        """Names the target, so that what was typed for it is found again."""
        if self.comment:
            return self.comment
        return f"{self.file}:{'-' if self.is_old else '+'}{self.line}-{self.end_line}"


@dataclass(kw_only=True)
class ReviewModel:
    """The changes of one agent as a reviewer looks at them.

    Methods that call the fleet raise ``QuarterdeckError``, except ``refresh``.
    """

    fleet: "Fleet"
    agent: str
    """The agent's name or id."""
    turn: str | None = None
    since: ReviewSince | None = None
    ignores_space: bool = False
    shows_resolved: bool = False
    changes: AgentChanges | None = None
    comments: list[PlacedComment] = field(default_factory=list[PlacedComment])
    problem: str | None = None
    """Why there is nothing to show."""

    @property
    def files(self) -> Sequence[ChangedFile]:
        """The files that are shown."""
        return self.changes.files if self.changes is not None else ()

    def file(self, id: str | None) -> ChangedFile | None:
        """A file by its id; None: the agent does not change it any more."""
        return next((file for file in self.files if file.id == id), None)

    def find_path(self, path: str) -> ChangedFile | None:
        """A file by its path or id."""
        return next((file for file in self.files if path in (file.path, file.id)), None)

    async def refresh(self) -> None:
        """Read what changed and the comments."""
        try:
            self.changes = await self.fleet.changes(self.agent, turn=self.turn, since=self.since)
            self.comments = await self.fleet.comments(self.agent, all=self.shows_resolved)
            self.problem = None
        except QuarterdeckError as error:
            self.changes, self.comments, self.problem = None, [], str(error)

    async def all_comments(self) -> list[PlacedComment]:
        """The comments, also those that are resolved."""
        return await self.fleet.comments(self.agent, all=True)

    async def read_page(self, document: PatchDocument, slot: PatchSlot) -> FilePatch:
        """The page of a slot."""
        return await self.fleet.patch(
            self.agent,
            slot.file.id,
            turn=self.turn,
            since=self.since,
            ignore_space=self.ignores_space,
            after=slot.after,
            limit=PAGE_LINES,
            tree=document.tree,
        )

    async def collect_hunk(
        self, document: PatchDocument, slot: PatchSlot, hunk: int
    ) -> list[ChangedLine]:
        """All changed lines of a hunk, also those on pages before and after this one."""
        lines = list(slot.hunks[hunk].changed_lines(slot.file.id))
        at, is_first = slot, hunk == 0 and slot.hunks[0].hunk.is_continued
        while is_first and (before := document.neighbour(at, -1)) is not None:
            hunks = await self._hunks(document, before)
            lines += hunks[-1].changed_lines(slot.file.id) if hunks else ()
            is_first = len(hunks) == 1 and hunks[0].hunk.is_continued
            at = before
        at, is_last, left = slot, hunk == len(slot.hunks) - 1, _MOST_PAGES
        while is_last and left and (after := document.neighbour(at, 1)) is not None:
            hunks = await self._hunks(document, after)
            if not hunks or not hunks[0].hunk.is_continued:
                break
            lines += hunks[0].changed_lines(slot.file.id)
            is_last, at, left = len(hunks) == 1, after, left - 1
        return lines

    async def _hunks(self, document: PatchDocument, slot: PatchSlot) -> list[NumberedHunk]:
        if slot.is_loaded:
            return slot.hunks
        page = await self.read_page(document, slot)
        return [NumberedHunk(hunk, "none") for hunk in page.patch.hunks]

    def select(
        self, document: PatchDocument, lines: Iterable[ChangedLine]
    ) -> tuple[ReviewSelection, ...]:
        """Lines as selections of what was looked at."""
        return select_lines(lines, {file.id: file.content for file in document.files})

    async def decide(
        self, how: Literal["accept", "reject"], selections: Sequence[ReviewSelection]
    ) -> ReviewOutcome:
        """Accept or reject files or lines."""
        call = self.fleet.accept_changes if how == "accept" else self.fleet.reject_changes
        return await call(self.agent, selections, turn=self.turn, since=self.since)

    async def undo(self) -> ReviewOutcome:
        """Revert the last acceptance or rejection."""
        return await self.fleet.undo_review(self.agent)

    async def mark(self, file: ChangedFile) -> bool:
        """Mark a file as viewed, or take the mark away; True: it is marked now."""
        is_marked = file.mark != "none"
        await self.fleet.mark_files(self.agent, [file.id], "none" if is_marked else "viewed")
        return not is_marked

    async def comment(self, target: CommentTarget, text: str) -> None:
        """Make a comment, or change one."""
        if target.comment:
            await self.fleet.edit_comment(self.agent, target.comment, text)
            return
        await self.fleet.comment(
            self.agent,
            target.file,
            target.line,
            text,
            end_line=target.end_line,
            is_old=target.is_old,
            # The old side of a file has no name of its own to compare with.
            content=None if target.is_old else target.content,
        )

    async def resolve(self, comment: str) -> bool:
        """Resolve a comment, or take it up again; True: it is resolved now."""
        known = self.find_comment(comment)
        is_resolved = known is not None and known.comment.state == "resolved"
        await self.fleet.resolve_comments(self.agent, [comment], resolved=not is_resolved)
        return not is_resolved

    async def resolve_changed(self) -> int:
        """Resolve all comments that were sent and whose lines have changed since; how many."""
        return len(await self.fleet.resolve_comments(self.agent, (), changed=True))

    async def drop(self, comment: str) -> None:
        """Delete a comment."""
        await self.fleet.drop_comment(self.agent, comment)

    async def send(self) -> "MessageId":
        """Send all open comments to the agent."""
        return await self.fleet.send_comments(self.agent)

    def find_comment(self, id: str) -> PlacedComment | None:
        """A comment by its id."""
        return next((one for one in self.comments if one.comment.id == id), None)

    @property
    def unsent(self) -> int:
        """How many comments are not sent."""
        return sum(placed.comment.state == "open" for placed in self.comments)


def conflicting_agents(
    agent: "AgentInfo | None", names: "Mapping[SessionId, str]", path: str | None = None
) -> tuple[str, ...]:
    """Names of agents that change the same lines or symbols; only of one file if it is named.

    ``names``: of agents by their session.
    """
    if agent is None:
        return ()
    return tuple(
        names.get(conflict.other, conflict.other)
        for conflict in agent.conflicts
        if any(file.kind != "file" and path in (None, file.path) for file in conflict.files)
    )


def describe_outcome(outcome: ReviewOutcome) -> str:
    """What was done, in a sentence."""
    verb = {"accept": "accepted", "reject": "rejected"}[outcome.action]
    what = outcome.files[0] if len(outcome.files) == 1 else f"{len(outcome.files)} files"
    done = f"undone: {what} is no longer {verb}" if outcome.is_undone else f"{verb} {what}"
    if outcome.is_undone and len(outcome.files) > 1:
        done = f"undone: {what} are no longer {verb}"
    notes = "; ".join(outcome.notes)
    hint = "" if outcome.is_undone else "; z undoes it"
    return f"{done}{hint}" + (f". {notes}" if notes else "")
