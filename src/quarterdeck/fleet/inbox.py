"""The inbox: open permission requests and questions, answered from anywhere, once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from quarterdeck.journal import Journal, JournalClosedError
from quarterdeck.policy.gate import Gate, PermissionAnswer, QuestionReply
from quarterdeck.wire.events import (
    Event,
    PermissionAnswered,
    PermissionAsked,
    PermissionViolated,
    QuestionAnswered,
    QuestionAsked,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Decider, QuestionAction, Selected, option_of_kind
from quarterdeck.wire.tasks import run_beside

from .api import InboxItem
from .budgets.management import BudgetManagement
from .errors import AgentNotReadyError, NoSuchRequestError
from .live_index import LiveIndex, LogWriter
from .names import looks_like_id
from .projections import OpenRequest, was_asked

__all__ = ["AgentQuestions", "Inbox"]


class Inbox:
    """What is open in the whole fleet. ``gate_of`` gives the gate of a live agent."""

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        gate_of: Callable[[SessionId], Gate | None],
        budgets: BudgetManagement,
    ) -> None:
        self._journal = journal
        self._current = current
        self._gate_of = gate_of
        self._budgets = budgets

    def items(self) -> list[InboxItem]:
        """What waits for a person, oldest first."""
        return [
            self._item(one)
            for one in self._current.requests.values()
            if not isinstance(one.event, QuestionAsked) or one.event.to is None
        ]

    async def answer(
        self, request: RequestId, choice: str, *, by: str = "person", feedback: str | None = None
    ) -> bool:
        """Answer a permission request; see ``Fleet.answer``."""
        found = await self._find(request)
        if found is None:
            return False
        if isinstance(found.event, PermissionViolated):
            return await self._see(found, found.event, by)
        if not isinstance(found.event, PermissionAsked):
            raise ValueError(f"request {request!r} is a question: send a reply")
        outcome = Selected(option_id=_option(found.event, choice))
        answer = PermissionAnswer(outcome=outcome, by=_decider(by), feedback=feedback)
        gate = self._gate_of(found.session)
        return await self._settle(found, gate is not None and gate.answer(request, answer))

    async def reply(
        self,
        request: RequestId,
        action: QuestionAction,
        *,
        by: str = "person",
        content: dict[str, Any] | None = None,
    ) -> bool:
        """Answer a question; see ``Fleet.reply``."""
        found = await self._find(request)
        if found is None:
            return False
        if isinstance(found.event, PermissionViolated):
            return await self._see(found, found.event, by)
        if not isinstance(found.event, QuestionAsked):
            raise ValueError(f"request {request!r} is a permission request: answer with an option")
        if self._budgets.owns(request):
            return await self._settle(
                found, await self._budgets.reply(request, action, content, by)
            )
        reply = QuestionReply(action=action, by=_decider(by), content=content)
        gate = self._gate_of(found.session)
        return await self._settle(found, gate is not None and gate.reply(request, reply))

    async def _see(self, one: OpenRequest, event: PermissionViolated, by: str) -> bool:
        """A person has seen what was done without permission; whatever they say, it was done."""
        answered = PermissionAnswered(
            request=event.request,
            call=event.call or ToolCallId(event.request),  # where no call was reported
            outcome=Selected(option_id="seen"),
            by=_decider(by),
        )
        await self._journal.append(one.session, answered)
        return await self._settle(one, True)

    async def _find(self, request: RequestId) -> OpenRequest | None:
        """The open request; None if it is answered. Raises NoSuchRequestError."""
        found = self._current.requests.get(request)
        if found is None and not await self._journal.query(lambda c: was_asked(c, request)):
            raise NoSuchRequestError(request)
        return found

    async def _settle(self, one: OpenRequest, is_first: bool) -> bool:
        """Report an answer that was taken once the log has it."""
        if is_first:
            requests = self._current.requests
            await self._current.until(lambda: one.request not in requests, one.session)
        return is_first

    def _item(self, one: OpenRequest) -> InboxItem:
        event = one.event
        return InboxItem(
            request=one.request,
            session=one.session,
            name=self._current.get(one.session).name,
            since=one.time,
            seq=one.seq,
            permission=event if isinstance(event, PermissionAsked) else None,
            question=_question(event),
        )


def _question(event: PermissionAsked | QuestionAsked | PermissionViolated) -> QuestionAsked | None:
    """A question as it is; a violation as one that every face can show, without a form."""
    match event:
        case QuestionAsked():
            return event
        case PermissionViolated(title=title, reason=reason):
            words = f"It did this without permission: {title}\n{reason}\nAnswer to acknowledge it."
            return QuestionAsked(request=event.request, text=words, call=event.call)
        case PermissionAsked():
            return None


def _option(asked: PermissionAsked, choice: str) -> str:
    by_id = (one.option_id for one in asked.options if one.option_id == choice)
    found = next(by_id, None) or option_of_kind(asked.options, choice)
    if found is None:
        offered = ", ".join(f"{one.option_id!r} ({one.kind})" for one in asked.options)
        raise ValueError(
            f"request {asked.request!r} has no option {choice!r}; its options are {offered}"
        )
    return found


def _decider(by: str) -> Decider:
    return Decider(kind="agent" if looks_like_id(by) else "person", name=by)


class AgentQuestions:
    """Puts questions into the log and waits. ``gate_of`` gives the gate of a live agent."""

    def __init__(
        self, current: LiveIndex, notes: LogWriter, gate_of: Callable[[SessionId], Gate | None]
    ) -> None:
        self._current = current
        self._notes = notes
        self._gate_of = gate_of

    def open_to(self, session: SessionId) -> list[OpenRequest]:
        """The questions that wait for this session's agent to answer, oldest first."""
        return [
            one
            for one in self._current.requests.values()
            if isinstance(one.event, QuestionAsked) and one.event.to == session
        ]

    def is_open(self, request: RequestId) -> bool:
        """Whether no one has answered it yet."""
        return request in self._current.requests

    async def ask(
        self, session: SessionId, question: QuestionAsked, *, timeout: float | None = None
    ) -> QuestionAnswered:
        """Ask for a live agent; returns when it is answered, however.

        No one answers any more when the one who is asked is gone, or after ``timeout`` seconds.
        Cancelling answers it as cancelled.

        Raises:
            AgentNotReadyError: the agent is not live.
        """
        gate = self._gate_of(session)
        if gate is None:
            raise AgentNotReadyError("an agent that is not live cannot ask")

        async def emit(event: Event) -> None:
            await self._notes.take(session, event)

        async with run_beside(self._give_up(gate, question, timeout), name="question: time limit"):
            answered = await gate.ask(emit, question)
        await self._notes.settled()
        return answered

    async def permit(
        self, session: SessionId, request: PermissionAsked, *, timeout: float | None = None
    ) -> bool:
        """Ask a person for permission for a live agent; whether it was given.

        Rules and grants are not looked at. After ``timeout`` seconds, or when the caller is
        cancelled, the request is closed and not given.

        Raises:
            AgentNotReadyError: the agent is not live.
        """
        gate = self._gate_of(session)
        if gate is None:
            raise AgentNotReadyError("an agent that is not live cannot ask")

        async def emit(event: Event) -> None:
            await self._notes.take(session, event)

        try:
            async with asyncio.timeout(timeout):
                answer = await gate.leave(emit, request)
        except TimeoutError:
            return False
        await self._notes.settled()
        allowed = {one.option_id for one in request.options if one.kind.startswith("allow")}
        return isinstance(answer.outcome, Selected) and answer.outcome.option_id in allowed

    async def _give_up(self, gate: Gate, question: QuestionAsked, timeout: float | None) -> None:
        """Answer for those who do not."""
        by = Decider(kind="timeout")
        try:
            async with asyncio.timeout(timeout):
                await self._gone(question.to)
                by = Decider(kind="cancel", name="the agent that was asked has ended")
        except TimeoutError:
            pass
        except JournalClosedError:
            return  # the fleet ends, and every question with it
        gate.reply(question.request, QuestionReply(action="cancel", by=by))

    def _gone(self, session: SessionId | None) -> "Coroutine[Any, Any, None]":
        if session is None:
            return _for_ever()
        return self._current.until(lambda: not self._current.get(session).is_started)


async def _for_ever() -> None:
    await asyncio.Event().wait()
