"""What a tool is: the contract between the turn loop and everything an agent can do.

A call walks through prepare → permit → execute → finish. ``Tool.prepare`` looks at the arguments
and the world and says what would happen, without changing anything; ``PreparedCall.run`` then does
exactly that.
"""

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from quarterdeck.policy.call import Call
from quarterdeck.wire.conversation import ResultPart, TextPart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.tool_calls import ToolCallContent, ToolCallLocation, ToolKind

from .live_call import LiveCall
from .workspace import ToolWorkspace

__all__ = [
    "Arguments",
    "LiveCall",
    "PreparedCall",
    "Tool",
    "ToolError",
    "ToolOutcome",
    "read_description",
    "text_outcome",
]


@cache
def read_description(package: str, name: str | None = None) -> str:
    """Return the text of a tool in ``package``: the file ``<name>.md`` in its directory.

    Without a name it is that of the package. Read at first use and kept; touches the disk then,
    so ask outside of the event loop first.
    """
    # Not importlib.resources: that imports zipfile and tempfile, which a start can do without.
    file = import_module(package).__file__
    assert file is not None
    path = Path(file).with_name(f"{name or package.rsplit('.', 1)[-1]}.md")
    return path.read_text(encoding="utf-8").strip()


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every tool's arguments; what the model writes is decoded into a subclass."""


class ToolError(QuarterdeckError):
    """A tool cannot do what it was asked; the text goes to the model and says what to do."""


class ToolOutcome(Struct, frozen=True, kw_only=True):
    """What a call came to."""

    result: tuple[ResultPart, ...]
    """What the model is told."""
    content: tuple[ToolCallContent, ...] | None = None
    """What people see instead, where it differs; None keeps what was shown before."""
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_output: Any = None
    is_error: bool = False


def text_outcome(text: str, *, is_error: bool = False) -> ToolOutcome:
    """Make an outcome of plain text."""
    return ToolOutcome(result=(TextPart(text=text),), is_error=is_error)


class PreparedCall(Struct, frozen=True, kw_only=True):
    """A call that could run now."""

    title: str
    call: Call
    """What policy judges."""
    run: Callable[[LiveCall], Awaitable[ToolOutcome]]
    """Does what was shown. May raise ``ToolError``; cancellation must end it within a second,
    leaving no process behind."""
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    timeout: float | None = None
    """Seconds after which the loop cancels ``run``; None where the tool keeps time itself."""
    shows: dict[str, Any] = field(default_factory=dict[str, Any])
    """Further facts for the permission request, such as the directory a command runs in."""


class Tool(Protocol):
    """Something the model can call. Holds no state: that is the workspace's."""

    @property
    def name(self) -> str:
        """The name the model uses."""
        ...

    @property
    def kind(self) -> ToolKind:
        """What sort of thing it does, for people and policy."""
        ...

    @property
    def description(self) -> str:
        """The text that the model reads; kept in a file beside the code."""
        ...

    @property
    def arguments(self) -> type[Arguments]:
        """What a call's arguments are decoded into; its JSON schema is shown to the model."""
        ...

    async def prepare(self, arguments: Any, workspace: ToolWorkspace) -> PreparedCall:
        """Look, and say what would happen; changes nothing.

        Raises:
            ToolError: it cannot work; nobody is asked, the model is told.
        """
        ...
