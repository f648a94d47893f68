"""What every part of the workbench shares: the fleet, the stores, the selected agent, and pages
of transcripts.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from quarterdeck.wire.clock import WallClock, format_local_time
from quarterdeck.wire.event_text import NameFinder
from quarterdeck.wire.events import CommandsChanged
from quarterdeck.wire.record import Record
from quarterdeck.wire.settings import Command

from .drafts import Drafts
from .preferences.store import Preferences
from .rendering.glyphs import BETWEEN, FAILED, WARNING
from .stores.budgets import BudgetStore
from .stores.discovery import DiscoveryStore
from .stores.inbox import InboxStore
from .stores.roster import RosterStore
from .stores.transcript import PAGE, TranscriptReader, TranscriptSpot, TranscriptStore

if TYPE_CHECKING:
    from textual.notifications import Notification

    from quarterdeck.fleet.api import AgentInfo, Fleet
    from quarterdeck.fleet.remote.host_group import HostGroup
    from quarterdeck.wire.ids import SessionId

    from .feed import HostState

__all__ = ["AgentPlaces", "NoticeStore", "TranscriptPages", "WorkbenchContext"]

_END = 2**62
_NOTICE_SIGNS = {"error": FAILED, "warning": WARNING, "information": BETWEEN}
"""What stands before a notice, by how bad it is."""
_LONG = 2_000
"""Records of a long block that are read at once to find a place in it again."""


class NoticeStore:
    """What was shown for a while, to be read again; the last of many are kept."""

    MOST = 200

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._notices: deque[tuple[int, str]] = deque(maxlen=self.MOST)

    def add(self, notice: "Notification") -> str:
        """Keep a notice, with the time; its text behind the sign of how bad it is."""
        text = f"{_NOTICE_SIGNS[notice.severity]} {notice.message}"
        self._notices.append((self._clock(), text))
        return text

    def list_rows(self) -> list[tuple[str, str]]:
        """The time of day and the text of each behind its sign, the latest first."""
        return [
            (format_local_time(time, "%H:%M:%S"), text) for time, text in reversed(self._notices)
        ]


class AgentPlaces:
    """Which agents those panels show that are to show one which no other shows.

    An agent stays in its panel until it is archived, or selected and so shown by the chats that
    follow; also after it has ended.
    """

    def __init__(self) -> None:
        self._chosen: dict[str, SessionId] = {}
        self._awaited: set[SessionId] = set()
        """Started for a panel; the fleet has not reported them so far."""

    def get(self, panel: str) -> "SessionId | None":
        """The agent of a panel; None: there is none for it."""
        return self._chosen.get(panel)

    def has(self, session: "SessionId | None") -> bool:
        """Whether a panel shows an agent."""
        return session in self._chosen.values()

    def choose(self, panel: str, roster: RosterStore, selected: "SessionId | None") -> None:
        """Give a panel its agent: the one that it has, or the first of the list that is free."""
        now = self._chosen.pop(panel, None)
        agent, taken = roster.find(now), {*self._chosen.values(), selected}
        if now is not None and now not in taken and (now in self._awaited or agent is not None):
            if agent is not None:
                self._awaited.discard(now)
            if agent is None or not agent.is_archived:
                self._chosen[panel] = now
                return
        free = (one.session for one in roster.agents if one.session not in taken)
        if (found := next(free, None)) is not None:
            self._chosen[panel] = found

    def put(self, panel: str, session: "SessionId", *, is_new: bool = False) -> None:
        """Give a panel an agent, which no other panel has from now on."""
        for other in [one for one, shown in self._chosen.items() if shown == session]:
            del self._chosen[other]
        self._chosen[panel] = session
        if is_new:
            self._awaited.add(session)

    def release(self, panel: str) -> None:
        """A panel is gone."""
        self._chosen.pop(panel, None)


class TranscriptPages:
    """The transcripts that were looked at, and how they get their pages.

    At most so many are kept; the one that was looked at longest ago goes.
    """

    MOST = 12

    def __init__(self, fleet: "Fleet", find_name: NameFinder = lambda _: None) -> None:
        self._fleet = fleet
        self._find_name = find_name
        self._stores: dict[SessionId, TranscriptStore] = {}
        self._reading: set[SessionId] = set()
        self._commands: dict[SessionId, tuple[Command, ...]] = {}
        self._is_unfolded = False

    def store(self, session: "SessionId") -> TranscriptStore:
        """The transcript of a session; empty until its first page is read."""
        store = self._stores.pop(session, None) or TranscriptStore(
            session, self._reader(session), self._find_name
        )
        self._stores[session] = store
        for old in list(self._stores)[: -self.MOST]:
            del self._stores[old]
        return store

    def toggle_folds(self, session: "SessionId") -> None:
        """Unfold every tool call and thought of a session, or fold them."""
        self._is_unfolded = not self._is_unfolded
        self.store(session).unfold_all(self._is_unfolded)

    def live(self, records: "Sequence[Record]") -> None:
        """Hand on what has just happened to those transcripts that are kept."""
        by_session: dict[SessionId, list[Record]] = {}
        for record in records:
            if isinstance(record.event, CommandsChanged):
                self._commands[record.session] = record.event.commands
            if record.session in self._stores:
                by_session.setdefault(record.session, []).append(record)
        for session, mine in by_session.items():
            self._stores[session].live(mine)

    async def commands(self, session: "SessionId") -> tuple[Command, ...]:
        """The slash commands of an agent itself, as it last reported them.

        Raises:
            QuarterdeckError: like ``read``.
        """
        if session not in self._commands:
            store = self.store(session)
            # Agents tell them when a run begins: at the beginning of the log, or near its end.
            records = [*await store.read(after=0), *await store.read(before=_END)]
            offered = [r.event.commands for r in records if isinstance(r.event, CommandsChanged)]
            self._commands.setdefault(session, offered[-1] if offered else ())
        return self._commands[session]

    async def read(
        self,
        store: TranscriptStore,
        where: Literal["first", "older", "newer", "end"],
        spot: TranscriptSpot | None = None,
    ) -> None:
        """Read a page into a transcript; does nothing while another is on its way.

        ``spot``: where someone read it in an earlier run; the first page is then that of it.

        Raises:
            QuarterdeckError: the fleet cannot be reached, or does not know the agent.
        """
        if store.session in self._reading:
            return
        self._reading.add(store.session)
        try:
            if where == "first" and spot is not None and not store.is_loaded:
                await _read_from(store, spot)
            else:
                await self._read(store, where)
        finally:
            self._reading.discard(store.session)

    async def _read(
        self, store: TranscriptStore, where: Literal["first", "older", "newer", "end"]
    ) -> None:
        if where == "end" or (where == "first" and not store.is_loaded):
            page = await store.read(before=_END)
            if where == "end" or not store.is_loaded:
                store.start(page, is_end=True)
        elif where == "older" and store.has_older:
            first = store.first
            page = await store.read(before=first or _END)
            if store.first == first:  # else the window is elsewhere by now
                store.older(page)
        elif where == "newer" and store.has_newer:
            last = store.last
            page = await store.read(after=last)
            if store.last == last:
                store.newer(page)

    def _reader(self, session: "SessionId") -> TranscriptReader:
        async def read(
            *, after: int = 0, before: int | None = None, limit: int = PAGE
        ) -> list[Record]:
            return await self._fleet.read(session, after=after, before=before, limit=limit)

        return read


async def _read_from(store: TranscriptStore, spot: TranscriptSpot) -> None:
    """Read from the block of a place on, and all of that block if it is not too long.

    What is before it is not read yet: the block begins where it began when the place was noted.
    """
    for limit in (PAGE, _LONG):
        page = await store.read(after=spot.first - 1, limit=limit)
        if len(page) < limit or page[-1].seq >= spot.last:
            break
    store.open_at(None, page, most=limit)


class WorkbenchContext:
    """One person's place at a fleet.

    Args:
        fleet: the agents.
        drafts: what was typed and not sent.
        cwd: where new agents work unless someone says otherwise.
        clock: microseconds since the epoch.
        preferences: colours and keys; None: the defaults.
    """

    def __init__(
        self,
        *,
        fleet: "Fleet",
        drafts: Drafts,
        cwd: str,
        clock: WallClock,
        preferences: Preferences | None = None,
    ) -> None:
        self.fleet = fleet
        self.drafts = drafts
        self.cwd = cwd
        self.clock = clock
        self.preferences = preferences or Preferences()
        self.roster = RosterStore()
        self.inbox = InboxStore()
        self.budgets = BudgetStore()
        self.shown: SessionId | None = None
        """The selected agent: the one that chats show unless they have one of their own."""
        self.is_home = False
        """The home screen is wanted, although there are agents."""
        self.pin: Callable[[], SessionId | None] = lambda: None
        """Tells the agent of the panel that has the focus, if that panel has one of its own."""
        self.host: HostState = "connecting"
        """How the way to the host is."""
        self.host_reason = ""
        """Why it is so; may be empty."""
        self.remote: str | None = None
        """The name of the host, if it is on another machine: then paths of agents are there, and
        what they name on this machine is something else."""
        self.hosts: HostGroup | None = None
        """The hosts, if there are several; they are the fleet then."""
        self.discovery = DiscoveryStore()
        """What this machine and this workspace offer."""
        self.places = AgentPlaces()
        self.pages = TranscriptPages(fleet, self.find_name)
        self.notices = NoticeStore(clock)
        """What was shown for a while."""
        self.listeners: list[Callable[[Sequence[Record]], None]] = []
        """Who wants to hear of every record; panels put themselves in and out."""
        self._watchers: list[Callable[[], None]] = []

    @property
    def focused(self) -> "SessionId | None":
        """The agent that keys and commands are for."""
        return self.pin() or self.shown

    @property
    def agent(self) -> "AgentInfo | None":
        """The agent that keys and commands are for, as the fleet last reported it."""
        return self.roster.find(self.focused)

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call a function when another agent is selected, or the way to the host is another.

        Returns what ends that.
        """
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def select(self, session: "SessionId | None") -> None:
        """Select an agent."""
        if session != self.shown or (self.is_home and session is not None):
            self.shown, self.is_home = session, False
            self._notify_watchers()

    def go_home(self) -> None:
        """Show the home screen: no agent is selected until a person selects one."""
        self.shown, self.is_home = None, True
        self._notify_watchers()

    def show_host(self, state: "HostState", reason: str) -> None:
        """Note how the way to the host is."""
        self.host, self.host_reason = state, reason
        self._notify_watchers()

    def move(self, cwd: str) -> None:
        """Be in another directory: new agents work there."""
        self.cwd = cwd
        self._notify_watchers()

    def find_name(self, session: "SessionId") -> str | None:
        """The name of an agent."""
        agent = self.roster.find(session)
        return agent.name if agent is not None else None

    def find_session(self, agent: str) -> "SessionId | None":
        """The session of an agent by its name or session; of several with a name, the last."""
        found = [a for a in self.roster.everyone if agent in (a.session, a.name)]
        return max(found, key=lambda one: one.spawned).session if found else None

    def find_running_command(self) -> str | None:
        """The id of the command that the person runs at the agent in view; None: none runs."""
        if self.focused is None:
            return None
        commands = self.pages.store(self.focused).persons_commands()
        running = (block for block in commands if block.status == "in_progress")
        return next((block.terminals[0] for block in running), None)

    def changed(self) -> None:
        """Something was found out that hints tell: everybody looks again."""
        self._notify_watchers()

    def _notify_watchers(self) -> None:
        for watcher in list(self._watchers):
            watcher()

    def publish_records(self, records: Sequence["Record"]) -> None:
        """Hand on what has just happened to those who listen."""
        for listener in list(self.listeners):
            listener(records)
