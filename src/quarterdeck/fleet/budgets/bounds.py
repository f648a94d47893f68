"""Which budgets count for a session, and whether a call fits in all of them: pure decisions."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from quarterdeck.config.schema import BudgetSettings
from quarterdeck.wire.budgets import (
    BUDGET_UNITS,
    BudgetScope,
    BudgetUnit,
    CallEstimate,
    describe_limit,
    parse_limit,
)
from quarterdeck.wire.ids import SessionId

from .accounts import BudgetAccounts, BudgetAmounts, BudgetKey

__all__ = ["Bound", "CallDecision", "decide_call", "find_bounds"]

_MILLION = 1_000_000
_ROUNDING = 1e-9


class Bound(Struct, frozen=True, kw_only=True):
    """A budget that counts, with how far it is used."""

    scope: BudgetScope
    subject: str
    unit: BudgetUnit
    amount: float
    source: str
    """``log`` or ``settings``."""
    used: BudgetAmounts
    reserved: BudgetAmounts
    allowance: float
    """The part of it that may be used beyond it."""

    @property
    def key(self) -> BudgetKey:
        """Its name."""
        return self.scope, self.subject, self.unit

    @property
    def most(self) -> float:
        """What may be used with the allowance; of calls at least one more."""
        beyond = self.amount * self.allowance
        if self.unit == "calls":
            beyond = max(1.0, float(int(beyond))) if self.allowance else 0.0
        return self.amount + beyond

    @property
    def spent(self) -> float:
        """What is used, in its unit."""
        return self.used.of(self.unit)

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing of it is left, the allowance included, or that cannot be known."""
        return self.spent >= self.most or self.is_unpriced

    @property
    def is_unpriced(self) -> bool:
        """Whether it is money, and something was used that has no known price."""
        return self.unit == "usd" and self.used.unpriced > 0

    def describe(self, name: str) -> str:
        """The budget for people; ``name``: what it is for."""
        return f"the budget of {describe_limit(self.unit, self.amount)} for {name}"


def find_bounds(
    accounts: BudgetAccounts,
    session: SessionId,
    today: str,
    own: BudgetSettings,
    common: BudgetSettings,
    project: str | None = None,
) -> list[Bound]:
    """The budgets that count for a session today.

    ``own``: the settings of where it works; ``common``: those of the user alone. A budget in the
    log takes the place of the same budget in the settings. ``project``: None: as the log shows.

    Raises:
        ValueError: a budget in the settings is none.
    """
    chain = accounts.find_chain(session)
    project = project or accounts.find_project(session)
    found: dict[BudgetKey, tuple[float, str]] = {}
    _take(found, "agent", chain[0], own.agent)
    _take(found, "tree", chain[-1], own.tree)
    if project is not None:
        _take(found, "project", project, own.project)
    _take(found, "day", today, common.day)
    _take(found, "all", "", common.all)
    trees: list[tuple[BudgetScope, str]] = [("tree", one) for one in chain]
    shared: list[tuple[BudgetScope, str]] = [("project", project or ""), ("all", "")]
    subjects: tuple[tuple[BudgetScope, str], ...] = (("agent", chain[0]), *trees, *shared)
    _take_log(found, accounts.limits, subjects, today)
    return [
        Bound(
            scope=scope,
            subject=subject,
            unit=unit,
            amount=amount,
            source=source,
            used=accounts.used(scope, subject),
            reserved=accounts.reserved(scope, subject),
            allowance=common.allowance,
        )
        for (scope, subject, unit), (amount, source) in found.items()
    ]


def _take(
    found: dict[BudgetKey, tuple[float, str]],
    scope: BudgetScope,
    subject: str,
    texts: Iterable[str],
) -> None:
    """Those of the settings; of two in one unit the tighter counts."""
    for text in texts:
        limit = parse_limit(text)
        key = (scope, subject, limit.unit)
        known = found.get(key)
        if known is None or limit.amount < known[0]:
            found[key] = (limit.amount, "settings")


def _take_log(
    found: dict[BudgetKey, tuple[float, str]],
    limits: Mapping[BudgetKey, float],
    subjects: Iterable[tuple[BudgetScope, str]],
    today: str,
) -> None:
    """Those of the log, in a time that does not grow with how many others there are."""
    for unit in BUDGET_UNITS:
        for scope, subject in subjects:
            if (amount := limits.get((scope, subject, unit))) is not None:
                found[scope, subject, unit] = (amount, "log")
        every = limits.get(("day", "", unit))
        if (amount := limits.get(("day", today, unit), every)) is not None:
            found["day", today, unit] = (amount, "log")


class CallDecision(Struct, frozen=True, kw_only=True):
    """Whether a call may be made."""

    refused: Bound | None = None
    """The budget into which it does not fit; the one of which the least is left."""
    waits: bool = False
    """It may fit when calls that others have reserved are settled."""
    output: int = 0
    """The longest answer that fits."""
    is_last: bool = False
    """Another call of this size would not fit."""
    tightest: Bound | None = None
    """The budget of which the least is left; where this is the last call, the one that makes it."""


class _Need(Struct, frozen=True):
    fixed: float
    """For the request."""
    rate: float
    """For each token of the answer."""


def decide_call(
    bounds: Iterable[Bound], estimate: CallEstimate, prices: tuple[float, float] | None
) -> CallDecision:
    """Hold a call against every budget. ``prices``: US dollars for a million tokens in and out."""
    output, waits = estimate.output, False
    refused: list[Bound] = []
    last: list[Bound] = []
    every = sorted(bounds, key=_left)
    for bound in every:
        if bound.unit == "agents":
            continue
        need = _need(bound.unit, estimate, prices)
        if need is None or bound.is_unpriced:
            refused.append(bound)
            continue
        least = need.fixed + need.rate * min(estimate.least_output, estimate.output)
        free = bound.most - bound.spent + bound.most * _ROUNDING
        reserved = bound.reserved.of(bound.unit)
        if least > free or bound.spent >= bound.most:
            refused.append(bound)
        elif least > free - reserved:
            waits = True
        elif need.rate:
            output = min(output, int((free - reserved - need.fixed) / need.rate))
        if 2 * least > free:
            last.append(bound)
    return CallDecision(
        refused=refused[0] if refused else None,
        waits=waits and not refused,
        output=max(output, 1),
        is_last=bool(last),
        tightest=next(iter((*last, *every)), None),
    )


def _left(bound: Bound) -> float:
    """The part of a budget that is left; of one that cannot be counted, less than nothing."""
    return -1.0 if bound.is_unpriced else 1 - bound.spent / bound.amount


def _need(
    unit: BudgetUnit, estimate: CallEstimate, prices: tuple[float, float] | None
) -> _Need | None:
    match unit:
        case "usd":
            if prices is None:
                return None
            return _Need(estimate.input * prices[0] / _MILLION, prices[1] / _MILLION)
        case "tokens":
            return _Need(estimate.input, 1)
        case "calls":
            return _Need(1, 0)
        case _:
            return _Need(0, 0)
