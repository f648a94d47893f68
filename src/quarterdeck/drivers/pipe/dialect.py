"""What a command-line agent that runs once for each turn says, and how it is asked.

The words of its command line are data (``Launch``); a ``PipeDialect`` is the rest: how its lines
are read, and what options alone cannot express. A ``TurnReader`` is pure: values in, events out.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quarterdeck.wire.events import Event
from quarterdeck.wire.usage import TokenUsage

from ..agent_process import AgentProcess, Launch
from ..driver import DriverSessionOptions
from ..link import AgentExit, TurnOutcome

__all__ = [
    "ExtraArguments",
    "PipeDialect",
    "TurnContext",
    "TurnReader",
    "failure_text",
    "left_text",
]

_STDERR_LINES = 12


class TurnReader(Protocol):
    """Reads the lines of one turn. Nothing that a program prints makes it raise.

    It emits what it learns about the session as events too: ``SessionChanged`` with the agent's
    id of it, ``UsageReported`` with a running total.
    """

    def read(self, value: Mapping[str, Any]) -> Iterable[Event]:
        """The events of one line; one of ``UnknownEvent`` for a line that it does not know."""
        ...

    def outcome(self, left: AgentExit) -> TurnOutcome:
        """How the turn went, once the process is gone and every line was read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """What a reader may know about its turn."""

    session: str | None = None
    """The agent's id of the session that goes on; None for a new one."""
    total: TokenUsage | None = None
    """The session's tokens before this turn, as far as the agent reported them; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraArguments:
    """What an option needs besides the words of the agent's file."""

    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    honoured: frozenset[str] = frozenset()
    """The fields of the opening that are served by this; the file needs no words for them."""


def _no_extra(launch: Launch, opening: DriverSessionOptions) -> ExtraArguments:
    return ExtraArguments()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeDialect:
    """One agent's language over a pipe, one process for each turn."""

    name: str
    reader: Callable[[TurnContext], TurnReader]
    extra: Callable[[Launch, DriverSessionOptions], ExtraArguments] = _no_extra
    """May raise ``UnsupportedError``."""
    streams: bool = False
    """Text comes in pieces."""
    obeys_sigint: bool = False
    """Leaves in good order when interrupted from the keyboard."""
    stderr_events: Callable[[str, int], Iterable[tuple[int, Event]]] | None = None
    """Reads the events in standard error from a position on, each with the position after it."""
    rewind: Callable[[AgentProcess, int, Sequence[str]], Awaitable[str]] | None = None
    """Has a process, started with the words for ``rewind``, make a copy of the session without its
    last turns; gives the id of the copy. The prompts of these turns are given as far as they are
    known. Raises ``RpcError`` if it refuses, ``LinkError`` if it leaves."""


def failure_text(left: AgentExit, details: str = "") -> str:
    """Why a turn failed: the agent's own words, else how it left and what it said last."""
    if details:
        return details
    last = "\n".join(left.stderr.splitlines()[-_STDERR_LINES:])
    return f"it exited with {left_text(left)}" + (f": {last}" if last else "")


def left_text(left: AgentExit) -> str:
    """How a process left, in a few words."""
    if left.signal is not None:
        return f"signal {left.signal}"
    return f"exit code {left.exit_code}"
