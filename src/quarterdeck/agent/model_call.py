"""Asking the model once: the request, its stream as events, and retries."""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, assert_never, cast

from msgspec.structs import replace

from quarterdeck.models.errors import CallError, ContextOverflowError, ModelError
from quarterdeck.models.model import (
    Delta,
    ModelInfo,
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
    ToolUseDelta,
    ToolUseStarted,
)
from quarterdeck.models.retry import retry_delay
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import Message, TextPart, ToolUsePart
from quarterdeck.wire.events import (
    MessageChunk,
    ModelCallFinished,
    ModelCallStarted,
    RateLimited,
    RetryScheduled,
    ThoughtChunk,
    UsageReported,
)
from quarterdeck.wire.ids import MessageId, new_message_id
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage

from .ports import Turn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["ask_model", "cost_of"]

_WINDOW_IS_FULL = "model_context_window_exceeded"
"""Anthropic's word for an answer that the window cut off."""


async def ask_model(turn: Turn) -> ReplyFinished:
    """Make one model call, again if it fails in a way that may pass.

    One that is larger than the model's window is made once more when there is room again; so is
    one whose answer the window cut off.

    Raises:
        ModelError: it failed for good; what had arrived of the text is kept in the log.
    """
    request = await _request(turn)
    attempt, has_overflowed = 1, False
    while True:
        try:
            finished = await _attempt(turn, request, attempt)
        except ContextOverflowError as error:
            await _overflowed(turn, error, attempt, is_again=has_overflowed)
        except ModelError as error:
            await _wait(turn, error, attempt)
            attempt += 1
            continue
        else:
            if has_overflowed or not _is_cut_by_window(finished):
                return finished
            if not await turn.context.overflowed(turn):
                return finished
        has_overflowed, attempt = True, attempt + 1
        request = await _request(turn)


async def _request(turn: Turn) -> ModelRequest:
    max_output = await turn.context.before_call(turn)
    return ModelRequest(
        system=turn.system_prompt,
        messages=turn.conversation.messages(),
        tools=turn.toolbox.specs,
        max_output=max_output,
        effort=turn.effort,
    )


async def _wait(turn: Turn, error: ModelError, attempt: int) -> None:
    """Wait before the next attempt; raises the error if there is none."""
    delay = retry_delay(attempt, error, retries=turn.limits.retries, random=turn.pace.random)
    await turn.emit(_failed(turn.model.info, error, keep=delay is None))
    if delay is None:
        raise error
    await _announce(turn, error, attempt + 1, delay)
    await turn.pace.sleep(delay)


async def _overflowed(
    turn: Turn, error: ContextOverflowError, attempt: int, *, is_again: bool
) -> None:
    """Make room after a request that was too large; raises if that was done already or fails."""
    await turn.emit(_failed(turn.model.info, error, keep=False))
    if is_again or not await turn.context.overflowed(turn):
        why = (
            ("it does not fit even after compaction") if is_again else "nothing more can be omitted"
        )
        text = f"{error}; {why}: start a new session, or choose a model with a larger window"
        raise ContextOverflowError(text, status=error.status) from error
    await _announce(turn, error, attempt + 1, 0.0)


def _is_cut_by_window(finished: ReplyFinished) -> bool:
    """Whether the answer ended because the window, not the answer's own limit, was reached."""
    has_calls = any(isinstance(part, ToolUsePart) for part in finished.reply.parts)
    return finished.raw_stop == _WINDOW_IS_FULL and not has_calls


async def _attempt(turn: Turn, request: ModelRequest, attempt: int) -> ReplyFinished:
    await turn.emit(ModelCallStarted(model=turn.model.info.name, attempt=attempt))
    shown = _Shown(turn)
    stream = cast("AsyncGenerator[Delta, None]", turn.model.stream(request))
    try:
        async with aclosing(stream):
            async for delta in stream:
                await shown.show(delta)
    except asyncio.CancelledError:
        await turn.emit(
            ModelCallFinished(model=turn.model.info.name, reply=shown.partial, stop="cancelled")
        )
        raise
    except ModelError:
        raise  # the caller knows whether there is another attempt, and writes the end
    except Exception as error:
        await turn.emit(
            ModelCallFinished(
                model=turn.model.info.name, reply=shown.partial, error=f"unexpected: {error!r}"
            )
        )
        raise
    assert shown.finished is not None, "a stream ends with Finished or raises"
    reply = turn.conversation.with_own_ids(shown.finished.reply)
    finished = replace(shown.finished, reply=reply)
    cost = cost_of(turn.model.info, finished.usage)
    turn.spending.add(finished.usage, cost)
    await turn.emit(
        ModelCallFinished(
            model=turn.model.info.name,
            reply=finished.reply,
            stop=finished.raw_stop or finished.stop,
            usage=finished.usage,
            cost=cost,
        )
    )
    context = ContextUsage(used=finished.usage.total, size=turn.model.info.window)
    await turn.emit(UsageReported(context=context))
    return finished


def _failed(info: ModelInfo, error: ModelError, *, keep: bool) -> ModelCallFinished:
    texts: tuple[TextPart, ...] = ()
    if keep and isinstance(error, CallError) and error.partial is not None:
        texts = tuple(part for part in error.partial.parts if isinstance(part, TextPart))
    reply = Message(role="assistant", parts=texts) if texts else None
    return ModelCallFinished(model=info.name, reply=reply, error=str(error))


async def _announce(turn: Turn, error: ModelError, attempt: int, delay: float) -> None:
    if isinstance(error, CallError) and error.status == 429:
        await turn.emit(RateLimited(reason=str(error), retry_after=error.retry_after))
    await turn.emit(RetryScheduled(attempt=attempt, delay=delay, reason=str(error)))


class _Shown:
    """Turns a model's stream into events, and remembers what has been shown."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._texts: list[str] = []  # joined when needed: a long answer has many pieces
        self._message: MessageId = new_message_id()
        self._thought: MessageId = new_message_id()
        self.finished: ReplyFinished | None = None

    @property
    def partial(self) -> Message | None:
        """The text so far, as a reply that a later request can carry."""
        if not (shown := "".join(self._texts)):
            return None
        return Message(role="assistant", parts=(TextPart(text=shown),))

    async def show(self, delta: Delta) -> None:
        match delta:
            case TextDelta():
                self._texts.append(delta.text)
                await self._turn.emit(MessageChunk(content=text(delta.text), message=self._message))
            case ThinkingDelta():
                await self._turn.emit(ThoughtChunk(content=text(delta.text), message=self._thought))
            case ToolUseStarted() | ToolUseDelta():
                pass
            case ReplyFinished():
                self.finished = delta
            case _:
                assert_never(delta)


def cost_of(info: ModelInfo, usage: TokenUsage) -> Cost | None:
    """What a call cost, or None when the model's prices are not known."""
    prices = info.prices
    if prices is None:
        return None
    fresh = usage.input - usage.cached - usage.cache_written
    dollars = (
        fresh * prices.input
        + usage.cached * prices.cached
        + usage.cache_written * prices.cache_written
        + usage.output * prices.output
    )
    return Cost(amount=dollars / 1_000_000, currency="USD")
