"""Several hosts as one fleet: one list of agents, one inbox, each call at the host that it is for.

Which host a call is for follows from its parameters: ``box/ann`` and the ids that hosts report name
theirs; the name of an agent alone is looked up on all. A call that is about none of them goes to
all, and the answers are put together by their type. Sequence numbers are those of one log: each
host keeps its own, and none is ever compared with that of another.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from quarterdeck.terminal.viewer_events import ViewerEvent
from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import BackgroundTasks

from ..api import (
    AgentInfo,
    FleetStatus,
    InboxItem,
    WorkbenchHandler,
    WorkbenchRegistration,
)
from ..errors import AmbiguousAgentError, HostError, NoSuchAgentError, SeveralHostsError
from ..host.methods import fleet_request
from ..method import FLEET_METHODS
from .grouped_host import REFERENCES, GroupedHost, mark_lost
from .qualified_values import SEPARATOR

if TYPE_CHECKING:
    from ..api import Fleet as DeclaredMethods
    from ..permissions.api import RequestGroup
    from ..usage.api import UsageReport, UsageRow
else:
    DeclaredMethods = object

__all__ = ["HostGroup", "merge_status"]

log = logging.getLogger(__name__)

SLOW_SECONDS = 15.0
"""How long a host may take to answer what all are asked; then the others' answers count."""
START_SECONDS = 60.0
"""The same where hosts may have to be started."""
_ID = re.compile(r"[a-z]{2,8}_[0-9a-z]{26}")
_HOME_METHODS = frozenset({"import_session", "call_screen", "back_test", "suggest_rules"})
"""Methods about one machine's files or screens: without a host's name the first host is meant."""
_QUEUE = 256
"""Records of all hosts that wait for who follows."""
_PAUSE = 0.2
_LONGEST_PAUSE = 30.0
_END = 1 << 62


