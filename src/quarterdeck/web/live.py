"""One WebSocket for each tab: the fleet as it is, and the records of the agent in view.

The fleet (agents, inbox) is sent as it is now, changed parts only; a tab that was away gets what
differs from nothing, and one that shows only some agents gets those. Records are sent in order
from the sequence number that the tab names, so that a connection that broke goes on without a gap
and without doubles. A tab that reads slowly delays only itself: nothing but the next message waits
for it here, the rest is in the log.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from quarterdeck import __version__
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.permissions.request_groups import group_requests
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.decoders import json_decoder
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    QuestionAnswered,
    QuestionAsked,
    ThoughtChunk,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record, encode_record
from quarterdeck.wire.tasks import BackgroundTasks, race_tasks
from quarterdeck.wire.values import Value

from .devices import WebDevice, may_act
from .errors import RoleError

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, InboxItem

__all__ = [
    "LIVE_PROTOCOL",
    "MOST_MESSAGE_BYTES",
    "FleetFeed",
    "LiveSession",
    "TabConnection",
    "cut_record",
    "cut_records",
]

LIVE_PROTOCOL = 1
MOST_MESSAGE_BYTES = 256_000
"""What a tab may send at once."""

_PAUSE, _LONGEST_PAUSE = 0.15, 2.0
"""Seconds between two looks at the fleet; what happens meanwhile is one change."""
_BYTES_A_SECOND = 60_000
"""What a tab is sent about the fleet, at most; a phone pays for it."""
_URGENT = (PermissionAsked, PermissionAnswered, QuestionAsked, QuestionAnswered, TurnEnded)
"""Events that do not wait for the next look."""
_RETRY = 1.0
_PATIENCE = 3600.0
"""Seconds for which a tab waits for a host that went away."""
_SEND_SECONDS = 20.0
"""A tab that takes nothing for so long is dropped; it resumes when it comes back."""
_MOST_QUEUED = 400
_MOST_IN_MESSAGE = 200
_LONGEST_RECORD = 100_000
_LONGEST_TEXT = 20_000
_SMALL_TEXT = 2_000


class Watch(Value, frozen=True, kw_only=True, tag_field="type", tag="watch"):
    """Send the records of an agent after this one; ends what was watched before."""

    agent: str
    after: int = 0


class ShowAgents(Value, frozen=True, kw_only=True, tag_field="type", tag="show"):
    """Tell only of these agents and of those that ask; None: of all, in their order."""

    agents: tuple[str, ...] | None = None


class Unwatch(Value, frozen=True, kw_only=True, tag_field="type", tag="unwatch"):
    """Send no more records."""


class WatchScreen(Value, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """Send what a terminal shows; ends the one that was shown before."""

    terminal: str


class CloseScreen(Value, frozen=True, kw_only=True, tag_field="type", tag="close_terminal"):
    """Send no more of it."""


class TypeKeys(Value, frozen=True, kw_only=True, tag_field="type", tag="keys"):
    """Type into the terminal that is shown."""

    data: bytes


class ResizeScreen(Value, frozen=True, kw_only=True, tag_field="type", tag="resize"):
    """Give the terminal that is shown another size."""

    columns: int
    rows: int


_TabMessage: TypeAlias = (
    Watch | Unwatch | ShowAgents | WatchScreen | CloseScreen | TypeKeys | ResizeScreen
)
_decoder: "msgspec.json.Decoder[_TabMessage]" = json_decoder(_TabMessage)
_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


class TabConnection(Protocol):
    """A WebSocket, as far as a session needs it."""

    async def send(self, message: bytes) -> None:
        """Send a text message; returns when there is room for the next."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None: the tab is gone."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """End it."""
        ...


class FleetSnapshot(Struct, frozen=True):
    """The fleet at one moment, each agent as JSON."""

    revision: int = 0
    agents: dict[SessionId, bytes] = {}
    """In the order in which they are shown."""
    inbox: bytes = b"[]"
    groups: bytes = b"[]"
    """The requests of the inbox that one answer may decide, as ``Fleet.inbox_groups``."""
    asking: frozenset[SessionId] = frozenset()
    """Agents of the requests."""
    plans: dict[SessionId, tuple[int, int]] = {}
    """Of agents whose plan has changed since a tab is open: steps that are done, and all."""
    problem: str | None = None
    """Why this may be old: there is no host."""


