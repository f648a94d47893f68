"""The part of the fleet's API about usage: tokens and money, by agent, model, day and others."""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.usage import TokenUsage

from ..method import fleet_method

__all__ = ["USAGE_GROUPINGS", "FleetUsage", "UsageGrouping", "UsageReport", "UsageRow"]

UsageGrouping: TypeAlias = Literal["turn", "agent", "tree", "project", "vendor", "model", "day"]
USAGE_GROUPINGS: tuple[UsageGrouping, ...] = (
    *("turn", "agent", "tree", "project", "vendor", "model", "day"),
)


class UsageRow(Struct, frozen=True, kw_only=True):
    """What one agent, tree, project, vendor, model, day or turn used."""

    name: str
    """For people."""
    session: SessionId | None = None
    """Of an agent, of the lead of a tree, or of the agent of a turn."""
    turn: TurnId | None = None
    tokens: TokenUsage = TokenUsage()
    reported: dict[str, float] = {}
    """Money that agents reported, by currency; different ones are not added."""
    computed: float = 0.0
    """US dollars by the prices of the catalogue, for tokens of which no agent reported a cost."""
    unpriced: int = 0
    """Tokens whose cost is unknown: no agent reported it, and the model has no known price."""
    agents: int = 0
    """How many sessions used something."""
    first: int = 0
    """Microseconds since the epoch."""
    last: int = 0

    @property
    def costs(self) -> dict[str, float]:
        """Reported and computed money together, by currency; what is unknown is not in it."""
        together = dict(self.reported)
        if self.computed:
            together["USD"] = together.get("USD", 0.0) + self.computed
        return together


class UsageReport(Struct, frozen=True, kw_only=True):
    """Usage, added up. The rows of any grouping add up to ``total``."""

    by: UsageGrouping
    since: str | None
    """The first day that counts, such as ``2026-11-09``; None: all."""
    rows: tuple[UsageRow, ...]
    """The most tokens first; days: the latest first."""
    total: UsageRow
    prices_of: str
    """When the prices of the catalogue were read from the vendors' pages."""
    unpriced_models: tuple[str, ...] = ()
    """The models of the tokens whose cost is unknown, as far as they have a name."""
    ignored: int = 0
    """Reports of agents that cannot be true (negative or absurdly large) and were left out."""


class FleetUsage(Protocol):
    """What agents used."""

    @fleet_method()
    async def usage(
        self,
        by: UsageGrouping = "agent",
        *,
        since: str | None = None,
        agent: str | None = None,
        runs: bool = False,
    ) -> UsageReport:
        """Usage by agent, tree, project, vendor, model, day or turn.

        ``since``: the first local day that counts, as ``YYYY-MM-DD``. ``agent``: only this agent
        and all below it. ``runs``: also sessions in logs of their own, as ``quarterdeck run`` and
        editors keep them.

        Raises:
            NoSuchAgentError: there is no such agent.
            InvalidOptionsError: ``since`` is not a day.
        """
        ...
