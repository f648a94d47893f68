"""A compaction from its start to its end, and the request for its summary.

At most one is under way. Its events are ``in_progress``, then one more; a failure changes
nothing else. What it replaces was fixed when it began: the conversation may grow meanwhile.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from msgspec.structs import replace as replace_request

from quarterdeck.models.errors import ContextOverflowError, ModelError
from quarterdeck.models.model import Delta, Effort, Model, ModelRequest, ReplyFinished, ToolSpec
from quarterdeck.models.retry import retry_delay
from quarterdeck.wire.budgets import Refusal
from quarterdeck.wire.conversation import Message, Part, TextPart, ToolResultPart
from quarterdeck.wire.events import CompactionChanged, Event, NoticePosted
from quarterdeck.wire.ids import CompactionId, new_compaction_id
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.usage import Cost, TokenUsage

from ..conversation import Conversation, summarised
from ..ports import NO_BUDGET, NO_HOOKS, CallBudget, Hooks, SessionClock, add_hook_context
from .memory import clear_results
from .token_estimate import bytes_of, weigh

__all__ = [
    "CompactionOrder",
    "Compactor",
    "ModelCallSettings",
    "Summary",
    "SummaryError",
    "summarise",
]

_RETRIES = 2
_TOKENS_A_BYTE = 0.3


class SummaryError(ModelError):
    """The model gave no summary that can be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallSettings:
    """How the session asks its model."""

    model: Model
    effort: Effort
    system: str
    tools: tuple[ToolSpec, ...]
    pace: SessionClock
    budget: CallBudget = NO_BUDGET


@dataclass(frozen=True, slots=True)
class Summary:
    """What a model wrote, and what that took."""

    text: str
    usage: TokenUsage
    cost: Cost | None


async def summarise(
    asking: ModelCallSettings, messages: Sequence[Message], *, focus: str, max_output: int
) -> Summary:
    """Let the model summarise messages; ``focus`` is what the person wants to see kept.

    A request that is too large for the model is made once more without the results of tools.

    Raises:
        ModelError: the call failed, more than once where that may help.
        SummaryError: nothing was written, or the model declined.
    """
    words = await asyncio.to_thread(_summary_prompt, focus)
    summary_request = Message(role="user", parts=(TextPart(text=words),))
    try:
        finished = await _ask(asking, (*messages, summary_request), max_output)
    except ContextOverflowError:
        finished = await _ask(asking, (*_bare(messages), summary_request), max_output)
    parts = finished.reply.parts
    text = "".join(part.text for part in parts if isinstance(part, TextPart)).strip()
    if not text:
        raise SummaryError("the model wrote no summary")
    if finished.stop in ("max_tokens", "refusal"):
        why = "declined to write" if finished.stop == "refusal" else "did not finish"
        raise SummaryError(f"the model {why} the summary")
    from ..model_call import cost_of

    return Summary(text, finished.usage, cost_of(asking.model.info, finished.usage))


def _summary_prompt(focus: str) -> str:
    text = Path(__file__).with_name("summary_prompt.md").read_text(encoding="utf-8").rstrip()
    return (
        (f"{text}\n\nThe user asked to keep this in particular: {focus}") if focus.strip() else text
    )


async def _ask(
    asking: ModelCallSettings, messages: tuple[Message, ...], max_output: int
) -> ReplyFinished:
    request = ModelRequest(
        system=asking.system,
        messages=messages,
        tools=asking.tools,
        max_output=max_output,
        effort=asking.effort,
    )
    attempt = 1
    while True:
        try:
            return await _finished(asking, request)
        except ModelError as error:
            delay = retry_delay(attempt, error, retries=_RETRIES, draw=asking.pace.draw)
            if delay is None:
                raise
            await asking.pace.sleep(delay)
            attempt += 1


