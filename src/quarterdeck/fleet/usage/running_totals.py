"""Running totals that agents report, and what they grew by."""

from typing import TypeAlias

from msgspec import Struct, field

from quarterdeck.wire.ids import TurnId

__all__ = ["MeteredSpan", "RunningTotal", "UsageFigures", "UsageGrowth"]

UsageFigures: TypeAlias = tuple[float, ...]
"""Tokens (input, output, cached, cache written, thought) or an amount of money."""


class MeteredSpan(Struct, eq=False):
    """From one turn of a session to the next, where calls passed the meter."""

    counted: UsageFigures = (0,) * 5
    """By the meter, in tokens."""
    own: list[tuple[TurnId | None, "UsageGrowth"]] = field(
        default_factory=list[tuple[TurnId | None, "UsageGrowth"]]
    )
    """What the agent reported."""
    is_partial: bool = False
    """The counts of a call could not be read, or not to the end."""

    def rest(self) -> list[tuple[TurnId | None, "UsageGrowth"]]:
        """What the agent reported and the meter did not see."""
        if not self.is_partial:
            return []
        left = self.counted
        found: list[tuple[TurnId | None, UsageGrowth]] = []
        for turn, growth in self.own:
            known = tuple(map(min, growth.amount, left))
            left = _minus(left, known)
            amount = _minus(growth.amount, known)
            if any(amount):
                found.append((turn, UsageGrowth(growth.time, growth.model, amount)))
        return found

    @property
    def found(self) -> int:
        """Tokens that the agent reported and the meter did not see."""
        return round(sum(sum(growth.amount[:2]) for _, growth in self.rest()))


class UsageGrowth(Struct, frozen=True):
    """What a total grew by, when, and of which model."""

    time: int
    model: str | None
    amount: UsageFigures


class RunningTotal(Struct, eq=False):
    """A running total that an agent reports now and then."""

    high: UsageFigures | None = None
    """As far as it has got."""
    begins: bool = True
    """A report now may be the first of a total that began again."""
    began_elsewhere: bool = False
    """The first report includes what was used before this log knew the session."""
    is_certain: bool = True
    ahead: UsageFigures = ()
    """What turns reported and the total has not shown yet."""
    growth: list[UsageGrowth] = field(default_factory=list[UsageGrowth])
    was_read: bool = False
    """There was a report since the last settlement."""

    def read(self, time: int, model: str | None, total: UsageFigures) -> None:
        """Take a report of the running total."""
        self.was_read = True
        high = self.high
        if high is None:
            self.is_certain = not self.began_elsewhere
            if not self.is_certain:
                self.ahead = ()  # the total includes what turns reported before
            amount = total
        elif sum(total[:2]) >= sum(high[:2]):
            amount = tuple(max(new - old, 0) for new, old in zip(total, high, strict=True))
        elif self.begins:
            high, self.ahead, self.is_certain, amount = None, (), False, total
        else:
            amount = ()  # a correction
        self.begins = False
        self.high = total if high is None else tuple(map(max, total, high))
        if self.ahead and amount and self.is_certain:
            shown = tuple(map(min, amount, self.ahead))
            self.ahead = _minus(self.ahead, shown)
            amount = _minus(amount, shown)
        if any(amount):
            self.growth.append(UsageGrowth(time, model, amount))

    @property
    def counts(self) -> bool:
        """Whether there was a report since the last settlement, and its growth counts."""
        return self.was_read and (self.is_certain or not self.began_elsewhere)

    def settle(self, of_turn: UsageGrowth | None) -> list[UsageGrowth]:
        """What was used since the last settlement; ``of_turn``: the turn's own figures."""
        counted = self.growth
        if of_turn is not None and not (self.was_read and self.is_certain):
            counted = [of_turn]
            if not self.was_read:
                before = self.ahead or (0,) * len(of_turn.amount)
                self.ahead = tuple(map(sum, zip(before, of_turn.amount, strict=True)))
        elif not self.is_certain and self.began_elsewhere:
            counted = []
        if self.was_read:
            self.began_elsewhere = False
        self.growth, self.is_certain, self.was_read, self.begins = [], True, False, True
        return counted


def _minus(one: UsageFigures, other: UsageFigures) -> UsageFigures:
    return tuple(a - b for a, b in zip(one, other, strict=True))
