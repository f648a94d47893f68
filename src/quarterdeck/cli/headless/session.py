"""What a headless run needs of a session, our own agent's or another's."""

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from quarterdeck.agent.goals.pursuit import GoalResult
    from quarterdeck.journal import Journal
    from quarterdeck.policy.gate import Gate
    from quarterdeck.wire.content import ContentBlock
    from quarterdeck.wire.events import TurnEnded
    from quarterdeck.wire.ids import SessionId

__all__ = ["HeadlessResult", "HeadlessSession"]


class HeadlessSession(Protocol):
    """One conversation, written to a log."""

    @property
    def id(self) -> "SessionId":
        """Its id."""
        ...

    @property
    def journal(self) -> "Journal":
        """Its log."""
        ...

    @property
    def last_seq(self) -> int:
        """The last of its records."""
        ...

    @property
    def gate(self) -> "Gate":
        """Decides about its tool calls."""
        ...

    async def prompt(self, content: "tuple[ContentBlock, ...]") -> "TurnEnded":
        """Run a turn."""
        ...

    async def cancel(self) -> None:
        """End the running turn."""
        ...


class HeadlessResult(Struct, frozen=True, kw_only=True):
    """How a headless run went."""

    session: str
    model: str | None
    ended: "TurnEnded"
    refused: int
    """Calls that were refused because nobody was there to ask."""
    violations: int = 0
    """Calls that an agent made though nobody had permitted them."""
    goal: "GoalResult | None" = None
    """How far the goal came, where one was pursued."""
