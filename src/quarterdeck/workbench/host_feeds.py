"""The feeds of several hosts as one: each host has its own connection, position and pace."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.message import Message

from .feed import HostState, WorkbenchFeed

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, FleetStatus, InboxItem
    from quarterdeck.fleet.budgets.api import BudgetRow
    from quarterdeck.fleet.remote.grouped_host import GroupedHost
    from quarterdeck.fleet.remote.host_group import HostGroup

    from .fleet_actions import ShowMessage
    from .stores.budgets import BudgetStore

__all__ = ["HostFeeds"]


class _HostBudgets:
    """The budgets of one host; part of those of all."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.rows: Sequence[BudgetRow] = ()
        self._changed = changed

    def replace(self, rows: "Sequence[BudgetRow]") -> None:
        """Take what the host says."""
        self.rows = rows
        self._changed()


class HostFeeds:
    """Follows every host of a group for ever, and posts what happens as ``WorkbenchFeed`` does.

    A host that goes away is waited for by its own feed alone: its agents stay in the list, marked
    as lost, and what happened meanwhile comes when it is back. The others do not notice.

    Args:
        group: the hosts.
        post: takes messages, at once.
        budgets: where the budgets of all are kept.
        show_message: tells the person that a host was lost, or is back.
    """

    def __init__(
        self,
        group: "HostGroup",
        post: Callable[[Message], object],
        budgets: "BudgetStore",
        show_message: "ShowMessage",
    ) -> None:
        self._group = group
        self._post = post
        self._show_message = show_message
        self._budgets = budgets
        self._host_budgets = [_HostBudgets(self._merge_budgets) for _ in group.hosts]
        self._states: dict[str, tuple[HostState, str]] = {
            host.label: ("connecting", "") for host in group.hosts
        }
        self._known: dict[str, WorkbenchFeed.Known] = {}
        self._unread: deque[WorkbenchFeed] = deque()
        """The feeds whose records were posted and not shown so far, in their order."""
        self._feeds = [
            WorkbenchFeed(
                host,
                partial(group.reach_host, host),
                partial(self._take, at),
                cast("BudgetStore", rows),
            )
            for at, (host, rows) in enumerate(zip(group.hosts, self._host_budgets, strict=True))
        ]

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for feed in self._feeds:
                tasks.create_task(feed.run())

    def start_host(self) -> None:
        """Start the hosts that are not there."""
        for feed, (state, _) in zip(self._feeds, self._states.values(), strict=True):
            if state != "connected":
                feed.start_host()

    def refresh(self) -> None:
        """Ask anew who the agents are, and for budgets."""
        for feed in self._feeds:
            feed.refresh()

    def ready(self) -> None:
        """The records that were posted first of those that are not shown have been shown."""
        if self._unread:
            self._unread.popleft().ready()

    def _take(self, at: int, message: Message) -> None:
        host = self._group.hosts[at]
        if isinstance(message, WorkbenchFeed.HostChanged):
            self._take_state(host, message.state, message.reason)
        elif host.same_as is not None:  # another of the hosts reports the same
            if isinstance(message, WorkbenchFeed.Happened):
                self._feeds[at].ready()
        elif isinstance(message, WorkbenchFeed.Known):
            self._known[host.label] = message
            self._post_known()
        else:
            self._unread.append(self._feeds[at])
            self._post(message)

    def _take_state(self, host: "GroupedHost", state: HostState, reason: str) -> None:
        before = self._states[host.label]
        self._states[host.label] = (state, reason)
        if state in ("lost", "failed") and before != (state, reason):
            self._show_message(f"host {host.label}: {reason}", True)
        elif state == "connected" and before[0] in ("lost", "failed"):
            self._show_message(f"host {host.label} is connected again", False)
        if self._known and before != (state, reason):
            self._post_known()
        self._post(WorkbenchFeed.HostChanged(*self._find_state()))

    def _find_state(self) -> tuple[HostState, str]:
        """How the way to the hosts is: as good as that to the best of them."""
        found = self._states.values()
        for state in ("connected", "connecting"):
            if any(one == state for one, _ in found):
                return state, ""
        reasons = "; ".join(f"{label}: {reason}" for label, (_, reason) in self._states.items())
        return ("lost" if any(one == "lost" for one, _ in found) else "failed"), reasons

    def _post_known(self) -> None:
        from quarterdeck.fleet.remote.grouped_host import mark_lost
        from quarterdeck.fleet.remote.host_group import merge_status

        agents: list[AgentInfo] = []
        inbox: list[InboxItem] = []
        statuses: list[FleetStatus] = []
        for host in self._group.active:
            if (known := self._known.get(host.label)) is None:
                continue
            state, reason = self._states[host.label]
            if state in ("lost", "failed"):
                agents += [mark_lost(one, reason) for one in known.agents]
            else:
                agents += known.agents
                inbox += known.inbox
            statuses.append(known.status)
        if statuses:
            inbox.sort(key=lambda item: item.since)
            self._post(WorkbenchFeed.Known(agents, inbox, merge_status(statuses)))

    def _merge_budgets(self) -> None:
        rows = [row for one in self._host_budgets for row in one.rows]
        self._budgets.replace(sorted(rows, key=lambda row: -row.used / (row.amount or 1)))
