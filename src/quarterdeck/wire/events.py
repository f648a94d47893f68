"""Everything that can happen in a session, as one tagged union.

Each docstring says when the event may appear. Lifecycles nest: a session holds turns, a turn
holds messages and tool calls, a tool call holds permission requests and terminals. An event's
place (sequence, time, session, turn, parent) is not in the event but in its ``Record``.

A run of a session begins with ``SessionOpened`` or ``SessionResumed`` and ends with exactly one
``SessionEnded``; outside of runs there is only what a fleet notes about it (spawned, queued,
renamed, archived). A new member must be handled wherever events are matched: the type checker
finds those places through ``assert_never``. The session's own events are in ``session_events``,
those about a full window in ``context_events``, those about going back in ``checkpoint_events``,
those of sub-agents and goals in ``child_events`` and ``goal_events``, those about worktrees in
``worktree_events``, those about budgets in ``budgets``; all are imported from here.
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType, field

from .budgets import (
    BudgetCarried,
    BudgetChanged,
    BudgetEvent,
    BudgetReached,
    BudgetReserved,
    BudgetSettled,
)
from .content import ContentBlock
from .conversation import Message, RequestDigest, ToolResultPart
from .ids import MessageId, RequestId, SessionId, TerminalId, ToolCallId
from .permissions import (
    ApprovalRule,
    Decider,
    PermissionOption,
    PermissionOutcome,
    QuestionAction,
)
from .session_events import (
    Checkpointed,
    ChildEnd,
    ChildEnded,
    ChildRef,
    ChildStarted,
    CommandsChanged,
    CompactionChanged,
    CompactionChunk,
    CompactionStatus,
    ContextAdded,
    EndOfSession,
    GoalEnd,
    GoalEnded,
    GoalSet,
    MessagePinned,
    MessageUnpinned,
    ModeChanged,
    OptionsChanged,
    Redone,
    ResultsCleared,
    Rewound,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    SharedFile,
)
from .settings import PlanEntry, VendorWire
from .tool_calls import ToolCallContent, ToolCallEnd, ToolCallLocation, ToolCallStatus, ToolKind
from .usage import ContextUsage, Cost, TokenUsage
from .values import Value
from .worktree_events import (
    ChangesCounted,
    ChangesLanded,
    CommandRan,
    ConflictChanged,
    LandingFailed,
    ReviewCommented,
    ReviewMarked,
    WorktreeAssigned,
    WorktreeEvent,
    WorktreeReleased,
)

__all__ = [
    "EMPTY_TURN",
    "BudgetCarried",
    "BudgetChanged",
    "BudgetEvent",
    "BudgetReached",
    "BudgetReserved",
    "BudgetSettled",
    "ChangesCounted",
    "ChangesLanded",
    "Checkpointed",
    "ChildEnd",
    "ChildEnded",
    "ChildRef",
    "ChildStarted",
    "CommandRan",
    "CommandStarted",
    "CommandsChanged",
    "CompactionChanged",
    "CompactionChunk",
    "CompactionStatus",
    "ConflictChanged",
    "ContextAdded",
    "EndOfSession",
    "Event",
    "GoalEnd",
    "GoalEnded",
    "GoalSet",
    "GrantRevoked",
    "GrantUsed",
    "LandingFailed",
    "MessageChunk",
    "MessagePinned",
    "MessageUnpinned",
    "MeteredCallState",
    "ModeChanged",
    "ModelCallFinished",
    "ModelCallMetered",
    "ModelCallStarted",
    "NoticePosted",
    "OptionsChanged",
    "Origin",
    "PermissionAnswered",
    "PermissionApproved",
    "PermissionAsked",
    "PermissionViolated",
    "PlanChanged",
    "PromptDropped",
    "PromptQueued",
    "Prompted",
    "QuestionAnswered",
    "QuestionAsked",
    "RateLimited",
    "Redone",
    "ResultsCleared",
    "RetryScheduled",
    "ReviewCommented",
    "ReviewMarked",
    "Rewound",
    "SessionChanged",
    "SessionEnded",
    "SessionOpened",
    "SessionResumed",
    "SessionSpawned",
    "Severity",
    "SharedFile",
    "StopReason",
    "TerminalExited",
    "TerminalOutput",
    "ThoughtChunk",
    "ToolCallEnded",
    "ToolCallStarted",
    "ToolCallUpdated",
    "TurnEnd",
    "TurnEnded",
    "TurnStarted",
    "UnknownEvent",
    "UsageReported",
    "WorktreeAssigned",
    "WorktreeEvent",
    "WorktreeReleased",
]

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]
"""Why a turn stopped, in ACP's words."""
TurnEnd: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "failed"
]
"""A stop reason, or ``failed``: the turn ended by an error, which ACP answers as an error."""
Origin: TypeAlias = Literal["person", "agent", "schedule", "goal", "hook"]
"""Who spoke a prompt."""
Severity: TypeAlias = Literal["info", "warning", "error"]
MeteredCallState: TypeAlias = Literal["started", "finished", "refused"]
"""How far a call has come at the meter."""


