"""One host among several: its fleet, with ids and names that say which host they are of."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import msgspec

from quarterdeck.config.host_settings import RemoteHostSettings
from quarterdeck.config.places import Places
from quarterdeck.terminal.viewer_events import ViewerEvent
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.record import Record

from ..api import AgentInfo, FleetStatus, WorkbenchHandler, WorkbenchRegistration
from ..client import HostClient
from ..errors import HostAddressError, HostError
from ..host.methods import FleetRequest, fleet_request
from ..method import FLEET_METHODS
from .address import RemoteAddress, find_address
from .qualified_values import SEPARATOR, HostPrefix, qualify_value, strip_value

if TYPE_CHECKING:
    from ..api import Fleet
    from ..api import Fleet as DeclaredMethods
else:
    DeclaredMethods = object

__all__ = ["LOCAL", "REFERENCES", "GroupedHost", "HostAccess", "list_hosts", "mark_lost"]

LOCAL = "local"
"""What ``--host`` calls the host of this machine."""
REFERENCES = frozenset(
    {
        *("agent", "agents", "parent", "request", "requests", "session", "subject", "terminal"),
        *("worktree", "trashed", "queue", "grant"),
    }
)
"""Parameters of the fleet's methods that say what a call is about, and so which host."""

ReachHost: TypeAlias = Callable[[bool], Awaitable[None]]
"""Makes sure that the host is there; True: starts one where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """A host's fleet, and the way to it."""

    fleet: "Fleet"
    reach: ReachHost
    leave: Callable[[], Awaitable[object]]
    """Gives the connection up."""
    resolve: Callable[[str | None], str]
    """An absolute path there; None: the directory in which paths begin."""
    prepare: Callable[[], Awaitable[object]] | None = None
    """Learns what ``resolve`` has to know, without a connection that stays."""
    is_local: bool = False
    """It is the host of this machine."""


class GroupedHost(DeclaredMethods):
    """The fleet of one host in a ``HostGroup``; a ``Fleet``.

    Parameters may have the host's name or not; results have it: ``box/ann``, ``box/ses_…``. The
    ids of the host of this machine stay as they are.

    Made by ``create``: a type checker takes the class itself for an abstract one.

    Args:
        label: its name in the group, without ``/``.
        access: the host's fleet, and the way to it.
    """

    def __init__(self, label: str, access: HostAccess) -> None:
        assert SEPARATOR not in label
        self.label = label
        self.is_local = is_local = access.is_local
        self.resolve = access.resolve
        """An absolute path there; None: the directory in which paths begin. After ``reach``."""
        self.prefix = HostPrefix(id="" if is_local else label + SEPARATOR, name=label + SEPARATOR)
        self.problem: str | None = None
        """Why it could not be used last time; None: it could, or was not tried."""
        self.same_as: str | None = None
        """The name of an earlier host of the group that turned out to be the same process."""
        self.known: Sequence[AgentInfo] = ()
        """Its agents, as it last reported them."""
        self._fleet = access.fleet
        self._reach = access.reach
        self._leave = access.leave
        self._prepare = access.prepare

    @classmethod
    def create(cls, label: str, access: HostAccess) -> Self:
        """See the class."""
        return cls(label, access)

    async def reach(self, starts: bool) -> FleetStatus:
        """Make sure that it is there; its status.

        Raises:
            QuarterdeckError: it cannot be used; ``problem`` says why.
        """
        await self._watch(self._reach(starts))
        return await self._watch(self._fleet.status())

    async def prepare(self) -> None:
        """Learn what ``resolve`` has to know; connects to nothing. Raises QuarterdeckError."""
        if self._prepare is not None:
            await self._prepare()

    async def disconnect(self) -> None:
        """Leave the host, which goes on."""
        await self._leave()

    async def call(self, method: str, /, *arguments: Any, **named: Any) -> Any:
        """Call a declared method of the fleet by its name; each of them comes through here."""
        request = fleet_request(method)
        bound = request.signature.bind(*arguments, **named).arguments
        given = {name: self._strip(request, name, value) for name, value in bound.items()}
        result = await self._watch(getattr(self._fleet, method)(**given))
        qualified = qualify_value(result, request.result, self.prefix)
        if method == "agents" and bound.get("parent") is None:
            self.known = cast("Sequence[AgentInfo]", qualified)
        return qualified

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        """See ``Fleet``; positions are those of this host's log."""
        reading = self._fleet.read(
            self._strip_agent(agent), after=after, before=before, limit=limit
        )
        return qualify_value(await self._watch(reading), list[Record], self.prefix)

    async def follow(
        self, after: int | None = None, *, agent: str | None = None, **how: Any
    ) -> AsyncGenerator[Record]:
        """See ``Fleet`` and ``HostClient``; positions are those of this host's log."""
        following = self._fleet.follow(after, agent=self._strip_agent(agent), **how)
        async with aclosing(following) as records:
            async for record in records:
                yield qualify_value(record, Record, self.prefix) if self.prefix.id else record

    async def watch_terminal(self, terminal: str) -> AsyncGenerator[ViewerEvent]:
        """See ``Fleet``."""
        async with aclosing(self._fleet.watch_terminal(self.prefix.strip(terminal))) as seen:
            async for event in seen:
                yield event

    def attach_screen(
        self, handler: WorkbenchHandler, *, cwd: str, idle: float = 0.0
    ) -> AbstractAsyncContextManager[WorkbenchRegistration]:
        """See ``Fleet``; agents that are named in calls get the host's name."""

        async def handle(name: str, arguments: dict[str, Any], by: str) -> Any:
            agent = arguments.get("agent")
            if isinstance(agent, str) and agent and not agent.startswith(self.prefix.name):
                arguments = {**arguments, "agent": self._qualify_reference(agent)}
            whose = by if by == "person" else self._qualify_reference(by)
            return await handler(name, arguments, whose)

        return self._fleet.attach_screen(handle, cwd=cwd, idle=idle)

    def _qualify_reference(self, agent: str) -> str:
        is_id = any(one.session == self.prefix.add_to_id(agent) for one in self.known)
        return self.prefix.add_to_id(agent) if is_id else self.prefix.add_to_name(agent)

    def _strip(self, request: FleetRequest, name: str, value: Any) -> Any:
        if name in REFERENCES or name == "name":
            if isinstance(value, str):
                return self.prefix.strip(value)
            if isinstance(value, (list, tuple)):
                return tuple(self.prefix.strip(one) for one in cast("Sequence[str]", value))
        stripped = strip_value(value, request.signature.parameters[name].annotation, self.prefix)
        if isinstance(stripped, msgspec.Struct) and getattr(stripped, "name", None) == "":
            return msgspec.structs.replace(stripped, name=None)  # only the host was named
        return stripped

    def _strip_agent(self, agent: str | None) -> str | None:
        return (None if agent is None else self.prefix.strip(agent)) or None

    async def _watch(self, work: Awaitable[Any]) -> Any:
        try:
            result = await work
        except (LinkError, HostError) as error:
            self.problem = str(error)
            raise
        self.problem = None
        return result


