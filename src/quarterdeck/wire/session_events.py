"""Events about a session as a whole: its life, sub-agents, goals, context and files.

Part of ``events``, and imported from there. A child of our own agent is a session in the log of
its parent. It asks no person by itself: its requests are in the session at the top, with a
``ChildRef`` that names the child.

Part of ``events``, and imported from there. The history is never changed: these events are
appended, and later requests are built as they say. ``through`` counts the messages of the
conversation from its beginning, including those that were replaced: it means the same in a
session, in a resumed one and in a fork. The contents of files are not in the log but beside it,
named by digest.
"""

from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from .content import ContentBlock
from .conversation import Part
from .ids import CompactionId, MessageId, SessionId, ToolCallId, TurnId
from .session_options import SessionOptions
from .settings import Command, ConfigOption, Mode
from .usage import Cost, TokenUsage
from .values import Value

__all__ = [
    "Checkpointed",
    "ChildEnd",
    "ChildEnded",
    "ChildRef",
    "ChildStarted",
    "CommandsChanged",
    "CompactionChanged",
    "CompactionChunk",
    "CompactionStatus",
    "ContextAdded",
    "EndOfSession",
    "GoalEnd",
    "GoalEnded",
    "GoalSet",
    "MessagePinned",
    "MessageUnpinned",
    "ModeChanged",
    "OptionsChanged",
    "Redone",
    "ResultsCleared",
    "Rewound",
    "SessionChanged",
    "SessionEnded",
    "SessionOpened",
    "SessionResumed",
    "SessionSpawned",
    "SharedFile",
]

GoalEnd: TypeAlias = Literal["reached", "limit", "stuck", "refused"]
"""The model says that it is reached; the budget is spent; turns go by in which nothing is done;
or the model declines to go on."""


class GoalSet(Value, frozen=True, kw_only=True, tag_field="type", tag="goal_set"):
    """The session pursues a goal from here on; between turns. Another one replaces it."""

    goal: str
    tokens: int | None = None
    """The budget of all turns together; None: no bound."""
    cost: float | None = None
    """US dollars."""
    seconds: float | None = None
    """Time in which turns run."""
    turns: int | None = None


class GoalEnded(Value, frozen=True, kw_only=True, tag_field="type", tag="goal_ended"):
    """The goal is pursued no longer; between turns, at most once for each that was set.

    A turn that was cancelled or failed does not end it: it can be taken up again.
    """

    how: GoalEnd
    summary: str | None = None
    """The model's words for what was reached."""
    evidence: str | None = None
    """The model's words for how it knows."""
    reason: str | None = None
    """Why it was not reached."""
    turns: int = 0
    usage: TokenUsage | None = None
    cost: Cost | None = None


ChildEnd: TypeAlias = Literal["completed", "limit", "failed", "cancelled"]
"""How a child ended: it answered, it reached a limit, something failed, or it was stopped."""


class ChildRef(Value, frozen=True, kw_only=True):
    """Which child asks."""

    session: SessionId
    name: str
    """Its profile."""
    path: tuple[str, ...] = ()
    """Names from the child of the session at the top down to this one."""
    call: ToolCallId | None = None
    """Its call that needs permission, in its own session."""


class ChildStarted(Value, frozen=True, kw_only=True, tag_field="type", tag="child_started"):
    """A tool call starts a child; once a child, while the call runs."""

    child: SessionId
    call: ToolCallId
    """The call that starts it, in this session."""
    name: str
    """Its profile."""
    task: str
    background: bool = False
    """The call does not wait for it; its answer comes as a prompt of the child's."""


class ChildEnded(Value, frozen=True, kw_only=True, tag_field="type", tag="child_ended"):
    """A child is over, once for each that started; before its call ends or, later, its answer."""

    child: SessionId
    call: ToolCallId
    how: ChildEnd
    answer: str = ""
    """What is sent to the model, cut to the size of a result."""
    usage: TokenUsage | None = None
    """With all that its own children took."""
    cost: Cost | None = None


