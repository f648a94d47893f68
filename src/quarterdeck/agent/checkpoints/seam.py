"""What the loop asks of whoever keeps what files were."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from quarterdeck.wire.events import Notice

if TYPE_CHECKING:
    from quarterdeck.policy.call import Call

    from ..turn import Turn

__all__ = ["COMMANDS", "UNWATCHED", "CheckpointCommand", "TurnWatch", "Unwatched", "unkept"]


class CheckpointCommand(NamedTuple):
    """A command; ``hint`` is what may be typed after its name."""

    name: str
    description: str
    hint: str = ""


COMMANDS = (
    CheckpointCommand("changes", "Show what turns did to files", "turn"),
    CheckpointCommand("undo", "Take the last turn back", "files | conversation, force"),
    CheckpointCommand("redo", "Take the last undo back", "force"),
    CheckpointCommand(
        "rewind", "Go back to where a turn began", "turn, files | conversation, force"
    ),
)


class TurnWatch(Protocol):
    """Watches what one turn does to files."""

    async def before_call(self, turn: "Turn", call: "Call") -> None:
        """Keep what the call may change, before it runs; raises nothing but cancellation.

        Calls of one step may come here side by side; none returns before all is kept.
        """
        ...

    async def finish(self, turn: "Turn", *, hurried: bool = False) -> None:
        """Write down what the turn changed, before it ends.

        ``hurried``: take half a second at the most; what is not done then is done later.
        """
        ...


class Unwatched:
    """Nobody watches: nothing can be undone."""

    async def before_call(self, turn: "Turn", call: "Call") -> None:
        """Nothing is kept."""

    async def finish(self, turn: "Turn", *, hurried: bool = False) -> None:
        """Nothing is written."""


UNWATCHED = Unwatched()


def unkept(problem: str) -> Notice:
    """What a person is told when a work tree could not be written down."""
    return Notice(
        title="What commands change in this turn cannot be undone",
        severity="warning",
        description=f"{problem}; what the tools for files change still can.",
    )