class PromptQueued(Value, frozen=True, kw_only=True, tag_field="type", tag="prompt_queued"):
    """A prompt waits for its turn; the same message again replaces the words, not the place."""

    content: tuple[ContentBlock, ...]
    message: MessageId
    origin: Origin = "person"
    sender: SessionId | None = None


class PromptDropped(Value, frozen=True, kw_only=True, tag_field="type", tag="prompt_dropped"):
    """A prompt that waited will not be sent, once; else its ``Prompted`` follows."""

    message: MessageId
    reason: str | None = None


class Prompted(Value, frozen=True, kw_only=True, tag_field="type", tag="prompted"):
    """A prompt was accepted; before the turn that it starts, or within one that it steers."""

    content: tuple[ContentBlock, ...]
    message: MessageId
    origin: Origin = "person"
    sender: SessionId | None = None
    """With origin ``agent``: the session that sent it."""
    steers: bool = False
    """Injected into the running turn rather than starting one."""
    model_content: tuple[ContentBlock, ...] | None = field(default=None, name="told")
    """What the model is sent instead of ``content``: what a command stands for; nothing at all
    where the command was answered without it. None: ``content``. Native agent only."""


class TurnStarted(Value, frozen=True, kw_only=True, tag_field="type", tag="turn_started"):
    """The agent begins to work on a prompt; once a turn, after its ``Prompted``."""

    prompt: MessageId | None = None


class TurnEnded(Value, frozen=True, kw_only=True, tag_field="type", tag="turn_ended"):
    """The turn is over; once a turn, after all of its other events."""

    stop: TurnEnd
    reason: str | None = None
    """Which limit, what failure, or the agent's own word when we do not know it."""
    usage: TokenUsage | None = None
    cost: Cost | None = None


class ModelCallStarted(
    Value, frozen=True, kw_only=True, tag_field="type", tag="model_call_started"
):
    """A request goes to the model; within a turn, before what it streams. Native agent only."""

    model: str
    attempt: int = 1
    request: RequestDigest | None = None  # None: as that of the call before


class ModelCallFinished(
    Value, frozen=True, kw_only=True, tag_field="type", tag="model_call_finished"
):
    """The model's answer is complete or has failed; once for each ``ModelCallStarted``."""

    model: str
    reply: Message | None = None
    """The model's reply, whole; None when the call failed."""
    stop: str | None = None
    """The vendor's own stop word."""
    usage: TokenUsage | None = None
    cost: Cost | None = None
    error: str | None = None


class RetryScheduled(Value, frozen=True, kw_only=True, tag_field="type", tag="retry_scheduled"):
    """A model call failed and will be made again; after its ``ModelCallFinished``."""

    attempt: int
    """The attempt that comes, counted from 1."""
    delay: float
    """Seconds until then."""
    reason: str


class ModelCallMetered(
    Value, frozen=True, kw_only=True, tag_field="type", tag="model_call_metered"
):
    """A model call of a foreign agent at the meter; at any time.

    ``started`` before the request goes out and ``finished`` after its answer, or ``refused`` alone.
    """

    call: str
    """Joins the two; random."""
    state: MeteredCallState
    wire: VendorWire
    """The form of the request."""
    model: str | None = None
    usage: TokenUsage | None = None
    """With ``finished``; None: nothing was used, or the answer's counts could not be read."""
    status: int | None = None
    """With ``finished``: of HTTP; None: there was no answer."""
    reason: str | None = None
    """Why it was refused, or why the answer did not arrive whole."""


class MessageChunk(Value, frozen=True, kw_only=True, tag_field="type", tag="message_chunk"):
    """A piece of a message, in order; chunks with one id make one message."""

    content: ContentBlock
    message: MessageId | None = None
    """None: the message that is being written, or a new one if the last event was no chunk."""
    role: Literal["agent", "user"] = "agent"


