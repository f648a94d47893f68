"""The reviews of a fleet in memory: two texts for each file, compared with difflib."""

import difflib
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec.structs import replace

from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.errors import AgentNotReadyError
from quarterdeck.fleet.review.api import (
    Acceptance,
    AgentChanges,
    ChangedFile,
    FilePatch,
    PatchText,
    PlacedComment,
    ReviewOutcome,
    ReviewSelection,
    ReviewSince,
)
from quarterdeck.fleet.review.errors import (
    ChangedMeanwhileError,
    NoSuchChangeError,
    NoSuchCommentError,
    ReviewError,
)
from quarterdeck.fleet.review.patch import PatchFile, PatchHunk, PatchLine, cut_page
from quarterdeck.fleet.review.selection import (
    ChangedLines,
    changed_lines,
    reject_lines,
    split_lines,
)
from quarterdeck.wire.content import text as text_block
from quarterdeck.wire.events import Event, ReviewCommented, ReviewMarked
from quarterdeck.wire.ids import MessageId, SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.worktrees import ReviewComment

__all__ = ["MemoryReviews", "ReviewedFile"]


@dataclass
class ReviewedFile:
    """A file before and now; None: it is not there."""

    path: str
    old: str | None
    new: str | None
    viewed: str | None = None
    """What it was when it was marked."""
    accepted: set[tuple[bool, int]] = field(default_factory=set[tuple[bool, int]])
    shared_with: tuple[str, ...] = ()
    note: str = ""

    @property
    def id(self) -> str:
        return hashlib.blake2b(
            self.path.encode("utf-8", "surrogateescape"), digest_size=8
        ).hexdigest()

    @property
    def content(self) -> str:
        return hashlib.blake2b((self.new or "gone").encode()).hexdigest()[:12]

    def before(self, since: str | None) -> str | None:
        return self.viewed if since == "viewed" and self.viewed is not None else self.old

    def hunks(
        self, since: str | None = None, *, space: bool = True, context: int = 3
    ) -> list[PatchHunk]:
        old, new = (self.before(since) or "").splitlines(), (self.new or "").splitlines()
        keys = (
            (old, new)
            if space
            else ([" ".join(one.split()) for one in old], [" ".join(one.split()) for one in new])
        )
        matcher = difflib.SequenceMatcher(None, *keys, autojunk=len(old) > 2_000)
        found: list[PatchHunk] = []
        for group in matcher.get_grouped_opcodes(context):
            lines: list[PatchLine] = []
            for tag, a, b, c, d in group:
                if tag == "equal":
                    lines += [PatchLine(" ", line) for line in new[c:d]]
                    continue
                lines += [PatchLine("-", line) for line in old[a:b]]
                lines += [PatchLine("+", line) for line in new[c:d]]
            _, a, _, c, _ = group[0]
            b, d = group[-1][2], group[-1][4]
            found.append(PatchHunk(old=a + (b > a), new=c + (d > c), lines=lines))
        return found