async def _finished(asking: ModelCallSettings, request: ModelRequest) -> ReplyFinished:
    if asking.budget is NO_BUDGET:
        return await _streamed(asking.model, request)
    from ..model_call import cost_of, make_estimate

    info, size = asking.model.info, sum(map(weigh, request.messages)) + bytes_of(request.system)
    estimate = make_estimate(info, round(size * _TOKENS_A_BYTE), request.max_output, summary=True)
    reserved = await asking.budget.reserve(estimate)
    if isinstance(reserved, Refusal):
        raise SummaryError(reserved.reason)
    usage, cost = TokenUsage(input=estimate.input), None
    try:
        finished = await _streamed(
            asking.model,
            replace_request(request, max_output=reserved.max_output or estimate.output),
        )
        usage, cost = finished.usage, cost_of(info, finished.usage)
        return finished
    except ContextOverflowError:
        usage = None
        raise
    finally:
        await asking.budget.settle(reserved, usage, cost=cost, broke_off=cost is None)


async def _streamed(model: Model, request: ModelRequest) -> ReplyFinished:
    stream = cast("AsyncGenerator[Delta, None]", model.stream(request))
    async with aclosing(stream):
        async for delta in stream:
            if isinstance(delta, ReplyFinished):
                return delta
    raise SummaryError("the model's answer is incomplete")


def _bare(messages: Sequence[Message]) -> list[Message]:
    found: list[Message] = []
    for message in messages:
        has_results = any(isinstance(part, ToolResultPart) for part in message.parts)
        found.append(
            clear_results(message, found[-1] if found else None) if has_results else message
        )
    return found


