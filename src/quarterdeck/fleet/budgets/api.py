"""Budgets for their users: what a caller of models reserves, and the fleet's methods for people."""

from typing import Protocol

from msgspec import Struct

from quarterdeck.wire.budgets import (
    BudgetLevel,
    BudgetLimit,
    BudgetScope,
    BudgetUnit,
    CallEstimate,
    Refusal,
    Reservation,
)
from quarterdeck.wire.ids import RequestId, SessionId
from quarterdeck.wire.usage import Cost, TokenUsage

from ..method import fleet_method

__all__ = [
    "BudgetLimit",
    "BudgetReport",
    "BudgetRow",
    "CallBudgets",
    "CallEstimate",
    "FleetBudgets",
    "Refusal",
    "Reservation",
]


class CallBudgets(Protocol):
    """Where model calls are reserved. Each check and reservation is one step: none can race."""

    async def reserve(
        self, session: SessionId, estimate: CallEstimate, *, call: str | None = None
    ) -> Reservation | Refusal:
        """Reserve a call; durable in the log when this returns.

        Waits while it depends on calls that others have reserved. ``call``: its name at the meter,
        if it passes that; the reservation gets it, and what ``model_call_metered`` says counts.

        Raises:
            JournalError: the log cannot be written, so no call may be made.
        """
        ...

    async def settle(
        self,
        reservation: Reservation,
        usage: TokenUsage | None,
        *,
        cost: Cost | None = None,
        broke_off: bool = False,
        calls: int = 1,
    ) -> None:
        """Say what a call used; the second time nothing happens.

        ``usage`` None: nothing was used. ``broke_off``: the figures are an estimate, because the
        answer did not arrive whole; they count as they are, as so many ``calls``.
        """
        ...


class BudgetRow(Struct, frozen=True, kw_only=True):
    """One budget and how far it is used."""

    scope: BudgetScope
    subject: str
    """A session, a project's directory, a day; empty: everything."""
    name: str
    """For people."""
    unit: BudgetUnit
    amount: float
    used: float
    reserved: float = 0.0
    """By calls that run."""
    level: BudgetLevel | None = None
    source: str = "log"
    """``log``: a person or a lead set it; ``settings``."""
    unpriced: int = 0
    """With money: tokens whose cost is not known and which are not in ``used``."""
    request: RequestId | None = None
    """The open question whether to raise it."""


class BudgetReport(Struct, frozen=True, kw_only=True):
    """The budgets that count, the fullest first."""

    rows: tuple[BudgetRow, ...]
    allowance: float
    """The part of a budget that agents may use to wrap up."""


class FleetBudgets(Protocol):
    """Bounds on what agents use."""

    @fleet_method()
    async def budgets(self, *, agent: str | None = None) -> BudgetReport:
        """All budgets, or those that count for an agent.

        Raises:
            NoSuchAgentError: there is no such agent.
        """
        ...

    @fleet_method(changes=True)
    async def set_budget(
        self,
        scope: BudgetScope,
        subject: str,
        limit: BudgetLimit,
        *,
        add: bool = False,
        by: str = "person",
    ) -> BudgetRow:
        """Set a budget, or with ``add`` raise it by so much; agents that it stopped go on.

        ``subject``: an agent's name or id, a directory, a day as ``YYYY-MM-DD``; for each day and
        for everything it is empty.

        Raises:
            NoSuchAgentError: there is no such agent.
            InvalidOptionsError: it is no budget, or there is none to raise.
        """
        ...

    @fleet_method(changes=True)
    async def remove_budget(
        self, scope: BudgetScope, subject: str, unit: BudgetUnit, *, by: str = "person"
    ) -> bool:
        """Remove a budget; False if there is none in the log. That of the settings counts again.

        Raises:
            NoSuchAgentError: there is no such agent.
        """
        ...
