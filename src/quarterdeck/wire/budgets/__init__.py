"""Budgets: how much agents may use, and the events that count it.

Part of ``events``, and imported from there. A budget is a bound in one unit for one subject. What
was used is counted from the log; what is about to be used is reserved in the log before the call,
so that agents that work side by side cannot use the same money twice.
"""

import math
import re
from typing import Literal, TypeAlias

from ..ids import RequestId, SessionId
from ..permissions import Decider
from ..values import Value

__all__ = [
    "BUDGET_SCOPES",
    "BUDGET_UNITS",
    "BudgetCarried",
    "BudgetChanged",
    "BudgetEvent",
    "BudgetLevel",
    "BudgetLimit",
    "BudgetReached",
    "BudgetReserved",
    "BudgetScope",
    "BudgetSettled",
    "BudgetUnit",
    "CallEstimate",
    "Refusal",
    "Reservation",
    "SettledAs",
    "describe_limit",
    "parse_limit",
]

BudgetScope: TypeAlias = Literal["agent", "tree", "project", "day", "all"]
"""An agent with its own sub-agents; an agent with all that it started; the agents of a project;
a local day; everything in the log."""
BudgetUnit: TypeAlias = Literal["usd", "tokens", "calls", "seconds", "agents"]
"""Money; input and output tokens; model calls; time in which turns run; agents live at once."""
BUDGET_SCOPES: tuple[BudgetScope, ...] = ("agent", "tree", "project", "day", "all")
BUDGET_UNITS: tuple[BudgetUnit, ...] = ("usd", "tokens", "calls", "seconds", "agents")
BudgetLevel: TypeAlias = Literal["warned", "reached", "stopped"]
"""Most of it is used; it is used and the agent wraps up; the next call was refused."""
SettledAs: TypeAlias = Literal["reported", "metered", "estimated", "assumed", "released"]
"""Where a reserved call's usage counts: in the session's own figures; in the settlement, exact;
in the settlement, estimated since the call broke off; in the settlement, as reserved since the
host died; or nowhere, since nothing was used."""


class BudgetLimit(Value, frozen=True, kw_only=True):
    """So much of a unit."""

    unit: BudgetUnit
    amount: float


class BudgetChanged(Value, frozen=True, kw_only=True, tag_field="type", tag="budget_changed"):
    """A budget is set, raised or removed; at any time.

    In the session whose budget it is; those of projects, days and everything are in a session of
    their own. It takes the place of the same budget in the settings.
    """

    scope: BudgetScope
    subject: str = ""
    """A session, a project's directory or a day; empty: of every day, or everything."""
    unit: BudgetUnit
    amount: float | None = None
    """None: removed; that of the settings counts again."""
    by: Decider
    reason: str | None = None


class BudgetReserved(Value, frozen=True, kw_only=True, tag_field="type", tag="budget_reserved"):
    """A model call is about to be made; durable before it is. Only where a budget counts."""

    reservation: str
    tokens: int
    """The most that the call can use."""
    usd: float | None = None
    """None: the price is not known."""
    model: str | None = None
    summary: bool = False
    """The call writes a summary; its usage is in ``compaction_changed``."""
    metered: bool = False
    """The call passes the meter; ``reservation`` is its name in ``model_call_metered``."""


class BudgetSettled(Value, frozen=True, kw_only=True, tag_field="type", tag="budget_settled"):
    """The reserved call is over, once for each reservation; after what reports its usage."""

    reservation: str
    how: SettledAs
    tokens: int = 0
    """What counts, unless ``how`` is ``reported``."""
    usd: float | None = 0.0
    calls: int = 0


class BudgetReached(Value, frozen=True, kw_only=True, tag_field="type", tag="budget_reached"):
    """A budget is used up to a level; once for each level and amount, ``stopped`` more often."""

    scope: BudgetScope
    subject: str = ""
    unit: BudgetUnit
    amount: float
    used: float
    level: BudgetLevel
    request: RequestId | None = None
    """With ``stopped``: the question to a person whether to raise it, which follows."""
    reason: str | None = None


class BudgetCarried(Value, frozen=True, kw_only=True, tag_field="type", tag="budget_carried"):
    """What a deleted session had used still counts; in the session of common budgets."""

    day: str
    project: str | None = None
    within: tuple[SessionId, ...] = ()
    """The sessions above it."""
    tokens: int = 0
    usd: float = 0.0
    calls: int = 0
    seconds: float = 0.0
    unpriced: int = 0
    """Tokens whose price was not known."""