class HostGroup(DeclaredMethods):
    """The fleets of several hosts as one; a ``Fleet``.

    A host that is slow, lost, older or missing does not stop the others: what all are asked is
    answered by those that can, and ``problems`` says which could not. A call that is for one host
    raises as ``HostClient`` does.

    Args:
        hosts: at least one, with different names; the first, or that of this machine, is meant
            where none is named.
    """

    def __init__(self, hosts: Sequence[GroupedHost]) -> None:
        self.hosts = tuple(hosts)
        self._by_label = {host.label: host for host in self.hosts}
        assert len(self._by_label) == len(self.hosts) >= 1
        self.home = next((host for host in self.hosts if host.is_local), self.hosts[0])
        """The host that is meant where none is named."""
        self._identities: dict[str, tuple[int, int, str]] = {}
        self._noted: dict[str, str] = {}

    @classmethod
    def create(cls, hosts: Sequence[GroupedHost]) -> Self:
        """A group that connects with its first calls."""
        return cls(hosts)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, hosts: Sequence[GroupedHost], *, start: bool = False
    ) -> AsyncGenerator[Self]:
        """Connect to all; those that cannot be used now are left out, and tried again later.

        Raises:
            QuarterdeckError: none can be used; says why of the first.
        """
        group = cls.create(hosts)
        try:
            await group.reach(start)
            yield group
        finally:
            await group.disconnect()

    @property
    def active(self) -> tuple[GroupedHost, ...]:
        """The hosts, each process once."""
        return tuple(host for host in self.hosts if host.same_as is None)

    @property
    def problems(self) -> dict[str, str]:
        """Why hosts could not be used, by their names; what only this time was so included."""
        found = {host.label: host.problem for host in self.active if host.problem is not None}
        return {**self._noted, **found}

    @property
    def scopes(self) -> dict[str, str]:
        """What stands before ``/`` in ids of a host, and the reference to all its agents."""
        return {host.prefix.id[:-1]: host.prefix.name for host in self.active}

    async def reach(self, starts: bool) -> None:
        """Make sure that the hosts are there; see ``connect``."""
        works = {host: self.reach_host(host, starts) for host in self.hosts}
        found, errors = await self._gather(works, START_SECONDS if starts else 0.0)
        if not found:
            raise next(iter(errors.values()))

    async def reach_host(self, host: GroupedHost, starts: bool) -> None:
        """Make sure that one host is there, and that it is no other's under a second name.

        Raises:
            SeveralHostsError: it is the same process as an earlier one; it is not used.
            QuarterdeckError: it cannot be used.
        """
        status = await host.reach(starts)
        mine = (status.pid, status.started, status.log)
        self._identities[host.label] = mine
        at = self.hosts.index(host)
        for other in self.hosts:
            if other is host or self._identities.get(other.label) != mine:
                continue
            first, second = (other, host) if self.hosts.index(other) < at else (host, other)
            second.same_as = first.label
        if host.same_as is not None:
            host.problem = f"it is the same host as {host.same_as!r}, which is used"
            self._noted[host.label] = host.problem
            raise SeveralHostsError(f"{host.label}: {host.problem}")

    async def disconnect(self) -> None:
        """Leave the hosts, which go on."""
        await asyncio.gather(*(host.disconnect() for host in self.hosts))

    async def call(self, method: str, /, *arguments: Any, **named: Any) -> Any:
        """Call a declared method of the fleet by its name; each of them comes through here."""
        bound = fleet_request(method).signature.bind(*arguments, **named).arguments
        if method == "inbox_groups":
            from ..permissions.request_groups import group_requests

            found: list[RequestGroup] = list(group_requests(await self.inbox()))
            return found
        if method in _HOME_METHODS:
            return await self.home.call(method, **bound)
        for name, value in bound.items():
            if isinstance(value, msgspec.Struct) and hasattr(value, "name"):
                host = self._find_options_host(value)
                return await host.call(method, **bound)
            if name in REFERENCES and isinstance(value, str):
                host = await self.find_host(value, is_agent=name == "agent")
                return await host.call(method, **bound)
            if name in REFERENCES and isinstance(value, (list, tuple)) and value:
                return await self._call_each(method, name, bound)
        return await self._call_all(method, bound)

    async def find_host(self, reference: str, *, is_agent: bool = True) -> GroupedHost:
        """The host of what a reference names: ``box/ann``, an id, or the name of an agent alone.

        Raises:
            NoSuchAgentError: no host has such an agent.
            AmbiguousAgentError: several have one.
            HostError: none has one, and some cannot be asked.
        """
        label, separator, _ = reference.partition(SEPARATOR)
        if separator and label in self._by_label:
            return self._get_used(label)
        if not is_agent or (self.home.is_local and _ID.fullmatch(reference)):
            return self.home
        found, errors = await self._ask_all("agent", {"agent": reference})
        if len(found) == 1:
            return next(iter(found))
        if found:
            raise AmbiguousAgentError(reference, [info.name for info in found.values()])
        lost = {host: error for host, error in errors.items() if _is_loss(error)}
        if not lost:
            raise NoSuchAgentError(reference, [one.name for h in self.active for one in h.known])
        reasons = "; ".join(f"{host.label}: {error}" for host, error in lost.items())
        raise HostError(f"there is no agent {reference!r} on the hosts that answer ({reasons})")

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        """See ``Fleet``. Of all hosts only the latest, by their clocks: positions are of one log.

        ``box/`` names all agents of a host.
        """
        if agent is not None:
            host = await self.find_host(agent)
            return await host.read(agent, after=after, before=before, limit=limit)
        if after or (before is not None and before < _END):
            raise SeveralHostsError("a position is in the log of one host; name it as 'HOST/'")
        works = {host: host.read(None, before=_END, limit=limit) for host in self.active}
        found, _ = await self._gather(works)
        records = [record for page in found.values() for record in cast("list[Record]", page)]
        return sorted(records, key=lambda record: record.time)[-limit:]

    async def follow(
        self, after: int | None = None, *, agent: str | None = None, **how: Any
    ) -> AsyncGenerator[Record]:
        """See ``Fleet``. Of all hosts from now on: positions are of one log.

        A host that goes away is waited for, for ever, and goes on after its last record.
        """
        if agent is not None:
            host = await self.find_host(agent)
            async with aclosing(host.follow(after, agent=agent, **how)) as records:
                async for record in records:
                    yield record
            return
        if after is not None:
            raise SeveralHostsError("a position is in the log of one host; name it as 'HOST/'")
        queue: asyncio.Queue[Record] = asyncio.Queue(_QUEUE)
        tasks = BackgroundTasks()
        try:
            for host in self.active:
                tasks.start(self._pump(host, queue), name=f"records of {host.label}")
            while True:
                yield await queue.get()
        finally:
            await tasks.close()

    async def watch_terminal(self, terminal: str) -> AsyncGenerator[ViewerEvent]:
        """See ``Fleet``."""
        host = await self.find_host(terminal, is_agent=False)
        async with aclosing(host.watch_terminal(terminal)) as seen:
            async for event in seen:
                yield event

    @asynccontextmanager
    async def attach_screen(
        self, handler: WorkbenchHandler, *, cwd: str, idle: float = 0.0
    ) -> AsyncGenerator[WorkbenchRegistration]:
        """See ``Fleet``; offered to every host, also to one that comes back later."""
        screens: dict[str, WorkbenchRegistration] = {}
        tasks = BackgroundTasks()
        try:
            for host in self.active:
                directory = cwd if host is self.home else ""
                offering = self._offer(host, handler, directory, idle, screens)
                tasks.start(offering, name=f"screen for {host.label}")
            yield _AttachedScreens(screens, self.home.label)
        finally:
            await tasks.close()

    async def _offer(
        self,
        host: GroupedHost,
        handler: WorkbenchHandler,
        cwd: str,
        idle: float,
        screens: dict[str, WorkbenchRegistration],
    ) -> None:
        pause = _PAUSE
        while True:
            try:
                async with host.attach_screen(handler, cwd=cwd, idle=idle) as screen:
                    screens[host.label] = screen
                    await asyncio.Event().wait()
            except QuarterdeckError as error:
                log.info("cannot offer the workbench to %s: %s", host.label, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _find_options_host(self, options: Any) -> GroupedHost:
        """The host of an agent or a terminal that is to be started."""
        for reference in (getattr(options, "parent", None), options.name):
            label, separator, _ = (reference or "").partition(SEPARATOR)
            if separator:
                if label not in self._by_label:
                    raise SeveralHostsError(
                        f"there is no host {label!r}; there are {', '.join(self._by_label)}"
                    )
                return self._get_used(label)
        return self.home

    def _get_used(self, label: str) -> GroupedHost:
        host = self._by_label[label]
        if host.same_as is not None:
            raise SeveralHostsError(
                f"the host {label!r} is {host.same_as!r} under a second name; name that one"
            )
        return host

    async def _call_each(self, method: str, name: str, bound: Mapping[str, Any]) -> Any:
        """Ask the hosts of several agents or requests, each about its own."""
        shares: dict[GroupedHost, list[str]] = {}
        for one in bound[name]:
            host = await self.find_host(one, is_agent=name == "agents")
            shares.setdefault(host, []).append(one)
        calls = [
            host.call(method, **{**bound, name: tuple(share)}) for host, share in shares.items()
        ]
        if len(calls) == 1:
            return await calls[0]
        if method not in ("wait", "answer_group"):
            for call in calls:
                call.close()
            labels = ", ".join(host.label for host in shares)
            raise SeveralHostsError(
                f"these agents are on several hosts ({labels}); name those of one"
            )
        if bound.get("until") == "any":
            return await _first_result(calls)
        return merge_results([*await asyncio.gather(*calls)])

    async def _call_all(self, method: str, bound: Mapping[str, Any]) -> Any:
        found, errors = await self._ask_all(method, bound)
        if method == "agents":
            is_all = bool(bound.get("archived"))
            for host in errors:
                found[host] = [
                    mark_lost(one, host.problem or "it does not answer")
                    for one in host.known
                    if is_all or not one.is_archived
                ]
        elif not found:
            raise next(iter(errors.values()))
        results = [found[host] for host in self.active if host in found]
        return merge_results(results, bound.get("limit"))

    async def _ask_all(
        self, method: str, bound: Mapping[str, Any]
    ) -> tuple[dict[GroupedHost, Any], dict[GroupedHost, QuarterdeckError]]:
        return await self._gather({host: host.call(method, **bound) for host in self.active})

    async def _gather(
        self, works: Mapping[GroupedHost, Coroutine[Any, Any, Any]], seconds: float = 0.0
    ) -> tuple[dict[GroupedHost, Any], dict[GroupedHost, QuarterdeckError]]:
        """Do the works at once; what came of each, or why nothing did."""
        seconds = seconds or SLOW_SECONDS
        found: dict[GroupedHost, Any] = {}
        errors: dict[GroupedHost, QuarterdeckError] = {}

        async def do(host: GroupedHost, work: Coroutine[Any, Any, Any]) -> None:
            try:
                async with asyncio.timeout(seconds):
                    found[host] = await work
                self._noted.pop(host.label, None)
            except TimeoutError:
                host.problem = f"it did not answer within {seconds:g} s"
                errors[host] = HostError(f"{host.label}: {host.problem}")
            except QuarterdeckError as error:
                errors[host] = error
            if host in errors and _is_loss(errors[host]):
                self._noted[host.label] = str(errors[host])

        await asyncio.gather(*(do(host, work) for host, work in works.items()))
        return (
            {host: found[host] for host in works if host in found},
            {host: errors[host] for host in works if host in errors},
        )

    async def _pump(self, host: GroupedHost, queue: "asyncio.Queue[Record]") -> None:
        """Pass on what one host records, over all its ends and beginnings."""
        last: int | None = None
        pause = _PAUSE
        while True:
            try:
                status = await host.status()
                last = status.last_seq if last is None else min(last, status.last_seq)
                pause = _PAUSE
                async with aclosing(host.follow(last)) as records:
                    async for record in records:
                        await queue.put(record)
                        last = record.seq
            except QuarterdeckError as error:
                host.problem = str(error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


class _AttachedScreens:
    def __init__(self, screens: Mapping[str, WorkbenchRegistration], home: str) -> None:
        self._screens = screens
        self._home = home

    async def active(self, cwd: str | None = None) -> None:
        """See ``WorkbenchRegistration``; the directory is one of the first host's machine."""
        for label, screen in tuple(self._screens.items()):
            with suppress(QuarterdeckError):  # a host that is lost is told when it is back
                await screen.active(cwd if label == self._home else None)


def _forward(method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(FLEET_METHODS[method].declaration)
    def ask(group: HostGroup, *arguments: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        return group.call(method, *arguments, **named)

    return ask


for _method in FLEET_METHODS:
    setattr(HostGroup, _method, _forward(_method))


def _is_loss(error: QuarterdeckError) -> bool:
    return isinstance(error, (LinkError, HostError))


async def _first_result(calls: Sequence[Coroutine[Any, Any, Any]]) -> Any:
    """The first result with something in it, or an empty one when all have ended."""
    tasks = BackgroundTasks()
    try:
        waits = [tasks.start(call, name="wait for an agent") for call in calls]
        for wait in asyncio.as_completed(waits):
            if result := await wait:
                return result
        return []
    finally:
        await tasks.close()


# Results of several hosts, put together


def merge_results(results: Sequence[Any], limit: int | None = None) -> Any:
    """One result of those of several hosts, which are of one type; ``limit``: of a list."""
    first: Any = results[0] if results else []
    if isinstance(first, list):
        together = [one for result in results for one in cast("list[Any]", result)]
        return _sort(together)[:limit]
    if len(results) == 1:
        return first
    if isinstance(first, bool):
        return any(results)
    if isinstance(first, FleetStatus):
        return merge_status(results)
    if isinstance(first, msgspec.Struct):
        return _merge_reports(results)
    return first


def _sort(found: list[Any]) -> list[Any]:
    """In the order that the method promises; what promises none stays by host."""
    if not found:
        return found
    first = found[0]
    if isinstance(first, AgentInfo):
        return sorted(found, key=lambda one: (not one.needs_person, -one.updated))
    if isinstance(first, InboxItem):
        return sorted(found, key=lambda one: one.since)
    for name in ("time", "updated"):
        if hasattr(first, name):
            return sorted(found, key=lambda one, of=name: getattr(one, of), reverse=True)
    return found


def merge_status(found: Sequence[FleetStatus]) -> FleetStatus:
    """The status of several hosts: counts are added, positions are not."""
    agents: dict[str, int] = {}
    for one in found:
        for state, count in one.agents.items():
            agents[state] = agents.get(state, 0) + count
    return msgspec.structs.replace(
        found[0],
        last_seq=0,
        agents=agents,
        started=min(one.started for one in found),
        needs_person=sum(one.needs_person for one in found),
        clients=sum(one.clients for one in found),
        terminals=sum(one.terminals for one in found),
        problem="; ".join(one.problem for one in found if one.problem) or None,
    )


def _merge_reports(found: Sequence[Any]) -> Any:
    """Lists behind one another, counts added; all else is as the first says."""
    if hasattr(found[0], "total"):
        return _merge_usage(found)
    changed: dict[str, Any] = {}
    for name in found[0].__struct_fields__:
        values = [getattr(one, name) for one in found]
        if isinstance(values[0], tuple):
            joined = [one for value in values for one in value]
            is_text = all(isinstance(one, str) for one in joined)
            changed[name] = tuple(dict.fromkeys(joined) if is_text else joined)
        elif isinstance(values[0], int) and not isinstance(values[0], bool):
            changed[name] = sum(values)
    return msgspec.structs.replace(found[0], **changed)


def _merge_usage(found: "Sequence[UsageReport]") -> "UsageReport":
    rows: dict[tuple[object, ...], UsageRow] = {}
    for row in (row for report in found for row in report.rows):
        key = (row.name, row.session, row.turn)
        rows[key] = _add_usage(rows[key], row) if key in rows else row
    total = found[0].total
    for report in found[1:]:
        total = _add_usage(total, report.total)
    return msgspec.structs.replace(
        found[0],
        rows=tuple(_sort_usage(list(rows.values()), found[0].by)),
        total=total,
        unpriced_models=tuple(dict.fromkeys(m for one in found for m in one.unpriced_models)),
        ignored=sum(one.ignored for one in found),
    )


def _sort_usage(rows: "list[UsageRow]", by: str) -> "list[UsageRow]":
    from ..usage.summary import sort_usage

    return sort_usage(rows, cast("Any", by))


def _add_usage(one: "UsageRow", other: "UsageRow") -> "UsageRow":
    reported = dict(one.reported)
    for currency, amount in other.reported.items():
        reported[currency] = reported.get(currency, 0.0) + amount
    return msgspec.structs.replace(
        one,
        tokens=one.tokens + other.tokens,
        reported=reported,
        computed=one.computed + other.computed,
        unpriced=one.unpriced + other.unpriced,
        agents=one.agents + other.agents,
        first=min((at for at in (one.first, other.first) if at), default=0),
        last=max(one.last, other.last),
    )
