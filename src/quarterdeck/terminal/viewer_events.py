"""What a viewer of a terminal gets, in order; values that also go over a socket."""

from typing import TypeAlias

from msgspec import Struct

__all__ = [
    "TerminalDrawn",
    "TerminalEnded",
    "TerminalOutput",
    "TerminalResized",
    "TerminalWritten",
    "ViewerEvent",
]


class TerminalDrawn(Struct, frozen=True, tag="drawn"):
    """The whole screen: bytes that draw it on an empty terminal of this size."""

    columns: int
    rows: int
    data: bytes


class TerminalWritten(Struct, frozen=True, tag="written"):
    """What the program has written next."""

    data: bytes


class TerminalResized(Struct, frozen=True, tag="resized"):
    """The terminal has another size from here on."""

    columns: int
    rows: int


class TerminalEnded(Struct, frozen=True, tag="left"):
    """The program has left; the last that is seen."""

    reason: str
    """In words, such as ``exit code 1``."""


TerminalOutput: TypeAlias = TerminalDrawn | TerminalWritten | TerminalResized
"""What a terminal shows while there is something to show."""
ViewerEvent: TypeAlias = TerminalOutput | TerminalEnded