BudgetEvent: TypeAlias = (
    BudgetChanged | BudgetReserved | BudgetSettled | BudgetReached | BudgetCarried
)


class CallEstimate(Value, frozen=True, kw_only=True):
    """What a model call may use at most."""

    model: str | None
    """``vendor/model``; None: not known."""
    input: int
    """Tokens of the request."""
    output: int
    """The longest answer that is asked for, in tokens."""
    least_output: int = 256
    """A shorter answer is not worth the call."""
    input_price: float | None = None
    """The most that a million tokens of the request cost, US dollars; None: by the catalogue."""
    output_price: float | None = None
    summary: bool = False
    """The call writes a summary of the conversation."""


class Reservation(Value, frozen=True, kw_only=True):
    """A call that may be made, and that must be settled whatever becomes of it."""

    id: str | None
    """None: no budget counts here, so there is nothing to settle."""
    session: SessionId
    estimate: CallEstimate
    max_output: int | None = None
    """The longest answer that still fits; None: as long as was asked for."""
    words: str | None = None
    """What the agent is to be sent with this call."""


class Refusal(Value, frozen=True, kw_only=True):
    """A call that must not be made."""

    reason: str
    """For people and for the agent: which budget, how much of it is used."""
    scope: BudgetScope
    subject: str
    unit: BudgetUnit


_FORM = r"([0-9][0-9_]*(?:[.][0-9]+)?|[.][0-9]+) ?([a-zA-Z$]+)"
_WORDS: dict[str, tuple[BudgetUnit, float]] = {
    **dict.fromkeys(("usd", "$", "dollar", "dollars"), ("usd", 1.0)),
    **dict.fromkeys(("tok", "toks", "token", "tokens"), ("tokens", 1.0)),
    **dict.fromkeys(("ktok", "ktoks", "ktoken", "ktokens"), ("tokens", 1e3)),
    **dict.fromkeys(("mtok", "mtoks", "mtoken", "mtokens"), ("tokens", 1e6)),
    **dict.fromkeys(("call", "calls"), ("calls", 1.0)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), ("seconds", 1.0)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), ("seconds", 60.0)),
    **dict.fromkeys(("h", "hour", "hours"), ("seconds", 3600.0)),
    **dict.fromkeys(("agent", "agents"), ("agents", 1.0)),
}
_MOST = 1e15


def parse_limit(text: str) -> BudgetLimit:
    """Read a limit as people write it: ``5usd``, ``200ktok``, ``50calls``, ``30min``, ``8agents``.

    Raises:
        ValueError: it is none; the message says what one looks like.
    """
    from decimal import Decimal  # most programs read no limit

    found = re.fullmatch(_FORM, text.strip())
    word = _WORDS.get(found[2].lower()) if found is not None else None
    if found is None or word is None:
        example = "write it as 5usd, 200ktok, 50calls, 30min or 8agents"
        raise ValueError(f"{text!r} is no budget; {example}")
    unit, factor = word
    # Through decimal digits: 8.28 times a million is not a whole number of floats.
    amount = float(Decimal(found[1].replace("_", "")) * Decimal(factor))
    if not 0 < amount < _MOST:
        raise ValueError(f"{text!r} is no budget: it must be more than nothing, and not endless")
    if unit in ("tokens", "calls", "agents") and amount != int(amount):
        raise ValueError(f"{text!r} is no budget: there is no part of one of the {unit}")
    return BudgetLimit(unit=unit, amount=amount)


def describe_limit(unit: BudgetUnit, amount: float) -> str:
    """An amount for people, which ``parse_limit`` reads again, rounded: ``5 usd``, ``1.5 min``."""
    match unit:
        case "usd":
            digits = 2 if amount >= 1 or not amount else min(9, 2 - math.floor(math.log10(amount)))
            return f"{amount:.{digits}f} usd".replace(".00 ", " ")
        case "tokens" if amount >= 1e6:
            return f"{_write(amount / 1e6, 2)} mtok"
        case "tokens" if amount >= 1e4:
            return f"{_write(amount / 1e3, 1)} ktok"
        case "tokens":
            return f"{int(amount)} tok"
        case "seconds" if amount >= 3600:
            return f"{_write(amount / 3600, 2)} h"
        case "seconds" if amount >= 60:
            return f"{_write(amount / 60, 1)} min"
        case "seconds":
            return f"{_write(amount, 3)} s"
        case _:
            number = int(amount)
            return f"{number} {unit if number != 1 else unit[:-1]}"


def _write(number: float, digits: int) -> str:
    """A number without an exponent and without noughts at its end."""
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")
