"""What a running tool call can do towards its session, and the agents that it may start there."""

from typing import TYPE_CHECKING, Any, Protocol

from quarterdeck.policy.call import Call
from quarterdeck.policy.modes import Containment
from quarterdeck.wire.events import Event, QuestionAnswered
from quarterdeck.wire.ids import ToolCallId

from ..limits import TurnSpending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.policy.modes import Mode
    from quarterdeck.wire.events import ChildEnded
    from quarterdeck.wire.ids import SessionId

    from ..children.profile import Profile

__all__ = ["ChildAgents", "ChildRun", "LiveCall"]


class LiveCall(Protocol):
    """What a running call can do towards the session."""

    @property
    def call(self) -> ToolCallId:
        """The call that is running."""
        ...

    @property
    def containment(self) -> Containment:
        """What its command has to run in; fixed when the call was permitted."""
        ...

    @property
    def spending(self) -> TurnSpending:
        """What the turn has spent so far."""
        ...

    async def emit(self, event: Event) -> None:
        """Append an event of this turn: live output, a plan, progress of the call."""
        ...

    async def before_change(self, call: Call) -> None:
        """Keep what a call within this one may change, so that the turn can be undone."""
        ...

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered:
        """Ask the person; returns when it is answered, declined or cancelled."""
        ...


class ChildRun(Protocol):
    """An agent that a session has started."""

    ended: "ChildEnded | None"

    @property
    def id(self) -> "SessionId":
        """Its session."""
        ...

    @property
    def progress(self) -> str:
        """How far it has got, in one line."""
        ...


class ChildAgents(Protocol):
    """The agents that one session has started."""

    @property
    def background(self) -> "Sequence[ChildRun]":
        """Those that were started in the background, oldest first, also when they are over."""
        ...

    async def profile(self, name: str | None) -> "Profile":
        """The profile of that name; None: the one that only looks. Raises ``ToolError``."""
        ...

    def check_room(self) -> None:
        """Refuse one more agent where there would be too many: raises ``ToolError``."""
        ...

    async def run(self, profile: "Profile", task: str, live: LiveCall) -> "ChildEnded":
        """Start one and wait for it; cancelling this stops it. Raises ``ToolError``."""
        ...

    async def start(self, profile: "Profile", task: str, live: LiveCall) -> ChildRun:
        """Start one that works on while the session does something else; raises ``ToolError``."""
        ...

    async def wait(self, id_: str | None, seconds: float) -> None:
        """Wait until one in the background is over, or any of them; at most ``seconds``."""
        ...

    async def stop(self, id_: str) -> None:
        """Stop one in the background; one that is over stays as it is."""
        ...

    async def answer(self, id_: str) -> str:
        """The whole last message of one; raises ``ToolError``."""
        ...

    async def follow_mode(self, mode: "Mode") -> None:
        """Narrow those that are at work to their parent's mode, as it is now."""
        ...

    async def close(self) -> None:
        """Stop all that are at work; returns when they are over."""
        ...
