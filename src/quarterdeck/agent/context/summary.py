"""Asking a model for a summary. The request begins as any other of the session, so that the
vendor's cache serves it; one message more at its end says what is wanted.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from quarterdeck.models.errors import ContextOverflowError, ModelError
from quarterdeck.models.model import Delta, Effort, Model, ModelRequest, ReplyFinished, ToolSpec
from quarterdeck.models.retry import retry_delay
from quarterdeck.wire.conversation import Message, TextPart, ToolResultPart
from quarterdeck.wire.usage import Cost, TokenUsage

from ..clock import SessionClock
from .cleared_results import clear_results

__all__ = ["ModelCallSettings", "Summary", "SummaryError", "summarise"]

_RETRIES = 2


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
    words = await asyncio.to_thread(_wish, focus)
    wish = Message(role="user", parts=(TextPart(text=words),))
    try:
        finished = await _ask(asking, (*messages, wish), max_output)
    except ContextOverflowError:
        finished = await _ask(asking, (*_bare(messages), wish), max_output)
    parts = finished.reply.parts
    text = "".join(part.text for part in parts if isinstance(part, TextPart)).strip()
    if not text:
        raise SummaryError("the model wrote no summary")
    if finished.stop in ("max_tokens", "refusal"):
        why = "declined to write" if finished.stop == "refusal" else "did not finish"
        raise SummaryError(f"the model {why} the summary")
    from ..model_call import cost_of

    return Summary(text, finished.usage, cost_of(asking.model.info, finished.usage))


def _wish(focus: str) -> str:
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
            return await _finished(asking.model, request)
        except ModelError as error:
            delay = retry_delay(attempt, error, retries=_RETRIES, random=asking.pace.random)
            if delay is None:
                raise
            await asking.pace.sleep(delay)
            attempt += 1


async def _finished(model: Model, request: ModelRequest) -> ReplyFinished:
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
