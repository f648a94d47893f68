"""What a session works with; every part of the agent may depend on it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quarterdeck.config.schema import ContextSettings
from quarterdeck.models.model import Effort, Model
from quarterdeck.policy.modes import SandboxState

from .instructions import NestedInstructions
from .limits import TurnLimits, TurnSpending
from .ports import (
    NO_BUDGET,
    NO_HOOKS,
    NO_SERVERS,
    CallBudget,
    Hooks,
    SessionClock,
    ToolServers,
    TurnRecorder,
)
from .tools.toolbox import Toolbox
from .tools.workspace import ToolWorkspace

if TYPE_CHECKING:
    from quarterdeck.wire.record import Record

    from .goals.state import GoalState

__all__ = ["SessionSetup"]


class SessionSetup(Struct, kw_only=True, eq=False):
    """What a session works with; model, effort and mode may be changed while it lives."""

    model: Model
    make_model: Callable[[str], Model]
    """Makes another model by name, with this session's configuration.

    Raises ``ModelSetupError`` when there is none.
    """
    models: tuple[str, ...]
    """Names of models to offer."""
    effort: Effort
    system_prompt: str
    toolbox: Toolbox
    workspace: ToolWorkspace
    limits: TurnLimits
    find_sandbox: Callable[[], Awaitable[SandboxState]]
    """Makes ready what holds commands in full-auto mode, and says what it is."""
    pace: SessionClock
    servers: ToolServers = NO_SERVERS
    """Lend tools; closed with the session."""
    context: ContextSettings = field(default_factory=ContextSettings)
    """What is done before the conversation outgrows the model's window."""
    checkpoints: Path | None = None
    """The directory of our own below which it is kept what files were; None: it is not."""
    checkpoint_patience: float = 10.0
    """Seconds that writing a work tree down may take."""
    recorder: TurnRecorder | None = None
    """Records turns, where others work in the same trees; None: the session does it itself."""
    instructions: NestedInstructions | None = None
    """Sends those of directories when the agent first works there."""
    hooks: Hooks = NO_HOOKS
    """Programs and functions of the user's that have a say; closed with the session."""
    budget: CallBudget = NO_BUDGET
    """Where model calls are reserved; that of a session is that of its sub-agents, too."""
    spending: TurnSpending | None = None
    """What the turns spend counts there, too: in the turn that waits for this session."""
    beside: TurnSpending | None = None
    """What is spent beside turns, by agents in the background."""
    goal: "GoalState | None" = None
    """The goal that was set last."""
    hear: "Callable[[Record], object]" = lambda _: None
    """Called with every record that the session appends, for traces."""