_log = logging.getLogger(__name__)
_CANCELLED = "the summary was cancelled"
_DROPPED = (
    "Earlier steps were dropped without a summary, because none could be written. The user's "
    "messages follow; read files again if you need what was dropped."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOrder:
    """What a compaction is to do."""

    asking: ModelCallSettings
    through: int
    kept: Callable[[], tuple[Part, ...]]
    """What is sent beside the summary, at the moment at which it is ready."""
    focus: str = ""
    max_output: int
    writer: Callable[[], Model] | None = None
    """Makes another model to write the summary, in a thread."""


@dataclass(slots=True)
class _UnderWay:
    id: CompactionId
    order: CompactionOrder
    messages: tuple[Message, ...]
    task: asyncio.Task[None] | None = None
    in_conversation: bool = False
    """Whether the log says that it has begun."""
    outcome: Summary | str | None = None
    """A text is why it failed."""


class Compactor:
    """Makes compactions of one conversation."""

    def __init__(
        self,
        conversation: Conversation,
        emit: Callable[[Event], Awaitable[None]],
        is_idle: Callable[[], bool],
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        self._hooks = hooks
        self._conversation = conversation
        self._emit = emit
        self._is_idle = is_idle
        self._under_way: _UnderWay | None = None
        self._ending = asyncio.Lock()
        self.spent: list[tuple[TokenUsage, Cost | None]] = []
        """What summaries took since this was last emptied."""
        self.error: str | None = None
        """Why the last one failed; None if it did not."""

    @property
    def is_running(self) -> bool:
        """Whether one is under way."""
        return self._under_way is not None

    @property
    def is_ready(self) -> bool:
        """Whether one is under way that has only to be put into effect."""
        return self._under_way is not None and self._under_way.outcome is not None

    def start(self, order: CompactionOrder) -> None:
        """Begin one in the background; there must be none."""
        assert self._under_way is None, "one compaction at a time"
        conversation = self._conversation
        head = (conversation.head,) if conversation.head is not None else ()
        messages = tuple(conversation.recent_messages[: order.through - conversation.first])
        work = self._under_way = _UnderWay(new_compaction_id(), order, (*head, *messages))
        work.task = start_task(self._work(work), name=work.id)

    async def finish(self) -> bool:
        """Wait for the one under way and put it into effect; False if it failed or there is none.

        Cancelling the caller leaves it running.
        """
        work = self._under_way
        if work is not None and work.task is not None:
            await asyncio.wait([work.task])
        await self._end()
        if work is not None and work.outcome is None:
            self.error = _CANCELLED
        return work is not None and self.error is None

    async def drop(self, order: CompactionOrder) -> bool:
        """Replace messages without a summary, at once; False if that would free nothing."""
        work = _UnderWay(new_compaction_id(), order, ())
        work.outcome = Summary(_DROPPED, TokenUsage(), None)
        if self._too_long(work, _DROPPED) is not None:
            return False
        await self._emit(CompactionChanged(compaction=work.id, status="in_progress"))
        await self._complete(work, work.outcome)
        return True

    async def close(self) -> None:
        """End the one under way, if there is one."""
        work = self._under_way
        if work is None or work.task is None:
            return
        work.task.cancel()
        await asyncio.wait([work.task])
        async with self._ending:
            if self._under_way is work:
                self._under_way = None
                if work.in_conversation:
                    await self._emit(CompactionChanged(compaction=work.id, status="cancelled"))

    async def _work(self, work: _UnderWay) -> None:
        try:
            await self._emit(CompactionChanged(compaction=work.id, status="in_progress"))
            work.in_conversation = True
            work.outcome = await self._written(work)
        except ModelError as error:
            work.outcome = str(error)
        except Exception as error:
            _log.exception("a summary failed")
            work.outcome = f"internal error: {error!r}"
        if self._is_idle():
            await self._end()

    async def _written(self, work: _UnderWay) -> Summary | str:
        """The summary, or why hooks will not have one."""
        order = work.order
        verdict = await self._hooks.run("before_compaction", {"focus": order.focus}, self._emit)
        if verdict.refused is not None:
            return f"hook {verdict.by} refused it: {verdict.refused}"
        focus = "\n".join(filter(None, (order.focus, *verdict.context)))
        return await _written(replace(order, focus=focus), work.messages)

    async def _end(self) -> None:
        """Put what is ready into effect, once."""
        async with self._ending:
            work = self._under_way
            if work is None or work.outcome is None:
                return
            outcome = work.outcome
            if isinstance(outcome, Summary):
                self.spent.append((outcome.usage, outcome.cost))
                why = self._too_long(work, outcome.text)
            else:
                why = outcome
            if isinstance(outcome, Summary) and why is None:
                await self._complete(work, outcome)
            else:
                await self._fail(work, why or "")
            self._under_way = None

    async def _complete(self, work: _UnderWay, summary: Summary) -> None:
        self.error = None
        usage = summary.usage if summary.usage.total else None
        await self._emit(
            CompactionChanged(
                compaction=work.id,
                status="completed",
                summary=summary.text,
                through=work.order.through,
                kept=work.order.kept(),
                usage=usage,
                cost=summary.cost,
            )
        )
        verdict = await self._hooks.run("after_compaction", {"summary": summary.text}, self._emit)
        await add_hook_context(verdict, "after_compaction", self._conversation, self._emit)

    async def _fail(self, work: _UnderWay, why: str) -> None:
        self.error = why
        await self._emit(CompactionChanged(compaction=work.id, status="failed", error=why))
        await self._emit(
            NoticePosted(
                title="The conversation could not be summarised",
                severity="warning",
                description=f"{why}; it is unchanged.",
            )
        )

    def _too_long(self, work: _UnderWay, text: str) -> str | None:
        """Why a summary is of no use, if it is not."""
        conversation = self._conversation
        gone = conversation.sizes[: work.order.through - conversation.first]
        replaced = sum(gone) + conversation.head_size
        if weigh(summarised(text, work.order.kept())) < replaced:
            return None
        return "the summary is longer than what it would replace"


async def _written(order: CompactionOrder, messages: tuple[Message, ...]) -> Summary:
    asking = order.asking
    if order.writer is None:
        return await summarise(asking, messages, focus=order.focus, max_output=order.max_output)
    model = await asyncio.to_thread(order.writer)
    try:
        other = replace(asking, model=model)
        most = min(order.max_output, model.info.max_output)
        return await summarise(other, messages, focus=order.focus, max_output=most)
    finally:
        await model.close()
