"""The client of the host: every method of the fleet over its socket."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from quarterdeck.config.places import Places
from quarterdeck.journal.search_hit import SearchHit
from quarterdeck.policy.grants import Grant
from quarterdeck.terminal.viewer_events import TerminalEnded, ViewerEvent
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import LinkClosedError, LinkError
from quarterdeck.wire.events import Origin
from quarterdeck.wire.ids import MessageId, RequestId, SessionId
from quarterdeck.wire.permissions import QuestionAction
from quarterdeck.wire.record import Record, decode_record

from .api import (
    AgentInfo,
    FleetStatus,
    FleetTerminalOptions,
    ImportedSession,
    InboxItem,
    SpawnOptions,
    TerminalInfo,
    WaitFor,
)
from .connection import Dial, ReconnectingClient
from .errors import NoHostError
from .host import methods as methods
from .host.methods import NoParams

__all__ = ["Dial", "HostClient", "TerminalClient"]

_SEEN: msgspec.json.Decoder[ViewerEvent] = msgspec.json.Decoder(ViewerEvent)


class TerminalClient(ReconnectingClient):
    """The part of a client that is about terminals; see ``terminal_port.Terminals``.

    Raises ``HostError`` where the host is older than terminals.
    """

    async def open_terminal(self, wish: FleetTerminalOptions) -> TerminalInfo:
        """See ``FleetTerminals``."""
        return await self._ask(methods.OPEN_TERMINAL, methods.OpenTerminalParams(wish=wish))

    async def terminals(self) -> list[TerminalInfo]:
        """See ``FleetTerminals``."""
        return await self._ask(methods.TERMINALS, NoParams())

    async def watch_terminal(self, terminal: str) -> AsyncGenerator[ViewerEvent]:
        """See ``FleetTerminals``. When the host goes away so does the terminal: raises
        ``LinkBrokenError``.
        """
        link = await self._linked()
        method, wanted = methods.WATCH_TERMINAL, methods.TerminalParams(terminal=terminal)
        _, feed = await self._reached(link.follow(method, wanted, _SEEN.decode), method)
        try:
            while True:
                seen = await self._reached(feed.take(), method)
                yield seen
                if isinstance(seen, TerminalEnded):
                    return
        finally:
            await link.unfollow(feed)

    async def write_terminal(self, terminal: str, data: bytes) -> None:
        """See ``FleetTerminals``."""
        params = methods.WriteTerminalParams(terminal=terminal, data=data)
        await self._ask(methods.WRITE_TERMINAL, params)

    async def paste_terminal(self, terminal: str, text: str) -> None:
        """See ``FleetTerminals``."""
        params = methods.PasteTerminalParams(terminal=terminal, text=text)
        await self._ask(methods.PASTE_TERMINAL, params)

    async def resize_terminal(self, terminal: str, columns: int, rows: int) -> None:
        """See ``FleetTerminals``."""
        params = methods.ResizeTerminalParams(terminal=terminal, columns=columns, rows=rows)
        await self._ask(methods.RESIZE_TERMINAL, params)

    async def close_terminal(self, terminal: str) -> None:
        """See ``FleetTerminals``."""
        await self._ask(methods.CLOSE_TERMINAL, methods.TerminalParams(terminal=terminal))


if TYPE_CHECKING:
    from .api import FleetTerminals

    _terminals: type[FleetTerminals] = TerminalClient


class HostClient(TerminalClient):
    """The fleet of a host; a ``Fleet``.

    When the host goes away, calls that wait raise ``LinkBrokenError``: whether they were carried
    out is not known, the log tells. Later calls connect again if a host is there, and raise
    ``NoHostError`` otherwise.
    """

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
            NoHostError: none is running.
            HostVersionError: it is of another version.
            HostError: it does not start.
        """
        from .host.launcher import dial_host, ensure_host

        client = cls(lambda: dial_host(places), name)
        try:
            await client.reach((lambda: ensure_host(places, environ)) if start else None)
            yield client
        finally:
            await client.disconnect()

    async def stop_host(self) -> None:
        """Ask the host to end; its agents are closed and can be resumed."""
        await self._ask(methods.STOP, methods.NoParams())

    async def spawn(self, wish: SpawnOptions) -> AgentInfo:
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

    async def import_session(
        self,
        agent: str,
        id: str,
        homes: dict[str, str],
        name: str | None = None,
        cwd: str | None = None,
    ) -> ImportedSession:
        """See ``Fleet``."""
        params = methods.ImportParams(agent=agent, id=id, homes=homes, name=name, cwd=cwd)
        return await self._ask(methods.IMPORT_SESSION, params)

    async def rename(self, agent: str, name: str) -> AgentInfo:
        """See ``Fleet``."""
        return await self._ask(methods.RENAME, methods.RenameParams(agent=agent, name=name))

    async def set_option(self, agent: str, option: str, value: str | bool) -> None:
        """See ``Fleet``."""
        params = methods.SetOptionParams(agent=agent, option=option, value=value)
        await self._ask(methods.SET_OPTION, params)

    async def inbox(self) -> list[InboxItem]:
        """See ``Fleet``."""
        return await self._ask(methods.INBOX, methods.NoParams())

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
        return await self._ask(methods.GRANTS, methods.NoParams())

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
            NoHostError, LinkBrokenError: the host went away, and no other came in time.
        """
        while True:
            try:
                link = await self._linked()
                wanted = methods.Follow(after=after, agent=agent)
                followed, feed = await self._reached(
                    link.follow(methods.FOLLOW, wanted, decode_record), methods.FOLLOW
                )
                after, agent = followed.after, followed.session
                try:
                    while True:
                        record = await self._reached(feed.take(), methods.FOLLOW)
                        after = record.seq
                        yield record
                finally:
                    await link.unfollow(feed)
            except (LinkError, NoHostError) as error:
                if isinstance(error, LinkClosedError) or not await self._comes_back(patience):
                    raise

    async def wait(
        self, agents: Sequence[str], *, until: WaitFor = "all", timeout: float | None = None
    ) -> list[AgentInfo]:
        """See ``Fleet``."""
        params = methods.WaitParams(agents=tuple(agents), until=until, timeout=timeout)
        return await self._ask(methods.WAIT, params)

    async def search(self, words: str, *, limit: int = 50) -> list[SearchHit]:
        """See ``Fleet``."""
        return await self._ask(methods.SEARCH, methods.SearchParams(words=words, limit=limit))

    async def call_screen(self, name: str, arguments: dict[str, Any], *, by: str = "person") -> Any:
        """See ``Fleet``."""
        params = methods.CallScreenParams(name=name, arguments=arguments, by=by)
        return await self._ask(methods.CALL_SCREEN, params)

    async def status(self) -> FleetStatus:
        """See ``Fleet``."""
        return await self._ask(methods.STATUS, methods.NoParams())


if TYPE_CHECKING:
    from .api import Fleet

    _: type[Fleet] = HostClient
