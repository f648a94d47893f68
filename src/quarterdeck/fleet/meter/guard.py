"""Budgets at the meter: each call of a foreign agent is reserved before it is passed on.

A request is passed on as it is, so its answer cannot be cut to what is left. A call is refused if
an answer of a usual length would not fit; one that is longer counts as it is.
"""

from math import ceil
from typing import TYPE_CHECKING

from quarterdeck.wire.budgets import CallEstimate, Refusal, Reservation
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.usage import TokenUsage

from ..budgets.service import BudgetService
from .api import CallEnd, CallRefusal, MeteredRequest

__all__ = ["BudgetGuard"]

_USUAL_OUTPUT = 8_192
"""Tokens that are reserved for the answer to a request that names no limit."""
_LEAST_OUTPUT = 4_096
"""An answer of this length must fit, unless the request limits it to less."""
_TOKENS_A_BYTE = 1 / 3
_LEAST_RATE, _MOST_RATE = 1 / 8, 1.0
_MARGIN = 1.1
_MEASURED = 2_000
"""Bytes of a request that is long enough to learn its tokens a byte from."""


class BudgetGuard:
    """The budgets of a fleet, for calls at the meter; a ``CallGuard``."""

    def __init__(self, budgets: BudgetService) -> None:
        self._budgets = budgets
        self._reserved: dict[str, Reservation] = {}
        self._rates: dict[tuple[SessionId, str | None], float] = {}
        """Tokens a byte of the last request of an agent to a model."""

    async def authorize(self, session: SessionId, request: MeteredRequest) -> CallRefusal | None:
        """Reserve a call; waits while it depends on calls that others have reserved."""
        estimate = self.estimate(session, request)
        reserved = await self._budgets.reserve(session, estimate, call=request.call)
        if isinstance(reserved, Refusal):
            return CallRefusal(reason=reserved.reason)
        self._reserved[request.call] = reserved
        if reserved.words is not None:
            self._budgets.stops.send(session, reserved.words)
        return None

    def estimate(self, session: SessionId, request: MeteredRequest) -> CallEstimate:
        """What a call may use, by its bytes and by how many tokens the one before had a byte."""
        rate = self._rates.get((session, request.model), _TOKENS_A_BYTE)
        output = request.max_output or _USUAL_OUTPUT
        return CallEstimate(
            model=request.model,
            input=ceil(request.size * rate * _MARGIN),
            output=output,
            least_output=min(output, _LEAST_OUTPUT),
        )

    async def settle(self, session: SessionId, request: MeteredRequest, end: CallEnd) -> None:
        """Settle it with what the answer says, or with an estimate where that is not all."""
        reserved = self._reserved.pop(request.call, None)
        if reserved is None:
            return
        usage = end.usage
        if usage is not None and request.size >= _MEASURED and usage.input > 0:
            rate = min(max(usage.input / request.size, _LEAST_RATE), _MOST_RATE)
            self._rates[session, request.model] = rate
        if end.is_free:
            await self._budgets.settle(reserved, None)
        elif usage is not None and end.reason is None:
            await self._budgets.settle(reserved, usage)
        else:
            calls = 0 if usage is not None else 1  # the log has one with figures already
            missing = _estimate_missing(reserved, end)
            await self._budgets.settle(reserved, missing, broke_off=True, calls=calls)


def _estimate_missing(reserved: Reservation, end: CallEnd) -> TokenUsage:
    """What a call may have used beyond what its answer says."""
    known, estimate = end.usage or TokenUsage(), reserved.estimate
    most = reserved.max_output or estimate.output
    output = most if end.output is None else min(end.output, most)
    return TokenUsage(
        input=0 if known.input else estimate.input,
        output=max(output - known.output, 0),
    )


if TYPE_CHECKING:
    from typing import cast

    from .api import CallGuard

    _guard: CallGuard = cast("BudgetGuard", None)