EndOfSession: TypeAlias = Literal["closed", "ended", "broken", "killed"]
"""How a session's run ended: we closed it, the agent finished, something failed, or someone
killed it."""


class SessionSpawned(Value, frozen=True, kw_only=True, tag_field="type", tag="session_spawned"):
    """A fleet starts a session with these options; first of all, and again before later runs.

    The second form of this event. The first had the fields of ``options`` at its top; ``record``
    reads it. Values of variables and headers are always left out here.
    """

    name: str
    """What people and other agents call it; unique among those that are not archived."""
    options: SessionOptions
    parent_session: SessionId | None = None
    """The session whose agent asked for it."""
    lead: bool = False
    """It has the tools to start agents of its own."""
    forked_from: SessionId | None = None
    """The session whose history it shares."""
    continues: SessionId | None = None
    """The session of another agent whose work was handed over to it."""
    fallback: tuple[str, ...] | None = None
    """The agents that continue its work, in this order, when it fails; None: as the settings say
    then."""

    def __post_init__(self) -> None:
        kept = self.options.without_values()
        if kept is not self.options:
            force_setattr(self, "options", kept)


class SessionOpened(Value, frozen=True, kw_only=True, tag_field="type", tag="session_opened"):
    """The beginning of a session's first run, once."""

    agent: str
    """The agent's name in our catalogue, such as ``claude`` or ``native``."""
    cwd: str
    roots: tuple[str, ...] = ()
    """Further directories the agent may work in."""
    title: str | None = None
    transport: str | None = None
    agent_session: str | None = None
    """The id under which the agent itself knows the session; what resuming needs."""
    agent_version: str | None = None
    model: str | None = None
    mode: str | None = None
    parent_session: SessionId | None = None
    """The session whose agent spawned this one."""
    forked_from: SessionId | None = None
    forked_at: int | None = None
    """The sequence number in ``forked_from`` up to which history is shared."""
    options: SessionOptions | None = None
    """What the run was started with, besides the above; None: nothing. Native agent only."""


class SessionResumed(Value, frozen=True, kw_only=True, tag_field="type", tag="session_resumed"):
    """A session that had ended runs again; before any other event of that run."""

    transport: str | None = None
    agent_session: str | None = None
    agent_version: str | None = None
    options: SessionOptions | None = None
    """As in ``SessionOpened``."""


class SessionChanged(Value, frozen=True, kw_only=True, tag_field="type", tag="session_changed"):
    """Facts about the session changed, at any time; a field left out is unchanged."""

    title: str | UnsetType | None = UNSET
    agent_session: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET
    name: str | UnsetType = UNSET
    """What a fleet calls it."""
    mode: str | UnsetType = UNSET
    """Our permission mode; ``ModeChanged`` reports the agent's own."""
    archived: bool | UnsetType = UNSET
    """Put away: kept, and left out of lists."""


class CommandsChanged(Value, frozen=True, kw_only=True, tag_field="type", tag="commands_changed"):
    """The agent's slash commands, complete; at any time after the session is open."""

    commands: tuple[Command, ...]


class OptionsChanged(Value, frozen=True, kw_only=True, tag_field="type", tag="options_changed"):
    """The session's settings, complete; at any time after the session is open."""

    options: tuple[ConfigOption, ...]


class ModeChanged(Value, frozen=True, kw_only=True, tag_field="type", tag="mode_changed"):
    """The mode is now another; at any time. ``modes`` is set when the choice itself changed."""

    mode: str
    modes: tuple[Mode, ...] | None = None


class SessionEnded(Value, frozen=True, kw_only=True, tag_field="type", tag="session_ended"):
    """The last event of a run, exactly once, however it ended.

    Also the end of a ``SessionSpawned`` that no run followed.
    """

    how: EndOfSession
    reason: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    stderr: str | None = None
    """The last lines of the agent's stderr, secrets masked."""


