"""What a viewer of a terminal gets, in order; values that also go over a socket."""

from typing import TypeAlias

from msgspec import Struct

__all__ = ["Drawn", "Left", "Resized", "Seen", "Shown", "Written"]


class Drawn(Struct, frozen=True, tag="drawn"):
    """The whole screen: bytes that draw it on an empty terminal of this size."""

    columns: int
    rows: int
    data: bytes


class Written(Struct, frozen=True, tag="written"):
    """What the program has written next."""

    data: bytes


class Resized(Struct, frozen=True, tag="resized"):
    """The terminal has another size from here on."""

    columns: int
    rows: int


class Left(Struct, frozen=True, tag="left"):
    """The program has left; the last that is seen."""

    reason: str
    """In words, such as ``exit code 1``."""


Shown: TypeAlias = Drawn | Written | Resized
"""What a terminal shows while there is something to show."""
Seen: TypeAlias = Shown | Left
