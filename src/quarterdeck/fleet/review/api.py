"""The part of the fleet's API for reviews: what an agent changed, and what is thought of it.

What an agent changed is defined once, here. In a worktree of its own: everything between the commit
that the worktree started from and now, committed, uncommitted and untracked alike. In a shared
directory: what the checkpoints of its turns say. Everything else (commands, panels, tools of leads)
shows these.

A file is named by its path as it is shown, or by its ``id`` where a path is no text.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.wire.ids import MessageId, SessionId
from quarterdeck.wire.worktrees import ReviewComment, ReviewMark

from ..method import fleet_method
from .patch import ChangeKind, PatchFile

__all__ = [
    "Acceptance",
    "AgentChanges",
    "ChangedFile",
    "FilePatch",
    "FleetReviews",
    "LineRange",
    "PatchText",
    "PlacedComment",
    "ReviewDecision",
    "ReviewOutcome",
    "ReviewSelection",
    "ReviewSince",
]

ReviewSince: TypeAlias = Literal["viewed", "accepted"]
"""Instead of the base: each file as it was when it was last marked as viewed, or what of it is
accepted. Files that were never marked are compared with the base."""
Acceptance: TypeAlias = Literal["none", "part", "whole"]
ReviewDecision: TypeAlias = Literal["accept", "reject"]
LineRange: TypeAlias = tuple[int, int]
"""The first and the last line, counted from 1."""


class ChangedFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that an agent changed."""

    id: str
    """Names its path exactly: the digest of its bytes, in hex."""
    path: str
    """For people, relative to ``AgentChanges.root``: bytes that are no text are escaped."""
    kind: ChangeKind
    content: str
    """Names what the file is now, mode and content; another content has another name."""
    old_path: str | None = None
    """Where it was, if elsewhere."""
    old_mode: str | None = None
    """As git writes modes; None: there was no file."""
    new_mode: str | None = None
    """None: there is no file any more."""
    added: int = 0
    """Lines; 0 for binary files."""
    removed: int = 0
    is_binary: bool = False
    is_submodule: bool = False
    mark: ReviewMark = "none"
    """The reviewer's mark, if it was made for what the file is now."""
    accepted: Acceptance = "none"
    """How much of the change is accepted."""
    is_changed_since: bool = False
    """It was marked, and has changed since then."""
    shared_with: tuple[str, ...] = ()
    """Names of agents that may have made some of the change: they worked in the same directory at
    the same time."""
    comments: int = 0
    """How many comments about it are open or sent."""
    note: str = ""
    """Why its content cannot be shown."""


