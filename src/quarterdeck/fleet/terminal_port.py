"""Terminals of a fleet: programs of a person, and screens of agents that run in one.

They belong to the host and not to a screen of ours: whoever looks at one comes and goes, and it
runs on. Nothing of them is in the log.
"""

from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct

from quarterdeck.drivers.pty.seen import Seen
from quarterdeck.wire.ids import SessionId

__all__ = ["TERMINAL_VARIABLE", "TerminalInfo", "TerminalWish", "Terminals"]

TERMINAL_VARIABLE = "QUARTERDECK_TERMINAL"
"""Tells a program the id of the terminal that it runs in."""


class TerminalWish(Struct, frozen=True, kw_only=True):
    """A wish for a terminal."""

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


class Terminals(Protocol):
    """Terminals, by their id. An agent's screen is named like the agent, by name or id."""

    async def open_terminal(self, wish: TerminalWish) -> TerminalInfo:
        """Start a program in a terminal; sizes are held to between 1 and 1000.

        Raises:
            BadWish: there is no such directory or program.
            NotNow: the fleet is being stopped.
            TooMany: too many run already.
        """
        ...

    async def terminals(self) -> list[TerminalInfo]:
        """All that run, and those that ended and are not closed yet; oldest first."""
        ...

    def watch_terminal(self, terminal: str) -> AsyncGenerator[Seen]:
        """The screen with what is above it, then everything that follows; ends after ``Left``.

        A viewer that is slow gets the screen again. Raises NoSuchTerminal.
        """
        ...

    async def write_terminal(self, terminal: str, data: bytes) -> None:
        """Type bytes as they are; returns when the program's terminal has them.

        Raises:
            NoSuchTerminal: there is none.
            NotNow: its program has left, or does not read what is typed.
            BadWish: it is too much at once.
        """
        ...

    async def paste_terminal(self, terminal: str, text: str) -> None:
        """Paste text: nothing in it can press a key. Raises like ``write_terminal``."""
        ...

    async def resize_terminal(self, terminal: str, columns: int, rows: int) -> None:
        """Change the size for everybody who looks; the last who asks is right.

        Raises:
            NoSuchTerminal: there is none.
            NotNow: it is an agent's, whose size is fixed.
        """
        ...

    async def close_terminal(self, terminal: str) -> None:
        """End the program with all that it started, and forget the terminal.

        Raises:
            NoSuchTerminal: there is none.
            NotNow: it is an agent's; end the agent instead.
        """
        ...
