"""The budgets of the fleet, as it last reported them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.budgets.api import BudgetRow
    from quarterdeck.wire.ids import SessionId

__all__ = ["BudgetStore"]


class BudgetStore:
    """Budgets, the fullest first."""

    def __init__(self) -> None:
        self.rows: Sequence[BudgetRow] = ()
        self._of: dict[str, BudgetRow] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each change; returns what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def replace(self, rows: "Sequence[BudgetRow]") -> None:
        """Take what the fleet says."""
        if tuple(rows) == tuple(self.rows):
            return
        self.rows = tuple(rows)
        self._of = {}
        for row in self.rows:
            if row.scope in ("agent", "tree"):
                self._of.setdefault(row.subject, row)
        for watcher in list(self._watchers):
            watcher()

    def find(
        self, agent: "AgentInfo", lookup: "Callable[[SessionId | None], AgentInfo | None]"
    ) -> "BudgetRow | None":
        """The fullest budget of an agent: its own, or that of an agent above it.

        Those of projects, days and everything count for many, and are shown once elsewhere.
        """
        if not self._of:
            return None
        found: list[BudgetRow] = []
        seen: set[str] = set()
        above: AgentInfo | None = agent
        while above is not None and above.session not in seen:
            seen.add(above.session)
            row = self._of.get(above.session)
            if row is not None and (above is agent or row.scope == "tree"):
                found.append(row)
            above = lookup(above.parent) if above.parent is not None else None
        return max(found, key=lambda row: row.used / row.amount, default=None)