class ThoughtChunk(Value, frozen=True, kw_only=True, tag_field="type", tag="thought_chunk"):
    """A piece of the agent's reasoning; like ``MessageChunk``."""

    content: ContentBlock
    message: MessageId | None = None


class ToolCallStarted(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_call_started"):
    """A tool call appears, once for each id and before all else about it."""

    call: ToolCallId
    title: str
    name: str | None = None
    """The tool's own name, where the agent reports it."""
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None


class ToolCallUpdated(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_call_updated"):
    """Progress of a call, any number of times between its start and its end.

    A field left out is unchanged; a list replaces the earlier list.
    """

    call: ToolCallId
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: ToolKind | UnsetType = UNSET
    status: ToolCallStatus | UnsetType = UNSET
    content: tuple[ToolCallContent, ...] | UnsetType = UNSET
    locations: tuple[ToolCallLocation, ...] | UnsetType = UNSET
    raw_input: Any | UnsetType = UNSET
    raw_output: Any | UnsetType = UNSET


class ToolCallEnded(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_call_ended"):
    """A call's final state, exactly once for each that started, before its turn ends."""

    call: ToolCallId
    status: ToolCallEnd
    reason: str | None = None
    content: tuple[ToolCallContent, ...] | UnsetType = UNSET
    locations: tuple[ToolCallLocation, ...] | UnsetType = UNSET
    raw_output: Any | UnsetType = UNSET
    result: ToolResultPart | None = None
    """What the model was sent. Native agent only."""


class CommandStarted(Value, frozen=True, kw_only=True, tag_field="type", tag="command_started"):
    """A person runs a command in the session's directory; at any time, before its output.

    Its ``TerminalOutput`` follows, then one ``TerminalExited``. The agent has no part in it.
    """

    terminal: TerminalId
    command: str
    """A line of the person's shell."""
    cwd: str


class TerminalOutput(Value, frozen=True, kw_only=True, tag_field="type", tag="terminal_output"):
    """Output of a terminal as it comes, after a tool call showed the terminal, or of a command
    that a person runs.
    """

    terminal: TerminalId
    data: str


class TerminalExited(Value, frozen=True, kw_only=True, tag_field="type", tag="terminal_exited"):
    """A terminal's command is over, once, after its output."""

    terminal: TerminalId
    exit_code: int | None = None
    signal: str | None = None


class PlanChanged(Value, frozen=True, kw_only=True, tag_field="type", tag="plan_changed"):
    """The agent's plan, complete; replaces the one before."""

    entries: tuple[PlanEntry, ...]


class PermissionAsked(Value, frozen=True, kw_only=True, tag_field="type", tag="permission_asked"):
    """A tool call needs permission; after its start, before it runs, answered exactly once."""

    request: RequestId
    call: ToolCallId
    title: str
    options: tuple[PermissionOption, ...]
    kind: ToolKind = "other"
    name: str | None = None
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    reason: str | None = None
    """Why no rule decided it."""
    child: ChildRef | None = None
    """The child of the session that asks, where it is not the session itself; ``call`` is then
    the one that started the child."""
    approvals: tuple[ApprovalRule, ...] = ()
    """Who has to allow it, each of these; empty: the first answer counts."""


class PermissionApproved(
    Value, frozen=True, kw_only=True, tag_field="type", tag="permission_approved"
):
    """One of the people that a request needs allows it; after the request, before its answer.

    At most once for each person; the ``PermissionAnswered`` follows when enough of them have.
    """

    request: RequestId
    call: ToolCallId
    option: str
    """The id of the option that the person chose."""
    by: Decider
    group: RequestId | None = None
    """As in ``PermissionAnswered``."""


class PermissionAnswered(
    Value, frozen=True, kw_only=True, tag_field="type", tag="permission_answered"
):
    """The answer to a ``PermissionAsked``, exactly once, no matter who gave it.

    Where a rule decides at once it stands alone, so that every decision is in the log.
    """

    request: RequestId
    call: ToolCallId
    outcome: PermissionOutcome
    by: Decider
    kind: str | None = None
    """The kind of the chosen option."""
    feedback: str | None = None
    """What the person wrote to the agent along with a denial."""
    group: RequestId | None = None
    """The first of the requests that were answered together, this one among them; None: it was
    answered alone."""


class PermissionViolated(
    Value, frozen=True, kw_only=True, tag_field="type", tag="permission_violated"
):
    """A call was done that no one permitted, or that was refused; right after the call's end.

    Only of agents that we did not write: they say what they have done, and did not ask before. Or
    files changed in a turn in which none may; once, before the turn's end.
    """

    request: RequestId
    """Names this violation; no request of that id was asked."""
    call: ToolCallId | None = None
    """None: no call that the agent reported."""
    title: str
    reason: str
    """What was against it."""
    kind: ToolKind = "other"


class GrantRevoked(Value, frozen=True, kw_only=True, tag_field="type", tag="grant_revoked"):
    """A standing answer for the session was taken back; after the answer that gave it, once."""

    grant: str
    """The grant's id."""
    by: Decider


class GrantUsed(Value, frozen=True, kw_only=True, tag_field="type", tag="grant_used"):
    """Standing answers had a part in a decision about a call; right before that is written."""

    request: RequestId
    call: ToolCallId
    grants: tuple[str, ...]
    """Their ids."""


class QuestionAsked(Value, frozen=True, kw_only=True, tag_field="type", tag="question_asked"):
    """The agent asks the person something; answered exactly once."""

    request: RequestId
    text: str
    form: dict[str, Any] | None = None
    """A JSON schema of flat properties, as in ACP's form elicitation."""
    url: str | None = None
    """A page to visit instead of a form."""
    call: ToolCallId | None = None
    to: SessionId | None = None
    """The session whose agent is to answer; None: a person."""
    child: ChildRef | None = None
    """The child of the session that asks; as in ``PermissionAsked``."""


class QuestionAnswered(Value, frozen=True, kw_only=True, tag_field="type", tag="question_answered"):
    """The answer to a ``QuestionAsked``, exactly once."""

    request: RequestId
    action: QuestionAction
    by: Decider
    content: dict[str, Any] | None = None


class UsageReported(Value, frozen=True, kw_only=True, tag_field="type", tag="usage_reported"):
    """Figures from the agent, at any time; each field replaces its last value."""

    context: ContextUsage | None = None
    session_tokens: TokenUsage | None = None
    """Running total of the session, where the agent reports one."""
    session_cost: Cost | None = None


class RateLimited(Value, frozen=True, kw_only=True, tag_field="type", tag="rate_limited"):
    """The vendor holds the agent back; at any time."""

    reason: str
    resets_at: int | None = None
    """Microseconds since the epoch."""
    retry_after: float | None = None
    """Seconds."""


class NoticePosted(Value, frozen=True, kw_only=True, tag_field="type", tag="notice"):
    """A notice for the person, from the agent or from us; at any time."""

    title: str
    severity: Severity = "info"
    description: str | None = None


EMPTY_TURN = NoticePosted(
    title="The turn ended with no message and no tool call.",
    severity="warning",
    description="The agent or its model may have failed without saying so.",
)
"""Reported before the end of a turn of which nothing can be seen."""


class UnknownEvent(Value, frozen=True, kw_only=True, tag_field="type", tag="unknown"):
    """Something we have no word for, kept whole; at any time."""

    origin: str
    """Where it came from: ``log``, or an agent's transport such as ``acp``."""
    raw: Any
    reason: str | None = None


Event: TypeAlias = (
    SessionSpawned
    | SessionOpened
    | SessionResumed
    | SessionChanged
    | CommandsChanged
    | OptionsChanged
    | ModeChanged
    | SessionEnded
    | PromptQueued
    | PromptDropped
    | Prompted
    | TurnStarted
    | TurnEnded
    | ModelCallStarted
    | ModelCallFinished
    | RetryScheduled
    | ModelCallMetered
    | MessageChunk
    | ThoughtChunk
    | ToolCallStarted
    | ToolCallUpdated
    | ToolCallEnded
    | CommandStarted
    | TerminalOutput
    | TerminalExited
    | PlanChanged
    | PermissionAsked
    | PermissionApproved
    | PermissionAnswered
    | PermissionViolated
    | GrantRevoked
    | GrantUsed
    | QuestionAsked
    | QuestionAnswered
    | UsageReported
    | RateLimited
    | NoticePosted
    | CompactionChanged
    | CompactionChunk
    | ResultsCleared
    | ContextAdded
    | MessagePinned
    | MessageUnpinned
    | Checkpointed
    | Rewound
    | Redone
    | ChildStarted
    | ChildEnded
    | GoalSet
    | GoalEnded
    | WorktreeEvent
    | BudgetEvent
    | UnknownEvent
)
