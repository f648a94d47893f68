"""What every part of the workbench shares: the fleet, the stores, and where a person is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .drafts import Drafts
from .pages import Pages
from .stores.inbox import InboxStore
from .stores.roster import RosterStore

if TYPE_CHECKING:
    from quarterdeck.fleet.port import AgentInfo, Fleet
    from quarterdeck.wire.ids import SessionId

__all__ = ["Desk"]


@dataclass(kw_only=True)
class Desk:
    """One person's place at a fleet."""

    fleet: "Fleet"
    drafts: Drafts
    cwd: str
    """Where new agents work unless somebody says otherwise."""
    clock: Callable[[], int]
    """Microseconds since the epoch."""
    roster: RosterStore = field(default_factory=RosterStore)
    inbox: InboxStore = field(default_factory=InboxStore)
    shown: "SessionId | None" = None
    """The agent in view."""
    pages: Pages = field(init=False)

    def __post_init__(self) -> None:
        self.pages = Pages(self.fleet)

    @property
    def agent(self) -> "AgentInfo | None":
        """The agent in view, as the fleet last told it."""
        return self.roster.find(self.shown)