class SharedFile(Value, frozen=True, kw_only=True):
    """A file that changed while several agents worked, and nothing says which of them did it."""

    path: str
    """For people."""
    agents: tuple[str, ...]
    """The names of the others."""


class Checkpointed(Value, frozen=True, kw_only=True, tag_field="type", tag="checkpointed"):
    """A turn changed files and can be undone; at most once a turn, before its end or later."""

    turn: TurnId
    manifest: str
    """The digest of the list of changes, which is kept beside the log."""
    changed: int
    """How many files: created, changed and deleted ones; 0: it may have changed some, and why
    that is not known is in ``uncovered``."""
    created: int = 0
    deleted: int = 0
    paths: tuple[str, ...] = ()
    """Some of the files, for people."""
    uncovered: tuple[str, ...] = ()
    """What cannot be brought back, for people."""
    shared: tuple[SharedFile, ...] = ()
    """Some of the files that other agents may have changed at the same time."""


class Rewound(Value, frozen=True, kw_only=True, tag_field="type", tag="rewound"):
    """The session went back to where a turn began; between turns or within a command's."""

    to: TurnId
    conversation: bool = False
    """Messages from that turn up to here are no longer sent to the model."""
    files: tuple[TurnId, ...] = ()
    """The turns whose changes to files were taken back."""
    restored: str | None = None
    """The digest of the list of what was done to files."""
    changed: int = 0
    """How many files were brought back."""
    kept: tuple[str, ...] = ()
    """Files that could not be brought back and are as they were."""
    forced: bool = False
    """Files that had been changed since were overwritten."""
    merged: tuple[str, ...] = ()
    """Files in which later changes by others stay."""
    reasons: tuple[str, ...] = ()
    """Why, for each of ``kept``; empty: they are not stored."""


class Redone(Value, frozen=True, kw_only=True, tag_field="type", tag="redone"):
    """The newest ``Rewound`` that was not redone is taken back; before the next turn."""

    to: TurnId
    """As in that ``Rewound``."""
    changed: int = 0
    kept: tuple[str, ...] = ()
    forced: bool = False
    merged: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


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
    """With ``completed``: how many messages the summary replaces. Native agent only."""
    kept: tuple[Part, ...] = ()
    """What is sent whole beside the summary: prompts, pinned messages, the plan …"""
    usage: TokenUsage | None = None
    """What writing the summary took; a turn that waited for it counts it as its own."""
    cost: Cost | None = None


class CompactionChunk(Value, frozen=True, kw_only=True, tag_field="type", tag="compaction_chunk"):
    """A piece of a compaction's summary, while it is in progress."""

    compaction: CompactionId
    content: ContentBlock


class ResultsCleared(Value, frozen=True, kw_only=True, tag_field="type", tag="results_cleared"):
    """Old results of tools are no longer sent, only what they were; at any time, each further."""

    through: int
    """Results in this many messages from the beginning."""
    longest: int | None = None
    """Those still sent are cut to about so many characters; None: sent as notes."""


class ContextAdded(Value, frozen=True, kw_only=True, tag_field="type", tag="context_added"):
    """The model is sent something that no person typed: a nested instructions file, a hook's text.

    At any time; sent when no result of a tool is awaited. Survives every compaction.
    """

    source: str
    """The file, or the hook; the same again replaces what survives."""
    text: str
    """What is sent to the model, verbatim."""


class MessagePinned(Value, frozen=True, kw_only=True, tag_field="type", tag="message_pinned"):
    """A message is to survive every compaction whole; at any time, the same id replaces."""

    message: MessageId
    content: tuple[ContentBlock, ...]
    new: bool = False
    """The model has not seen it yet and is sent it now."""


class MessageUnpinned(Value, frozen=True, kw_only=True, tag_field="type", tag="message_unpinned"):
    """A pinned message is as any other again; after its ``MessagePinned``."""

    message: MessageId
