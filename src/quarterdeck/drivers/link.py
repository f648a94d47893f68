"""The seam between a session and a transport.

``LinkSession`` keeps the contract's rules; a ``AgentLink`` speaks one agent's language and holds
none of them. A link calls its ``LinkHost`` for all that it receives, from one task at a time for
events; a permission may wait in a task of its own.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from quarterdeck.policy.modes import NO_SANDBOX, Containment, SandboxState
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.events import Event, PermissionAsked, QuestionAnswered, QuestionAsked, TurnEnd
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.tool_calls import ToolCallContent, ToolKind
from quarterdeck.wire.usage import Cost, TokenUsage

from .agent_process import AgentExit
from .driver import Capabilities, DriverSessionOptions
from .errors import UnsupportedError

if TYPE_CHECKING:
    from quarterdeck.terminal.headless_terminal import HeadlessTerminal

    from .enforcement import Enforcement

__all__ = [
    "AGENT_OPTIONS",
    "ROUTED_OPTIONS",
    "AgentExit",
    "AgentLink",
    "FixedSettings",
    "LinkHost",
    "PermissionVerdict",
    "RewindableLink",
    "ServedCall",
    "StartedAgent",
    "TurnOutcome",
]

T = TypeVar("T")

ROUTED_OPTIONS = frozenset(
    ("agent", "cwd", "transport", "mode", "allow", "deny", "environment", "limits.seconds")
)
"""What a session sees to itself, over every link."""
AGENT_OPTIONS = frozenset(
    ("roots", "model", "agent_mode", "mcp_servers", "system_prompt", "resume", "fork")
)
"""What a link has to pass on to its agent; most can, as far as the agent's file has words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedAgent:
    """What is known once the agent runs."""

    agent_session: str | None = None
    agent_version: str | None = None
    model: str | None = None
    mode: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """How a turn went, in the agent's figures, normalised."""

    stop: TurnEnd
    reason: str | None = None
    usage: TokenUsage | None = None
    cost: Cost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionVerdict:
    """The answer to the agent's permission request."""

    allowed: bool
    option: str | None = None
    """The agent's own option to select; None where it offered none, or when cancelled."""
    cancelled: bool = False
    """No one chose; the turn is being cancelled, or no one is there."""
    model_reason: str = ""
    """For a refusal: what the model should hear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCall:
    """Something that an agent has us do for it: read or write a file, run a command."""

    name: str
    """The tool that it amounts to, such as ``read``."""
    kind: ToolKind
    title: str
    """For people."""
    raw_input: Mapping[str, Any]
    """Its arguments, as policy reads those of a tool."""
    content: tuple[ToolCallContent, ...] = ()
    """What it would change."""
    sandbox: SandboxState = NO_SANDBOX
    """What can hold it, where it is a command."""


class LinkHost(Protocol):
    """What a session offers to its link."""

    @property
    def opening(self) -> DriverSessionOptions:
        """How the session is to be."""
        ...

    async def emit(self, event: Event, *, parent: ToolCallId | None = None) -> None:
        """Take the agent's events, in its order. Tool calls may come as the agent sends them.

        An update of a call that never started, a second start, a start that is also the end: the
        session makes the one start, the updates and the one end of it.
        """
        ...

    async def permit(self, question: PermissionAsked) -> PermissionVerdict:
        """Have a tool call decided; ``question.options`` are the agent's own, or none."""
        ...

    async def carry_out(self, call: ServedCall, act: Callable[[Containment], Awaitable[T]]) -> T:
        """Have it decided like a tool call of our own, then do it by ``act``.

        Not asked about again: what the agent got permission for in this turn. ``act`` gets
        what a command has to run in; it is called once, or not at all.

        Raises:
            NotPermittedError: it may not be; the message is for the agent.
        """
        ...

    async def forbids(self, question: PermissionAsked) -> PermissionVerdict | None:
        """The objection to a call that the agent may be about to do unasked.

        Not allowed: denied, and in the log. Cancelled: a rule wants a person to be asked before
        something is read; the agent is to ask. None: nothing, as far as policy is concerned.
        """
        ...

    def shows(self, terminal: str) -> None:
        """A terminal of ours was started, with permission: what runs in it was decided."""
        ...

    async def ask(self, question: QuestionAsked) -> QuestionAnswered:
        """Put a question to the person."""
        ...

    def runs_in(self, terminal: "HeadlessTerminal") -> None:
        """The agent runs in this terminal, where a person may look at it and type."""
        ...

    def lost(self, error: LinkError) -> None:
        """The agent is gone, or cannot be talked with any more; may be called again."""
        ...


class AgentLink(Protocol):
    """One agent over one transport. Each method but ``start`` and ``end`` needs a started link."""

    @property
    def transport(self) -> str:
        """How the agent is reached."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; final once started."""
        ...

    @property
    def supported_options(self) -> frozenset[str]:
        """The names of the session's options that it can honour, besides ``ROUTED_OPTIONS``.

        One that is set and not among them is refused by name before the agent is started.
        """
        ...

    def enforcement(self, opening: DriverSessionOptions) -> "Enforcement":
        """What a session of this opening asks about, and what it does unasked."""
        ...

    async def start(self, host: LinkHost) -> StartedAgent:
        """Start the agent and open, resume or fork its session; limits are the caller's.

        Raises:
            OpenFailedError, UnsupportedError: and nothing needs to be done but ``end``.
        """
        ...

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        """Send a prompt and return when the turn is over and all its events were emitted.

        Raises:
            LinkError: the agent is gone; ``lost`` is or will be reported too.
        """
        ...

    async def steer(self, content: tuple[ContentBlock, ...]) -> bool:
        """Give the running turn a message; False: it takes none any more, and nothing happened.

        Called only while ``prompt`` waits, and only where ``capabilities.steers`` is set.
        """
        ...

    async def interrupt(self) -> None:
        """Ask the agent to stop its turn; ``prompt`` then returns by itself."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Change the agent's own mode."""
        ...

    async def set_model(self, model: str) -> None:
        """Change the model."""
        ...

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change another setting."""
        ...

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The sessions that the agent knows."""
        ...

    async def end(self) -> AgentExit | None:
        """End every process of the agent, if any was started; may be called at any time, again.

        None: there was no process whose end would say something.
        """
        ...


@runtime_checkable
class RewindableLink(Protocol):
    """A link whose ``capabilities.rewinds`` is set."""

    async def rewind(self, turns: int) -> None:
        """Take the last turns out of the agent's conversation; between turns.

        Raises:
            UnsupportedError: it cannot go back so far.
            LinkError: the agent is gone.
        """
        ...


class FixedSettings:
    """For a link whose agent takes its settings on the command line: refuses every change."""

    def __init__(self, agent: str, transport: str) -> None:
        self._agent = agent
        self._transport = transport

    async def set_mode(self, mode: str) -> None:
        """Raises UnsupportedError."""
        raise self._refusal("change its mode while it runs")

    async def set_model(self, model: str) -> None:
        """Raises UnsupportedError."""
        raise self._refusal("change its model while it runs")

    async def set_option(self, option: str, value: str | bool) -> None:
        """Raises UnsupportedError."""
        raise self._refusal(f"set {option!r} while it runs")

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """Raises UnsupportedError."""
        raise self._refusal("list its sessions")

    def _refusal(self, action: str) -> UnsupportedError:
        return UnsupportedError(self._agent, self._transport, action)
