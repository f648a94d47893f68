"""Events about the context and the files of a session: compaction, pins, checkpoints, rewinds.

Part of ``events``, and imported from there. The history is never changed: these events are
appended, and later requests are built as they say. ``through`` counts the messages of the
conversation from its beginning, including those that were replaced: it means the same in a
session, in a resumed one and in a fork. The contents of files are not in the log but beside it,
named by digest.
"""

from typing import Literal, TypeAlias

from .content import ContentBlock
from .conversation import Part
from .ids import CompactionId, MessageId, TurnId
from .usage import Cost, TokenUsage
from .values import Value

__all__ = [
    "Checkpointed",
    "CompactionChanged",
    "CompactionChunk",
    "CompactionStatus",
    "ContextAdded",
    "MessagePinned",
    "MessageUnpinned",
    "Redone",
    "ResultsCleared",
    "Rewound",
]


class Checkpointed(Value, frozen=True, kw_only=True, tag_field="type", tag="checkpointed"):
    """A turn changed files and can be undone; at most once a turn, before its end or later."""

    turn: TurnId
    manifest: str
    """The digest of the list of changes, which is kept beside the log."""
    changed: int
    """How many files: created, changed and deleted ones."""
    created: int = 0
    deleted: int = 0
    paths: tuple[str, ...] = ()
    """Some of the files, for people."""
    uncovered: tuple[str, ...] = ()
    """What cannot be brought back, for people."""


class Rewound(Value, frozen=True, kw_only=True, tag_field="type", tag="rewound"):
    """The session went back to where a turn began; between turns or within a command's."""

    to: TurnId
    conversation: bool = False
    """What was said from that turn up to here is no longer told to the model."""
    files: tuple[TurnId, ...] = ()
    """The turns whose changes to files were taken back."""
    restored: str | None = None
    """The digest of the list of what was done to files."""
    changed: int = 0
    """How many files were brought back."""
    kept: tuple[str, ...] = ()
    """Files that could not be brought back and are as they were."""
    forced: bool = False
    """Files that somebody had changed since were overwritten."""


class Redone(Value, frozen=True, kw_only=True, tag_field="type", tag="redone"):
    """The newest ``Rewound`` that was not redone is taken back; before the next turn."""

    to: TurnId
    """As in that ``Rewound``."""
    changed: int = 0
    kept: tuple[str, ...] = ()
    forced: bool = False


CompactionStatus: TypeAlias = Literal["in_progress", "completed", "failed", "cancelled"]


class CompactionChanged(
    Value, frozen=True, kw_only=True, tag_field="type", tag="compaction_changed"
):
    """The state of a compaction: first ``in_progress``, later one of the others, once."""

    compaction: CompactionId
    status: CompactionStatus
    summary: str | None = None
    error: str | None = None
    through: int | None = None
    """With ``completed``: how many messages the summary stands for. Native agent only."""
    kept: tuple[Part, ...] = ()
    """What is told whole beside the summary: prompts, pinned messages, the plan …"""
    usage: TokenUsage | None = None
    """What writing the summary took; a turn that waited for it counts it as its own."""
    cost: Cost | None = None


class CompactionChunk(Value, frozen=True, kw_only=True, tag_field="type", tag="compaction_chunk"):
    """A piece of a compaction's summary, while it is in progress."""

    compaction: CompactionId
    content: ContentBlock


class ResultsCleared(Value, frozen=True, kw_only=True, tag_field="type", tag="results_cleared"):
    """Old results of tools are no longer told, only what they were; at any time, each further."""

    through: int
    """Results in this many messages from the beginning."""
    longest: int | None = None
    """Those that are told still are cut to about so many characters; None: told as notes."""


class ContextAdded(Value, frozen=True, kw_only=True, tag_field="type", tag="context_added"):
    """The model is told something that nobody typed: a nested instructions file, a hook's word.

    At any time; told when no result of a tool is awaited. Survives every compaction.
    """

    source: str
    """The file, or the hook; the same again replaces what survives."""
    text: str
    """What the model is told, to the letter."""


class MessagePinned(Value, frozen=True, kw_only=True, tag_field="type", tag="message_pinned"):
    """A message is to survive every compaction whole; at any time, the same id replaces."""

    message: MessageId
    content: tuple[ContentBlock, ...]
    new: bool = False
    """The model has not heard it yet and is told it now."""


class MessageUnpinned(Value, frozen=True, kw_only=True, tag_field="type", tag="message_unpinned"):
    """A pinned message is as any other again; after its ``MessagePinned``."""

    message: MessageId
