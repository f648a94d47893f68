"""Whose calls these are: one agent's place in the fleet, and what it may reach from there."""

import asyncio
from dataclasses import dataclass, field

from quarterdeck.wire.ids import RequestId, SessionId

from ..asking import Asking
from ..current import Current
from ..entry import Entry
from ..errors import NotYours
from ..port import AgentInfo, Fleet
from ..scope import Reach, find_own
from .notices import Notices

__all__ = ["Bridge", "Seat"]


@dataclass(slots=True, kw_only=True)
class Bridge:
    """What all seats share."""

    fleet: Fleet
    current: Current
    asking: Asking
    reach: Reach
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from counting agents until one more is noted."""
    coming: set[RequestId] = field(default_factory=set[RequestId])
    """Questions that are being put."""
    late: dict[RequestId, SessionId] = field(default_factory=dict[RequestId, SessionId])
    """Who put the questions that were put lately, so that a late answer still finds them."""
    notices: Notices = field(default_factory=Notices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One agent's."""

    bridge: Bridge
    session: SessionId
    patience: float
    """Seconds that a call may take before the agent itself gives it up."""
    told: set[str] = field(default_factory=set[str])
    """Requests for a person that ``wait_for`` has told about."""

    @property
    def fleet(self) -> Fleet:
        """The fleet."""
        return self.bridge.fleet

    @property
    def entry(self) -> Entry:
        """The agent itself."""
        return self.bridge.current.get(self.session)

    async def own(self, name: str) -> AgentInfo:
        """A child, by name or id. Raises NotYours."""
        reach = self.bridge.reach
        try:
            found = find_own(await self.fleet.agents(), self.session, name, reach)
        except NotYours:
            everybody = await self.fleet.agents(archived=True)
            found = find_own(everybody, self.session, name, reach)
        return await self.fleet.agent(found.session)

    def seconds(self, wanted: float | None, usual: float) -> float:
        """How long to wait: what was asked for, as far as the agent itself waits for us."""
        return max(0.0, min(usual if wanted is None else wanted, self.patience))
