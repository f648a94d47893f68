"""What the loop asks of whoever keeps the conversation within the window."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..turn import Turn

__all__ = ["UNKEPT", "Keeper", "Unkept"]


class Keeper(Protocol):
    """Makes room before and after a call of the model; everything it does is an event."""

    async def before_call(self, turn: "Turn") -> int | None:
        """Make room where it is needed; may wait for a summary, cancelling that is safe.

        Gives the longest answer that still fits; None: as long as the model likes.
        """
        ...

    async def overflowed(self, turn: "Turn") -> bool:
        """Make room because the vendor says that there is none; True if the call may be retried."""
        ...


class Unkept:
    """Nobody cares: the conversation grows until the vendor refuses it."""

    async def before_call(self, turn: "Turn") -> int | None:
        """Nothing is done."""
        return None

    async def overflowed(self, turn: "Turn") -> bool:
        """Nothing can be done."""
        return False


UNKEPT = Unkept()
