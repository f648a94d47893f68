"""Questions of an agent that the fleet itself puts: to the agent that leads it, or to a person."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from quarterdeck.journal import JournalClosed
from quarterdeck.policy.gate import Gate, QuestionReply
from quarterdeck.wire.events import Event, QuestionAnswered, QuestionAsked
from quarterdeck.wire.ids import RequestId, SessionId
from quarterdeck.wire.permissions import Decider

from .current import Current
from .errors import NotNow
from .notes import Notes
from .roster import Request

__all__ = ["Asking"]


class Asking:
    """Puts questions into the log and waits. ``gate_of`` gives the gate of a live agent."""

    def __init__(
        self, current: Current, notes: Notes, gate_of: Callable[[SessionId], Gate | None]
    ) -> None:
        self._current = current
        self._notes = notes
        self._gate_of = gate_of

    def open_to(self, session: SessionId) -> list[Request]:
        """The questions that wait for this session's agent to answer, oldest first."""
        return [
            one
            for one in self._current.requests.values()
            if isinstance(one.event, QuestionAsked) and one.event.to == session
        ]

    def is_open(self, request: RequestId) -> bool:
        """Whether nobody has answered it yet."""
        return request in self._current.requests

    async def ask(
        self, session: SessionId, question: QuestionAsked, *, timeout: float | None = None
    ) -> QuestionAnswered:
        """Ask for a live agent; returns when it is answered, however.

        Nobody answers any more when the one who is asked is gone, or after ``timeout`` seconds.
        Cancelling answers it as cancelled.

        Raises:
            NotNow: the agent is not live.
        """
        gate = self._gate_of(session)
        if gate is None:
            raise NotNow("an agent that is not live can ask nothing")

        async def emit(event: Event) -> None:
            await self._notes.take(session, event)

        giving_up = asyncio.create_task(self._give_up(gate, question, timeout))
        try:
            answered = await gate.ask(emit, question)
        finally:
            giving_up.cancel()
            await asyncio.wait([giving_up])
        await self._notes.settled()
        return answered

    async def _give_up(self, gate: Gate, question: QuestionAsked, timeout: float | None) -> None:
        """Answer for those who do not."""
        by = Decider(kind="timeout")
        try:
            async with asyncio.timeout(timeout):
                await self._gone(question.to)
                by = Decider(kind="cancel", name="the one who was asked is gone")
        except TimeoutError:
            pass
        except JournalClosed:
            return  # the fleet ends, and every question with it
        gate.reply(question.request, QuestionReply(action="cancel", by=by))

    def _gone(self, session: SessionId | None) -> "Coroutine[Any, Any, None]":
        if session is None:
            return _for_ever()
        return self._current.until(lambda: not self._current.get(session).is_started)


async def _for_ever() -> None:
    await asyncio.Event().wait()
