"""The one way from the fleet to the screen: a subscription, as messages at a bounded pace.

Records are gathered and posted at most thirty times a second. Who the agents are, and what waits
for a person, is asked for anew when a record says that it changed: the fleet knows the rules, the
screen does not. A host that goes away is waited for, and nothing that happened meanwhile is missed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Literal, TypeAlias

from textual.message import Message

from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.tasks import race_tasks

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, Fleet, FleetStatus, InboxItem
    from quarterdeck.wire.record import Record

    from .stores.budgets import BudgetStore

__all__ = ["HostState", "ReachHost", "WorkbenchFeed"]

HostState: TypeAlias = Literal["connecting", "connected", "lost", "failed"]
ReachHost: TypeAlias = Callable[[bool], Awaitable[None]]
"""Makes sure that the fleet is there; True: starts a host where there is none."""

PACE = 1 / 15
"""Seconds between two updates at the least: each line that a chat scrolls is drawn anew, and a slow
connection has to carry that."""
_REFRESH = 0.1
_BUDGET_PACE = 1.0
"""Seconds between two looks at the budgets at the least."""
_BUDGET_EVENTS = frozenset({"budget_changed", "budget_reached", "session_spawned"})
"""After which there may be other budgets."""
_USAGE_EVENTS = frozenset(
    {
        "budget_settled",
        "model_call_finished",
        "model_call_metered",
        "session_changed",
        "session_ended",
        "turn_ended",
        "usage_reported",
    }
)
"""After which more of a budget may be used; asked for only where there is one."""
_MOST = 5_000
_PAUSE = 0.5
_LONGEST_PAUSE = 60.0


class WorkbenchFeed:
    """Follows the fleet for ever and posts what happens.

    Args:
        fleet: what is followed.
        reach: how to get to it.
        post: takes messages, at once.
        budgets: where the budgets are kept, which the fleet is asked for at a pace of their own.
    """

    class HostChanged(Message):
        """The way to the host is another."""

        def __init__(self, state: HostState, reason: str = "") -> None:
            super().__init__()
            self.state: HostState = state
            self.reason = reason

    class Known(Message):
        """Who the agents are, and what waits for a person."""

        def __init__(
            self, agents: "Sequence[AgentInfo]", inbox: "Sequence[InboxItem]", status: "FleetStatus"
        ) -> None:
            super().__init__()
            self.agents = agents
            self.inbox = inbox
            self.status = status

    class Happened(Message):
        """Records in the order of the log; ``WorkbenchFeed.ready`` asks for the next."""

        def __init__(self, records: "Sequence[Record]") -> None:
            super().__init__()
            self.records = records

    def __init__(
        self,
        fleet: "Fleet",
        reach: ReachHost,
        post: Callable[[Message], object],
        budgets: "BudgetStore",
    ) -> None:
        self._fleet = fleet
        self._reach = reach
        self._post = post
        self._last: int | None = None
        self._records: list[Record] = []
        self._is_ready = True
        self._due: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._stale = asyncio.Event()
        self._other_budgets = asyncio.Event()
        self._budgets = budgets
        self._again = asyncio.Event()
        self._starts = True

    async def run(self) -> None:
        """Follow until cancelled."""
        pause = _PAUSE
        while True:
            self._again.clear()
            try:
                await self._reach(self._starts)
                self._starts, pause = False, _PAUSE
                await self._stay()
            except LinkError as error:
                self._post(self.HostChanged("lost", str(error)))
            except QuarterdeckError as error:
                from quarterdeck.fleet.errors import NoHostError

                is_gone = isinstance(error, NoHostError)
                # Each try may start a process that ends at once.
                pause = _PAUSE if is_gone else min(pause * 2, _LONGEST_PAUSE)
                self._post(self.HostChanged("lost" if is_gone else "failed", str(error)))
            finally:
                self._cancel_flush()
            await self._wait(pause)

    def start_host(self) -> None:
        """Start a host if none is there; does nothing while one is."""
        self._starts = True
        self._again.set()

    def refresh(self) -> None:
        """Ask anew who the agents are, and for budgets; someone knows that it changed."""
        self._stale.set()
        self._other_budgets.set()

    def ready(self) -> None:
        """The last records have been shown."""
        self._is_ready = True
        if self._records:
            self._flush_soon()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._again.wait()
                self._post(self.HostChanged("connecting"))
        except TimeoutError:
            pass

    async def _stay(self) -> None:
        status = await self._fleet.status()
        if self._last is None or self._last > status.last_seq:
            self._last = status.last_seq
        await self._ask()
        self._post(self.HostChanged("connected"))
        self._other_budgets.set()
        await race_tasks(self._follow(), self._keep_fresh(), self._keep_budgets())

    async def _follow(self) -> None:
        from quarterdeck.fleet.agent_entry import ENTRY_EVENTS
        from quarterdeck.wire.record import event_type

        async with aclosing(self._fleet.follow(self._last)) as records:
            async for record in records:
                self._last = record.seq
                self._records.append(record)
                kind = event_type(record.event)
                if kind in ENTRY_EVENTS:
                    self._stale.set()
                if kind in _BUDGET_EVENTS or (self._budgets.rows and kind in _USAGE_EVENTS):
                    self._other_budgets.set()
                self._flush_soon()
                if len(self._records) >= _MOST:
                    self._room.clear()
                    await self._room.wait()

    async def _keep_fresh(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            await self._ask()
            await asyncio.sleep(_REFRESH)

    async def _keep_budgets(self) -> None:
        """Ask for the budgets when they may be others, at a pace of their own."""
        while True:
            await self._other_budgets.wait()
            self._other_budgets.clear()
            with suppress(QuarterdeckError):  # such as wrong settings; all else goes on
                self._budgets.replace((await self._fleet.budgets()).rows)
            await asyncio.sleep(_BUDGET_PACE)

    async def _ask(self) -> None:
        agents = await self._fleet.agents(archived=True)
        inbox = await self._fleet.inbox()
        self._post(self.Known(agents, inbox, await self._fleet.status()))

    def _flush_soon(self) -> None:
        if self._due is None and self._is_ready:
            self._due = asyncio.get_running_loop().call_later(PACE, self._flush)

    def _flush(self) -> None:
        self._due = None
        records, self._records = self._records, []
        self._room.set()
        if records:
            self._is_ready = False
            self._post(self.Happened(records))

    def _cancel_flush(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._flush()
