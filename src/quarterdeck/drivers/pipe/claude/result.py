"""How a turn of Claude Code went: its last line, in our figures."""

from collections.abc import Mapping
from typing import Any

from quarterdeck.wire.events import TurnEnd
from quarterdeck.wire.usage import Cost, TokenUsage

from ...foreign_json import as_list, as_map, as_number
from ...link import TurnOutcome

__all__ = ["ClaudeUsage", "as_amount", "failure_of", "tokens_of"]

_STOPS: dict[str, TurnEnd] = {
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}
_LARGEST = 1e15
_LIMITS = {
    "error_max_turns": "its limit of model calls in one turn is reached",
    "error_max_budget_usd": "its cost limit is reached",
    "error_max_structured_output_retries": "its answer does not have the requested form",
}


class ClaudeUsage:
    """Keeps what was counted, so that each turn gets its own share once.

    ``usage`` of a result is the turn's, without sub-agents; the figures per model are of all, and
    ``total_cost_usd`` is of the whole session. Newer versions say the share themselves.
    """

    def __init__(self) -> None:
        self._cost = 0.0

    def outcome(self, result: Mapping[str, Any]) -> TurnOutcome:
        """How the turn went. Never raises."""
        usage = self._usage(result)
        stop, reason = _end(result)
        return TurnOutcome(stop=stop, reason=reason, usage=usage, cost=self._share(result))

    @staticmethod
    def _usage(result: Mapping[str, Any]) -> TokenUsage | None:
        if share := as_map(result.get("model_usage_since_last_result")):
            return sum((_of_model(as_map(one)) for one in share.values()), TokenUsage())
        usage = as_map(result.get("usage"))
        return tokens_of(usage) if usage else None

    def _share(self, result: Mapping[str, Any]) -> Cost | None:
        if "total_cost_usd" not in result:
            return None
        total = as_amount(result["total_cost_usd"])
        share, self._cost = max(0.0, total - self._cost), total
        if "model_usage_since_last_result" in result:
            # A resumed session goes on with its total; only this says what the turn cost.
            models = as_map(result["model_usage_since_last_result"])
            share = sum(as_amount(as_map(one).get("costUSD")) for one in models.values())
        return Cost(amount=share, currency="USD")


def failure_of(result: Mapping[str, Any]) -> str:
    """What a failed result says about why."""
    errors = result.get("errors")
    told = [str(one) for one in as_list(errors)]
    text = result.get("result")
    if isinstance(text, str) and text:
        told.append(text)
    return "; ".join(told) or str(result.get("subtype") or "no reason given")


def _end(result: Mapping[str, Any]) -> tuple[TurnEnd, str | None]:
    subtype = str(result.get("subtype"))
    if str(result.get("terminal_reason")).startswith("aborted"):
        return "cancelled", None
    if subtype == "error_max_turns":
        return "max_turn_requests", _LIMITS[subtype]
    if subtype in _LIMITS:
        return "failed", _LIMITS[subtype]
    if result.get("is_error") or subtype.startswith("error"):
        return "failed", failure_of(result)
    return _STOPS.get(str(result.get("stop_reason")), "end_turn"), None


def tokens_of(usage: Mapping[str, Any]) -> TokenUsage:
    """Tokens in the vendor's figures, where those of the cache are not in ``input_tokens``."""
    cached = _count(usage, "cache_read_input_tokens")
    written = _count(usage, "cache_creation_input_tokens")
    details = as_map(usage.get("output_tokens_details"))
    return TokenUsage(
        input=_count(usage, "input_tokens") + cached + written,
        output=_count(usage, "output_tokens"),
        cached=cached,
        cache_written=written,
        thought=_count(details, "thinking_tokens"),
    )


def _of_model(usage: Mapping[str, Any]) -> TokenUsage:
    cached = _count(usage, "cacheReadInputTokens")
    written = _count(usage, "cacheCreationInputTokens")
    return TokenUsage(
        input=_count(usage, "inputTokens") + cached + written,
        output=_count(usage, "outputTokens"),
        cached=cached,
        cache_written=written,
        thought=_count(usage, "thinkingTokens"),
    )


def _count(usage: Mapping[str, Any], field: str) -> int:
    return as_number(usage.get(field))


def as_amount(value: Any) -> float:
    """The value if it is a quantity of something, else 0."""
    return value if isinstance(value, int | float) and 0 < value < _LARGEST else 0.0
