"""The tools of an agent that was started by another: tell it, ask it, ask a person."""

import asyncio
from typing import Annotated, TypeAlias

from msgspec import Meta

from quarterdeck.agent.tools.tool import Arguments
from quarterdeck.wire.events import QuestionAnswered, QuestionAsked
from quarterdeck.wire.ids import RequestId, SessionId, new_request_id

from ..errors import AgentNotReadyError, NotAChildError
from ..names import normalize_name
from .tool import FleetTool, FleetToolResult, failed_result
from .tool_context import FleetToolContext, deliver_message

__all__ = ["CHILD_TOOLS", "PEER_TOOLS"]

Words: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100_000)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=86_400)]
_USUAL_ANSWER = 600.0
_USUAL_PERSON = 3_600.0
_MOST_LATE = 1_000
_GO_ON = "Continue with your best judgement and state your assumptions at the end."
_ANSWER_FORM = {
    "type": "object",
    "properties": {"answer": {"type": "string", "title": "Answer"}},
    "required": ["answer"],
}


class NotifyArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``notify_orchestrator``."""

    message: Words


class AskArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``ask_orchestrator`` and ``ask_user``."""

    question: Annotated[Words, Meta(description="Self-contained, with the choices that you see.")]
    timeout: Annotated[
        Seconds | None, Meta(description="Timeout in seconds; default: the maximum.")
    ] = None


class PeerArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``send_to_peer``."""

    peer: Annotated[str, Meta(min_length=1, max_length=80, description="Its name.")]
    message: Words


def _orchestrator(seat: FleetToolContext) -> SessionId:
    parent = seat.bridge.current.find_parent(seat.entry)
    if parent is None or not seat.bridge.current.get(parent).is_started:
        raise AgentNotReadyError("the agent that started you has ended. " + _GO_ON.rstrip("."))
    return parent


async def _notify(seat: FleetToolContext, a: NotifyArguments) -> FleetToolResult:
    await deliver_message(seat, _orchestrator(seat), "note", a.message)
    return FleetToolResult(text="Sent. It may take a while until it is read; continue.")


async def _ask(seat: FleetToolContext, a: AskArguments) -> FleetToolResult:
    parent, request = _orchestrator(seat), new_request_id()
    _remember(seat, request)
    seat.bridge.coming.add(request)
    try:
        answered = await _ask_parent(seat, a, parent, request)
    finally:
        seat.bridge.coming.discard(request)
    return FleetToolResult(text=_answer_text(answered, "The orchestrator"))


async def _ask_parent(
    seat: FleetToolContext, a: AskArguments, parent: SessionId, request: RequestId
) -> QuestionAnswered:
    hint = f'It is waiting. Answer with the tool answer and request "{request}".'
    # First the prompt: the one who sees the question open finds its prompt in the queue, and takes
    # it.
    message = await deliver_message(
        seat, parent, "question", a.question, request=request, hint=hint
    )
    question = QuestionAsked(request=request, text=a.question, form=_ANSWER_FORM, to=parent)
    is_answered = False
    try:
        timeout = seat.seconds(a.timeout, _USUAL_ANSWER)
        answered = await seat.bridge.asking.ask(seat.session, question, timeout=timeout)
        is_answered = answered.action != "cancel"
    finally:
        if not is_answered:
            # No one is asked what no one waits for.
            await asyncio.shield(seat.fleet.edit(parent, message, None))
    return answered


async def _ask_user(seat: FleetToolContext, a: AskArguments) -> FleetToolResult:
    question = QuestionAsked(request=new_request_id(), text=a.question, form=_ANSWER_FORM)
    timeout = seat.seconds(a.timeout, _USUAL_PERSON)
    answered = await seat.bridge.asking.ask(seat.session, question, timeout=timeout)
    return FleetToolResult(text=_answer_text(answered, "The person"))


def _answer_text(answered: QuestionAnswered, who: str) -> str:
    words = str((answered.content or {}).get("answer", "")).strip()
    match answered.action, answered.by.kind:
        case "accept", _:
            return f"{who} answers: {words or '(nothing)'}"
        case "decline", _:
            return f"{who} declined to answer{f': {words}' if words else ''}. {_GO_ON}"
        case _, "timeout":
            return f"{who} did not answer in time. {_GO_ON} Or ask again."
        case _:
            return f"There is no answer: the question was cancelled. {_GO_ON}"


def _remember(seat: FleetToolContext, request: RequestId) -> None:
    late = seat.bridge.late
    while len(late) >= _MOST_LATE:
        del late[next(iter(late))]
    late[request] = seat.session


async def _send_to_peer(seat: FleetToolContext, a: PeerArguments) -> FleetToolResult:
    parent = seat.bridge.current.find_parent(seat.entry)
    if parent is None:
        raise NotAChildError(a.peer)
    peers = [one for one in await seat.fleet.agents(parent=parent) if one.session != seat.session]
    found = next((one for one in peers if normalize_name(one.name) == normalize_name(a.peer)), None)
    if found is None:
        known = ", ".join(one.name for one in peers) or "none"
        return failed_result(f"You have no peer {a.peer!r}; your peers are: {known}.")
    await deliver_message(seat, found.session, "message", a.message)
    return FleetToolResult(text=f"{found.name} gets this when its turn ends.")


CHILD_TOOLS: tuple[FleetTool[FleetToolContext], ...] = (
    FleetTool(name="notify_orchestrator", arguments=NotifyArguments, run=_notify),
    FleetTool(name="ask_orchestrator", arguments=AskArguments, run=_ask),
    FleetTool(name="ask_user", arguments=AskArguments, run=_ask_user),
)
PEER_TOOLS: tuple[FleetTool[FleetToolContext], ...] = (
    FleetTool(name="send_to_peer", arguments=PeerArguments, run=_send_to_peer),
)
