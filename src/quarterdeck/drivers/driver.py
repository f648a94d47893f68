"""The contract: what a session of any agent does, for every vendor and every transport.

A consumer is written against ``DriverSession`` and the events that go to its ``EventSink``; it
needs no branch for an agent or a transport. What a session can do is data on it (``Capabilities``).

What holds for every session:

- **Events** go to the sink one after another, in the agent's order, and the agent is held back
  while the sink is. A run begins with ``SessionOpened`` or ``SessionResumed`` and ends with exactly
  one ``SessionEnded``, however it ends; also a run that could not start.
- **Turns** do not overlap: a prompt during a turn waits for it. Each has one ``Prompted``, one
  ``TurnStarted``, one ``TurnEnded``, after which none of its events come. A message that steers a
  turn is a further ``Prompted`` within it, with ``steers`` set.
- **Tool calls** have one start, any number of updates and one end, within their turn, also where
  the agent forgets.
- **Permissions** are decided by the session's gate: rules first, then the caller of ``answer``.
  Each request is answered once; interrupting answers all that are open as cancelled.
- **Interrupting** ends the turn as ``cancelled`` within ``DriverSessionOptions.cancel_limit``; an
  agent that does not obey is ended, and the session with it.
- **Closing** leaves no process of the agent's tree, also when the opening was cancelled or failed,
  and when we ourselves are killed.
- **Options**: each field of ``SessionOptions`` reaches the agent, or opening fails and names it.
  Nothing skips permissions unless ``agent_mode`` says so by name.
- **Unknown** things from the agent become ``UnknownEvent`` events with the raw object.
- **Failures** of an open session are the four words of ``quarterdeck.wire.errors``:
  ``LinkClosedError`` (we closed it), ``LinkEndedError`` (the agent left in good order),
  ``LinkBrokenError`` (it failed), ``LinkBusyError``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from msgspec.structs import replace as replace_fields

from quarterdeck.policy.gate import Gate, PermissionAnswer, QuestionReply
from quarterdeck.policy.modes import DEFAULT_MODE, Mode, parse_mode
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.events import Event, Origin, SessionEnded, TurnEnded
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, ToolCallId, TurnId
from quarterdeck.wire.session_options import SessionOptions

__all__ = [
    "Capabilities",
    "ClosedAs",
    "DriverSession",
    "DriverSessionOptions",
    "EventSink",
    "Transport",
]

Transport: TypeAlias = Literal["acp", "pipe", "pty", "daemon", "native"]
"""How an agent is reached."""
ClosedAs: TypeAlias = Literal["closed", "killed"]
"""How we end a session: in good order, or at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a session can do. Where a flag is off the method raises ``UnsupportedError``."""

    asks: bool = False
    """Asks before a tool runs. Off: what may run is fixed at the start, by the mode."""
    streams: bool = False
    """Text comes in pieces."""
    interrupts: bool = True
    steers: bool = False
    """Takes a message while a turn runs, and reads it in that turn."""
    resumes: bool = False
    forks: bool = False
    rewinds: bool = False
    """Takes its last turns out of its own conversation."""
    lists: bool = False
    sets_mode: bool = False
    sets_model: bool = False
    images: bool = False
    resources: bool = False
    """Takes embedded resources in a prompt; else they are sent as text."""
    questions: bool = False
    """May ask the person something besides permissions."""
    mcp: bool = False
    verbatim: bool = True
    """Text comes as the agent wrote it. Off: as its screen shows it, tabs as spaces, without marks
    that are invisible there."""
    process: Literal["session", "turn"] = "session"
    """One process for the whole session, or one for each turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSessionOptions:
    """How a session is opened: its options, and what only a program that drives it can give."""

    options: SessionOptions
    """Every one that is set reaches the agent, or opening fails and names it. ``resume`` is the
    agent's own id."""
    replay: bool = False
    """With ``resume``: replay the history as events, where the agent can."""
    login: str | None = None
    """A way to log in, by the agent's id of it, before the session is opened; over ACP only."""
    title: str | None = None
    arguments: tuple[str, ...] = ()
    """Further words for the agent's command line."""
    parent_session: SessionId | None = None
    start_limit: float = 60.0
    """Seconds that the start may take."""
    idle_limit: float | None = 1800.0
    """Seconds without a sign of life after which a turn is ended; waiting for a person is none."""
    cancel_limit: float = 10.0
    """Seconds within which an interrupted turn must have ended."""

    @classmethod
    def of(cls, **fields: Any) -> "DriverSessionOptions":
        """From fields of ``SessionOptions`` and of this class, by name. Raises TypeError."""
        own = {name: fields.pop(name) for name in cls.__slots__ if name in fields}
        return cls(options=SessionOptions(**fields), **own)

    def with_options(self, **changes: Any) -> "DriverSessionOptions":
        """The same with other values of these fields of ``options``."""
        return replace(self, options=replace_fields(self.options, **changes))

    @property
    def mode(self) -> Mode:
        """What our gate lets pass without asking; for an agent that does not ask, what it may do.

        Raises:
            UnknownModeError: there is no such mode.
        """
        return DEFAULT_MODE if self.options.mode is None else parse_mode(self.options.mode)


