"""A turn over ACP: the prompt's blocks; stop reason, tokens, cost and errors of its end."""

from typing import Any, cast, get_args

import msgspec

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    text,
)
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.events import RateLimited, StopReason
from quarterdeck.wire.rpc.errors import REQUEST_CANCELLED
from quarterdeck.wire.usage import Cost, TokenUsage

from ..errors import UnsupportedError
from ..link import TurnOutcome
from .extensions import quota

__all__ = ["blocks_for", "cost_between", "outcome_of_answer", "outcome_of_error", "rate_limit"]


def blocks_for(
    agent: str, content: tuple[ContentBlock, ...], able: acp.PromptCapabilities
) -> tuple[ContentBlock, ...]:
    """The blocks to send: resources that the agent does not take become text or links.

    Raises:
        UnsupportedError: images or sounds that it does not take.
    """
    return tuple(_block(agent, block, able) for block in content)


def _block(agent: str, block: ContentBlock, able: acp.PromptCapabilities) -> ContentBlock:
    match block:
        case ImageContent() if not able.image:
            raise UnsupportedError(agent, "acp", "take images")
        case AudioContent() if not able.audio:
            raise UnsupportedError(agent, "acp", "take audio")
        case EmbeddedResource(resource=resource) if not able.embedded_context:
            if resource.text is None:
                return ResourceLink(uri=resource.uri, name=resource.uri.rpartition("/")[2])
            return text(f'<resource uri="{resource.uri}">\n{resource.text}\n</resource>')
        case _:
            return block


_KNOWN: dict[str, StopReason] = {reason: reason for reason in get_args(StopReason)}
_FAILURES = ("error", "failed")
"""Words of later versions of the protocol, and of agents that mix them up."""
_TOO_MANY = 429


def outcome_of_answer(
    answer: acp.PromptResponse, *, failure: str | None = None, cost: Cost | None = None
) -> TurnOutcome:
    """The outcome of a prompt that was answered; ``failure`` is one told beside the answer."""
    usage = _tokens(answer.usage) if answer.usage is not None else quota(answer.meta)
    word = answer.stop_reason
    if failure is not None and word == "end_turn":
        return TurnOutcome(stop="failed", reason=failure, usage=usage, cost=cost)
    stop = _KNOWN.get(word)
    if stop is not None:
        return TurnOutcome(stop=stop, usage=usage, cost=cost)
    if word in _FAILURES:
        return TurnOutcome(stop="failed", reason=word, usage=usage, cost=cost)
    return TurnOutcome(stop="end_turn", reason=word, usage=usage, cost=cost)


def outcome_of_error(error: RpcError, cost: Cost | None = None) -> TurnOutcome:
    """The outcome of a prompt that was answered with an error."""
    if error.code == REQUEST_CANCELLED:
        return TurnOutcome(stop="cancelled", cost=cost)
    return TurnOutcome(stop="failed", reason=_told(error), cost=cost)


def rate_limit(error: RpcError) -> RateLimited | None:
    """The limit that the vendor set, where the error says that it is one."""
    data: Any = error.data
    kind = cast("dict[str, Any]", data).get("errorKind") if isinstance(data, dict) else None
    if error.code == _TOO_MANY or kind in ("rate_limit", "rate_limit_error"):
        return RateLimited(reason=_told(error))
    return None


def cost_between(before: Cost | None, after: Cost | None, *, is_first: bool) -> Cost | None:
    """What a turn cost, from the session's totals; ``is_first``: it had cost nothing before.

    None where the agent said nothing new about it, or too little to tell.
    """
    if after is None or after is before or (before is None and not is_first):
        return None
    if before is not None and before.currency != after.currency:
        return None
    spent = after.amount - (before.amount if before is not None else 0.0)
    return Cost(amount=max(0.0, round(spent, 12)), currency=after.currency)


def _tokens(usage: acp.Usage) -> TokenUsage:
    """Count each token once: agents differ in what ``inputTokens`` and ``outputTokens`` include."""
    cached, written = usage.cached_read_tokens or 0, usage.cached_write_tokens or 0
    thought = usage.thought_tokens or 0
    read, said = usage.input_tokens, usage.output_tokens
    beside = usage.total_tokens - read - said
    if beside > 0 and beside in (cached + written, cached + written + thought):
        read += cached + written
    if beside > 0 and beside in (thought, cached + written + thought):
        said += thought
    return TokenUsage(
        input=read, output=said, cached=cached, cache_written=written, thought=thought
    )


def _told(error: RpcError) -> str:
    """What an error says; some put the vendor's whole answer, as JSON, into the message."""
    if not error.message.startswith("{"):
        return error.told
    try:
        inner = msgspec.json.decode(error.message)["error"]["message"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return error.told
    return inner if isinstance(inner, str) else error.told
