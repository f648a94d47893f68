"""What a turn may spend, and how far it has got."""

from collections import deque
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from quarterdeck.wire.events import TurnEnd
from quarterdeck.wire.usage import Cost, TokenUsage

__all__ = [
    "NO_PROGRESS",
    "CallLimit",
    "Repetition",
    "TurnLimits",
    "TurnSpending",
    "TurnStoppedError",
    "fingerprint",
    "out_of_time",
]

CallLimit: TypeAlias = int | Literal["adaptive", "unbounded"]
"""Model calls a turn may make: a number; ``adaptive``, which grows with each step that made
progress; or ``unbounded``."""

_ADAPTIVE_START = 32
_LONGEST_CYCLE = 3
"""Steps in one round of a loop that is noticed."""
_SLOW = 5.0
"""Seconds from which on a step may be waiting for something; such steps count a fifth."""
_ROUNDING = 1e-6
NO_PROGRESS = "no progress: "
"""How the reason begins of a turn that was ended because it repeated itself."""


class TurnLimits(Struct, frozen=True, kw_only=True):
    """Bounds of one turn; None means no bound."""

    model_calls: CallLimit = "adaptive"
    tokens: int | None = None
    """Tokens of all calls of the turn together, input and output."""
    seconds: float | None = None
    """Time of one turn, waiting for people not counted."""
    cost: float | None = None
    """US dollars; needs a model with known prices."""
    max_concurrent_tools: int = 8
    retries: int = 5
    """How often one model call is made again after a failure that may pass."""
    repeats: int | None = 8
    """How often a turn may do the same, with the same result, one after another."""


class TurnStoppedError(Exception):
    """Ends a turn from anywhere within it; not a failure of the program."""

    def __init__(self, stop: TurnEnd, reason: str) -> None:
        super().__init__(reason)
        self.stop: TurnEnd = stop
        self.reason = reason


def out_of_time(seconds: float) -> TurnStoppedError:
    """Make the end of a turn that took too long."""
    return TurnStoppedError("max_turn_requests", f"{seconds:g} seconds in one turn")


def fingerprint(calls: Iterable[tuple[str | None, Any, Any]]) -> bytes:
    """What tells one step from another: each call's tool, arguments and result."""
    import hashlib  # 2 ms, and a turn of words alone has no calls

    digest = hashlib.blake2b(digest_size=16)
    for call in calls:
        digest.update(msgspec.json.encode(call, enc_hook=repr, order="sorted"))
    return digest.digest()


class Repetition:
    """Notices a turn that goes in circles: steps with the same calls and the same results.

    Rounds of up to three steps are noticed. What the model says meanwhile does not count.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._last: deque[bytes] = deque(maxlen=_LONGEST_CYCLE)
        self._times = 1.0

    def note(self, step: bytes, seconds: float) -> bool:
        """Take a step that took so long; False if it only repeated one of the last.

        Raises:
            TurnStoppedError: that happened as often as it may.
        """
        is_new = self._most is None or step not in self._last
        self._last.append(step)
        if is_new:
            self._times = 1.0
            return True
        self._times += 1.0 if seconds < _SLOW else 0.2
        if self._most is not None and self._times >= self._most - _ROUNDING:
            text = (
                f"the last steps repeated the same calls with the same results {self._most} times"
            )
            raise TurnStoppedError("max_turn_requests", f"{NO_PROGRESS}{text}")
        return False


class TurnSpending(Struct, eq=False):
    """What a turn has spent so far, checked before every model call."""

    limits: TurnLimits
    started: float
    """The clock's reading when the turn began, less the time of earlier pauses."""
    calls: int = 0
    progress: int = 0
    """Steps in which at least one tool call did its work."""
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost: float = 0.0
    priced: bool = False
    """Whether any call had a known price."""
    above: "TurnSpending | None" = None
    """What this counts towards as well: that of the turn which waits for this one."""
    beside: "TurnSpending | None" = None
    """Where that is counted what runs beside turns; taken over by the turn of the moment."""

    def check(self, elapsed: float) -> None:
        """Raise ``TurnStoppedError`` if a limit is reached; says which."""
        limits = self.limits
        if self.calls >= (allowed := self._allowed_calls()):
            raise TurnStoppedError("max_turn_requests", f"{int(allowed)} model calls in one turn")
        if limits.seconds is not None and elapsed >= limits.seconds:
            raise out_of_time(limits.seconds)
        self.check_budget()

    def check_budget(self) -> None:
        """Raise ``TurnStoppedError`` if tokens or money are spent, here or above."""
        self.take_beside()
        limits = self.limits
        if limits.tokens is not None and self.usage.total >= limits.tokens:
            raise TurnStoppedError("max_tokens", f"{limits.tokens} tokens in one turn")
        if limits.cost is not None and self.cost >= limits.cost:
            raise TurnStoppedError(
                "max_turn_requests", f"a cost of {limits.cost:g} USD in one turn"
            )
        if self.above is not None:
            self.above.check_budget()

    def add(self, usage: TokenUsage, cost: Cost | None) -> None:
        """Count a call's figures."""
        self.usage += usage
        if self.above is not None:
            self.above.add(usage, cost)
        if cost is not None:
            self.cost += cost.amount
            self.priced = True

    def take_beside(self) -> None:
        """Count what was spent beside the turn, once."""
        if self.beside is not None and self.beside.usage.total:
            beside = self.beside
            self.add(beside.usage, beside.total_cost)
            beside.usage, beside.cost, beside.priced = TokenUsage(), 0.0, False

    def _allowed_calls(self) -> float:
        match self.limits.model_calls:
            case "adaptive":
                return _ADAPTIVE_START + self.progress
            case "unbounded":
                return float("inf")
            case number:
                return number

    @property
    def total_cost(self) -> Cost | None:
        """The money spent, or None when no price is known."""
        return Cost(amount=self.cost, currency="USD") if self.priced else None
