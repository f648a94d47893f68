"""Budgets for people: shown, set, raised and removed, by command or in answer to a question."""

import asyncio
import datetime
from pathlib import Path
from typing import Any

from quarterdeck.wire.budgets import BudgetLimit, BudgetScope, BudgetUnit, parse_limit
from quarterdeck.wire.ids import RequestId, SessionId
from quarterdeck.wire.permissions import QuestionAction
from quarterdeck.wire.tasks import BackgroundTasks

from ..errors import InvalidOptionsError
from ..live_index import LiveIndex
from .accounts import BudgetAmounts, BudgetKey
from .api import BudgetReport, BudgetRow
from .bounds import Bound
from .lookup import BudgetLookup
from .service import BudgetService
from .stops import RAISE_FIELD, make_decider

__all__ = ["BudgetManagement"]


class BudgetManagement:
    """The fleet's methods about budgets; see ``FleetBudgets``."""

    def __init__(
        self,
        service: BudgetService,
        current: LiveIndex,
        lookup: BudgetLookup,
        work: BackgroundTasks,
    ) -> None:
        self._service = service
        self._current = current
        self._lookup = lookup
        self._work = work

    async def budgets(self, *, agent: str | None = None) -> BudgetReport:
        """All budgets, or those that count for an agent."""
        service = self._service
        session = (await self._current.find(agent)).session if agent is not None else None
        common = (await self._lookup.settings(None))[1]
        if not await self._has_any():
            return BudgetReport(rows=(), allowance=common.allowance)
        if session is not None:
            await service.ready()
            found = {one.key: one for one in await self._find(session)}
        else:
            await service.ready()
            entries = [one.session for one in self._current.all() if not one.status.is_archived]
            found = {one.key: one for one in self._list_log(set(entries))}
            for session in (*entries, SessionId("")):
                found |= {one.key: one for one in await self._find(session)}
        every = [one for one in found.values() if one.subject or one.scope == "all"]
        rows = [await self._make_row(one) for one in every]
        rows.sort(key=lambda row: (-row.used / row.amount, row.scope, row.name, row.unit))
        return BudgetReport(rows=tuple(rows), allowance=common.allowance)

    async def _has_any(self) -> bool:
        """Whether there may be a budget; if there is none, the log need not be counted."""
        if self._service.is_counting:
            return True
        places = {one.spawn.options.cwd for one in self._current.all()}
        return any([await self._lookup.has_settings(cwd) for cwd in (*places, "/")])

    async def _find(self, session: SessionId) -> list[Bound]:
        try:
            return await self._service.find_bounds(session)
        except ValueError as error:
            raise InvalidOptionsError(f"the settings of budget: {error}") from None

    def _list_log(self, known: set[SessionId]) -> list[Bound]:
        """Those of the log that may count for no agent now; of each day as that of today.

        Those of agents that are archived, and of days that are over, are left out.
        """
        accounts, today = self._service.accounts, self._service.today
        return [
            Bound(
                scope=scope,
                subject=subject or (today if scope == "day" else ""),
                unit=unit,
                amount=amount,
                source="log",
                used=accounts.used(scope, subject or (today if scope == "day" else "")),
                reserved=accounts.reserved(scope, subject or (today if scope == "day" else "")),
                allowance=0.0,
            )
            for (scope, subject, unit), amount in accounts.limits.items()
            if (scope not in ("agent", "tree") or subject in known)
            and not (scope == "day" and subject and subject < today)
        ]

    async def _make_row(self, bound: Bound) -> BudgetRow:
        stops, accounts = self._service.stops, self._service.accounts
        amount, level = accounts.levels.get(bound.key, (0.0, None))
        used = bound.spent
        if bound.unit == "agents":
            used = float(await self._service.count_live(bound))
        return BudgetRow(
            scope=bound.scope,
            subject=bound.subject,
            name=stops.find_name(bound),
            unit=bound.unit,
            amount=bound.amount,
            used=used,
            reserved=bound.reserved.of(bound.unit),
            level=level if amount == bound.amount else None,
            source=bound.source,
            unpriced=bound.used.unpriced if bound.unit == "usd" else 0,
            request=stops.find_open(bound.key),
        )

    # Changes

    async def set_budget(
        self,
        scope: BudgetScope,
        subject: str,
        limit: BudgetLimit,
        *,
        add: bool = False,
        by: str = "person",
    ) -> BudgetRow:
        """Set a budget, or raise it."""
        await self._service.ready()
        key = (scope, await self._find_subject(scope, subject, limit.unit), limit.unit)
        _check_limit(scope, limit)
        return await self._work.finish(self._set(key, limit.amount, add, by))

    async def _set(self, key: BudgetKey, amount: float, add: bool, by: str) -> BudgetRow:
        if add:
            known = await self._find_amount(key)
            if known is None:
                raise InvalidOptionsError("there is no such budget to raise; set one")
            amount += known
        await self._service.change(key, amount, by)
        scope, subject, unit = key
        day = self._service.today if scope == "day" else ""
        accounts = self._service.accounts
        return await self._make_row(
            Bound(
                scope=scope,
                subject=subject or day,
                unit=unit,
                amount=amount,
                source="log",
                used=accounts.used(scope, subject or day),
                reserved=BudgetAmounts(),
                allowance=0.0,
            )
        )

    async def _find_amount(self, key: BudgetKey) -> float | None:
        """The budget of this key as it counts now, in the log or the settings."""
        if (amount := self._service.accounts.limits.get(key)) is not None:
            return amount
        scope, subject, unit = key
        wanted = (scope, subject or (self._service.today if scope == "day" else ""), unit)
        for row in (await self.budgets()).rows:
            if (row.scope, row.subject, row.unit) == wanted:
                return row.amount
        return None

    async def remove_budget(
        self, scope: BudgetScope, subject: str, unit: BudgetUnit, *, by: str = "person"
    ) -> bool:
        """Remove a budget of the log."""
        await self._service.ready()
        key = (scope, await self._find_subject(scope, subject, unit), unit)
        if key not in self._service.accounts.limits:
            return False
        await self._work.finish(self._service.change(key, None, by))
        return True

    async def _find_subject(self, scope: BudgetScope, subject: str, unit: BudgetUnit) -> str:
        match scope:
            case "agent" | "tree":
                return (await self._current.find(subject)).session
            case "project":
                if not Path(subject).is_absolute():
                    raise InvalidOptionsError(f"{subject!r} is not absolute; write the whole path")
                whole = await asyncio.to_thread(lambda: str(Path(subject).resolve()))
                return await self._lookup.find_project(whole)
            case "day":
                return _read_day(subject)
            case "all":
                return ""

    # The inbox

    def owns(self, request: RequestId) -> bool:
        """Whether a question is about a budget."""
        return request in self._service.accounts.requests

    async def reply(
        self,
        request: RequestId,
        action: QuestionAction,
        content: dict[str, Any] | None,
        by: str,
    ) -> bool:
        """Answer the question whether to raise a budget; False if it was answered before.

        Raises:
            ValueError: the answer is no amount of the budget's unit.
        """
        key = self._service.accounts.requests[request]
        if self._service.stops.find_open(key) != request:
            return False
        if action != "accept":
            await self._service.stops.answer(key, action, make_decider(by))
            return True
        amount = await self._find_amount(key) or 0.0
        given = (content or {}).get(RAISE_FIELD)
        more = amount if given in (None, "") else _read_raise(str(given), key[2])
        await self._work.finish(self._service.change(key, amount + more, by))
        return True


def _read_raise(text: str, unit: BudgetUnit) -> float:
    limit = parse_limit(text)
    if limit.unit != unit:
        raise ValueError(f"{text!r} is no budget of {unit}; this one is")
    return limit.amount


def _check_limit(scope: BudgetScope, limit: BudgetLimit) -> None:
    if not 0 < limit.amount < float("inf"):
        raise InvalidOptionsError(f"{limit.amount!r} is no budget: it must be more than nothing")
    if limit.unit == "agents" and scope in ("agent", "day"):
        raise InvalidOptionsError(
            "a number of agents is that of agents live at one time: set it for a tree, a project "
            "or everything"
        )


def _read_day(day: str) -> str:
    if not day:
        return ""
    try:
        return datetime.date.fromisoformat(day).isoformat()
    except ValueError:
        raise InvalidOptionsError(f"{day!r} is not a day; write it as 2026-11-09") from None
