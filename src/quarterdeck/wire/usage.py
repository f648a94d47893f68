"""What work costs: tokens, context, money."""

from .values import AcpValue, Value

__all__ = ["ContextUsage", "Cost", "TokenUsage"]


class TokenUsage(Value, frozen=True, kw_only=True):
    """Tokens of one model call, one turn or one session.

    ``input`` counts every prompt token once, also those read from or written to a cache;
    ``cached`` and ``cache_written`` say how many of them were. ``output`` includes ``thought``.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_written: int = 0
    thought: int = 0

    @property
    def total(self) -> int:
        """All tokens, each counted once."""
        return self.input + self.output

    def since(self, before: "TokenUsage") -> "TokenUsage":
        """What was added to a running total; one that began anew counts as it is."""
        if self.input < before.input or self.output < before.output:
            return self
        return TokenUsage(
            input=self.input - before.input,
            output=self.output - before.output,
            cached=max(self.cached - before.cached, 0),
            cache_written=max(self.cache_written - before.cache_written, 0),
            thought=max(self.thought - before.thought, 0),
        )

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached=self.cached + other.cached,
            cache_written=self.cache_written + other.cache_written,
            thought=self.thought + other.thought,
        )


class ContextUsage(Value, frozen=True, kw_only=True):
    """How full the model's window is, in tokens."""

    used: int
    size: int


class Cost(AcpValue, frozen=True, kw_only=True):
    """Money; ``currency`` is an ISO 4217 code."""

    amount: float
    currency: str
