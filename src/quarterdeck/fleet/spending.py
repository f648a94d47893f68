"""What an agent has used, added up correctly from two kinds of figures.

Some agents tell what each turn took, some tell a running total, some both. A running total
replaces the one before and is never added to it; one that falls has begun again, with a new
process, and what it had reached is kept.
"""

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.wire.events import TurnEnded, UsageReported
from quarterdeck.wire.usage import Cost, TokenUsage

__all__ = ["Spending"]


class Spending(Struct, frozen=True, kw_only=True):
    """Tokens and money of one session so far."""

    turns: TokenUsage = TokenUsage()
    """Sum of what the turns took."""
    total: TokenUsage | None = None
    """The last running total."""
    before: TokenUsage = TokenUsage()
    """What earlier running totals had reached before they began again."""
    turns_cost: Cost | None = None
    total_cost: Cost | None = None
    before_cost: Cost | None = None

    @property
    def usage(self) -> TokenUsage:
        """All tokens."""
        return self.turns if self.total is None else self.before + self.total

    @property
    def cost(self) -> Cost | None:
        """All money, where the agent tells."""
        if self.total_cost is None:
            return self.turns_cost
        return _sum(self.before_cost, self.total_cost)

    def after_turn(self, event: TurnEnded) -> "Spending":
        """With what a turn took."""
        turns = self.turns + event.usage if event.usage is not None else self.turns
        return replace(self, turns=turns, turns_cost=_sum(self.turns_cost, event.cost))

    def after_report(self, event: UsageReported) -> "Spending":
        """With figures that the agent reported."""
        spending = self
        if (tokens := event.session_tokens) is not None:
            begun_again = self.total is not None and tokens.total < self.total.total
            before = self.before + self.total if begun_again and self.total else self.before
            spending = replace(spending, total=tokens, before=before)
        if (cost := event.session_cost) is not None:
            earlier = self.total_cost
            begun_again = earlier is not None and cost.amount < earlier.amount
            before_cost = _sum(self.before_cost, earlier) if begun_again else self.before_cost
            spending = replace(spending, total_cost=cost, before_cost=before_cost)
        return spending


def _sum(one: Cost | None, other: Cost | None) -> Cost | None:
    """Both together; of two currencies the later counts, since nothing here can exchange them."""
    if one is None or other is None:
        return other if one is None else one
    if one.currency != other.currency:
        return other
    return Cost(amount=one.amount + other.amount, currency=one.currency)
