"""What a turn asks of the parts around the loop, its clock, and ``Turn``, which holds them all.

``TurnWatch`` records what a turn does to files, ``ContextWindow`` keeps the conversation within
the model's window, ``Hooks`` runs the user's hooks. Each has an implementation that does nothing;
the real ones are imported when they are needed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.models.model import Effort, Model
from quarterdeck.policy.call import Call
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.budgets import CallEstimate, Refusal, Reservation
from quarterdeck.wire.clock import MonotonicClock
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import ContextAdded, Event, NoticePosted, Prompted
from quarterdeck.wire.ids import SessionId, TurnId, new_message_id
from quarterdeck.wire.usage import Cost, TokenUsage

from .conversation import Conversation
from .instructions import NestedInstructions
from .limits import TurnLimits, TurnSpending
from .tools.toolbox import Toolbox
from .tools.workspace import ToolWorkspace

__all__ = [
    "CHECKPOINT_COMMANDS",
    "NO_BUDGET",
    "NO_HOOKS",
    "NO_SERVERS",
    "NO_TURN_WATCH",
    "UNBOUNDED_WINDOW",
    "CallBudget",
    "CheckpointCommand",
    "ContextWindow",
    "HookEmit",
    "HookPoint",
    "HookVerdict",
    "Hooks",
    "NoTurnWatch",
    "SessionClock",
    "ToolServers",
    "Turn",
    "TurnRecorder",
    "TurnWatch",
    "UnboundedWindow",
    "add_hook_context",
    "make_snapshot_notice",
    "run_prompt_hooks",
    "run_start_hooks",
    "run_stop_hooks",
]


def _draw() -> float:
    from random import random  # late: hardly any call is made again

    return random()


class SessionClock(Struct, frozen=True, kw_only=True):
    """How time passes."""

    clock: MonotonicClock = time.monotonic
    """Seconds that only grow."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits before a failed model call is made again."""
    draw: Callable[[], float] = _draw
    """Moves those waits a little: a number from 0 to 1."""


class CheckpointCommand(NamedTuple):
    """A command; ``hint`` is what may be typed after its name."""

    name: str
    description: str
    hint: str = ""


CHECKPOINT_COMMANDS = (
    CheckpointCommand("changes", "Show the file changes of turns", "turn"),
    CheckpointCommand("undo", "Undo the last turn", "files | conversation, force"),
    CheckpointCommand("redo", "Redo the last undone turn", "force"),
    CheckpointCommand(
        "rewind", "Go back to the start of a turn", "turn, files | conversation, force"
    ),
)


class TurnWatch(Protocol):
    """Watches what one turn does to files."""

    async def before_call(self, turn: "Turn", call: "Call") -> None:
        """Keep what the call may change, before it runs; raises nothing but cancellation.

        Calls of one step may come here side by side; none returns before all is kept.
        """
        ...

    async def finish(self, turn: "Turn", *, hurried: bool = False) -> None:
        """Write down what the turn changed, before it ends.

        ``hurried``: take half a second at the most; what is not done then is done later.
        """
        ...


class NoTurnWatch:
    """No one watches: nothing can be undone."""

    async def before_call(self, turn: "Turn", call: "Call") -> None:
        """Nothing is kept."""

    async def finish(self, turn: "Turn", *, hurried: bool = False) -> None:
        """Nothing is written."""


NO_TURN_WATCH = NoTurnWatch()


class TurnRecorder(Protocol):
    """Records what turns of a session do to files, in the place of the session's own snapshots."""

    def watch(self, turn: TurnId) -> TurnWatch:
        """Who watches a turn that begins."""
        ...

    async def settle(self) -> None:
        """Wait until what turns that were cancelled left is written down."""
        ...


def make_snapshot_notice(problem: str) -> NoticePosted:
    """What a person is shown when a work tree could not be written down."""
    return NoticePosted(
        title="Changes made by commands in this turn cannot be undone",
        severity="warning",
        description=f"{problem}; changes made by file tools still can.",
    )


class ContextWindow(Protocol):
    """Makes room before and after a call of the model; everything it does is an event."""

    async def before_call(self, turn: "Turn") -> int | None:
        """Make room where it is needed; may wait for a summary, cancelling that is safe.

        Gives the longest answer that still fits; None: as long as the model likes.
        """
        ...

    async def overflowed(self, turn: "Turn") -> bool:
        """Make room because the vendor says that there is none; True if the call may be retried."""
        ...