def _forward(method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(FLEET_METHODS[method].declaration)
    def ask(host: GroupedHost, *arguments: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        return host.call(method, *arguments, **named)

    return ask


for _method in FLEET_METHODS:
    setattr(GroupedHost, _method, _forward(_method))


def mark_lost(agent: AgentInfo, reason: str) -> AgentInfo:
    """An agent whose host cannot be used now: nothing can be said to it, and it needs no one."""
    return msgspec.structs.replace(agent, lost=reason, needs_person=False, is_live=False)


def list_hosts(
    given: Sequence[str],
    hosts: Mapping[str, RemoteHostSettings],
    places: Places,
    environ: Mapping[str, str] | None = None,
    *,
    name: str = "",
) -> tuple[GroupedHost, ...]:
    """The hosts that ``--host`` names, each once, in their order; connects to none.

    Args:
        given: ``local``, names of the settings, URLs.
        hosts: those of the settings.
        places: of this machine.
        environ: what a host that is started on this machine gets; None: ours.
        name: what we are, for the hosts' logs.

    Raises:
        HostAddressError: one of them is no host.
    """
    found: dict[object, GroupedHost] = {}
    labels: set[str] = set()
    for one in dict.fromkeys(given):
        if one == LOCAL:
            if LOCAL in hosts:
                raise HostAddressError(
                    LOCAL, "it means this machine, and your settings have a host of that name"
                )
            labels.add(LOCAL)
            found[LOCAL] = _make_local(places, environ, name)
            continue
        address = find_address(one, hosts)
        where = (address.destination, address.port, address.program)
        if where not in found:
            label = _choose_label(address, labels)
            labels.add(label)
            found[where] = _make_remote(label, address, places, name)
    return tuple(found.values())


def _make_local(places: Places, environ: Mapping[str, str] | None, name: str) -> GroupedHost:
    from ..host.launcher import dial_host, ensure_host

    client = HostClient.create(lambda: dial_host(places), name)

    async def reach(starts: bool) -> None:
        await client.reach((lambda: ensure_host(places, environ)) if starts else None)

    def resolve(path: str | None) -> str:
        return str(Path(path or ".").expanduser().absolute())

    access = HostAccess(
        fleet=client, reach=reach, leave=client.disconnect, resolve=resolve, is_local=True
    )
    return GroupedHost.create(LOCAL, access)


def _make_remote(label: str, address: RemoteAddress, places: Places, name: str) -> GroupedHost:
    from .dialer import RemoteDialer

    dialer = RemoteDialer(address, places)
    client = HostClient.create(dialer.dial, name)

    async def reach(starts: bool) -> None:
        await client.reach(dialer.ensure if starts else None)

    access = HostAccess(
        fleet=client,
        reach=reach,
        leave=client.disconnect,
        resolve=dialer.resolve,
        prepare=lambda: dialer.prepare(start=True),
    )
    return GroupedHost.create(label, access)


def _choose_label(address: RemoteAddress, taken: set[str]) -> str:
    """A name that no other host of the group has; the shortest that says which it is."""
    if "://" not in address.name:
        stem = address.name
        wanted = [stem]
    else:
        stem = address.host
        wanted = [stem, address.destination]
        if address.port is not None:
            wanted.append(f"{address.destination}:{address.port}")
    wanted += [f"{stem}-{number}" for number in range(2, len(taken) + 3)]
    return next(one for one in wanted if one not in taken)
