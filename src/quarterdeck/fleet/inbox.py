"""The inbox: open permission requests and questions, answered from anywhere, once."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.config.workspace import find_workspace
from quarterdeck.journal import Journal, JournalClosedError
from quarterdeck.policy.approvers import is_approved
from quarterdeck.policy.gate import Gate, PermissionAnswer, QuestionReply
from quarterdeck.policy.permission_options import choice_of
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    Event,
    PermissionAnswered,
    PermissionApproved,
    PermissionAsked,
    PermissionViolated,
    QuestionAnswered,
    QuestionAsked,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId, new_tool_call_id
from quarterdeck.wire.permissions import (
    ApprovalRule,
    Decider,
    PermissionOption,
    QuestionAction,
    Selected,
    option_of_kind,
)
from quarterdeck.wire.tasks import run_beside
from quarterdeck.wire.tool_calls import ContentItem

from .api import InboxItem
from .budgets.management import BudgetManagement
from .errors import AgentNotReadyError, NoSuchRequestError
from .live_index import LiveIndex, LogWriter
from .names import looks_like_id
from .permissions.api import GroupAnswer, RequestGroup, RequestTraits
from .permissions.approvers import Approvers, agree_on_option
from .projections import OpenRequest, find_asked, was_asked

if TYPE_CHECKING:
    from .permissions.request_groups import RequestPlace

__all__ = ["AgentQuestions", "Inbox"]


_Outcome: TypeAlias = Literal["answered", "waiting", "skipped"]
_APPROVAL = (
    PermissionOption(option_id="approve", name="Approve", kind="allow_once"),
    PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
)
_PAGE = 1_000


class Inbox:
    """What is open in the whole fleet. ``gate_of`` gives the gate of a live agent."""

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        notes: LogWriter,
        gate_of: Callable[[SessionId], Gate | None],
        budgets: BudgetManagement,
        approvers: Approvers,
        home: str = "",
    ) -> None:
        self._journal = journal
        self._current = current
        self._notes = notes
        self._gate_of = gate_of
        self._budgets = budgets
        self._approvers = approvers
        self._home = home
        self._traits: dict[RequestId, RequestTraits] = {}
        """Of open requests; each is read once."""
        self._places: dict[str, RequestPlace] = {}
        self._approving = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._kept = {
            one.request
            for one in current.requests.values()
            if isinstance(one.event, PermissionAsked)
        }
        """Requests for approval, which belong to no gate: of those that an earlier host left open,
        no session lives any more."""

    async def items(self) -> list[InboxItem]:
        """What waits for a person, oldest first."""
        requests = self._current.requests
        for gone in [one for one in self._traits if one not in requests]:
            del self._traits[gone]
        unread = [
            (one.event, self._current.get(one.session).spawn.options.cwd)
            for one in requests.values()
            if isinstance(one.event, PermissionAsked) and one.request not in self._traits
        ]
        if unread:
            self._traits |= await asyncio.to_thread(self._read, unread)
        return [
            self._item(one)
            for one in self._current.requests.values()
            if not isinstance(one.event, QuestionAsked) or one.event.to is None
        ]

    async def groups(self) -> list[RequestGroup]:
        """What waits for a person, in groups; see ``Fleet.inbox_groups``."""
        from .permissions.request_groups import group_requests

        return group_requests(await self.items())

    def _read(self, unread: list[tuple[PermissionAsked, str]]) -> dict[RequestId, RequestTraits]:
        """Read requests. Touches the disk: where a directory belongs to."""
        from .permissions.request_groups import read_traits

        return {
            asked.request: read_traits(asked, self._find_place(cwd), self._home)
            for asked, cwd in unread
        }

    def _find_place(self, cwd: str) -> "RequestPlace":
        from .permissions.request_groups import RequestPlace

        if cwd not in self._places:
            try:
                workspace = find_workspace(Path(cwd))
                directory = str(Path(cwd).resolve().relative_to(workspace.root))
                place = RequestPlace(cwd=cwd, project=str(workspace.project), directory=directory)
            except (OSError, ValueError):
                place = RequestPlace(cwd=cwd)
            self._places[cwd] = place
        return self._places[cwd]

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
        answer = _Answer(option=_option(found.event, choice), by=by, feedback=feedback)
        return await self._decide(found, found.event, answer) != "skipped"

    async def answer_group(
        self,
        requests: tuple[RequestId, ...],
        choice: str,
        *,
        by: str = "person",
        feedback: str | None = None,
    ) -> GroupAnswer:
        """Answer several permission requests alike; see ``Fleet.answer_group``."""
        if not requests:
            raise ValueError("name at least one request to answer")
        first = await self._find_asked(requests[0])
        choice = _option(first, choice)
        answers: list[tuple[RequestId, OpenRequest | None, _Answer]] = []
        group = requests[0] if len(set(requests)) > 1 else None
        people: dict[tuple[ApprovalRule, ...], str] = {}
        for request in dict.fromkeys(requests):
            found = await self._find(request)
            option = _matching_option(first, choice, found)
            event = found.event if found is not None else None
            rules = event.approvals if isinstance(event, PermissionAsked) else ()
            if rules and rules not in people:
                people[rules] = await self._approvers.identify(rules, by)
            answer = _Answer(
                option=option, by=by, feedback=feedback, group=group, person=people.get(rules)
            )
            answers.append((request, found, answer))
        outcomes = await asyncio.gather(*(self._decide_member(*one) for one in answers))
        by_outcome: dict[_Outcome, list[RequestId]] = {}
        for (request, _, _), outcome in zip(answers, outcomes, strict=True):
            by_outcome.setdefault(outcome, []).append(request)
        return GroupAnswer(**{name: tuple(ids) for name, ids in by_outcome.items()})

    async def _decide_member(
        self, request: RequestId, found: OpenRequest | None, answer: "_Answer"
    ) -> _Outcome:
        if found is None:
            return "skipped"
        assert isinstance(found.event, PermissionAsked)
        return await self._decide(found, found.event, answer)

    async def _find_asked(self, request: RequestId) -> PermissionAsked:
        """A permission request, open or not."""
        found = await self._find(request)
        event = found.event if found is not None else None
        if found is None:
            seq = await self._journal.query(lambda c: find_asked(c, request))
            records = await self._journal.read((seq or 1) - 1, limit=1)
            event = records[0].event if records else None
        if not isinstance(event, PermissionAsked):
            raise ValueError(f"request {request!r} is no permission request: answer it by itself")
        return event

    async def _decide(
        self, found: OpenRequest, asked: PermissionAsked, answer: "_Answer"
    ) -> _Outcome:
        """Pass an answer on; where several people have to allow, once they have."""
        made = PermissionAnswer(
            outcome=Selected(option_id=answer.option),
            by=_decider(answer.by),
            feedback=answer.feedback,
            group=answer.group,
        )
        if not asked.approvals:
            return await self._pass_on(found, made)
        person = answer.person or await self._approvers.identify(asked.approvals, answer.by)
        by = Decider(kind="person", name=person)
        async with self._approving:
            if choice_of(asked.options, answer.option).effect != "allow":
                return await self._pass_on(found, replace(made, by=by))
            approved = await self._approve(found, asked, answer, by)
            names = tuple(one.by.name or "" for one in approved)
            if not approved:
                return "skipped"
            if not is_approved(asked.approvals, names):
                return "waiting"
            agreed = replace(
                made,
                outcome=Selected(option_id=agree_on_option(asked, approved)),
                by=Decider(kind="person", name=", ".join(names)),
                approved_by=names,
            )
            return await self._pass_on(found, agreed)

    async def _approve(
        self, found: OpenRequest, asked: PermissionAsked, answer: "_Answer", by: Decider
    ) -> tuple[PermissionApproved, ...]:
        """Record that a person allows a request, once; all who do, none if it is answered."""
        requests = self._current.requests
        current = requests.get(found.request)
        if current is None or self._gate_of(found.session) is None:
            return ()
        if all(one.by != by for one in current.approved):
            event = PermissionApproved(
                request=asked.request,
                call=asked.call,
                option=answer.option,
                by=by,
                group=answer.group,
            )
            await self._notes.note(found.session, event)
        current = requests.get(found.request)
        return current.approved if current is not None else ()

    async def _pass_on(self, found: OpenRequest, answer: PermissionAnswer) -> _Outcome:
        if found.request in self._kept:
            return await self._answer_kept(found, answer)
        gate = self._gate_of(found.session)
        is_first = gate is not None and gate.answer(found.request, answer)
        return "answered" if await self._settle(found, is_first) else "skipped"

    async def ask_approval(
        self,
        agent: str,
        request: RequestId,
        title: str,
        *,
        reason: str | None = None,
        text: str = "",
    ) -> bool:
        """Ask a person to approve the work of an agent; see ``Fleet.ask_approval``."""
        session = (await self._current.find(agent)).session
        async with self._asking:
            if request in self._current.requests or await self._is_answered(session, request):
                return False
            self._kept.add(request)
            asked = PermissionAsked(
                request=request,
                call=new_tool_call_id(),
                title=title,
                options=_APPROVAL,
                reason=reason,
                content=(ContentItem(content=TextContent(text=text)),) if text else (),
            )
            await self._notes.note(session, asked)
        return True

    async def _is_answered(self, session: SessionId, request: RequestId) -> bool:
        """Whether the log has an answer; a request may also have ended with its session."""
        seq = await self._journal.query(lambda c: find_asked(c, request))
        while seq is not None and (page := await self._journal.read(seq, session, _PAGE)):
            if any(
                isinstance(one.event, PermissionAnswered) and one.event.request == request
                for one in page
            ):
                return True
            seq = page[-1].seq
        return False

    async def _answer_kept(self, found: OpenRequest, answer: PermissionAnswer) -> _Outcome:
        assert isinstance(found.event, PermissionAsked)
        assert isinstance(answer.outcome, Selected)
        chosen = answer.outcome.option_id
        async with self._asking:
            if found.request not in self._current.requests:
                return "skipped"
            answered = PermissionAnswered(
                request=found.request,
                call=found.event.call,
                outcome=answer.outcome,
                kind=next(one.kind for one in found.event.options if one.option_id == chosen),
                by=answer.by,
                feedback=answer.feedback,
                group=answer.group,
            )
            await self._notes.note(found.session, answered)
        return "answered"

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
            cwd=self._current.get(one.session).spawn.options.cwd,
            traits=self._traits.get(one.request),
            approved=tuple(each.by.name or "" for each in one.approved),
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


class _Answer(Struct, frozen=True, kw_only=True):
    """What a client answers."""

    option: str
    by: str
    feedback: str | None = None
    group: RequestId | None = None
    person: str | None = None
    """Who the client is, where that was found out already."""


def _matching_option(first: PermissionAsked, choice: str, other: OpenRequest | None) -> str:
    """The option of a request that means what was chosen for the first one."""
    from .permissions.request_groups import match_option

    if other is None:
        return ""
    if not isinstance(other.event, PermissionAsked):
        raise ValueError(f"request {other.request!r} is no permission request: answer it by itself")
    found = match_option(first, choice, other.event)
    if found is None:
        raise ValueError(
            f"request {other.request!r} has no option that means the same as {choice!r}; answer it "
            "by itself"
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
