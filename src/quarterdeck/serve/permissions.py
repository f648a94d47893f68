"""Permission requests and questions of the agent, put to the client.

A child's call is unknown to the client: it is announced for the time of its request.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, cast

import msgspec

from quarterdeck.agent.session import Session
from quarterdeck.policy.gate import PermissionAnswer, QuestionReply
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from quarterdeck.wire.ids import RequestId
from quarterdeck.wire.permissions import Cancelled, Decider, PermissionOption, Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import log_failure, start_task

from .handshake import EditorClient

__all__ = [
    "RequestForwarder",
    "announce_child_call",
    "client_call_id",
    "end_child_call",
    "shorten_options",
]


def client_call_id(asked: PermissionAsked) -> str:
    """The tool call that a request is about, as the client knows it."""
    if asked.child is None:
        return asked.call
    return f"{asked.child.session}/{asked.child.call}"


def announce_child_call(asked: PermissionAsked) -> acp.ToolCall:
    """The child's call, before its request."""
    return acp.ToolCall(
        tool_call_id=client_call_id(asked),
        title=asked.title,
        name=asked.name,
        kind=asked.kind,
        status="pending",
        content=asked.content,
        locations=asked.locations,
        raw_input=asked.raw_input,
    )


def end_child_call(call: str, answered: PermissionAnswered) -> acp.ToolCallUpdate:
    """The end of the announced call: the child's session reports its result."""
    allowed = isinstance(answered.outcome, Selected) and (answered.kind or "").startswith("allow")
    return acp.ToolCallUpdate(tool_call_id=call, status="completed" if allowed else "failed")


_log = logging.getLogger(__name__)


class RequestForwarder:
    """Asks the client what the log says is asked, each in a task of its own.

    The session's gate alone knows what is still open: an answer that comes too late changes
    nothing. A client that fails to answer counts as one that cancelled.
    """

    def __init__(self, connection: AcpConnection, client: EditorClient, session: Session) -> None:
        self._connection = connection
        self._client = client
        self._session = session
        self._asking: dict[RequestId, asyncio.Task[None]] = {}

    def notice(self, record: Record) -> None:
        """Take a new record: ask what it asks, and let go of what it answers."""
        match record.event:
            case PermissionAsked() as asked:
                self._start(asked.request, self._ask_permission(asked))
            case QuestionAsked() as asked:
                self._start(asked.request, self._ask_person(asked))
            case PermissionAnswered(request=request) | QuestionAnswered(request=request):
                if (task := self._asking.get(request)) is not None:
                    task.cancel()  # the client gets a cancellation
            case _:
                pass

    async def close(self) -> None:
        """Let go of everything that is asked."""
        tasks = tuple(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, request: RequestId, work: Coroutine[Any, Any, None]) -> None:
        if request in self._asking:
            work.close()
            return
        task = self._asking[request] = start_task(work, name=f"ask {request}")
        task.add_done_callback(log_failure)
        task.add_done_callback(lambda _: self._asking.pop(request, None))

    async def _ask_permission(self, asked: PermissionAsked) -> None:
        question = acp.RequestPermissionRequest(
            session_id=self._session.id,
            tool_call=acp.ToolCallDetails(
                tool_call_id=client_call_id(asked),
                title=asked.title,
                name=asked.name,
                kind=asked.kind,
                status="pending",
                content=asked.content or None,
                locations=asked.locations or None,
                raw_input=asked.raw_input,
                meta=_meta(asked),
            ),
            options=tuple(_plain(option) for option in shorten_options(asked.options)),
        )
        try:
            answer = await self._connection.call(acp.SESSION_REQUEST_PERMISSION, question)
        except QuarterdeckError as error:
            self._session.gate.answer(
                asked.request, PermissionAnswer(outcome=Cancelled(), by=self._failed(error))
            )
        else:
            self._session.gate.answer(
                asked.request, PermissionAnswer(outcome=answer.outcome, by=self._person())
            )

    async def _ask_person(self, asked: QuestionAsked) -> None:
        self._session.gate.reply(asked.request, await self._reply(asked))

    async def _reply(self, asked: QuestionAsked) -> QuestionReply:
        if asked.form is None or not self._client.has_forms:
            nobody = Decider(kind="mode", name=f"{self._client.name} cannot show a form")
            return QuestionReply(action="decline", by=nobody)
        try:
            question = acp.CreateElicitationRequest(
                message=asked.text,
                mode="form",
                requested_schema=convert(asked.form, acp.ElicitationSchema),
                session_id=self._session.id,
                tool_call_id=asked.call,
            )
            answer = await self._connection.call(acp.ELICITATION_CREATE, question)
        except (QuarterdeckError, msgspec.ValidationError) as error:
            return QuestionReply(action="cancel", by=self._failed(error))
        match answer.action:
            case "accept":
                content = msgspec.to_builtins(answer.content or {})
                return QuestionReply(action="accept", by=self._person(), content=content)
            case "decline":
                return QuestionReply(action="decline", by=self._person())
            case _:
                return QuestionReply(action="cancel", by=self._person())

    def _person(self) -> Decider:
        return Decider(kind="person", name=self._client.name)

    def _failed(self, error: Exception) -> Decider:
        _log.warning("session %s: the client did not answer: %s", self._session.id, error)
        return Decider(kind="cancel", name=f"{self._client.name} did not answer: {error}")


def _meta(asked: PermissionAsked) -> dict[str, Any] | None:
    facts: dict[str, Any] = {} if asked.reason is None else {"reason": asked.reason}
    if asked.child is not None:
        facts["child"] = msgspec.to_builtins(asked.child)
    return {"quarterdeck": facts} if facts else None


def shorten_options(options: Iterable[PermissionOption]) -> Iterator[PermissionOption]:
    """The narrowest option of each kind and scope: an editor shows all that it gets at once."""
    seen: set[tuple[str, str]] = set()
    for option in options:
        meaning = (option.meta or {}).get("quarterdeck")
        is_ours = isinstance(meaning, dict)
        scope = cast("dict[str, Any]", meaning).get("scope") if is_ours else option.option_id
        if (key := (option.kind, str(scope))) not in seen:
            seen.add(key)
            yield option


def _plain(option: PermissionOption) -> PermissionOption:
    """An option as a client needs it; what it means to us stays with us."""
    return PermissionOption(option_id=option.option_id, name=option.name, kind=option.kind)
