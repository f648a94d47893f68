"""What every part of the workbench shares: the fleet, the stores, and where a person is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .drafts import Drafts
from .looks import Looks
from .pages import Pages
from .stores.ground import GroundStore
from .stores.inbox import InboxStore
from .stores.roster import RosterStore

if TYPE_CHECKING:
    from quarterdeck.fleet.port import AgentInfo, Fleet
    from quarterdeck.wire.ids import SessionId
    from quarterdeck.wire.record import Record

    from .feed import HostState

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
    """The selected agent: the one that chats show unless they have one of their own."""
    pin: "Callable[[], SessionId | None]" = field(default=lambda: None)
    """Tells the agent of the panel that has the focus, if that panel has one of its own."""
    host: "HostState" = "connecting"
    """How the way to the host is."""
    host_reason: str = ""
    """Why it is so; may be empty."""
    ground: GroundStore = field(default_factory=GroundStore)
    """What this machine and this workspace offer."""
    pages: Pages = field(init=False)
    listeners: list[Callable[[Sequence["Record"]], None]] = field(init=False)
    """Who wants to hear of every record; panels put themselves in and out."""

    _watchers: "list[Callable[[], None]]" = field(
        default_factory=list["Callable[[], None]"], init=False
    )

    def __post_init__(self) -> None:
        self.pages = Pages(self.fleet)
        self.listeners = []

    @property
    def focused(self) -> "SessionId | None":
        """The agent that keys and commands are for."""
        return self.pin() or self.shown

    @property
    def agent(self) -> "AgentInfo | None":
        """The agent that keys and commands are for, as the fleet last told it."""
        return self.roster.find(self.focused)

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call somebody when another agent is selected, or the way to the host is another.

        Returns what ends that.
        """
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def select(self, session: "SessionId | None") -> None:
        """Select an agent."""
        if session != self.shown:
            self.shown = session
            self._tell()

    def show_host(self, state: "HostState", reason: str) -> None:
        """Note how the way to the host is."""
        self.host, self.host_reason = state, reason
        self._tell()

    def move(self, cwd: str) -> None:
        """Be in another directory: new agents work there."""
        self.cwd = cwd
        self._tell()

    def find_session(self, agent: str) -> "SessionId | None":
        """The session of an agent by its name or session; of several with a name, the last."""
        found = [a for a in self.roster.everyone if agent in (a.session, a.name)]
        return max(found, key=lambda one: one.spawned).session if found else None

    def changed(self) -> None:
        """Something was found out that hints tell: everybody looks again."""
        self._tell()

    def _tell(self) -> None:
        for watcher in list(self._watchers):
            watcher()

    def tell(self, records: Sequence["Record"]) -> None:
        """Hand on what has just happened to those who listen."""
        for listener in list(self.listeners):
            listener(records)