class UnboundedWindow:
    """No one cares: the conversation grows until the vendor refuses it."""

    async def before_call(self, turn: "Turn") -> int | None:
        """Nothing is done."""
        return None

    async def overflowed(self, turn: "Turn") -> bool:
        """Nothing can be done."""
        return False


UNBOUNDED_WINDOW = UnboundedWindow()


class CallBudget(Protocol):
    """Where the model calls of a session, and of its sub-agents, are reserved."""

    async def reserve(self, estimate: CallEstimate) -> Reservation | Refusal:
        """Reserve a call; may wait for calls of others. Raises JournalError."""
        ...

    async def settle(
        self,
        reservation: Reservation,
        usage: TokenUsage | None,
        *,
        cost: Cost | None = None,
        broke_off: bool = False,
    ) -> None:
        """Say what it used, once, after its usage is in the log; None: nothing.

        ``broke_off``: the usage is an estimate, and is nowhere else in the log.
        """
        ...


class _NoBudget:
    """No bound: nothing is reserved."""

    async def reserve(self, estimate: CallEstimate) -> Reservation | Refusal:
        return Reservation(id=None, session=SessionId(""), estimate=estimate)

    async def settle(
        self,
        reservation: Reservation,
        usage: TokenUsage | None,
        *,
        cost: Cost | None = None,
        broke_off: bool = False,
    ) -> None:
        pass


NO_BUDGET: CallBudget = _NoBudget()


HookPoint: TypeAlias = Literal[
    "session_start",
    "session_end",
    "prompt",
    "before_tool",
    "after_tool",
    "before_compaction",
    "after_compaction",
    "turn_end",
    "notification",
]
"""When hooks are run."""
HookEmit: TypeAlias = Callable[[Event], Awaitable[None]]


class HookVerdict(Struct, frozen=True, kw_only=True):
    """The combined result of the hooks of one point."""

    refused: str | None = None
    """Why it must not be; None: no one says so."""
    by: str = ""
    """The hook that decided, or that gave ``effect``."""
    effect: Literal["allow", "ask"] | None = None
    """Whether a person need not, or must, be asked."""
    reason: str = ""
    """The reason for ``effect``."""
    input: dict[str, Any] | None = None
    """The input to call the tool with instead."""
    context: tuple[str, ...] = ()
    """What the model is to be sent besides."""
    again: str | None = None
    """What the model is to be sent so that it goes on, at the end of a turn."""


_NOTHING = HookVerdict()


class Hooks(Protocol):
    """The hooks of one session."""

    most_continued: int
    """How often hooks may go on with one turn."""

    def has(self, point: HookPoint) -> bool:
        """Whether there is any hook for a point."""
        ...

    async def run(
        self, point: HookPoint, facts: Mapping[str, Any], emit: HookEmit, call: Call | None = None
    ) -> HookVerdict:
        """Run the hooks of a point, one after the other, in the order of their declaration.

        What goes wrong with one is reported as a notice and otherwise ignored; each has its own
        time.
        ``call``: what hooks for some tools only are held against. Cancelling ends what runs.
        """
        ...

    def saw(self, event: Event, emit: HookEmit) -> None:
        """Take note of an event: someone may have to be notified, in the background."""
        ...

    async def close(self) -> None:
        """End what runs in the background; may be called again."""
        ...


class _NoHooks:
    """No hook at all."""

    most_continued = 0

    def has(self, point: HookPoint) -> bool:
        return False

    async def run(
        self, point: HookPoint, facts: Mapping[str, Any], emit: HookEmit, call: Call | None = None
    ) -> HookVerdict:
        return _NOTHING

    def saw(self, event: Event, emit: HookEmit) -> None:
        pass

    async def close(self) -> None:
        pass


NO_HOOKS: Hooks = _NoHooks()


class ToolServers(Protocol):
    """The servers of one session."""

    def start(self) -> None:
        """Begin to reach them, in the background."""
        ...

    async def settle(self, toolbox: Toolbox, emit: Callable[[Event], Awaitable[None]]) -> None:
        """Between two steps: let tools join or leave, and emit the notices that are due.

        Waits for servers that are being started, once and for a bounded time. Never raises for
        what a server does.
        """
        ...

    async def close(self) -> None:
        """End them; may be called again."""
        ...


class _NoServers:
    """No server at all."""

    def start(self) -> None:
        pass

    async def settle(self, toolbox: Toolbox, emit: Callable[[Event], Awaitable[None]]) -> None:
        pass

    async def close(self) -> None:
        pass