class AgentChanges(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent changed."""

    session: SessionId
    name: str
    root: str
    """The directory that paths are relative to; for people."""
    against: str
    """What it is compared with, in words: ``main (1a2b3c4)``, ``before turn 3``."""
    old: str
    """The tree that it is compared with."""
    new: str
    """The tree of now, or of the turn's end; the same tree means the same changes."""
    files: tuple[ChangedFile, ...] = ()
    """By path; the first of very many."""
    count: int = 0
    """How many files there are."""
    added: int = 0
    removed: int = 0
    shared_with: tuple[str, ...] = ()
    """Names of agents that may have made some of the changes."""
    notes: tuple[str, ...] = ()
    """What is not covered, and why."""
    open_comments: int = 0
    """Comments that are not sent yet."""
    can_undo: bool = False
    """``undo_review`` would revert something."""


class FilePatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The change of one file, or a page of it."""

    changed: ChangedFile
    patch: PatchFile
    """With the hunks of this page; of a hunk that goes on, the lines that are on it."""
    accepted: tuple[Acceptance, ...] = ()
    """How much of each hunk of the page is accepted."""
    after: int = 0
    """How many lines of hunks are on pages before."""
    next: int | None = None
    """What to ask for as ``after`` to get the next page; None: this is the last."""
    lines: int = 0
    """How many lines all hunks have."""
    is_cut: bool = False
    """The patch is so large that its end is not known."""
    tree: str = ""
    """The tree that it is of."""


class PatchText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A patch as git writes it, or a piece of it."""

    data: bytes
    """As ``git apply`` takes it."""
    next: int | None = None
    """What to ask for as ``after`` to get more; None: this is the end."""
    is_cut: bool = False
    """The patch is so large that its end is missing."""
    tree: str = ""
    """The tree that it is of."""


class PlacedComment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A comment, and where its lines are now."""

    comment: ReviewComment
    time: int
    """When it was last changed, in microseconds since the epoch."""
    file: str
    """The id of the file that its lines are in now."""
    path: str
    """That file's, for people."""
    line: int | None = None
    """Where the lines are now, or what stands in their place; None: the file is gone."""
    end_line: int | None = None
    is_changed: bool = False
    """The lines are others than those that the comment is about."""


class ReviewSelection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file, or some lines of its change."""

    file: str
    """A path or an id."""
    content: str | None = None
    """``ChangedFile.content`` of what was looked at; a file that is another by now is refused.
    None: whatever it is."""
    old: tuple[LineRange, ...] = ()
    """Removed lines, in the old file. With ``new`` empty too: the whole file."""
    new: tuple[LineRange, ...] = ()
    """Added lines, in the new file."""

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole file: also its mode, its name, its being there."""
        return not self.old and not self.new


class ReviewOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was accepted, rejected, or undone of it."""

    action: ReviewDecision
    files: tuple[str, ...]
    """For people."""
    is_undone: bool = False
    notes: tuple[str, ...] = ()
    """What was not done besides, and why."""


class FleetReviews(Protocol):
    """Reviews of what agents changed; an agent is named by name or id, and need not be live.

    ``turn``: only what that turn did, by its number or id. ``since``: another old side. All methods
    raise ``NoSuchAgentError``, and ``ReviewError`` where the changes cannot be read.
    """

    @fleet_method()
    async def changes(
        self, agent: str, *, turn: str | None = None, since: ReviewSince | None = None
    ) -> AgentChanges:
        """What an agent changed, file by file."""
        ...

    @fleet_method()
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
        """The change of one file, at most ``limit`` lines of it, after the first ``after`` ones.

        ``tree``: ``AgentChanges.new`` or ``FilePatch.tree`` of an earlier call, to be shown what
        the files were then; the files are not looked at again if that is still known.

        Raises:
            NoSuchChangeError: the agent did not change this file.
        """
        ...

    @fleet_method()
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
        """The changes as a patch, of these files (paths, directories or ids) or all; bytes after
        the first ``after`` ones, at most 500,000 of them. ``binary``: with binary contents.
        ``tree``: as for ``patch``.

        Raises:
            NoSuchChangeError: the agent changed none of that.
        """
        ...

    @fleet_method(changes=True)
    async def mark_files(
        self, agent: str, files: Sequence[str], mark: Literal["viewed", "none"] = "viewed"
    ) -> None:
        """Mark files as viewed as they are now, or take their marks away.

        Raises:
            NoSuchChangeError: the agent did not change one of them; none is marked.
        """
        ...

    @fleet_method(changes=True)
    async def accept_changes(
        self,
        agent: str,
        selections: Sequence[ReviewSelection],
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
    ) -> ReviewOutcome:
        """Accept files or lines: they are marked, and staged in the index of the agent's worktree.

        The files stay as they are. All selections are accepted, or none.

        Raises:
            NoSuchChangeError: the agent did not change a file, or not these lines.
            ChangedMeanwhileError: a file is not what was looked at; its name is in the message.
        """
        ...

    @fleet_method(changes=True)
    async def reject_changes(
        self,
        agent: str,
        selections: Sequence[ReviewSelection],
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
    ) -> ReviewOutcome:
        """Reject files or lines: they become again what they were before the agent changed them.

        What they are now is kept for ``undo_review``. All are rejected, or none. Raises as
        ``accept_changes``.
        """
        ...

    @fleet_method(changes=True)
    async def undo_review(self, agent: str) -> ReviewOutcome:
        """Revert the newest acceptance or rejection that is not reverted yet.

        Raises:
            NothingToUndoError: there is none.
            ChangedMeanwhileError: a file was changed since; nothing was changed now.
        """
        ...

    @fleet_method()
    async def comments(self, agent: str, *, all: bool = False) -> list[PlacedComment]:
        """Comments about an agent's changes, by file and line; ``all``: also the resolved ones."""
        ...

    @fleet_method(changes=True)
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
        """Comment on lines of a file, counted in what it is now, or with ``is_old`` in what it was.

        It is open until it is sent. ``content``: what was looked at, as in a selection. ``author``:
        the agent that comments; None: a person. A file need not be changed by the agent.

        Raises:
            NoSuchChangeError: there is no such file, or it has no such line.
            ChangedMeanwhileError: the file is not what was looked at.
            ReviewError: the text is empty or too long.
        """
        ...

    @fleet_method(changes=True)
    async def edit_comment(self, agent: str, comment: str, text: str) -> ReviewComment:
        """Change the text of a comment that is not sent yet. Raises NoSuchCommentError."""
        ...

    @fleet_method(changes=True)
    async def drop_comment(self, agent: str, comment: str) -> None:
        """Delete a comment. Raises NoSuchCommentError."""
        ...

    @fleet_method(changes=True)
    async def resolve_comments(
        self,
        agent: str,
        comments: Sequence[str] = (),
        *,
        changed: bool = False,
        resolved: bool = True,
    ) -> list[ReviewComment]:
        """Resolve comments; returns those whose state has changed.

        ``changed``: also all that were sent and whose lines have changed since. ``resolved`` False:
        take up again what was resolved. Raises NoSuchCommentError.
        """
        ...

    @fleet_method(changes=True)
    async def send_comments(
        self,
        agent: str,
        comments: Sequence[str] = (),
        *,
        note: str = "",
        sender: SessionId | None = None,
    ) -> MessageId:
        """Send open comments to the agent as one prompt; all of them, or only these.

        ``note`` comes first in the prompt.

        Raises:
            NoSuchCommentError: there is no such comment, or none is open.
            AgentNotReadyError: the agent is not live; the comments stay open.
        """
        ...
