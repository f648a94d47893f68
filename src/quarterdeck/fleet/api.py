"""The fleet's API: agents, inbox, terminals; the same methods in process and over a socket.

Each method is declared once, here or in the ``api`` of a part such as ``checkpoints``. One that is
marked with ``fleet_method`` is a request of the same name on the socket (``fleet/spawn``), with the
parameters and the result of its signature: they are what msgspec can write and read. The few
without a mark have a form of their own there, see ``fleet.host.methods``.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.journal.search_hit import SearchHit
from quarterdeck.journal.session_summary import SessionSummary
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.events import Origin, PermissionAsked, QuestionAsked
from quarterdeck.wire.ids import MessageId, RequestId, SessionId
from quarterdeck.wire.permissions import QuestionAction
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage
from quarterdeck.wire.worktrees import ChangeCounts, ConflictFile, Worktree

from .agent_state import AgentStateName
from .budgets.api import BudgetLimit, FleetBudgets
from .checkpoints.api import FleetCheckpoints
from .handover.api import FleetHandovers, HandoverOptions
from .landing.api import FleetLandings
from .meter.api import FleetMeter
from .method import fleet_method
from .permissions.api import FleetRequests, RequestTraits
from .radar.api import FleetRadar
from .review.api import FleetReviews
from .terminals.api import FleetTerminals
from .usage.api import FleetUsage
from .worktrees.api import FleetWorktrees

__all__ = [
    "AgentConflict",
    "AgentInfo",
    "Fleet",
    "FleetStatus",
    "HandoverOptions",
    "ImportedSession",
    "InboxItem",
    "QueuedPrompt",
    "SentMessage",
    "SpawnOptions",
    "WaitFor",
    "WorkbenchHandler",
    "WorkbenchRegistration",
]

WaitFor: TypeAlias = Literal["any", "all"]
WorkbenchHandler: TypeAlias = Callable[[str, dict[str, Any], str], Awaitable[Any]]
"""Carries out a call at a screen: its name, its arguments, and whose it is (an agent's id, or
``person``). Returns what JSON can hold; an error of ours tells the caller why not. It is cancelled
when no one waits for it any more."""


class SpawnOptions(Struct, frozen=True, kw_only=True):
    """The options of a new agent. What is asked for runs, or spawning fails and says why."""

    options: SessionOptions
    """How its session is to be; ``cwd`` is absolute. Values of variables are not kept."""
    name: str | None = None
    """None: one is made up from the agent's."""
    prompt: str | None = None
    parent: SessionId | None = None
    """The session whose agent asks for it."""
    lead: bool = False
    """It gets tools to start agents of its own and to look after them."""
    budget: tuple[BudgetLimit, ...] = ()
    """What it may use, with all that it starts."""
    continues: SessionId | None = None
    """The session that it takes over; it can read its transcript. Set by ``hand_over``."""
    fallback: tuple[str, ...] | None = None
    """The agents that continue its work when it fails, in this order; None: as the settings say."""

    @classmethod
    def of(cls, **fields: Any) -> "SpawnOptions":
        """From fields of ``SessionOptions`` and of this class, by name. Raises TypeError."""
        own = {name: fields.pop(name) for name in cls.__struct_fields__ if name in fields}
        return cls(options=SessionOptions(**fields), **own)


class QueuedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt that waits for its turn."""

    message: MessageId
    content: tuple[ContentBlock, ...]
    origin: Origin = "person"
    sender: SessionId | None = None


class SentMessage(Struct, frozen=True, kw_only=True):
    """What became of a message that was to steer a turn."""

    message: MessageId
    steered: bool
    """The running turn has it; else it is a prompt in the queue."""


class AgentConflict(Struct, frozen=True, kw_only=True):
    """What an agent and another one both change."""

    other: SessionId
    files: tuple[ConflictFile, ...]


class AgentInfo(Struct, frozen=True, kw_only=True):
    """An agent as the fleet knows it."""

    session: SessionId
    name: str
    agent: str
    cwd: str
    state: AgentStateName
    waits_for: Literal["permission", "person", "agent"] | None = None
    needs_person: bool = False
    is_live: bool = False
    is_archived: bool = False
    can_resume: bool = False
    reason: str | None = None
    title: str | None = None
    transport: str | None = None
    model: str | None = None
    mode: str | None = None
    agent_session: str | None = None
    parent: SessionId | None = None
    spawned: int = 0
    """Microseconds since the epoch, as all times."""
    updated: int = 0
    last_seq: int = 0
    queue: tuple[QueuedPrompt, ...] = ()
    usage: TokenUsage = TokenUsage()
    cost: Cost | None = None
    context: ContextUsage | None = None
    takes_images: bool | None = None
    """Whether prompts may have images; None: not known while it is not live."""
    worktree: Worktree | None = None
    """The git worktree that it works in, if it has one."""
    changes: ChangeCounts | None = None
    """How much it has changed; None: not counted yet."""
    conflicts: tuple[AgentConflict, ...] = ()
    """What it and other agents both change."""
    lost: str | None = None
    """Why its host cannot be used now; set by who uses several hosts, and never by a host."""

    @property
    def state_word(self) -> str:
        """Its state as people read it: needs you, running, idle, stopped and so on."""
        if self.lost is not None:
            return "host lost"
        if self.needs_person:
            return "needs you"
        return {"waiting": "running", "interrupted": "stopped", "killed": "stopped"}.get(
            self.state, self.state
        )


class InboxItem(Struct, frozen=True, kw_only=True):
    """A permission request or a question that waits for an answer."""

    request: RequestId
    session: SessionId
    name: str
    """The agent's."""
    since: int
    seq: int
    permission: PermissionAsked | None = None
    question: QuestionAsked | None = None
    """One of the two is set."""
    cwd: str = ""
    """Where the agent works."""
    traits: RequestTraits | None = None
    """Of a permission request: what decides with which others it is a group."""
    approved: tuple[str, ...] = ()
    """The people who have allowed it, where more have to."""


class FleetStatus(Struct, frozen=True, kw_only=True):
    """The fleet as a whole."""

    version: str
    pid: int
    started: int
    log: str
    """Where the log is."""
    last_seq: int
    agents: dict[str, int]
    """How many in each state, archived ones left out."""
    needs_person: int
    clients: int = 0
    terminals: int = 0
    """How many run a program that a person has started."""
    problem: str | None = None
    """Why nothing can be written at the moment."""


class ImportedSession(Struct, frozen=True, kw_only=True):
    """A session that another program kept, now in our log."""

    agent: AgentInfo
    added: int
    """Events that were not in the log before."""
    skipped: int
    """Entries of its files that could not be read."""


class WorkbenchRegistration(Protocol):
    """A screen of ours that the fleet knows."""

    async def active(self, cwd: str | None = None) -> None:
        """A person has just done something; ``cwd``: the screen is about another directory now."""
        ...


