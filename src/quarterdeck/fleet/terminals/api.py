"""What a fleet offers for terminals beside its agents."""

from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct

from quarterdeck.terminal.viewer_events import ViewerEvent
from quarterdeck.wire.ids import SessionId

from ..method import fleet_method

__all__ = ["TERMINAL_VARIABLE", "FleetTerminalOptions", "FleetTerminals", "TerminalInfo"]

TERMINAL_VARIABLE = "QUARTERDECK_TERMINAL"
"""Tells a program the id of the terminal that it runs in."""


class FleetTerminalOptions(Struct, frozen=True, kw_only=True):
    """The options of a new terminal."""

    cwd: str
    """Absolute."""
    command: tuple[str, ...] = ()
    """The program and its words; empty: the person's shell."""
    name: str | None = None
    """None: the program's."""
    columns: int = 120
    rows: int = 40


class TerminalInfo(Struct, frozen=True, kw_only=True):
    """A terminal as the fleet knows it."""

    id: str
    """That of an agent's screen is the id of its session."""
    name: str
    command: tuple[str, ...]
    cwd: str
    pid: int
    columns: int
    rows: int
    opened: int
    """Microseconds since the epoch."""
    title: str = ""
    """What the program calls its window; foreign text."""
    ended: str | None = None
    """How the program ended, in words; None while it runs."""
    session: SessionId | None = None
    """The agent whose screen it is; such a one keeps its size, and ends with the agent."""


class FleetTerminals(Protocol):
    """Terminals, by their id. An agent's screen is named like the agent, by name or id."""

    @fleet_method(changes=True)
    async def open_terminal(self, options: FleetTerminalOptions) -> TerminalInfo:
        """Start a program in a terminal; sizes are held to between 1 and 1000.

        Raises:
            InvalidOptionsError: there is no such directory or program.
            AgentNotReadyError: the fleet is being stopped.
            FleetLimitError: too many run already.
        """
        ...

    @fleet_method()
    async def terminals(self) -> list[TerminalInfo]:
        """All that run, and those that ended and are not closed yet; oldest first."""
        ...

    def watch_terminal(self, terminal: str) -> AsyncGenerator[ViewerEvent]:
        """The screen with what is above it, then everything that follows.

        Ends after ``TerminalEnded``. A viewer that is slow gets the screen again.

        Raises:
            NoSuchFleetTerminalError: there is none.
        """
        ...

    # No change: what is typed or pasted into a program that does not read waits, and must not hold
    # up the host's end.
    @fleet_method()
    async def write_terminal(self, terminal: str, data: bytes) -> None:
        """Type bytes as they are; returns when the program's terminal has them.

        Raises:
            NoSuchFleetTerminalError: there is none.
            AgentNotReadyError: its program has left, or does not read what is typed.
            InvalidOptionsError: it is too much at once.
        """
        ...

    @fleet_method()
    async def paste_terminal(self, terminal: str, text: str) -> None:
        """Paste text: nothing in it can press a key. Raises like ``write_terminal``."""
        ...

    @fleet_method()
    async def resize_terminal(self, terminal: str, columns: int, rows: int) -> None:
        """Change the size for everybody who looks; the last who asks is right.

        Raises:
            NoSuchFleetTerminalError: there is none.
            AgentNotReadyError: it is an agent's, whose size is fixed.
        """
        ...

    @fleet_method(changes=True)
    async def close_terminal(self, terminal: str) -> None:
        """End the program with all that it started, and forget the terminal.

        Raises:
            NoSuchFleetTerminalError: there is none.
            AgentNotReadyError: it is an agent's; end the agent instead.
        """
        ...

    @fleet_method(changes=True)
    async def run_command(self, agent: str, command: str) -> str:
        """Run a line of the person's shell in an agent's directory; returns its id once it runs.

        What it prints and how it ends are records of the agent. Input is empty.

        Raises:
            NoSuchAgentError: there is no such agent.
            InvalidOptionsError: it is not one line, or the directory is gone.
            FleetLimitError: too many run already.
            AgentNotReadyError: the fleet is being stopped.
        """
        ...

    @fleet_method(changes=True)
    async def end_command(self, command: str) -> bool:
        """End such a command, by its id, with all that it started; False: it has ended already."""
        ...
