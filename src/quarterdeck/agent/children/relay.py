"""What a child asks, put to the person of the session at the top."""

from dataclasses import dataclass

from msgspec.structs import replace

from quarterdeck.policy.gate import Answer, Emit, Gate, QuestionReply
from quarterdeck.wire.events import ChildRef, PermissionAsked, QuestionAsked
from quarterdeck.wire.ids import SessionId, ToolCallId

__all__ = ["Relay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Passes a child's requests to its parent's gate, which passes them on or asks the person.

    The person answers once; the answer reaches the child, and a request that the child no longer
    waits for is taken back.
    """

    gate: Gate
    """The parent's."""
    emit: Emit
    """Appends to the parent's log."""
    child: SessionId
    name: str
    call: ToolCallId
    """The parent's call that started the child."""

    async def leave(self, question: PermissionAsked) -> Answer:
        """Ask for leave in the child's name."""
        asked = replace(
            question,
            title=f"{self.name} ▸ {question.title}",
            call=self.call,
            child=self._ref(question.child, question.call),
        )
        return await self.gate.leave(self.emit, asked)

    async def reply(self, question: QuestionAsked) -> QuestionReply:
        """Ask a question in the child's name."""
        asked = replace(
            question,
            text=f"{self.name} ▸ {question.text}",
            call=self.call,
            child=self._ref(question.child, question.call),
        )
        answered = await self.gate.ask(self.emit, asked)
        return QuestionReply(action=answered.action, by=answered.by, content=answered.content)

    def _ref(self, below: ChildRef | None, call: ToolCallId | None) -> ChildRef:
        if below is not None:
            return replace(below, path=(self.name, *below.path))
        return ChildRef(session=self.child, name=self.name, path=(self.name,), call=call)