class Fleet(
    FleetTerminals,
    FleetWorktrees,
    FleetCheckpoints,
    FleetHandovers,
    FleetReviews,
    FleetRadar,
    FleetLandings,
    FleetUsage,
    FleetBudgets,
    FleetMeter,
    FleetRequests,
    Protocol,
):
    """Many agents, and terminals beside them."""

    @fleet_method(changes=True)
    async def spawn(self, request: SpawnOptions) -> AgentInfo:
        """Start an agent; returns once it is noted, in state ``starting``.

        A start that fails ends in ``failed`` with the reason; ``wait`` tells.

        Raises:
            InvalidAgentNameError, NameTakenError, FleetLimitError, InvalidOptionsError,
            UnknownAgentError, RuleError, UnknownModeError: nothing was noted.
            NoSuchAgentError, AgentNotReadyError: there is no such parent, or it is not live.
        """
        ...

    @fleet_method()
    async def agents(
        self, *, archived: bool = False, parent: SessionId | None = None
    ) -> list[AgentInfo]:
        """The agents: who needs a person first, then the latest to change.

        ``archived``: also those that are put away. ``parent``: only its children.
        """
        ...

    @fleet_method()
    async def agent(self, agent: str) -> AgentInfo:
        """One agent, by name or id. Raises NoSuchAgentError."""
        ...

    @fleet_method(changes=True)
    async def send(
        self,
        agent: str,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        resume: bool = True,
    ) -> MessageId:
        """Give an agent a prompt, after those that wait already.

        An agent that has ended is resumed first, unless ``resume`` is False; also a session that
        ran without a host. What was killed, only a person can resume.

        Raises:
            AgentNotReadyError: it is not live, and cannot or should not be resumed.
        """
        ...

    @fleet_method(changes=True)
    async def steer(
        self,
        agent: str,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        resume: bool = True,
    ) -> SentMessage:
        """Give an agent a message during its turn: it reads it at its next step.

        If no turn is running, the message is a prompt like any other and waits behind earlier ones;
        an agent that has ended is resumed as for ``send``.

        Raises:
            AgentNotReadyError: it is not live, and cannot or should not be resumed.
            SteeringUnsupportedError: the agent takes no message while a turn runs.
        """
        ...

    @fleet_method(changes=True)
    async def edit(
        self, agent: str, message: MessageId, content: tuple[ContentBlock, ...] | None
    ) -> bool:
        """Change the words of a prompt that waits, or drop it; False if it waits no more."""
        ...

    @fleet_method(changes=True)
    async def interrupt(self, agent: str, *, keep_queue: bool = True) -> None:
        """End the agent's running turn, and drop what waits if asked; returns when it has ended."""
        ...

    @fleet_method(changes=True)
    async def kill(self, agent: str, *, reason: str | None = None) -> None:
        """End the agent and all its processes now; its children too."""
        ...

    @fleet_method(changes=True)
    async def close(self, agent: str) -> None:
        """End the agent in good order; it is done, and can be resumed."""
        ...

    @fleet_method(changes=True)
    async def archive(self, agent: str, *, archived: bool = True) -> None:
        """Put an agent away, ending it first, or take it out again. Raises NameTakenError."""
        ...

    @fleet_method(changes=True)
    async def delete(self, agent: str) -> None:
        """Delete an agent that is not live for good, with all that was said.

        Raises:
            AgentNotReadyError: it is live.
        """
        ...

    @fleet_method(changes=True)
    async def resume(self, agent: str) -> AgentInfo:
        """Start an agent that is not live again, with its own session.

        Raises:
            AgentNotReadyError: it is live, or it cannot be resumed.
        """
        ...

    @fleet_method(changes=True)
    async def fork(
        self, agent: str, *, name: str | None = None, prompt: str | None = None
    ) -> AgentInfo:
        """Start a copy of an agent with the same past.

        Raises:
            AgentNotReadyError: its agent offers no way to.
        """
        ...

    @fleet_method(changes=True)
    async def hand_over(self, agent: str, request: HandoverOptions) -> AgentInfo:
        """Let an agent of another vendor continue the work of an agent, in the same directory.

        Once the new one has started, a running turn of the old one ends, the old one is closed,
        and the new one gets the brief, the task and the queued prompts. A new one that does not
        start leaves the old one as it was.

        Raises:
            NoSuchAgentError: there is no such agent, nor a session of this id.
            UnknownAgentError, InvalidOptionsError, NameTakenError: as for spawning.
            AgentNotReadyError: a request of the old one is open, it is starting, it has no work to
                hand over, or the new one did not start.
        """
        ...

    @fleet_method(changes=True)
    async def import_session(
        self,
        agent: str,
        id: str,
        homes: dict[str, str],
        name: str | None = None,
        cwd: str | None = None,
    ) -> ImportedSession:
        """Take a session that an agent keeps on disk into the log; it can be resumed then.

        Taking it again adds what is new. One that the fleet itself has gone on with stays as it
        is. ``homes``: the variables that tell where agents keep their sessions, see
        ``drivers.history.homes``. ``cwd``: where it worked, if its files do not tell.

        Raises:
            HistoryError: there is none, or it cannot be read.
            InvalidOptionsError, InvalidAgentNameError, NameTakenError: as for spawning.
        """
        ...

    @fleet_method()
    async def standalone_sessions(
        self, *, cwd: str | None = None, limit: int = 50
    ) -> list[SessionSummary]:
        """The sessions in logs of their own, as ``quarterdeck run``, editors and programs keep
        them; the last to change first. ``cwd``: only those of a directory.

        ``agent``, ``read`` and ``follow`` take their ids, too, and ``search`` finds what was said
        in them. ``send``, ``steer``, ``resume``, ``fork``, ``rename`` and ``archive`` adopt them.
        """
        ...

    @fleet_method(changes=True)
    async def adopt_session(self, session: str, name: str | None = None) -> AgentInfo:
        """Take a session that ran without a host into the log; it is an agent of the fleet then.

        One that is an agent already, by name or id, stays as it is.

        Raises:
            NoSuchAgentError: there is none of this id.
            AgentNotReadyError: another process has it open.
            InvalidAgentNameError, NameTakenError: the name cannot be had.
        """
        ...

    @fleet_method(changes=True)
    async def rename(self, agent: str, name: str) -> AgentInfo:
        """Give an agent another name. Raises InvalidAgentNameError, NameTakenError."""
        ...

    @fleet_method(changes=True)
    async def set_option(self, agent: str, option: str, value: str | bool) -> None:
        """Change a setting: ``mode`` (ours), ``agent_mode``, ``model``, or one that it offers."""
        ...

    @fleet_method()
    async def inbox(self) -> list[InboxItem]:
        """What waits for a person, oldest first."""
        ...

    @fleet_method(changes=True)
    async def answer(
        self, request: RequestId, choice: str, *, by: str = "person", feedback: str | None = None
    ) -> bool:
        """Answer a permission request by an option's id or kind; False if it is answered already.

        Where several people have to allow it, it stays open until the last of them does.

        Raises:
            NoSuchRequestError: there never was one.
            NotAnApproverError: other people have to answer it.
            ValueError: it offers no such option.
        """
        ...

    @fleet_method(changes=True)
    async def reply(
        self,
        request: RequestId,
        action: QuestionAction,
        *,
        by: str = "person",
        content: dict[str, Any] | None = None,
    ) -> bool:
        """Answer a question; like ``answer``."""
        ...

    @fleet_method()
    async def grants(self) -> list[Grant]:
        """Every standing answer that a person gave: lasting ones, then those for one session."""
        ...

    @fleet_method(changes=True)
    async def revoke(self, grant: str, *, by: str = "person") -> bool:
        """Take a standing answer back, by its id; False if there is none.

        No call that is decided after this returns counts on it, in any process.
        """
        ...

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        """Records in order: those after ``after``, or the last before ``before``.

        Of one agent, or of all with None.
        """
        ...

    def follow(
        self, after: int | None = None, *, agent: str | None = None
    ) -> AsyncGenerator[Record]:
        """Every record after a sequence number (None: from now on), for ever."""
        ...

    @fleet_method()
    async def wait(
        self, agents: Sequence[str], *, until: WaitFor = "all", timeout: float | None = None
    ) -> list[AgentInfo]:
        """Wait until any or all of these are at rest; those that are, possibly none at the timeout.

        At rest: not starting, not running, nothing in the queue, waiting for no one but a person.
        """
        ...

    @fleet_method()
    async def search(self, words: str, *, limit: int = 50) -> list[SearchHit]:
        """Where these words were said, by any agent, newest first."""
        ...

    @fleet_method()
    async def status(self) -> FleetStatus:
        """The fleet as a whole."""
        ...

    def attach_screen(
        self, handler: WorkbenchHandler, *, cwd: str, idle: float = 0.0
    ) -> AbstractAsyncContextManager[WorkbenchRegistration]:
        """Offer a screen to agents, until the end of the block.

        ``cwd``: the directory that it is about. ``idle``: seconds since a person did something
        there. Calls that are under way at the end raise ``WorkbenchGoneError`` at their callers.

        Raises:
            FleetLimitError: there are too many screens.
        """
        ...

    @fleet_method()
    async def call_screen(self, name: str, arguments: dict[str, Any], *, by: str = "person") -> Any:
        """Let one screen do something, and return what it answers.

        It is the one used last; before all others one whose directory is that of the agent ``by``
        or above it.

        Raises:
            NoWorkbenchError: none is attached.
            WorkbenchRefusedError: it will not, and says why.
            WorkbenchGoneError, WorkbenchTimeoutError: it may be done or not.
            WorkbenchCallError: the arguments or the result are too large or no JSON.
        """
        ...
