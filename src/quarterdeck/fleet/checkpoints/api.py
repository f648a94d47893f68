"""The part of the fleet's API that undoes what agents did: turns, their changes, undo and redo."""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.wire.events import SharedFile
from quarterdeck.wire.ids import SessionId, TurnId

from ..method import fleet_method

__all__ = [
    "ConversationOutcome",
    "FleetCheckpoints",
    "KeptFile",
    "TurnChanges",
    "TurnFileState",
    "TurnInfo",
    "UndoResult",
]

TurnFileState: TypeAlias = Literal["none", "in place", "undone", "partly undone"]
"""What became of a turn's changes to files; ``none``: it made no change."""
ConversationOutcome: TypeAlias = Literal["rewound", "noted", "unchanged"]
"""``rewound``: the agent no longer knows of the turn. ``noted``: its next prompt begins with a note
of what was undone."""


class TurnInfo(Struct, frozen=True, kw_only=True):
    """A turn of an agent, and what became of it."""

    number: int
    """Counted from 1; never changes."""
    turn: TurnId
    prompt: str
    """The beginning of its prompt, in one line."""
    time: int
    """Microseconds since the epoch."""
    files: TurnFileState = "none"
    in_conversation: bool = True
    changed: int = 0
    """How many files."""
    created: int = 0
    deleted: int = 0
    paths: tuple[str, ...] = ()
    """Some of them."""
    shared: tuple[SharedFile, ...] = ()
    """Some of those that other agents may have changed at the same time."""
    uncovered: tuple[str, ...] = ()
    """What cannot be restored, and why."""


class TurnChanges(Struct, frozen=True, kw_only=True):
    """What turns did to files."""

    summary: tuple[str, ...]
    """A line for each file: ``A`` created, ``D`` deleted, ``M`` changed."""
    diff: tuple[str, ...] = ()
    """Lines as of ``diff -u``."""
    is_cut: bool = False
    """There are more lines."""


class KeptFile(Struct, frozen=True, kw_only=True):
    """A file that was not touched."""

    path: str
    reason: str


class UndoResult(Struct, frozen=True, kw_only=True):
    """What an undo, a rewind or a redo did."""

    session: SessionId
    name: str
    """The agent's."""
    action: Literal["undo", "redo"]
    turn: TurnId
    """The first turn that was undone, or redone."""
    number: int
    prompt: str
    restored: int = 0
    """How many files were changed."""
    merged: tuple[str, ...] = ()
    """Files in which later changes by others stayed."""
    kept: tuple[KeptFile, ...] = ()
    """Files that were not touched."""
    forced: bool = False
    """Later changes by others were overwritten; a redo brings them back."""
    conversation: ConversationOutcome = "unchanged"
    uncovered: tuple[str, ...] = ()
    """What is not, or not exactly, recorded of the turns, and why."""


class FleetCheckpoints(Protocol):
    """Undo and redo of what agents did, of any vendor, live or not."""

    @fleet_method()
    async def turns(self, agent: str) -> list[TurnInfo]:
        """The turns of an agent, oldest first. Raises NoSuchAgentError."""
        ...

    @fleet_method()
    async def turn_changes(
        self, agent: str, *, turn: str | None = None, lines: int = 400
    ) -> TurnChanges:
        """What a turn did to files, by its number or id; None: all turns that are not undone.

        ``lines``: of the diff, at the most.

        Raises:
            NoSuchAgentError: there is no such agent.
            NothingToUndoError, ContentMissingError: there is no such turn, or it is not kept.
        """
        ...

    @fleet_method(changes=True)
    async def undo(
        self,
        agent: str,
        *,
        turn: str | None = None,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
    ) -> UndoResult:
        """Undo one turn: its changes to files, and its place in the conversation.

        ``turn`` is a number or an id; None: the newest that is not undone. What others changed
        later in the same files stays. A file in which that cannot be separated is not touched and
        is named in the result, unless ``force`` overwrites it. The conversation can only go back
        from its end: it stays as it is for a turn with others after it, and the agent's next
        prompt begins with a note.

        Raises:
            NoSuchAgentError: there is no such agent.
            AgentNotReadyError: its turn is running; interrupt it first. Or its worktree is gone.
            NothingToUndoError: there is no such turn, or nothing of it is left to undo.
            FilesKeptError: no file can be restored; nothing was changed.
            ContentMissingError, RestoreError: it cannot be done; nothing was changed.
        """
        ...

    @fleet_method(changes=True)
    async def redo(self, agent: str, *, force: bool = False) -> UndoResult:
        """Revert the last undo or rewind, until the agent has run another turn.

        Raises as ``undo``.
        """
        ...

    @fleet_method(changes=True)
    async def rewind(
        self,
        agent: str,
        turn: str,
        *,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
    ) -> UndoResult:
        """Go back to where a turn began: undo it and all later ones. Raises as ``undo``."""
        ...
