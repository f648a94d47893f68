"""Asking the model once: the request, its stream as events, and retries."""

import asyncio
from binascii import crc32
from contextlib import aclosing
from typing import TYPE_CHECKING, assert_never, cast

import msgspec
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
from quarterdeck.wire.budgets import CallEstimate, Refusal, Reservation
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import Message, RequestDigest, TextPart, ToolUsePart
from quarterdeck.wire.events import (
    ContextAdded,
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

from .context.token_estimate import bytes_of
from .limits import TurnStoppedError
from .ports import NO_BUDGET, Turn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["ask_model", "cost_of", "digest_request", "make_estimate"]

_MARGIN = 1.1
"""How far off an estimate of a request may be that is reserved for."""
_LEAST_OUTPUT = 256
"""Tokens of an answer for which a call is worth it."""
_TOKENS_A_BYTE = 0.3
"""Of an answer that broke off."""

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
    delay = retry_delay(attempt, error, retries=turn.limits.retries, draw=turn.pace.draw)
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
    """Make a call that is reserved before, and settled after its end is in the log."""
    if turn.budget is NO_BUDGET:
        return await _call(turn, request, attempt, _Shown(turn))
    shown = _Shown(turn)
    reservation, request = await _reserve(turn, request)
    usage, broke_off = None, True
    try:
        finished = await _call(turn, request, attempt, shown)
        usage, broke_off = finished.usage, False
        return finished
    except asyncio.CancelledError:
        shown.has_begun = True  # the vendor has the request, and may charge for it
        raise
    finally:
        if broke_off and shown.has_begun:
            usage = TokenUsage(input=reservation.estimate.input, output=shown.estimate_output())
        await turn.budget.settle(reservation, usage, broke_off=broke_off)


async def _reserve(turn: Turn, request: ModelRequest) -> tuple[Reservation, ModelRequest]:
    """Reserve a call. Raises TurnStoppedError if a budget is used up."""
    conversation, info = turn.conversation, turn.model.info
    overhead = bytes_of(request.system) + len(msgspec.json.encode(request.tools))
    size = conversation.gauge.tokens(conversation.size, overhead, info.name)
    reserved = await turn.budget.reserve(make_estimate(info, size, request.max_output))
    if isinstance(reserved, Refusal):
        raise TurnStoppedError("max_turn_requests", f"budget: {reserved.reason}")
    if reserved.words is not None:
        await turn.emit(ContextAdded(source="budget", text=reserved.words))
        request = replace(request, messages=turn.conversation.messages())
    if reserved.max_output is not None:
        request = replace(request, max_output=reserved.max_output)
    return reserved, request


async def _call(turn: Turn, request: ModelRequest, attempt: int, shown: "_Shown") -> ReplyFinished:
    digest = digest_request(request)
    known = digest == turn.conversation.digest
    await turn.emit(
        ModelCallStarted(
            model=turn.model.info.name, attempt=attempt, request=None if known else digest
        )
    )
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
        self._bytes = 0
        self.has_begun = False
        """Whether the model has answered anything."""
        self.finished: ReplyFinished | None = None

    @property
    def partial(self) -> Message | None:
        """The text so far, as a reply that a later request can carry."""
        if not (shown := "".join(self._texts)):
            return None
        return Message(role="assistant", parts=(TextPart(text=shown),))

    def estimate_output(self) -> int:
        """Tokens of what has arrived, about."""
        return max(1, round(self._bytes * _TOKENS_A_BYTE))

    async def show(self, delta: Delta) -> None:
        self.has_begun = True
        if isinstance(delta, TextDelta | ThinkingDelta | ToolUseDelta):
            piece = delta.json if isinstance(delta, ToolUseDelta) else delta.text
            self._bytes += bytes_of(piece)
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


def digest_request(request: ModelRequest) -> RequestDigest:
    """What of a request the messages do not say, as the log has it."""
    return RequestDigest(
        system=_checksum(request.system.encode("utf-8", "surrogatepass")),
        tools={
            tool.name: _checksum(msgspec.json.encode((tool.description, tool.parameters)))
            for tool in request.tools
        },
    )


def _checksum(data: bytes) -> str:
    # Not hashlib: that takes 2 ms to import, and nothing here is to be proved.
    return f"{crc32(data):08x}-{len(data)}"


def make_estimate(
    info: ModelInfo, tokens: int, max_output: int | None, *, summary: bool = False
) -> CallEstimate:
    """The most that a call with a request of about so many tokens can use."""
    prices = info.prices
    output = min(max_output or info.max_output, info.max_output)
    return CallEstimate(
        model=info.name,
        input=round(tokens * _MARGIN),
        output=output,
        least_output=min(_LEAST_OUTPUT, output),
        input_price=prices and max(prices.input, prices.cached, prices.cache_written),
        output_price=prices and prices.output,
        summary=summary,
    )


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
