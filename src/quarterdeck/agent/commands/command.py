"""What a slash command is: one that is answered here, or one that stands for a longer prompt."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.wire.content import ContentBlock

if TYPE_CHECKING:
    from quarterdeck.models.model import ModelInfo
    from quarterdeck.policy.gate import Gate
    from quarterdeck.policy.modes import Mode
    from quarterdeck.wire.settings import ConfigOption

    from ..checkpoints.service import Checkpoints
    from ..context.window import SessionContext

__all__ = [
    "BUILT_IN",
    "AnsweredCommand",
    "Command",
    "CommandList",
    "CommandSession",
    "ExpandedCommand",
]

BUILT_IN = "built in"


class _Named(Struct, frozen=True, kw_only=True):
    """What people see of a command."""

    name: str
    """Without the slash; no white space."""
    description: str
    hint: str = ""
    """What may be typed after the name."""
    source: str = BUILT_IN
    """Where it comes from: ``built in``, or its file."""


class AnsweredCommand(_Named, frozen=True, kw_only=True):
    """A command that we answer; the model is neither asked nor ever told of it."""

    answer: Callable[["CommandSession", str], Awaitable[str]]
    """Does it, in a turn of its own, with what was typed after the name; gives what to say.

    A ``QuarterdeckError`` is said, too. May be cancelled.
    """


class ExpandedCommand(_Named, frozen=True, kw_only=True):
    """A command that stands for a prompt: the model is told that, people see what was typed."""

    expand: Callable[["CommandSession", str], Awaitable[tuple[ContentBlock, ...]]]
    """Gives the prompt. A ``QuarterdeckError`` is said instead, and the model is not asked."""


Command: TypeAlias = AnsweredCommand | ExpandedCommand


class CommandList(Protocol):
    """The commands of a session, for one that lists them."""

    @property
    def all(self) -> tuple[Command, ...]:
        """Those that can be called."""
        ...

    @property
    def hidden(self) -> tuple[Command, ...]:
        """Those that cannot be called because another has their name."""
        ...


class CommandSession(Protocol):
    """What a command may do with the session in which it was typed."""

    gate: "Gate"
    context: "SessionContext"
    checkpoints: "Checkpoints"

    @property
    def cwd(self) -> str:
        """The directory the session works in."""
        ...

    @property
    def model(self) -> "ModelInfo":
        """The model that the next turn asks."""
        ...

    @property
    def options(self) -> "tuple[ConfigOption, ...]":
        """The session's settings as people see them."""
        ...

    @property
    def commands(self) -> CommandList:
        """Its commands."""
        ...

    async def set_model(self, name: str) -> None:
        """Change the model from the next turn on; raises ``ModelSetupError``."""
        ...

    async def set_mode(self, mode: "Mode") -> None:
        """Change the permission mode."""
        ...
