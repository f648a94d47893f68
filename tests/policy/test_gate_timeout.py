"""A request that nobody answers in time is refused, once, and told apart from a cancelled one."""

import asyncio

from quarterdeck.policy.call import Call
from quarterdeck.policy.gate import Gate, PermissionAnswer, PermissionRefused
from quarterdeck.wire.events import (
    Event,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from quarterdeck.wire.ids import RequestId, ToolCallId
from quarterdeck.wire.permissions import Cancelled, Decider, Selected

CALL = Call(tool="bash", kind="execute", cwd="/w", roots=("/w",), command="make things")
QUESTION = PermissionAsked(
    request=RequestId("r"), call=ToolCallId("c"), title="make things", options=(), kind="execute"
)


async def test_a_permission_that_nobody_gives_in_time_is_refused():
    events: list[Event] = []

    async def emit(event: Event) -> None:
        events.append(event)

    verdict = await Gate(mode="ask", patience=0.02).permit(emit, QUESTION, CALL)
    assert isinstance(verdict, PermissionRefused) and not verdict.cancelled
    asked, answered = events
    assert isinstance(asked, PermissionAsked) and isinstance(answered, PermissionAnswered)
    assert answered.by.kind == "timeout" and isinstance(answered.outcome, Cancelled)


async def test_an_answer_in_time_counts_and_the_limit_is_gone():
    gate = Gate(mode="ask", patience=0.05)
    events: list[Event] = []

    async def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, PermissionAsked):
            chosen = Selected(option_id=event.options[0].option_id)
            assert gate.answer(
                event.request, PermissionAnswer(outcome=chosen, by=Decider(kind="person"))
            )

    verdict = await gate.permit(emit, QUESTION, CALL)
    assert not isinstance(verdict, PermissionRefused)
    await asyncio.sleep(0.1)
    assert [one.by.kind for one in events if isinstance(one, PermissionAnswered)] == ["person"]


async def test_a_question_that_nobody_answers_in_time_is_cancelled_by_the_limit():
    events: list[Event] = []

    async def emit(event: Event) -> None:
        events.append(event)

    question = QuestionAsked(request=RequestId("q"), text="Which?")
    answered = await Gate(mode="ask", patience=0.02).ask(emit, question)
    assert (answered.action, answered.by.kind) == ("cancel", "timeout")
    assert isinstance(events[-1], QuestionAnswered)


async def test_who_comes_after_the_limit_is_told_so():
    gate = Gate(mode="ask", patience=0.01)

    async def emit(event: Event) -> None:
        pass

    await gate.permit(emit, QUESTION, CALL)
    late = PermissionAnswer(outcome=Cancelled(), by=Decider(kind="person"))
    assert not gate.answer(QUESTION.request, late)
