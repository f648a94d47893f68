"""Marks, comments and turns of sessions, folded from the log: each record is read once."""

import asyncio
from collections import OrderedDict

from msgspec import Struct, field
from msgspec.structs import replace

from quarterdeck.agent.checkpoints.turn_history import TurnLedger, read_ledger
from quarterdeck.journal import Journal
from quarterdeck.wire.events import (
    Checkpointed,
    Prompted,
    Redone,
    ReviewCommented,
    ReviewMarked,
    Rewound,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.worktrees import ReviewComment

from .comparison import parse_content

__all__ = ["FileMarks", "ReviewState", "ReviewStates"]

_MOST_KEPT = 200
"""Sessions that stay in memory; another is read again when it is needed."""


class FileMarks(Struct, frozen=True, kw_only=True):
    """What a reviewer has marked of a file."""

    path: str
    """For people."""
    viewed: str | None = None
    """Names the content that was viewed."""
    accepted: str | None = None
    """Names the content that is accepted: the old one with what was accepted of the change."""
    rejected: str | None = None
    """Names what was left of the file by the last rejection."""


class ReviewState(Struct, kw_only=True):
    """What the log says about the review of one session."""

    seq: int = 0
    """The last record that has been taken in."""
    marks: dict[str, FileMarks] = field(default_factory=dict[str, FileMarks])
    """By the id of the file."""
    comments: dict[str, tuple[ReviewComment, int]] = field(
        default_factory=dict[str, tuple[ReviewComment, int]]
    )
    """By id, in the order in which they were made, with the time of their last change."""
    turns: list[Record] = field(default_factory=list[Record])
    """The records that tell of turns and their checkpoints."""

    def take(self, record: Record) -> None:
        """Take in the next record of the session."""
        self.seq = record.seq
        match record.event:
            case ReviewCommented(comment=comment):
                self.comments[comment.id] = (comment, record.time)
                if comment.state == "dropped":
                    del self.comments[comment.id]
            case ReviewMarked() as event:
                self._mark(event)
            case Prompted() | TurnStarted() | Checkpointed() | Rewound() | Redone():
                self.turns.append(record)
            case _:
                pass

    def ledger(self) -> TurnLedger:
        """The turns of the session."""
        return read_ledger(self.turns)

    def _mark(self, event: ReviewMarked) -> None:
        file, _ = parse_content(event.content)
        known = self.marks.get(file, FileMarks(path=event.path))
        match event.mark:
            case "viewed":
                self.marks[file] = replace(known, viewed=event.content)
            case "accepted":
                self.marks[file] = replace(known, accepted=event.content)
            case "rejected":
                self.marks[file] = replace(known, rejected=event.content)
            case "none":
                self.marks.pop(file, None)


class ReviewStates:
    """The states of all sessions, read from the log when they are first needed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._states: OrderedDict[SessionId, ReviewState] = OrderedDict()
        self._locks: dict[SessionId, asyncio.Lock] = {}

    async def get(self, session: SessionId) -> ReviewState:
        """A session's state, up to the last durable record. Raises JournalError."""
        async with self._locks.setdefault(session, asyncio.Lock()):
            state = self._states.setdefault(session, ReviewState())
            self._states.move_to_end(session)
            async for record in self._journal.history(state.seq, session):
                state.take(record)
        while len(self._states) > _MOST_KEPT:
            gone, _ = self._states.popitem(last=False)
            self._locks.pop(gone, None)
        return state
