"""What happens to a conversation that would outgrow the model's window.

Nothing of the history is changed: these are appended, and from then on requests are built as
they say. ``through`` counts the messages of the conversation from its beginning, those that were
replaced earlier too: it means the same in a session, in one that goes on, and in a fork.
"""

from typing import Literal, TypeAlias

from .content import ContentBlock
from .conversation import Part
from .ids import CompactionId, MessageId
from .usage import Cost, TokenUsage
from .values import Value

__all__ = [
    "CompactionChanged",
    "CompactionChunk",
    "CompactionStatus",
    "ContextAdded",
    "MessagePinned",
    "MessageUnpinned",
    "ResultsCleared",
]

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
