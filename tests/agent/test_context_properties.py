"""Whatever happens in a session and wherever the marks are: requests stay whole and repeatable."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.agent.context.window import PinError, SessionContext
from quarterdeck.agent.conversation import Conversation
from quarterdeck.agent.limits import TurnLimits, TurnSpending
from quarterdeck.agent.ports import NO_BUDGET, NO_HOOKS, SessionClock
from quarterdeck.config.schema import ContextSettings
from quarterdeck.models.errors import RequestRejectedError
from quarterdeck.models.history_repair import repair_history
from quarterdeck.models.model import ModelRequest
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import Message, TextPart, ToolResultPart, ToolUsePart
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    ModelCallFinished,
    ModelCallStarted,
    PlanChanged,
    Prompted,
    ToolCallEnded,
    ToolCallStarted,
)
from quarterdeck.wire.ids import MessageId, ToolCallId
from quarterdeck.wire.record import decode_event, encode_event
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import ToolCallLocation
from quarterdeck.wire.usage import TokenUsage
from tests.support.native_agents import assert_valid
from tests.support.window_models import Worker, size_of

SUMMARIES: dict[str, Any] = {
    "good": "# Goal\nGo on.",
    "empty": "",
    "long": "y" * 60_000,
    "fails": RequestRejectedError("no", status=400),
}


@dataclass
class Log:
    """Events as they are read again from a log."""

    conversation: Conversation = field(default_factory=Conversation)
    events: list[Event] = field(default_factory=list[Event])

    async def emit(self, event: Event) -> None:
        kept = decode_event(encode_event(event))
        self.events.append(kept)
        self.conversation.apply(kept)


class Play:
    """A session without a loop: what happens comes from the test."""

    def __init__(self, marks: ContextSettings, window: int, summary: str) -> None:
        self.log = Log()
        self.worker = Worker(window=window, max_output=window // 8)
        self.worker.summary = lambda _: SUMMARIES[summary]
        setup = SimpleNamespace(
            model=self.worker,
            effort="off",
            system_prompt="You help.",
            toolbox=SimpleNamespace(specs=()),
            hooks=NO_HOOKS,
            budget=NO_BUDGET,
            workspace=SimpleNamespace(find_kept=lambda _: None),
            pace=SessionClock(),
            context=marks,
            make_model=lambda _: self.worker,
        )
        self.context = SessionContext(setup, self.log.conversation, self.log.emit)  # type: ignore[arg-type]
        self.turn: Any = SimpleNamespace(
            model=self.worker, effort="off", spending=TurnSpending(limits=TurnLimits(), started=0.0)
        )
        self.calls = 0
        self.prompts = 0
        self.newest = ""

    async def play(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("prompt", size):
                self.prompts += 1
                self.newest = f"prompt {self.prompts} " + "p" * size
                message = MessageId(f"m{self.prompts}")
                await self.log.emit(Prompted(content=(text(self.newest),), message=message))
            case ("step", sizes, fails):
                await self.step(sizes, fails)
            case ("pin", words):
                with suppress(PinError):
                    await self.context.pin(words)
            case ("plan", words):
                entry = PlanEntry(content=words, priority="low", status="pending")
                await self.log.emit(PlanChanged(entries=(entry,)))
            case ("compact",):
                await self.context.compact("the numbers")
            case _:
                raise AssertionError(action)

    async def step(self, sizes: list[int], fails: bool) -> None:
        conversation = self.log.conversation
        await self.context.before_call(self.turn)
        request = ModelRequest(system="You help.", messages=conversation.messages())
        self.check(request)
        await self.log.emit(ModelCallStarted(model="test/worker"))
        if fails:
            await self.log.emit(ModelCallFinished(model="test/worker", error="broke"))
            return
        uses: list[ToolUsePart] = []
        for _ in sizes:
            self.calls += 1
            arguments = f'{{"path":"f{self.calls}.py"}}'
            uses.append(ToolUsePart(id=f"c{self.calls}", name="read", arguments=arguments))
        reply = Message(role="assistant", parts=(TextPart(text="So."), *uses))
        usage = TokenUsage(input=size_of(request), output=5)
        await self.log.emit(ModelCallFinished(model="test/worker", reply=reply, usage=usage))
        for use, size in reversed(list(zip(uses, sizes, strict=True))):
            id_ = ToolCallId(use.id)
            location = ToolCallLocation(path=f"/w/{use.id}.py")
            await self.log.emit(
                ToolCallStarted(call=id_, title="read", kind="read", locations=(location,))
            )
            result = ToolResultPart(id=use.id, content=(TextPart(text="r" * size),))
            await self.log.emit(ToolCallEnded(call=id_, status="completed", result=result))

    def check(self, request: ModelRequest) -> None:
        conversation, again = self.log.conversation, Conversation(self.log.events)
        assert again.messages() == request.messages
        assert again.size == conversation.size
        assert (again.first, again.cleared) == (conversation.first, conversation.cleared)
        scale = conversation.gauge.tokens(conversation.size, 10, "test/worker")
        assert again.gauge.tokens(again.size, 10, "test/worker") == scale
        assert_valid(request.messages)
        told = "\n".join(_texts(request.messages))
        assert self.newest[:500] in told
        mended = "\n".join(_texts(tuple(repair_history(request.messages, owner="test"))))
        assert "No result: the call" not in mended
        assert "no longer part of this conversation" not in mended


def _texts(messages: tuple[Message, ...]) -> list[str]:
    return [
        each.text
        for message in messages
        for part in message.parts
        for each in (part.content if isinstance(part, ToolResultPart) else (part,))
        if isinstance(each, TextPart)
    ]


shares = st.floats(0.05, 1.0)
actions = st.one_of(
    st.tuples(st.just("prompt"), st.integers(0, 3_000)),
    st.tuples(
        st.just("step"), st.lists(st.integers(0, 4_000), max_size=3), st.booleans().map(bool)
    ),
    st.tuples(
        st.just("step"), st.lists(st.integers(200, 2_000), min_size=1, max_size=2), st.just(False)
    ),
    st.tuples(st.just("pin"), st.sampled_from(["Never push.", ""])),
    st.tuples(st.just("plan"), st.sampled_from(["look", "mend"])),
    st.just(("compact",)),
)


@settings(deadline=None, max_examples=60)
@given(
    marks=st.builds(
        ContextSettings,
        clear_at=shares,
        summarise_at=shares,
        wait_at=shares,
        keep_turns=st.integers(1, 4),
    ),
    window=st.integers(2_000, 12_000),
    summary=st.sampled_from(sorted(SUMMARIES)),
    played=st.lists(actions, min_size=5, max_size=40),
)
def test_requests_stay_whole_and_are_the_same_when_resumed(
    marks: ContextSettings, window: int, summary: str, played: list[tuple[Any, ...]]
):
    async def run() -> None:
        play = Play(marks, window, summary)
        await play.play(("prompt", 10))
        for action in played:
            if action[0] == "compact":  # not within a turn, where nobody would come to serve it
                await play.context.turn_ended()
            await play.play(action)
        await play.play(("step", [100], False))
        await play.context.close()
        ends = [e for e in play.log.events if isinstance(e, CompactionChanged)]
        begun = [e.compaction for e in ends if e.status == "in_progress"]
        ended = [e.compaction for e in ends if e.status != "in_progress"]
        assert sorted(begun) == sorted(ended)

    asyncio.run(run())
