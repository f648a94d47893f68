"""The client of the host: every method of the fleet over its socket."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Self

import msgspec

from quarterdeck.config.places import Places
from quarterdeck.terminal.viewer_events import TerminalEnded, ViewerEvent
from quarterdeck.wire.decoders import json_decoder
from quarterdeck.wire.errors import LinkClosedError, LinkError
from quarterdeck.wire.record import Record, decode_record

from .api import WorkbenchHandler, WorkbenchRegistration
from .connection import Dial, ReconnectingConnection
from .errors import NoHostError
from .host import methods
from .method import FLEET_METHODS

if TYPE_CHECKING:
    # The signatures, for the type checker. Nothing is inherited in fact: what the class did not
    # have would answer None, as the bodies of a protocol do.
    from .api import Fleet as DeclaredMethods
    from .remote.dialer import RemoteDialer
else:
    DeclaredMethods = object

__all__ = ["Dial", "HostClient"]

_SEEN: msgspec.json.Decoder[ViewerEvent] = json_decoder(ViewerEvent)


class HostClient(DeclaredMethods):
    """The fleet of a host; a ``Fleet``.

    A method that is marked in ``fleet.api`` asks the host for the request of its name; one that is
    written here has a form of its own on the socket. A host that is older than a method makes it
    raise ``HostError``.

    When the host goes away, calls that wait raise ``LinkBrokenError``: whether they were carried
    out is not known, the log tells. Later calls connect again if a host is there, and raise
    ``NoHostError`` otherwise.

    Made by ``connect`` or ``create``: a type checker takes the class itself for an abstract one.
    """

    def __init__(self, host: ReconnectingConnection) -> None:
        self._host = host

    @classmethod
    def create(cls, dial: Dial, name: str = "") -> Self:
        """A client that connects with its first call.

        Args:
            dial: connects to the host; raises NoHostError.
            name: what we are, for the host's log.
        """
        return cls(ReconnectingConnection(dial, name))

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        places: Places,
        *,
        start: bool = False,
        environ: Mapping[str, str] | None = None,
        name: str = "",
    ) -> AsyncGenerator[Self]:
        """Connect to the host of these places; ``start`` starts one where there is none.

        A host that is stopped later is not started again by who still watches it.

        Raises:
            NoHostError: none is running.
            HostVersionError: it is of another version.
            HostError: it does not start.
        """
        from .host.launcher import dial_host, ensure_host

        client = cls.create(lambda: dial_host(places), name)
        try:
            await client.reach((lambda: ensure_host(places, environ)) if start else None)
            yield client
        finally:
            await client.disconnect()

    @classmethod
    @asynccontextmanager
    async def connect_remote(
        cls, dialer: "RemoteDialer", *, start: bool = False, name: str = ""
    ) -> AsyncGenerator[Self]:
        """Connect to a host on another machine; like ``connect``.

        Raises:
            NoHostError, HostVersionError, HostError: like ``connect``; see ``RemoteDialer.dial``.
        """
        client = cls.create(dialer.dial, name)
        try:
            await client.reach(dialer.ensure if start else None)
            yield client
        finally:
            await client.disconnect()

    async def reach(self, dial: Dial | None = None) -> None:
        """Make sure that the host is there; ``dial`` is another way to get to one, this time.

        Raises:
            NoHostError, HostVersionError, HostError: like ``connect``.
        """
        await self._host.connected(dial)

    async def disconnect(self) -> None:
        """Leave the host, which goes on; may be called again."""
        await self._host.disconnect()

    async def stop_host(self) -> None:
        """Ask the host to end; its agents are closed and can be resumed."""
        await self._host.ask(methods.STOP, methods.NoParams())

    def call(self, method: str, /, *arguments: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        """Call a declared method of the fleet by its name; each of them comes through here."""
        request = methods.fleet_request(method)
        return self._host.ask(request, request.bind(arguments, named))

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        """See ``Fleet``; asks for as many pages as there are."""
        found: list[Record] = []
        while True:
            params = methods.ReadParams(
                agent=agent, after=after, before=before, limit=limit - len(found)
            )
            page = await self._host.ask(methods.READ, params)
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
            NoHostError, LinkBrokenError: the host went away, and no other came in time.
        """
        host = self._host
        while True:
            try:
                link = await host.connected()
                wanted = methods.Follow(after=after, agent=agent)
                followed, feed = await host.guard(
                    link.follow(methods.FOLLOW, wanted, decode_record), methods.FOLLOW
                )
                after, agent = followed.after, followed.session
                try:
                    while True:
                        record = await host.guard(feed.take(), methods.FOLLOW)
                        after = record.seq
                        yield record
                finally:
                    await link.unfollow(feed)
            except (LinkError, NoHostError) as error:
                if isinstance(error, LinkClosedError) or not await host.wait_for_host(patience):
                    raise

    async def watch_terminal(self, terminal: str) -> AsyncGenerator[ViewerEvent]:
        """See ``Fleet``. The terminal goes away with the host: raises ``LinkBrokenError``."""
        link = await self._host.connected()
        method, wanted = methods.WATCH_TERMINAL, methods.TerminalParams(terminal=terminal)
        _, feed = await self._host.guard(link.follow(method, wanted, _SEEN.decode), method)
        try:
            while True:
                seen = await self._host.guard(feed.take(), method)
                yield seen
                if isinstance(seen, TerminalEnded):
                    return
        finally:
            await link.unfollow(feed)

    def attach_screen(
        self, handler: WorkbenchHandler, *, cwd: str, idle: float = 0.0
    ) -> AbstractAsyncContextManager[WorkbenchRegistration]:
        """See ``Fleet``. When the host goes away, the next one gets it with the next connection."""
        return self._host.attach_screen(handler, cwd=cwd, idle=idle)


def _forward(method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(FLEET_METHODS[method].declaration)
    def ask(client: HostClient, *arguments: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        return client.call(method, *arguments, **named)

    return ask


for _method in FLEET_METHODS:
    setattr(HostClient, _method, _forward(_method))
