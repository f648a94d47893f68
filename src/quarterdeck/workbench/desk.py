"""What every part of the workbench shares: the fleet, the stores, and where a person is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .drafts import Drafts
from .looks import Looks
from .pages import Pages
from .stores.inbox import InboxStore
from .stores.roster import RosterStore

if TYPE_CHECKING:
    from quarterdeck.fleet.port import AgentInfo, Fleet
    from quarterdeck.wire.ids import SessionId
    from quarterdeck.wire.record import Record

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
    looks: Looks = field(default_factory=Looks)
    """Colours and keys."""
    roster: RosterStore = field(default_factory=RosterStore)
    inbox: InboxStore = field(default_factory=InboxStore)
    shown: "SessionId | None" = None
    """The agent in view."""
    pages: Pages = field(init=False)
    listeners: list[Callable[[Sequence["Record"]], None]] = field(init=False)
    """Who wants to hear of every record; panels put themselves in and out."""

    def __post_init__(self) -> None:
        self.pages = Pages(self.fleet)
        self.listeners = []

    @property
    def agent(self) -> "AgentInfo | None":
        """The agent in view, as the fleet last told it."""
        return self.roster.find(self.shown)

    def tell(self, records: Sequence["Record"]) -> None:
        """Hand on what has just happened to those who listen."""
        for listener in list(self.listeners):
            listener(records)