NO_SERVERS: ToolServers = _NoServers()


async def run_prompt_hooks(hooks: Hooks, emit: HookEmit, prompted: Prompted) -> Prompted | str:
    """A prompt as the model is to be sent it; a text: why it must not be sent at all."""
    if not hooks.has("prompt"):
        return prompted
    content = prompted.content if prompted.model_content is None else prompted.model_content
    words = [block.text for block in content if isinstance(block, TextContent)]
    typed = [block.text for block in prompted.content if isinstance(block, TextContent)]
    facts = {
        "prompt": "\n".join(words),
        "typed": "\n".join(typed),
        "origin": prompted.origin,
        "steers": prompted.steers,
    }
    verdict = await hooks.run("prompt", facts, emit)
    if verdict.refused is not None:
        return f"hook {verdict.by} refused the prompt: {verdict.refused}"
    if not verdict.context:
        return prompted
    return replace(prompted, model_content=(*content, *map(text, verdict.context)))


async def run_start_hooks(
    hooks: Hooks, conversation: "Conversation", emit: HookEmit, *, resumed: bool
) -> None:
    """Run the hooks of a session's begin, and send their text to the model."""
    verdict = await hooks.run("session_start", {"resumed": resumed}, emit)
    await add_hook_context(verdict, "session_start", conversation, emit)


async def run_stop_hooks(turn: "Turn", continued: int) -> Prompted | None:
    """The prompt of hooks at the end of a turn, so that it goes on; None: it ends."""
    hooks = turn.hooks
    if not hooks.has("turn_end"):
        return None
    facts = {"stop": "end_turn", "continued": continued, "answer": _answer(turn.conversation)}
    verdict = await hooks.run("turn_end", facts, turn.emit)
    reason = verdict.again or verdict.refused
    if reason is None:
        return None
    if continued >= hooks.most_continued:
        title = f"Hook {verdict.by} asked to continue the turn too often"
        most = f"hooks.continue_at_most is {hooks.most_continued}; it said: {reason}"
        await turn.emit(NoticePosted(title=title, severity="warning", description=most))
        return None
    return Prompted(content=(text(reason),), message=new_message_id(), origin="hook", steers=True)


def _answer(conversation: "Conversation") -> str:
    last = conversation.memory.last
    return "\n".join(block.text for block in last if isinstance(block, TextContent))


async def add_hook_context(
    verdict: HookVerdict, point: HookPoint, conversation: "Conversation", emit: HookEmit
) -> None:
    """Send the model the text of hooks that are not about a prompt or a call; each text once."""
    for index, words in enumerate(verdict.context, 1):
        source = f"hook {point} {index}"
        text = f"[Message from a hook at {point}:]\n\n{words}"
        if conversation.memory.added.get(source) != text:
            await emit(ContextAdded(source=source, text=text))


class Turn(Struct, frozen=True, kw_only=True):
    """What the loop needs for one turn; every seam is a field."""

    model: Model
    effort: Effort
    system_prompt: str
    conversation: Conversation
    toolbox: Toolbox
    workspace: ToolWorkspace
    gate: Gate
    limits: TurnLimits
    spending: TurnSpending
    emit: Callable[[Event], Awaitable[None]]
    """Appends an event of this turn to the log and folds it into the conversation. Waits when
    the log is behind; never raises for a slow reader."""
    durable: Callable[[], Awaitable[None]]
    """Waits until what was emitted so far is safe from a crash."""
    steering: Callable[[], tuple[Prompted, ...]]
    """Takes the messages that wait to be injected at the next step boundary."""
    pace: SessionClock
    servers: ToolServers = NO_SERVERS
    """Lend tools, which join and leave between steps."""
    context: ContextWindow = UNBOUNDED_WINDOW
    """Keeps the conversation within the model's window."""
    watch: TurnWatch = NO_TURN_WATCH
    """Keeps what files were, so that the turn can be undone."""

    instructions: NestedInstructions | None = None
    """Sends instructions of directories when a file below them is touched."""
    hooks: Hooks = NO_HOOKS
    """Programs and functions of the user's that have a say."""
    budget: CallBudget = NO_BUDGET
    """Where model calls are reserved."""

    def elapsed(self) -> float:
        """Seconds of this turn so far, those in which it waited for a person not counted."""
        return self.pace.clock() - self.gate.pauses.seconds - self.spending.started
