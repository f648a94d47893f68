"""Everything one turn works with, as one value."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from quarterdeck.models.model import Effort, Model
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.events import Event, Prompted

from .checkpoints.seam import UNWATCHED, TurnWatch
from .context.seam import UNKEPT, Keeper
from .conversation import Conversation
from .hooks.seam import NO_HOOKS, Hooks
from .instructions import Nested
from .limits import Limits, Spending
from .pace import Pace
from .servers import NO_SERVERS, ToolServers
from .tools.toolbox import Toolbox
from .tools.workspace import Workspace

__all__ = ["Turn"]


class Turn(Struct, frozen=True, kw_only=True):
    """What the loop needs for one turn; every seam is a field."""

    model: Model
    effort: Effort
    system_prompt: str
    conversation: Conversation
    toolbox: Toolbox
    workspace: Workspace
    gate: Gate
    limits: Limits
    spending: Spending
    emit: Callable[[Event], Awaitable[None]]
    """Appends an event of this turn to the log and folds it into the conversation. Waits when
    the log is behind; never raises for a slow reader."""
    durable: Callable[[], Awaitable[None]]
    """Waits until what was emitted so far is safe from a crash."""
    steering: Callable[[], tuple[Prompted, ...]]
    """Takes the messages that wait to be injected at the next step boundary."""
    pace: Pace
    servers: ToolServers = NO_SERVERS
    """Lend tools, which join and leave between steps."""
    context: Keeper = UNKEPT
    """Keeps the conversation within the model's window."""
    watch: TurnWatch = UNWATCHED
    """Keeps what files were, so that the turn can be undone."""

    instructions: Nested | None = None
    """Tells instructions of directories when a file below them is touched."""
    hooks: Hooks = NO_HOOKS
    """Programs and functions of the user's that have a say."""

    def elapsed(self) -> float:
        """Seconds of this turn so far, those in which it waited for a person not counted."""
        return self.pace.clock() - self.gate.pauses.seconds - self.spending.started
