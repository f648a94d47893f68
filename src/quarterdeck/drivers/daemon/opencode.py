"""``opencode serve``: requests over HTTP, and a stream of events that may be cut at any byte."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import Broken, Closed, LinkError
from quarterdeck.wire.events import MessageChunk, ModeChanged, Notice, SessionChanged
from quarterdeck.wire.http1 import BrokenOff, HttpFault, NoConnection

from ..child import Launch
from ..driver import Capabilities, Opening
from ..errors import OpenFailed, Unsupported, WrongProtocol
from ..link import Departure, Host, Outcome, Started
from ..pipe.told import as_list, as_map, as_text
from .api import Api, Garbled, Refused, path_of
from .opencode_desk import OpencodeDesk
from .opencode_events import OpencodeReader, Told
from .opencode_opening import (
    Manner,
    manner_of,
    model_of,
    new_prompt_id,
    parts_of,
    rules_of,
    server_of,
)
from .opencode_server import OpencodeServer

__all__ = ["OpencodeLink"]

_log = logging.getLogger(__name__)

_SILENCE = 30.0
"""Seconds without a byte after which the stream counts as cut; its heart beats every ten."""
_AWAY = 30.0
"""Seconds for which a server may be away before the session counts as lost."""
_AGAIN = 0.2
"""Seconds until a connection is tried again."""
_TAKING = 5.0
"""Seconds in which a server that has taken a prompt must have written it down."""
_STOPPING = 1.0
"""Seconds after which a turn that goes on is told again to stop."""

_decode = msgspec.json.Decoder().decode
_FAULTS = (HttpFault, Refused, Garbled)


class OpencodeLink:
    """One session of opencode; see ``drivers.link.Link``.

    Args:
        launch: how the server is started, or where it is.
        away: seconds for which it may be away before the session counts as lost.
        again: seconds until a connection is tried again.
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

    def __init__(self, launch: Launch, *, away: float = _AWAY, again: float = _AGAIN) -> None:
        self._launch = launch
        self._away = away
        self._again = again
        self._server = OpencodeServer(launch)
        self._manner = Manner()
        self._model: tuple[str, str] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._turn: asyncio.Future[Outcome] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._over: LinkError | None = None
        self._ending: asyncio.Task[Departure | None] | None = None
        self._garbage = 0

    _host: Host
    _api: Api
    _desk: OpencodeDesk
    _reader: OpencodeReader
    _session: str = ""

    # Beginning

    async def start(self, host: Host) -> Started:
        """Start the server, or find it, and open, resume or fork a session.

        Raises:
            OpenFailed, Unsupported: and ``end`` is all that is left to do.
        """
        self._host = host
        opening = host.opening
        self._manner = manner_of(self._launch, opening.agent_mode)
        if opening.model is not None:
            self._model = model_of(self._launch, opening.model)
        version = await self._server.start(opening)
        self._api = self._server.api
        self._desk = OpencodeDesk(self._launch.agent, host, self._api)
        try:
            info = await self._open(opening)
        except _FAULTS as error:
            raise OpenFailed(f"{self._launch.agent} refused: {error}") from error
        self._session = as_text(info.get("id"))
        if not self._session:
            raise WrongProtocol(f"{self._launch.agent} opened a session without an id")
        model = opening.model or _model_name(as_map(info.get("model")))
        self._reader = OpencodeReader(
            self._launch.agent,
            self._session,
            model=model or "",
            title=as_text(info.get("title")),
        )
        if opening.resume is not None and opening.replay:
            await self._replay()
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._listen())]
        await self._hears()
        return Started(
            agent_session=self._session,
            agent_version=version,
            model=model,
            mode=opening.agent_mode,
        )

    async def _open(self, opening: Opening) -> Mapping[str, Any]:
        for server in opening.mcp_servers:
            await self._api.post("/mcp", {"name": server.name, "config": server_of(server)})
        rules = {"permission": rules_of(opening, self._manner)}
        title = {"title": opening.title} if opening.title is not None else {}
        if opening.resume is None:
            return as_map(await self._api.post("/session", {**rules, **title}))
        past = opening.resume
        if opening.fork:
            copy = as_map(await self._api.post(path_of("session", past, "fork")))
            past = as_text(copy.get("id"))
        # Not created here, so its rules are those of whoever did.
        return as_map(await self._api.send("PATCH", path_of("session", past), {**rules, **title}))

    async def _replay(self) -> None:
        kept = await self._kept(self._session)
        for role, event in self._reader.past(kept):
            if role == "user" and isinstance(event, MessageChunk):
                event = msgspec.structs.replace(event, role="user")
            await self._host.emit(event)

    async def _hears(self) -> None:
        """Wait until the stream of events is open."""
        connected = asyncio.create_task(self._connected.wait())
        try:
            await asyncio.wait([connected, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            connected.cancel()
        if self._over is not None:
            raise self._over

    # Turns

    async def prompt(self, content: tuple[ContentBlock, ...]) -> Outcome:
        """Send a prompt and return when the turn is over.

        Raises:
            LinkError: the server is gone.
            Unsupported: it does not take this kind of content.
        """
        if self._over is not None:
            raise self._over
        id_ = new_prompt_id()
        body: dict[str, Any] = {"messageID": id_, "parts": parts_of(self._launch, content)}
        if self._model is not None:
            vendor, name = self._model
            body["model"] = {"providerID": vendor, "modelID": name}
        if self._manner.agent is not None:
            body["agent"] = self._manner.agent
        if self._host.opening.system_prompt is not None:
            body["system"] = self._host.opening.system_prompt
        turn = self._turn = asyncio.get_running_loop().create_future()
        self._reader.begin_turn(id_)
        self._desk.is_interrupted = False
        try:
            return await self._send(id_, body, turn)
        finally:
            self._turn = None
            self._reader.end_turn()
            if self._checking is not None:
                self._checking.cancel()
            await self._tell_garbage()

    async def _send(
        self, id_: str, body: Mapping[str, Any], turn: "asyncio.Future[Outcome]"
    ) -> Outcome:
        try:
            await self._until_there(path_of("session", self._session, "prompt_async"), body)
        except BrokenOff as error:
            if not await self._is_taken(id_):
                return Outcome(stop="failed", reason=f"the prompt did not get through: {error}")
        except (Refused, Garbled) as error:
            return Outcome(stop="failed", reason=f"{self._launch.agent} refused: {error}")
        return await turn

    async def _until_there(self, path: str, body: Mapping[str, Any]) -> None:
        """Send it; while nobody listens, again. What was sent and cut off is not sent again."""
        while self._over is None:
            try:
                await self._api.post(path, body)
                return
            except NoConnection:
                await asyncio.sleep(self._again)
        raise self._over

    async def _is_taken(self, id_: str) -> bool:
        """Whether the server has a prompt of which it is not known that it arrived."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_TAKING):
                while self._over is None and not self._reader.has_begun:
                    with suppress(*_FAULTS):
                        await self._api.get(path_of("session", self._session, "message", id_))
                        return True
                    await asyncio.sleep(self._again)
        return self._reader.has_begun

    async def interrupt(self) -> None:
        """Tell it to stop until it has: what is told before it has begun is lost."""
        self._desk.is_interrupted = True
        turn = self._turn
        while turn is not None and not turn.done():
            with suppress(*_FAULTS):
                await self._api.post(path_of("session", self._session, "abort"))
            await asyncio.wait([turn], timeout=_STOPPING)

    async def _tell_garbage(self) -> None:
        count, self._garbage = self._garbage, 0
        if count:
            title = f"{count} events of its stream were no JSON and were ignored."
            await self._host.emit(Notice(title=title, severity="warning"))

    # Settings

    async def set_mode(self, mode: str) -> None:
        """Have another of its agents answer, from the next prompt on."""
        manner = manner_of(self._launch, mode)
        if manner.asks != self._manner.asks:
            rules = {"permission": rules_of(self._host.opening, manner)}
            await self._api.send("PATCH", path_of("session", self._session), rules)
        self._manner = manner
        await self._host.emit(ModeChanged(mode=mode))

    async def set_model(self, model: str) -> None:
        """Use another model, from the next prompt on."""
        self._model = model_of(self._launch, model)
        await self._host.emit(SessionChanged(model=model))

    async def set_option(self, option: str, value: str | bool) -> None:
        """It has no other settings to change."""
        raise Unsupported(self._launch.agent, self.transport, f"change the option {option!r}")

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The sessions of this directory, newest first."""
        listed = await self._api.get("/session", roots="true")
        return tuple(as_map(one) for one in as_list(listed))

    # Listening

    async def _listen(self) -> None:
        """Hear the stream; when it is cut, connect again and catch up."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        while True:
            problem = "the stream of events ended"
            try:
                async with aclosing(self._api.events("/event", _SILENCE)) as events:
                    async for data in events:
                        await self._hear(data)
                        since = loop.time()
            except _FAULTS as error:
                problem = str(error)
            self._reader.gap()
            if loop.time() - since > self._away:
                self._lose(Broken(f"the server of {self._launch.agent} is away: {problem}"))
                return
            await asyncio.sleep(self._again)

    async def _hear(self, data: str) -> None:
        try:
            event = as_map(_decode(data.encode("utf-8", "replace")))
        except (msgspec.DecodeError, RecursionError):
            self._garbage += 1
            return
        kind, told = as_text(event.get("type")), as_map(event.get("properties"))
        if kind == "server.connected":
            if self._connected.is_set():
                await self._catch_up()
            self._connected.set()
            return
        if kind.startswith(("permission.", "question.")):
            self._hear_request(kind, told)
        for one in self._reader.read(kind, told):
            await self._emit(one)
        if kind == "session.error":
            await self._look()
        self._settle()

    def _hear_request(self, kind: str, told: Mapping[str, Any]) -> None:
        if as_text(told.get("sessionID")) not in self._reader.family:
            return
        match kind:
            case "permission.asked":
                call = as_text(as_map(told.get("tool")).get("callID"))
                self._desk.permission(told, self._reader.calls.get(call, {}))
            case "question.asked":
                self._desk.question(told)
            case "permission.replied" | "question.replied" | "question.rejected":
                self._desk.withdraw(as_text(told.get("requestID")))
            case _:
                pass

    async def _catch_up(self) -> None:
        """Hear what was said while nobody listened. The stream is open, so nothing is missed."""
        if self._turn is None:
            return
        for session in list(self._reader.family):
            for one in self._reader.catch_up(await self._kept(session)):
                await self._emit(one)
        await self._catch_up_requests()
        await self._look()
        self._settle()

    async def _catch_up_requests(self) -> None:
        open_: list[str] = []
        for path, kind in (("/permission", "permission.asked"), ("/question", "question.asked")):
            for asked in map(as_map, as_list(await self._api.get(path))):
                open_.append(as_text(asked.get("id")))
                self._hear_request(kind, asked)
        self._desk.keep(open_)

    async def _kept(self, session: str) -> list[Mapping[str, Any]]:
        listed = await self._api.get(path_of("session", session, "message"))
        return [as_map(one) for one in as_list(listed)]

    async def _look(self) -> None:
        """See whether the session rests although nobody has said so."""
        states = as_map(await self._api.get("/session/status"))
        if as_map(states.get(self._session)).get("type") in ("busy", "retry"):
            return
        if self._reader.has_begun or self._reader.is_answered:
            self._reader.is_over = True
        elif self._turn is not None and self._checking is None:
            self._checking = asyncio.create_task(self._check(self._turn))
            self._checking.add_done_callback(self._checked)

    async def _check(self, turn: "asyncio.Future[Outcome]") -> None:
        """Give a prompt up that a server has taken and forgotten."""
        await asyncio.sleep(_TAKING)
        if not self._reader.has_begun and not turn.done():
            turn.set_result(Outcome(stop="failed", reason="the server has forgotten the prompt"))

    def _checked(self, _: object) -> None:
        self._checking = None

    def _settle(self) -> None:
        if self._reader.is_over and self._turn is not None and not self._turn.done():
            self._turn.set_result(self._outcome())

    def _outcome(self) -> Outcome:
        outcome = self._reader.outcome()
        if outcome.stop != "end_turn" or self._reader.is_answered or self._desk.is_interrupted:
            return outcome
        told = f"{self._launch.agent} left its answer unfinished"
        return Outcome(stop="failed", reason=told, usage=outcome.usage, cost=outcome.cost)

    async def _emit(self, told: Told) -> None:
        event, parent = told
        await self._host.emit(event, parent=parent)

    # The end

    async def _watch(self) -> None:
        self._lose(await self._server.watch())

    def _lose(self, error: LinkError) -> None:
        """Everybody who waits hears that the server is gone."""
        self._over = self._over or error
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(self._over)
        self._host.lost(self._over)

    async def end(self) -> Departure | None:
        """End a server of our own and all that it started; may be called again."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        return await asyncio.shield(self._ending)

    async def _end(self) -> Departure | None:
        self._over = self._over or Closed(f"the session of {self._launch.agent} is closed")
        if not self._server.is_ours and self._turn is not None:
            with suppress(TimeoutError, *_FAULTS):
                async with asyncio.timeout(_STOPPING):
                    await self._api.post(path_of("session", self._session, "abort"))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
            await self._desk.close()
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(self._over)
        return await self._server.end()


def _model_name(told: Mapping[str, Any]) -> str | None:
    vendor, name = as_text(told.get("providerID")), as_text(told.get("id"))
    return f"{vendor}/{name}" if vendor and name else None


if TYPE_CHECKING:
    from ..link import Link

    _link: Link = OpencodeLink(Launch(agent="", command=()))
