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

from quarterdeck.policy.call import Access, Call
from quarterdeck.policy.modes import ActionKind
from quarterdeck.policy.paths import is_below
from quarterdeck.wire.conversation import ResultPart, TextPart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.tool_calls import ToolCallContent, ToolCallLocation, ToolKind

from .live_call import LiveCall
from .workspace import ToolWorkspace

__all__ = [
    "EVERYTHING",
    "Arguments",
    "Footprint",
    "LiveCall",
    "PreparedCall",
    "Tool",
    "ToolError",
    "ToolOutcome",
    "footprint_of",
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
    """The result of a call."""

    result: tuple[ResultPart, ...]
    """What is sent to the model."""
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
            ToolError: it cannot work; no permission is requested, the model gets the error.
        """
        ...


_READING: frozenset[ActionKind] = frozenset(("run reading", "run reading outside", "read"))
_LONG = 1000
"""Characters of a command beyond which it is not read here: that takes time."""


class Footprint(Struct, frozen=True):
    """The paths that a call reads and changes; a directory includes everything below it."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    def meets(self, other: "Footprint") -> bool:
        """Whether one of them changes what the other reads or changes."""
        return _overlap(self.writes, other.reads + other.writes) or _overlap(
            other.writes, self.reads
        )


EVERYTHING = Footprint(writes=("/",))
"""Of a call of which nothing is known."""


def footprint_of(call: Call) -> Footprint:
    """What the call touches. A tool that names neither path nor command touches nothing here."""
    if call.command is not None:
        return _of_command(call, call.command)
    return Footprint(reads=_paths(call, "read"), writes=_paths(call, "write"))


def _of_command(call: Call, line: str) -> Footprint:
    from quarterdeck.policy.call_parts import parts_of

    if len(line) > _LONG or any(part.action not in _READING for part in parts_of(call)):
        return EVERYTHING
    return Footprint(reads=("/",))


def _paths(call: Call, access: Access) -> tuple[str, ...]:
    return tuple(use.resolved for use in call.paths if use.access == access)


def _overlap(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(is_below(a, (b,)) or is_below(b, (a,)) for a in some for b in others)
