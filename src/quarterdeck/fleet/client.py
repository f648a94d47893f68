"""The fleet of a host, over its socket: the same methods as in process."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct

from quarterdeck.config.places import Places
from quarterdeck.journal.hits import Hit
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import Broken, Closed, LinkError, RpcError
from quarterdeck.wire.events import Origin
from quarterdeck.wire.ids import MessageId, RequestId, SessionId
from quarterdeck.wire.permissions import QuestionAction
from quarterdeck.wire.record import Record, decode_record
from quarterdeck.wire.rpc import ByteStream

from .errors import NoHost
from .host import methods
from .host.faults import restore
from .host.methods import Method
from .link import Link
from .port import AgentInfo, FleetStatus, InboxItem, Spawn, WaitFor

__all__ = ["Dial", "HostClient"]

R = TypeVar("R")
Dial: TypeAlias = Callable[[], Awaitable[ByteStream]]
"""Connects to a host; raises NoHost where there is none."""

_TRIES = 5
_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class HostClient:
    """The fleet of a host; a ``Fleet``.

    When the host goes away, calls that wait raise ``Broken``: whether they were carried out is
    not known, the log tells. Later calls connect again if a host is there, and raise ``NoHost``
    otherwise.
    """

    def __init__(self, dial: Dial, name: str = "") -> None:
        """Args:
        dial: connects to the host; raises NoHost.
        name: what we are, for the host's log.
        """
        self._dial = dial
        self._name = name
        self._link: Link | None = None
        self._linking = asyncio.Lock()
        self._is_closed = False

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        places: Places,
        *,
        start: bool = False,
        environ: Mapping[str, str] | None = None,
        name: str = "",
    ) -> AsyncGenerator["HostClient"]:
        """Connect to the host of these places; ``start`` starts one where there is none.

        A host that is stopped later is not started again by who still watches it.

        Raises:
            NoHost: none is running.
            HostTooNew: it is of another version.
            HostError: it does not start.
        """
        from .host.dialling import dial
        from .host.starting import ensure_host

        client = cls(lambda: dial(places), name)
        try:
            await client.reach((lambda: ensure_host(places, environ)) if start else None)
            yield client
        finally:
            await client.disconnect()

    async def reach(self, dial: Dial | None = None) -> None:
        """Make sure that the host is there; ``dial`` is another way to get to one, this time.

        Raises:
            NoHost, HostTooNew, HostError: like ``connect``.
        """
        await self._linked(dial)

    async def disconnect(self) -> None:
        """Leave the host, which goes on; may be called again."""
        self._is_closed = True
        async with self._linking:
            if self._link is not None:
                await self._link.__aexit__()
                self._link = None

    async def stop_host(self) -> None:
        """Ask the host to end; its agents are closed and can be resumed."""
        await self._ask(methods.STOP, methods.Nothing())

    async def spawn(self, wish: Spawn) -> AgentInfo:
        """See ``Fleet``."""
        return await self._ask(methods.SPAWN, methods.SpawnParams(wish=wish))

    async def agents(
        self, *, archived: bool = False, parent: SessionId | None = None
    ) -> list[AgentInfo]:
        """See ``Fleet``."""
        params = methods.AgentsParams(archived=archived, parent=parent)
        return await self._ask(methods.AGENTS, params)

    async def agent(self, agent: str) -> AgentInfo:
        """See ``Fleet``."""
        return await self._ask(methods.AGENT, methods.AgentParams(agent=agent))

    async def send(
        self,
        agent: str,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
    ) -> MessageId:
        """See ``Fleet``."""
        params = methods.SendParams(agent=agent, content=content, origin=origin, sender=sender)
        return await self._ask(methods.SEND, params)

    async def edit(
        self, agent: str, message: MessageId, content: tuple[ContentBlock, ...] | None
    ) -> bool:
        """See ``Fleet``."""
        params = methods.EditParams(agent=agent, message=message, content=content)
        return await self._ask(methods.EDIT, params)

    async def interrupt(self, agent: str, *, keep_queue: bool = True) -> None:
        """See ``Fleet``."""
        params = methods.InterruptParams(agent=agent, keep_queue=keep_queue)
        await self._ask(methods.INTERRUPT, params)

    async def kill(self, agent: str, *, reason: str | None = None) -> None:
        """See ``Fleet``."""
        await self._ask(methods.KILL, methods.KillParams(agent=agent, reason=reason))

    async def close(self, agent: str) -> None:
        """See ``Fleet``. It ends the agent; ``disconnect`` leaves the host."""
        await self._ask(methods.CLOSE, methods.AgentParams(agent=agent))

    async def archive(self, agent: str, *, archived: bool = True) -> None:
        """See ``Fleet``."""
        await self._ask(methods.ARCHIVE, methods.ArchiveParams(agent=agent, archived=archived))

    async def delete(self, agent: str) -> None:
        """See ``Fleet``."""
        await self._ask(methods.DELETE, methods.AgentParams(agent=agent))

    async def resume(self, agent: str) -> AgentInfo:
        """See ``Fleet``."""
        return await self._ask(methods.RESUME, methods.AgentParams(agent=agent))

    async def fork(
        self, agent: str, *, name: str | None = None, prompt: str | None = None
    ) -> AgentInfo:
        """See ``Fleet``."""
        params = methods.ForkParams(agent=agent, name=name, prompt=prompt)
        return await self._ask(methods.FORK, params)

    async def rename(self, agent: str, name: str) -> AgentInfo:
        """See ``Fleet``."""
        return await self._ask(methods.RENAME, methods.RenameParams(agent=agent, name=name))

    async def set_option(self, agent: str, option: str, value: str | bool) -> None:
        """See ``Fleet``."""
        params = methods.SetOptionParams(agent=agent, option=option, value=value)
        await self._ask(methods.SET_OPTION, params)

    async def inbox(self) -> list[InboxItem]:
        """See ``Fleet``."""
        return await self._ask(methods.INBOX, methods.Nothing())

    async def answer(
        self, request: RequestId, choice: str, *, by: str = "person", feedback: str | None = None
    ) -> bool:
        """See ``Fleet``."""
        params = methods.AnswerParams(request=request, choice=choice, by=by, feedback=feedback)
        return await self._ask(methods.ANSWER, params)

    async def reply(
        self,
        request: RequestId,
        action: QuestionAction,
        *,
        by: str = "person",
        content: dict[str, Any] | None = None,
    ) -> bool:
        """See ``Fleet``."""
        params = methods.ReplyParams(request=request, action=action, by=by, content=content)
        return await self._ask(methods.REPLY, params)

    async def grants(self) -> list[Grant]:
        """See ``Fleet``."""
        return await self._ask(methods.GRANTS, methods.Nothing())

    async def revoke(self, grant: str, *, by: str = "person") -> bool:
        """See ``Fleet``."""
        return await self._ask(methods.REVOKE, methods.RevokeParams(grant=grant, by=by))

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        """See ``Fleet``."""
        found: list[Record] = []
        while True:
            params = methods.ReadParams(
                agent=agent, after=after, before=before, limit=limit - len(found)
            )
            page = await self._ask(methods.READ, params)
            records = [decode_record(bytes(record)) for record in page.records]
            found = found + records if before is None else records + found
            if not page.is_cut or not records:
                return found
            if before is None:
                after = records[-1].seq
            else:
                before = records[0].seq

    async def follow(
        self, after: int | None = None, *, agent: str | None = None, patience: float = 0.0
    ) -> AsyncGenerator[Record]:
        """See ``Fleet``.

        ``patience``: seconds for which another host is waited for when this one goes away; the
        records then go on after the last one, without a gap.

        Raises:
            NoHost, Broken: the host went away, and no other came in time.
        """
        while True:
            try:
                link = await self._linked()
                feed = await self._reached(
                    link.follow(methods.Follow(after=after, agent=agent)), methods.FOLLOW
                )
                after, agent = feed.followed.after, feed.followed.session
                try:
                    while True:
                        record = await self._reached(feed.take(), methods.FOLLOW)
                        after = record.seq
                        yield record
                finally:
                    await link.unfollow(feed)
            except (LinkError, NoHost) as error:
                if isinstance(error, Closed) or not await self._comes_back(patience):
                    raise

    async def wait(
        self, agents: Sequence[str], *, until: WaitFor = "all", timeout: float | None = None
    ) -> list[AgentInfo]:
        """See ``Fleet``."""
        params = methods.WaitParams(agents=tuple(agents), until=until, timeout=timeout)
        return await self._ask(methods.WAIT, params)

    async def search(self, words: str, *, limit: int = 50) -> list[Hit]:
        """See ``Fleet``."""
        return await self._ask(methods.SEARCH, methods.SearchParams(words=words, limit=limit))

    async def status(self) -> FleetStatus:
        """See ``Fleet``."""
        return await self._ask(methods.STATUS, methods.Nothing())

    async def _ask(self, method: Method[R], params: Struct) -> R:
        link = await self._linked()
        raw = await self._reached(link.peer.request(method.name, params), method)
        return cast("R", msgspec.json.decode(raw, type=method.result))

    async def _reached(self, asking: Awaitable[R], method: Method[Any]) -> R:
        try:
            return await asking
        except RpcError as error:
            raise restore(error) from None
        except Closed:
            raise
        except LinkError as error:
            raise Broken(
                f"the host went away before it answered {method.name!r}, which may be done or not "
                f"({error}); `quarterdeck ps` tells how things stand"
            ) from error

    async def _linked(self, dial: Dial | None = None) -> Link:
        if self._link is not None and not self._link.is_over:
            return self._link
        async with self._linking:
            if self._is_closed:
                raise Closed("this client has left the host; connect again")
            if self._link is None or self._link.is_over:
                self._link = await self._open(dial or self._dial)
            return self._link

    async def _open(self, dial: Dial) -> Link:
        if self._link is not None:
            await self._link.__aexit__()
            self._link = None
        for left in reversed(range(_TRIES)):
            try:
                return await Link(await dial(), self._name).__aenter__()
            except LinkError as error:
                # A host that ends takes connections until its last moment.
                if not left:
                    raise NoHost(f"the host went away while we connected: {error}") from error
                await asyncio.sleep(_PAUSE)
        raise AssertionError

    async def _comes_back(self, patience: float) -> bool:
        """Wait for a host; False if none came in time."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + patience, _PAUSE
        while loop.time() < deadline:
            try:
                await self._linked()
            except NoHost:
                await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                return True
        return False


if TYPE_CHECKING:
    from .port import Fleet

    _: type[Fleet] = HostClient
