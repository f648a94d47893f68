"""What a method of the Agent Client Protocol is: a name with the types of its two ends."""

from typing import Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

__all__ = ["Method", "Notification", "Side"]

Side: TypeAlias = Literal["agent", "client", "protocol"]
"""Who handles a message; ``protocol`` means both."""

P = TypeVar("P")
R = TypeVar("R")


class Method(Struct, Generic[P, R], frozen=True):
    """A request: ``side`` gets a ``params`` and answers with a ``result``."""

    name: str
    params: type[P]
    result: type[R]
    side: Side
    stable: bool = True
    """False for a method that the protocol does not promise yet."""


class Notification(Struct, Generic[P], frozen=True):
    """A message to ``side`` that has no answer."""

    name: str
    params: type[P]
    side: Side
    stable: bool = True