class FleetFeed:
    """The fleet for all tabs: looked at when the log has something new, while a tab is open."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._now = FleetSnapshot()
        self._changed = asyncio.Event()
        self._plans: dict[SessionId, tuple[int, int]] = {}
        self._readers = 0
        self._tasks = BackgroundTasks()

    @asynccontextmanager
    async def reader(self) -> "AsyncGenerator[FleetFeed]":
        """Keep the feed fresh during the block."""
        self._readers += 1
        if not len(self._tasks):
            self._tasks.start(self._run(), name="web: fleet")
        try:
            yield self
        finally:
            self._readers -= 1
            if not self._readers:
                # At once: a tab that connects again comes while the old look at the fleet ends.
                tasks, self._tasks = self._tasks, BackgroundTasks()
                self._now = FleetSnapshot()
                await tasks.close()

    async def after(self, revision: int) -> FleetSnapshot:
        """The newest snapshot, once it is newer than this."""
        while self._now.revision <= revision:
            await self._changed.wait()
        return self._now

    @property
    def now(self) -> FleetSnapshot:
        """The newest snapshot; of revision 0 before the first look."""
        return self._now

    async def _run(self) -> None:
        while True:
            try:
                status = await self._client.status()
                await self._refresh()
                dirty, urgent = asyncio.Event(), asyncio.Event()
                await race_tasks(
                    self._mark(status.last_seq, dirty, urgent), self._keep_fresh(dirty, urgent)
                )
            except QuarterdeckError as error:
                self._publish(msgspec.structs.replace(self._now, problem=str(error)))
                await asyncio.sleep(_RETRY)

    async def _mark(self, after: int, dirty: asyncio.Event, urgent: asyncio.Event) -> None:
        async for record in self._client.follow(after):
            if isinstance(record.event, PlanChanged):
                done = sum(one.status == "completed" for one in record.event.entries)
                self._plans[record.session] = (done, len(record.event.entries))
            dirty.set()
            if isinstance(record.event, _URGENT):
                urgent.set()

    async def _keep_fresh(self, dirty: asyncio.Event, urgent: asyncio.Event) -> None:
        while True:
            await dirty.wait()
            dirty.clear()
            urgent.clear()
            before = self._now.agents
            await self._refresh()
            now = self._now.agents
            changed = sum(len(data) for id_, data in now.items() if before.get(id_) != data)
            await asyncio.sleep(_PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(changed / _BYTES_A_SECOND, _LONGEST_PAUSE)):
                    await urgent.wait()

    async def _refresh(self) -> None:
        agents: Iterable[AgentInfo] = await self._client.agents()
        inbox: list[InboxItem] = await self._client.inbox()

        def describe() -> FleetSnapshot:
            listed = {one.session: _encode(one) for one in agents}
            groups = _encode(_cut(group_requests(inbox)))
            return FleetSnapshot(
                agents=listed,
                inbox=_encode(_cut(inbox)),
                groups=groups,
                asking=frozenset(one.session for one in inbox),
            )

        self._publish(await asyncio.to_thread(describe))

    def _publish(self, new: FleetSnapshot) -> None:
        now = self._now
        plans = {id_: plan for id_, plan in self._plans.items() if id_ in new.agents}
        new = msgspec.structs.replace(new, revision=now.revision, plans=plans)
        if now.revision and new == now:
            return
        self._now = msgspec.structs.replace(new, revision=now.revision + 1)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class TabView:
    """What one tab was sent of the fleet."""

    def __init__(self) -> None:
        self.revision = 0
        self._shown: frozenset[str] | None = None
        self._known: dict[SessionId, bytes] = {}
        self._sent: FleetSnapshot | None = None
        self._plans: dict[SessionId, tuple[int, int]] = {}

    def show(self, agents: tuple[str, ...] | None) -> None:
        """Want only these from now on; None: all."""
        self._shown = None if agents is None else frozenset(agents)

    def advance(self, now: FleetSnapshot) -> dict[str, Any] | None:
        """The message that brings the tab to ``now``; None: it would show nothing new."""
        sent, self._sent, self.revision = self._sent, now, now.revision
        parts: dict[str, Any] = {"type": "fleet"}
        if self._shown is None:
            parts["order"] = list(now.agents)
            if now.plans != self._plans:
                parts["plans"] = self._plans = now.plans
        gone = [id_ for id_ in self._known if id_ not in now.agents]
        if gone and self._shown is not None:
            parts["gone"] = gone
        for id_ in gone:
            del self._known[id_]
        changed = {id_: data for id_, data in self._wanted(now) if self._known.get(id_) != data}
        self._known.update(changed)
        if sent is None or now.inbox != sent.inbox:
            parts["inbox"], parts["groups"] = msgspec.Raw(now.inbox), msgspec.Raw(now.groups)
        is_news = sent is None or now.problem != sent.problem or changed or len(parts) > 1
        if not is_news:
            return None
        return parts | {
            "agents": [msgspec.Raw(data) for data in changed.values()],
            "problem": now.problem,
        }

    def _wanted(self, now: FleetSnapshot) -> Iterable[tuple[SessionId, bytes]]:
        shown = self._shown
        if shown is None:
            return now.agents.items()
        return [one for one in now.agents.items() if one[0] in shown or one[0] in now.asking]


class LiveSession:
    """One tab. ``page`` names the files that this server serves: a tab with others reloads."""

    def __init__(
        self,
        tab: TabConnection,
        device: WebDevice,
        client: HostClient,
        feed: FleetFeed,
        page: str,
    ) -> None:
        self.device = device
        self._tab = tab
        self._client = client
        self._feed = feed
        self._page = page
        self._view = TabView()
        self._sending = asyncio.Lock()
        self._tasks = BackgroundTasks()
        self._watching: asyncio.Task[None] | None = None
        self._showing: asyncio.Task[None] | None = None
        self._terminal: str | None = None
        self._is_over = asyncio.Event()

    async def run(self) -> None:
        """Serve the tab until it is gone, too slow, or ``end`` is called."""
        hello = {
            "type": "hello",
            "protocol": LIVE_PROTOCOL,
            "version": __version__,
            "page": self._page,
            "time": read_wall_clock(),
        }
        try:
            await self._send(_encode(hello))
            async with self._feed.reader():
                await race_tasks(self._read(), self._tell_fleet(), self._is_over.wait())
        except TimeoutError:
            await self._tab.close(1013, "too slow; connect again")
        finally:
            await self._tasks.close()

    async def end(self, code: int, reason: str) -> None:
        """End it from our side."""
        self._is_over.set()
        await self._tab.close(code, reason)

    async def _send(self, message: bytes) -> None:
        """Raises TimeoutError: the tab does not read."""
        async with asyncio.timeout(_SEND_SECONDS), self._sending:
            await self._tab.send(message)

    async def _tell_fleet(self) -> None:
        while True:
            await self._tell(await self._feed.after(self._view.revision))

    async def _tell(self, now: FleetSnapshot) -> None:
        if (parts := self._view.advance(now)) is not None:
            await self._send(_encode(parts))

    async def _read(self) -> None:
        while (data := await self._tab.receive()) is not None:
            try:
                await self._take(_decoder.decode(data))
            except msgspec.DecodeError as error:
                await self._report("BadMessage", str(error))
            except (QuarterdeckError, ValueError) as error:
                await self._report(type(error).__name__, str(error))

    async def _take(self, message: _TabMessage) -> None:
        match message:
            case Watch(agent=agent, after=after):
                await self._stop(self._watching)
                self._watching = self._tasks.start(self._watch(agent, after), name="web: records")
            case Unwatch():
                await self._stop(self._watching)
            case ShowAgents(agents=agents):
                self._view.show(agents)
                if self._feed.now.revision:
                    await self._tell(self._feed.now)
            case WatchScreen(terminal=terminal):
                await self._stop(self._showing)
                self._terminal = terminal
                self._showing = self._tasks.start(self._show(terminal), name="web: terminal")
            case CloseScreen():
                await self._stop(self._showing)
                self._terminal = None
            case TypeKeys(data=data):
                await self._client.write_terminal(self._own_terminal(), data)
            case ResizeScreen(columns=columns, rows=rows):
                await self._client.resize_terminal(self._own_terminal(), columns, rows)

    def _own_terminal(self) -> str:
        if not may_act(self.device.role, "operator"):
            raise RoleError(self.device.role, "operator")
        if self._terminal is None:
            raise ValueError("no terminal is shown")
        return self._terminal

    async def _stop(self, task: "asyncio.Task[None] | None") -> None:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _watch(self, agent: str, after: int) -> None:
        queue: asyncio.Queue[Record] = asyncio.Queue(_MOST_QUEUED)

        async def fill() -> None:
            async for record in self._client.follow(after, agent=agent, patience=_PATIENCE):
                await queue.put(record)

        async def empty() -> None:
            while True:
                batch = [await queue.get()]
                while len(batch) < _MOST_IN_MESSAGE and not queue.empty():
                    batch.append(queue.get_nowait())
                records = await cut_records(batch)
                await self._send(_encode({"type": "records", "agent": agent, "records": records}))

        await self._guarded(race_tasks(fill(), empty()))

    async def _show(self, terminal: str) -> None:
        async def show() -> None:
            async for event in self._client.watch_terminal(terminal):
                seen = {"type": "screen", "terminal": terminal, "event": event}
                await self._send(_encode(seen))

        await self._guarded(show())

    async def _guarded(self, work: Any) -> None:
        """Do something for the tab; an error is shown there, a tab that does not read is over."""
        try:
            await work
        except TimeoutError:
            await self.end(1013, "too slow; connect again")
        except QuarterdeckError as error:
            await self._report(type(error).__name__, str(error))

    async def _report(self, error: str, message: str) -> None:
        await self._send(_encode({"type": "error", "error": error, "message": message}))


def _cut_texts(value: Any) -> Any:
    """A value of JSON with short texts only; each says how much of it is missing."""
    if isinstance(value, str):
        missing = len(value) - _LONGEST_TEXT
        return value if missing <= 0 else value[:_LONGEST_TEXT] + f"\n… {missing} more characters"
    if isinstance(value, dict):
        return {key: _cut_texts(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_cut_texts(item) for item in cast("list[Any]", value)]
    return value


async def cut_records(records: Sequence[Record]) -> list[msgspec.Raw]:
    """Records for a page, each as ``cut_record`` gives it; in a thread, since one may be huge."""

    def cut() -> list[msgspec.Raw]:
        return [msgspec.Raw(cut_record(one)) for one in records]

    # What agents say comes in small pieces: a thread would take longer to begin than to end.
    return cut() if all(map(_is_small, records)) else await asyncio.to_thread(cut)


def _is_small(record: Record) -> bool:
    event = record.event
    if not isinstance(event, MessageChunk | ThoughtChunk):
        return False
    content = event.content
    return isinstance(content, TextContent) and len(content.text) < _SMALL_TEXT


def cut_record(record: Record) -> bytes:
    """A record as JSON for a page: texts of a huge one are cut, and the page can get it whole."""
    data = encode_record(record)
    if len(data) <= _LONGEST_RECORD:
        return data
    value = _cut_texts(msgspec.json.decode(data))
    return _encode({**value, "is_cut": True})


def _cut(values: Iterable[Any]) -> list[Any]:
    """Open requests or their groups for a page; a huge one is cut like a record."""
    return [
        msgspec.Raw(data)
        if len(data := _encode(one)) <= _LONGEST_RECORD
        else {**_cut_texts(msgspec.json.decode(data)), "is_cut": True}
        for one in values
    ]