class MemoryReviews:
    """Only what screens need of reviews; every call is noted in ``calls``. A part of a fleet."""

    agent: Callable[[str], Awaitable[AgentInfo]]
    append: Callable[[SessionId, Event], Awaitable[Record]]
    find: Callable[[str], SessionId]
    send: Callable[..., Awaitable[MessageId]]

    def __init__(self) -> None:
        super().__init__()
        self.reviewed: dict[str, ReviewedFile] = {}
        """The changed files of every agent, by path."""
        self.noted: dict[str, ReviewComment] = {}
        self.calls: list[tuple[str, Any]] = []
        self.refuses: ReviewError | None = None
        self._undo: list[tuple[Literal["accept", "reject"], dict[str, ReviewedFile]]] = []

    def change(self, path: str, old: str | None, new: str | None, **more: Any) -> ReviewedFile:
        file = self.reviewed[path] = ReviewedFile(path, old, new, **more)
        return file

    def _file(self, name: str) -> ReviewedFile:
        for file in self.reviewed.values():
            if name in (file.path, file.id):
                return file
        raise NoSuchChangeError.of_file("agent", name, self.reviewed)

    def _changed(self, file: ReviewedFile, since: str | None, *, space: bool = True) -> ChangedFile:
        lines = changed_lines(file.hunks(since, space=space, context=0))
        every = {*((True, n) for n in lines.old), *((False, n) for n in lines.new)}
        accepted: Acceptance = "none"
        if every & file.accepted:
            accepted = "whole" if every <= file.accepted else "part"
        kind = "new" if file.old is None else "deleted" if file.new is None else "changed"
        return ChangedFile(
            id=file.id,
            path=file.path,
            kind=kind,
            content=file.content,
            old_mode="100644",
            new_mode="100644",
            added=len(lines.new),
            removed=len(lines.old),
            mark="viewed" if file.viewed is not None and file.viewed == file.new else "none",
            is_changed_since=file.viewed is not None and file.viewed != file.new,
            accepted=accepted,
            shared_with=file.shared_with,
            note=file.note,
            comments=sum(
                one.path == file.path and one.state in ("open", "sent")
                for one in self.noted.values()
            ),
        )

    async def changes(
        self, agent: str, *, turn: str | None = None, since: ReviewSince | None = None
    ) -> AgentChanges:
        info = await self.agent(agent)
        if self.refuses is not None:
            raise self.refuses
        files = [
            self._changed(file, since)
            for _, file in sorted(self.reviewed.items())
            if file.before(since) != file.new
        ]
        return AgentChanges(
            session=info.session,
            name=info.name,
            root="/work/tree",
            against="main (1a2b3c4)",
            old="old",
            new="new",
            files=tuple(files),
            count=len(files),
            added=sum(file.added for file in files),
            removed=sum(file.removed for file in files),
            open_comments=sum(one.state == "open" for one in self.noted.values()),
            can_undo=bool(self._undo),
        )

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
        self.calls.append(("patch", (file, after)))
        found = self._file(file)
        hunks = found.hunks(since, space=not ignore_space)
        changed = self._changed(found, since, space=not ignore_space)
        patch = PatchFile(path=found.path, kind=changed.kind, hunks=hunks)
        page, _, after_next = cut_page(patch, after, limit)
        return FilePatch(
            changed=changed,
            patch=page,
            accepted=tuple(_acceptance(hunk, found.accepted) for hunk in page.hunks),
            after=after,
            next=after_next,
            lines=sum(len(hunk.lines) for hunk in hunks),
            tree=tree or "new",
        )

    async def patch_text(self, agent: str, files: Sequence[str] = (), **how: Any) -> PatchText:
        raise NotImplementedError

    async def mark_files(
        self, agent: str, files: Sequence[str], mark: Literal["viewed", "none"] = "viewed"
    ) -> None:
        for name in files:
            file = self._file(name)
            file.viewed = file.new if mark == "viewed" else None
            self.calls.append(("mark", (file.path, mark)))
            await self.append(self.find(agent), ReviewMarked(path=file.path, mark=mark))

    async def accept_changes(
        self,
        agent: str,
        selections: Sequence[ReviewSelection],
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
    ) -> ReviewOutcome:
        return await self._decide("accept", agent, selections, since)

    async def reject_changes(
        self,
        agent: str,
        selections: Sequence[ReviewSelection],
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
    ) -> ReviewOutcome:
        return await self._decide("reject", agent, selections, since)

    async def _decide(
        self,
        how: Literal["accept", "reject"],
        agent: str,
        selections: Sequence[ReviewSelection],
        since: str | None,
    ) -> ReviewOutcome:
        before = {path: _copy(file) for path, file in self.reviewed.items()}
        names: list[str] = []
        for selection in selections:
            file = self._file(selection.file)
            if selection.content not in (None, file.content):
                raise ChangedMeanwhileError(file.path)
            hunks = file.hunks(since, context=0)
            chosen = (
                changed_lines(hunks) if selection.is_whole else ChangedLines.selected(selection)
            )
            if not (
                chosen.old <= changed_lines(hunks).old and chosen.new <= changed_lines(hunks).new
            ):
                raise NoSuchChangeError(f"these lines of {file.path!r} are not changed")
            self.calls.append((how, (file.path, sorted(chosen.old), sorted(chosen.new))))
            names.append(file.path)
            if how == "accept":
                file.accepted |= {(True, n) for n in chosen.old} | {(False, n) for n in chosen.new}
            else:
                old, new = ((one or "").encode() for one in (file.before(since), file.new))
                kept = reject_lines(split_lines(old), split_lines(new), hunks, chosen)
                file.new = b"".join(kept).decode() if kept or file.old is not None else None
        self._undo.append((how, before))
        self._drop_unchanged()
        await self.append(self.find(agent), ReviewMarked(path=names[0], mark="accepted"))
        return ReviewOutcome(action=how, files=tuple(names))

    def _drop_unchanged(self) -> None:
        self.reviewed = {p: f for p, f in self.reviewed.items() if f.old != f.new}

    async def undo_review(self, agent: str) -> ReviewOutcome:
        if not self._undo:
            raise ReviewError("there is nothing to undo")
        how, before = self._undo.pop()
        changed = [p for p, f in before.items() if self.reviewed.get(p) != f]
        self.reviewed = before
        self.calls.append(("undo", tuple(changed)))
        return ReviewOutcome(action=how, files=tuple(changed), is_undone=True)

    async def comments(self, agent: str, *, all: bool = False) -> list[PlacedComment]:
        return [
            PlacedComment(
                comment=one,
                time=1,
                file=self._id(one.path),
                path=one.path,
                line=one.line if one.path in self.reviewed else None,
                end_line=one.end_line,
                is_changed=one.content not in ("", self._content(one.path)),
            )
            for one in self.noted.values()
            if one.state != "dropped" and (all or one.state != "resolved")
        ]

    def _id(self, path: str) -> str:
        return ReviewedFile(path, None, None).id

    def _content(self, path: str) -> str:
        return self.reviewed[path].content if path in self.reviewed else ""

    async def comment(
        self,
        agent: str,
        file: str,
        line: int,
        text: str,
        *,
        end_line: int | None = None,
        is_old: bool = False,
        content: str | None = None,
        author: SessionId | None = None,
    ) -> ReviewComment:
        found = self._file(file)
        if content not in (None, found.content):
            raise ChangedMeanwhileError(found.path)
        made = ReviewComment(
            id=f"com_{len(self.noted) + 1}",
            path=found.path,
            line=line,
            end_line=None if end_line in (None, line) else end_line,
            text=text,
            is_old=is_old,
            author=author,
            content="" if is_old else found.content,
        )
        await self._note(agent, made)
        return made

    async def edit_comment(self, agent: str, comment: str, text: str) -> ReviewComment:
        return await self._note(agent, replace(self._comment(comment), text=text))

    async def drop_comment(self, agent: str, comment: str) -> None:
        await self._note(agent, replace(self._comment(comment), state="dropped"))

    async def resolve_comments(
        self,
        agent: str,
        comments: Sequence[str] = (),
        *,
        changed: bool = False,
        resolved: bool = True,
    ) -> list[ReviewComment]:
        chosen = list(comments)
        if changed:
            placed = await self.comments(agent)
            chosen += [p.comment.id for p in placed if p.is_changed and p.comment.state == "sent"]
        state: Literal["resolved", "open"] = "resolved" if resolved else "open"
        return [await self._note(agent, replace(self._comment(one), state=state)) for one in chosen]

    async def send_comments(
        self,
        agent: str,
        comments: Sequence[str] = (),
        *,
        note: str = "",
        sender: SessionId | None = None,
    ) -> MessageId:
        if not (await self.agent(agent)).is_live:
            raise AgentNotReadyError(f"{agent!r} is not live")
        opened = [one for one in self.noted.values() if one.state == "open"]
        for one in opened:
            await self._note(agent, replace(one, state="sent"))
        words = "work " + "; ".join(one.text for one in opened)
        return await self.send(agent, (text_block(words),))

    def _comment(self, comment: str) -> ReviewComment:
        if comment not in self.noted:
            raise NoSuchCommentError(f"no comment {comment!r}")
        return self.noted[comment]

    async def _note(self, agent: str, comment: ReviewComment) -> ReviewComment:
        self.noted[comment.id] = comment
        self.calls.append((comment.state, (comment.path, comment.line, comment.text)))
        await self.append(self.find(agent), ReviewCommented(comment=comment))
        return comment


def _copy(file: ReviewedFile) -> ReviewedFile:
    return ReviewedFile(
        file.path, file.old, file.new, file.viewed, set(file.accepted), file.shared_with, file.note
    )


def _acceptance(hunk: PatchHunk, accepted: set[tuple[bool, int]]) -> Acceptance:
    lines = changed_lines([hunk])
    every = {*((True, n) for n in lines.old), *((False, n) for n in lines.new)}
    if not every & accepted:
        return "none"
    return "whole" if every <= accepted else "part"