class EventSink(Protocol):
    """Where a session's events go; returns when it may send the next."""

    async def __call__(
        self, event: Event, *, turn: TurnId | None = None, parent: ToolCallId | None = None
    ) -> None:
        """Take one event, in its place."""
        ...


class DriverSession(Protocol):
    """One conversation with one agent. Use it from one event loop; ``close`` it."""

    @property
    def id(self) -> SessionId:
        """Ours, not the agent's."""
        ...

    @property
    def agent(self) -> str:
        """The agent's name in the catalogue."""
        ...

    @property
    def transport(self) -> str:
        """How it is reached."""
        ...

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of the session, once known; what ``SessionOptions.resume``
        wants.
        """
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this session can do."""
        ...

    @property
    def gate(self) -> Gate:
        """Decides about tool calls; its ``mode`` may be changed at any time."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether a turn is under way or waits for its start."""
        ...

    async def prompt(
        self,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        message: MessageId | None = None,
    ) -> TurnEnded:
        """Run a turn, after those asked for earlier; returns when it has ended, however.

        ``message`` is the prompt's id; None: a new one. Cancelling the caller interrupts the turn.

        Raises:
            UnsupportedError: the agent takes no such content; nothing has happened.
            LinkClosedError, LinkEndedError, LinkBrokenError: the session is over.
        """
        ...

    def answer(self, request: RequestId, answer: PermissionAnswer) -> bool:
        """Answer a permission request; False if it is not, or no longer, open."""
        ...

    def reply(self, request: RequestId, reply: QuestionReply) -> bool:
        """Answer a question; False if it is not, or no longer, open."""
        ...

    async def steer(
        self,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        message: MessageId | None = None,
    ) -> bool:
        """Give the running turn a message; the agent reads it at its next step.

        Returns False if no turn takes it, because none is running or it is about to end: nothing
        has happened then, and ``prompt`` sends it.

        Raises:
            UnsupportedError: the agent takes no messages in a turn, or not this content.
            LinkClosedError, LinkEndedError, LinkBrokenError: the session is over.
        """
        ...

    async def interrupt(self) -> None:
        """End the running turn as cancelled, if there is one; returns when it has ended."""
        ...

    async def rewind(self, turns: int) -> None:
        """Take the last turns out of the agent's conversation; files stay as they are.

        Raises:
            UnsupportedError: it cannot, or not so many.
            LinkBusyError: a turn is running.
            LinkClosedError, LinkEndedError, LinkBrokenError: the session is over.
        """
        ...

    async def set_mode(self, mode: str) -> None:
        """Change the agent's own mode.

        Raises:
            UnsupportedError: it has no modes, or not this one.
            LinkClosedError, LinkEndedError, LinkBrokenError: the session is over.
        """
        ...

    async def set_model(self, model: str) -> None:
        """Change the model, by the agent's own name of it. Raises as ``set_mode``."""
        ...

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change another setting that the agent offers. Raises as ``set_mode``."""
        ...

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The sessions of this directory that the agent knows, in its own words.

        Raises:
            UnsupportedError: it cannot say.
        """
        ...

    async def close(self, how: ClosedAs = "closed", reason: str | None = None) -> SessionEnded:
        """Interrupt what runs, end the agent and all its processes; may be called again.

        ``killed``: now, without waiting for the agent to stop. ``reason`` is for the log.
        """
        ...

    async def wait(self) -> SessionEnded:
        """Wait until the session is over, by whatever cause."""
        ...
