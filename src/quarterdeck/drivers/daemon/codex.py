"""``codex app-server``: one process, or one connection to a server that runs, for a session."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

import quarterdeck
from quarterdeck.system.errors import PathFault
from quarterdeck.system.guard import shared_guard
from quarterdeck.system.local import LocalSystem
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.events import MessageChunk, ModeChanged, Notice, SessionChanged
from quarterdeck.wire.rpc.handler import Limits, RequestContext
from quarterdeck.wire.rpc.peer import Peer
from quarterdeck.wire.rpc.stream import ByteStream

from ..acp.departing import Outlet
from ..child import Child, Launch
from ..driver import Capabilities, Opening
from ..errors import LoginMethod, LoginNeeded, OpenFailed, Unsupported, WrongProtocol
from ..link import Departure, Host, Outcome, Started
from ..pipe.told import as_list, as_map, as_text, message
from .codex_desk import CodexDesk
from .codex_events import CodexReader
from .codex_opening import input_of, manner_of, thread_params

__all__ = ["CodexLink"]

_log = logging.getLogger(__name__)
_LIMITS = Limits(grace_seconds=0.5)
_AGAIN = 0.1
"""Seconds until a turn that was not yet there to be interrupted is interrupted again."""
_PAGE = 100

_decode = msgspec.json.Decoder().decode


class CodexLink:
    """One thread of codex; see ``drivers.link.Link``.

    Args:
        launch: how the server is started.
        stream: talk over this, and start no program.
    """

    transport = "daemon"
    capabilities = Capabilities(
        asks=True,
        streams=True,
        resumes=True,
        forks=True,
        lists=True,
        sets_mode=True,
        sets_model=True,
        images=True,
        questions=True,
        mcp=True,
    )

    def __init__(self, launch: Launch, *, stream: ByteStream | None = None) -> None:
        self._launch = launch
        self._stream = stream
        self._reader = CodexReader(launch.agent)
        self._child: Child | None = None
        self._outlet: Outlet | None = None
        self._system: LocalSystem | None = None
        self._watching: asyncio.Task[None] | None = None
        self._over: asyncio.Future[LinkError] | None = None
        self._ending: asyncio.Task[Departure | None] | None = None
        self._turn: asyncio.Future[Outcome] | None = None
        self._turn_id: asyncio.Future[str] | None = None
        self._changes: dict[str, Any] = {}
        """What the next turn shall do otherwise."""
        self._told_malformed = 0

    _host: Host
    _peer: Peer
    _desk: CodexDesk
    _thread: str = ""

    # Beginning

    async def start(self, host: Host) -> Started:
        """Start the server, or connect to it, and open, resume or fork its thread.

        Raises:
            OpenFailed, Unsupported: and ``end`` is all that is left to do.
        """
        self._host = host
        self._desk = CodexDesk(host)
        opening = host.opening
        manner = manner_of(self._launch, opening.agent_mode)
        params = thread_params(self._launch, opening, manner)
        stream = self._stream or await self._run(opening)
        self._peer = Peer(
            stream, self, limits=_LIMITS, answer_malformed=False, name=self._launch.agent
        )
        await self._peer.__aenter__()
        self._over = asyncio.get_running_loop().create_future()
        self._watching = asyncio.create_task(self._watch())
        version = await self._greet()
        return await self._open(opening, params, version)

    async def _run(self, opening: Opening) -> ByteStream:
        self._system = LocalSystem([opening.cwd, *opening.roots], guard=shared_guard())
        try:
            self._child = await Child.start(self._launch, opening, self._system)
        except PathFault as error:
            raise OpenFailed(f"{self._launch.agent} could not be started: {error}") from error
        self._outlet = Outlet(self._launch.agent, self._child)
        return self._outlet

    async def _greet(self) -> str | None:
        client = {
            "name": "quarterdeck",
            "title": "Quarterdeck",
            "version": quarterdeck.__version__,
        }
        told = {"clientInfo": client, "capabilities": {"experimentalApi": True}}
        hello = await self._ask("initialize", told)
        agent = as_text(hello.get("userAgent"))
        if not agent:
            raise WrongProtocol(f"{self._launch.agent} does not greet as `codex app-server` does")
        await self._peer.notify("initialized")
        with suppress(RpcError):  # an older one cannot say
            account = await self._ask("account/read", {"refreshToken": False})
            if account.get("requiresOpenaiAuth") is True and not account.get("account"):
                raise LoginNeeded(f"{self._launch.agent} is not logged in.", [_LOGIN])
        return agent.partition("/")[2].partition(" ")[0] or None

    async def _open(self, opening: Opening, params: dict[str, Any], version: str | None) -> Started:
        if opening.resume is None:
            opened = await self._ask("thread/start", params)
        else:
            way = "thread/fork" if opening.fork else "thread/resume"
            past = {"threadId": opening.resume, "excludeTurns": True}
            opened = await self._ask(way, {**params, **past})
        self._thread = as_text(as_map(opened.get("thread")).get("id"))
        if not self._thread:
            raise WrongProtocol(f"{self._launch.agent} opened a thread without an id")
        if opening.title is not None:
            await self._ask("thread/name/set", {"threadId": self._thread, "name": opening.title})
        if opening.resume is not None and opening.replay:
            await self._replay()
        return Started(
            agent_session=self._thread,
            agent_version=version,
            model=as_text(opened.get("model")) or None,
            mode=opening.agent_mode,
        )

    async def _replay(self) -> None:
        """Tell the thread's past, page by page."""
        cursor: str | None = None
        while True:
            page = {"threadId": self._thread, "limit": _PAGE, "cursor": cursor}
            listed = await self._ask("thread/items/list", page)
            for entry in map(as_map, as_list(listed.get("data"))):
                await self._tell_past(as_map(entry.get("item")) or entry)
            cursor = as_text(listed.get("nextCursor")) or None
            if cursor is None:
                return

    async def _tell_past(self, item: Mapping[str, Any]) -> None:
        if item.get("type") == "userMessage":
            blocks = map(as_map, as_list(item.get("content")))
            said = "\n".join(as_text(block.get("text")) for block in blocks)
            chunk = message(said, as_text(item.get("id")))
            await self._host.emit(
                MessageChunk(content=chunk.content, message=chunk.message, role="user")
            )
            return
        for event in self._reader.past(item):
            await self._host.emit(event)

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return as_map(_decode(await self._peer.request(method, params)))
        except msgspec.DecodeError as error:
            told = f"{self._launch.agent} answered {method!r} with what is no JSON: {error}"
            raise WrongProtocol(told) from error
        except LinkError:
            raise await self._verdict() from None

    # Turns

    async def prompt(self, content: tuple[ContentBlock, ...]) -> Outcome:
        """Send a prompt and return when the turn is over.

        Raises:
            LinkError: the server is gone.
            Unsupported: it does not take this kind of content.
        """
        params = {"threadId": self._thread, "input": input_of(self._launch, content)}
        changes, self._changes = self._changes, {}
        loop = asyncio.get_running_loop()
        self._turn, self._turn_id = loop.create_future(), loop.create_future()
        self._reader.begin_turn()
        try:
            begun = await self._ask("turn/start", {**params, **changes})
            self._turn_id.set_result(as_text(as_map(begun.get("turn")).get("id")))
            return await self._turn
        except QuarterdeckError:
            self._changes = {**changes, **self._changes}
            raise
        finally:
            for waiting in (self._turn, self._turn_id):
                waiting.cancel()
            self._turn = self._turn_id = None
            self._desk.forget()
            await self._tell_malformed()

    async def interrupt(self) -> None:
        """Stop the turn, and what it left running in the background."""
        turn, id_ = self._turn, self._turn_id
        if turn is None or id_ is None:
            return
        await asyncio.wait([id_])
        if id_.cancelled():
            return
        params = {"threadId": self._thread, "turnId": id_.result()}
        while not turn.done():
            try:
                await self._ask("turn/interrupt", params)
                break
            except RpcError as error:
                _log.debug("%s: %s", self._launch.agent, error)
                await asyncio.wait([turn], timeout=_AGAIN)
        with suppress(RpcError):  # one that does not know this leaves them to our ending
            await self._ask("thread/backgroundTerminals/clean", {"threadId": self._thread})

    async def _tell_malformed(self) -> None:
        """Say so, once a turn, when the server printed what is no message."""
        seen = self._peer.counters.malformed
        count, self._told_malformed = seen - self._told_malformed, seen
        if count:
            title = f"{count} lines on its output were no messages and were ignored."
            await self._host.emit(Notice(title=title, severity="warning"))

    # Settings

    async def set_mode(self, mode: str) -> None:
        """Use another of its modes from the next turn on."""
        self._changes |= manner_of(self._launch, mode).turn()
        await self._host.emit(ModeChanged(mode=mode))

    async def set_model(self, model: str) -> None:
        """Use another model from the next turn on."""
        self._changes["model"] = model
        await self._host.emit(SessionChanged(model=model))

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change the effort, from the next turn on."""
        if option != "effort" or not isinstance(value, str):
            raise Unsupported(self._launch.agent, self.transport, f"change the option {option!r}")
        self._changes["effort"] = value

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The threads of this directory, newest first."""
        listed = await self._ask("thread/list", {"cwd": self._host.opening.cwd, "limit": _PAGE})
        return tuple(as_map(one) for one in as_list(listed.get("data")))

    # Listening (wire.rpc.Handler)

    async def on_request(
        self, method: str, params: msgspec.Raw | None, context: RequestContext
    ) -> Mapping[str, Any]:
        """Answer what the server asks."""
        return await self._desk.answer(method, as_map(_decode(params or b"{}")))

    def on_notification(self, method: str, params: msgspec.Raw | None) -> Awaitable[None] | None:
        """Take what the server tells."""
        told = as_map(_decode(params or b"{}"))
        if as_text(told.get("threadId")) not in ("", self._thread):
            return None  # of an agent that ours has started, or of somebody else
        self._desk.saw(method, told)
        return self._tell(method, told)

    async def _tell(self, method: str, told: Mapping[str, Any]) -> None:
        if method == "turn/completed":
            self._finish(as_map(told.get("turn")))
            return
        for event in self._reader.read(method, told):
            await self._host.emit(event)

    def _finish(self, turn: Mapping[str, Any]) -> None:
        if self._turn is None or self._turn.done() or self._turn_id is None:
            return
        if not self._turn_id.done() or self._turn_id.result() == as_text(turn.get("id")):
            self._turn.set_result(self._reader.outcome(turn))

    # The end

    async def end(self) -> Departure | None:
        """End the server and everything it started; may be called again."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        return await asyncio.shield(self._ending)

    async def _end(self) -> Departure | None:
        departure: Departure | None = None
        try:
            if self._watching is not None:
                await self._peer.close()
            elif self._stream is not None:
                await self._stream.close()
            if self._child is not None:
                departure = await self._child.end()
        finally:
            if self._system is not None:
                await self._system.close()
            if self._watching is not None:
                await asyncio.wait([self._watching])
        return departure

    async def _watch(self) -> None:
        """Wait for the end of the connection and tell everybody what it means."""
        ending = await self._peer.wait_closed()
        verdict = await self._outlet.explain(ending) if self._outlet is not None else ending
        assert self._over is not None
        self._over.set_result(verdict)
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(verdict)
        self._host.lost(verdict)

    async def _verdict(self) -> LinkError:
        """What the end of the connection means; the process may have more to say than it."""
        assert self._over is not None
        return await asyncio.shield(self._over)


_LOGIN = LoginMethod(id="terminal", name="log in in a terminal", command=("codex", "login"))

if TYPE_CHECKING:
    from quarterdeck.wire.rpc.handler import Handler

    from ..link import Link

    _link: Link = CodexLink(Launch(agent="", command=()))
    _handler: Handler = CodexLink(Launch(agent="", command=()))
