"""A prompt that the fake agent works on, and what its commands use of it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import RpcError

from .session import SavedSession

if TYPE_CHECKING:
    from quarterdeck.wire.acp.connection import AcpConnection
    from quarterdeck.wire.rpc import ByteStream

__all__ = ["PromptRun", "StopTurnError"]


class StopTurnError(Exception):
    """Ends the turn with a stop reason, or with an error when ``error`` is set."""

    def __init__(self, reason: str, error: RpcError | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


@dataclass(slots=True)
class PromptRun:
    """One prompt being worked on."""

    connection: "AcpConnection"
    stream: "ByteStream"
    session: SavedSession
    answer: list[str] = field(default_factory=list[str])
    calls: int = 0
    usage: acp.Usage | None = None
    pace: float = 0.0
    """Seconds for each word of ``say-slowly``; 0: no pauses at all."""

    async def update(self, update: Any) -> None:
        """Send a session update."""
        note = acp.SessionNotification(session_id=self.session.id, update=update)
        await self.connection.send(acp.SESSION_UPDATE, note)

    async def say(self, message: str, *, message_id: str | None = None) -> None:
        """Send a chunk of the answer."""
        self.answer.append(message)
        await self.update(acp.AgentMessageChunk(content=text(message), message_id=message_id))

    def call_id(self) -> str:
        """A new tool call id; they count up."""
        self.calls += 1
        return f"call-{len(self.session.exchanges)}-{self.calls}"
