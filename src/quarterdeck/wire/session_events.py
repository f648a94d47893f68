"""Events about a session as a whole: its life, the sub-agents it starts, its goals.

Part of ``events``, and imported from there. A child of our own agent is a session in the log of
its parent. It asks no person by itself: its requests are in the session at the top, with a
``ChildRef`` that names the child.
"""

from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from .ids import SessionId, ToolCallId
from .session_options import SessionOptions
from .settings import Command, ConfigOption, Mode
from .usage import Cost, TokenUsage
from .values import Value

__all__ = [
    "ChildEnd",
    "ChildEnded",
    "ChildRef",
    "ChildStarted",
    "CommandsChanged",
    "EndOfSession",
    "GoalEnd",
    "GoalEnded",
    "GoalSet",
    "ModeChanged",
    "OptionsChanged",
    "SessionChanged",
    "SessionEnded",
    "SessionOpened",
    "SessionResumed",
    "SessionSpawned",
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
    """Its call that needs leave, in its own session."""


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
    """What the model is told, cut to the size of a result."""
    usage: TokenUsage | None = None
    """With all that its own children took."""
    cost: Cost | None = None


EndOfSession: TypeAlias = Literal["closed", "ended", "broken", "killed"]
"""How a session's run ended: we closed it, the agent finished, something failed, or someone
killed it."""


class SessionSpawned(Value, frozen=True, kw_only=True, tag_field="type", tag="session_spawned"):
    """A fleet starts a session, and how it shall be; first of all, and again before later runs.

    The second form of this event. The first had the fields of ``options`` at its top; ``record``
    reads it. Values of variables and headers are left out here, whoever makes the event.
    """

    name: str
    """What people and other agents call it; unique among those that are not archived."""
    options: SessionOptions
    parent_session: SessionId | None = None
    """The session whose agent asked for it."""
    lead: bool = False
    """It has the tools to start agents of its own."""
    forked_from: SessionId | None = None
    """The session whose past it shares."""

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


class SessionResumed(Value, frozen=True, kw_only=True, tag_field="type", tag="session_resumed"):
    """A session that had ended runs again; before any other event of that run."""

    transport: str | None = None
    agent_session: str | None = None
    agent_version: str | None = None


class SessionChanged(Value, frozen=True, kw_only=True, tag_field="type", tag="session_changed"):
    """Facts about the session changed, at any time; a field left out is unchanged."""

    title: str | UnsetType | None = UNSET
    agent_session: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET
    name: str | UnsetType = UNSET
    """What a fleet calls it."""
    mode: str | UnsetType = UNSET
    """Our permission mode; the agent's own is told by ``ModeChanged``."""
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
