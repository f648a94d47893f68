"""``opencode serve``: a session's parameters, requests over HTTP, and a stream that may be cut."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from secrets import choice
from typing import TYPE_CHECKING, Any

import msgspec

from quarterdeck.net.http1 import BrokenResponseError, NoConnectionError
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.content import (
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from quarterdeck.wire.errors import LinkClosedError, LinkError
from quarterdeck.wire.events import MessageChunk, ModeChanged, SessionChanged
from quarterdeck.wire.tasks import cancel_tasks, start_task

from ...agent_process import Launch
from ...command_line import render_agent_mode
from ...driver import Capabilities, DriverSessionOptions
from ...enforcement import Enforcement, enforcement_of
from ...errors import DriverError, OpenFailedError, UnsupportedError, WrongProtocolError
from ...foreign_json import as_list, as_map, as_text
from ...link import AGENT_OPTIONS, AgentExit, LinkHost, StartedAgent, TurnOutcome
from ...opencode_messages import server_of
from .client import (
    OpencodeAnswerError,
    OpencodeClient,
    OpencodeServer,
    OpencodeStatusError,
    path_of,
)
from .events import OpencodeServerReader
from .listener import FAULTS, TAKING, OpencodeListener

__all__ = [
    "OpencodeLink",
    "OpencodeMode",
    "model_of",
    "new_prompt_id",
    "parse_opencode_mode",
    "parts_of",
    "rules_of",
]

_ASKED = ("edit", "bash", "webfetch", "websearch", "codesearch", "external_directory", "*_*")
"""All that changes or leaves the workspace; ``*_*`` are the tools of MCP servers.

Not ``*``: what the person has denied himself stays denied, and reading is not asked about.
"""
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpencodeMode:
    """Which of opencode's agents answers, and whether it asks."""

    agent: str | None = None
    """Its name; None: the server's own choice."""
    asks: bool = True


def parse_opencode_mode(launch: Launch, mode: str | None) -> OpencodeMode:
    """What a mode of opencode's own means; its words are an agent, and ``allow`` or nothing.

    Raises:
        UnsupportedError: its file has no such mode.
    """
    if mode is None:
        return OpencodeMode()
    agent, effect = (*render_agent_mode(launch, "daemon", mode), "", "")[:2]
    return OpencodeMode(agent=agent or None, asks=effect != "allow")


def rules_of(opening: DriverSessionOptions, mode: OpencodeMode) -> list[dict[str, str]]:
    """The session's rules; they come after the person's own, and the last that fits decides."""
    action = "ask" if mode.asks else "allow"
    rules = [_rule(name, "*", action) for name in _ASKED]
    for root in opening.options.roots:
        rules += [_rule("external_directory", f"{root}{end}", "allow") for end in ("", "/*")]
    return rules


def _rule(permission: str, pattern: str, action: str) -> dict[str, str]:
    return {"permission": permission, "pattern": pattern, "action": action}


def model_of(launch: Launch, model: str) -> tuple[str, str]:
    """The vendor and the name of a model.

    Raises:
        UnsupportedError: the name has no vendor.
    """
    vendor, _, name = model.partition("/")
    if not vendor or not name:
        what = f"use the model {model!r}"
        raise UnsupportedError(launch.agent, "daemon", what, "Write it as vendor/model.")
    return vendor, name


def new_prompt_id() -> str:
    """An id for a prompt, made as opencode makes its own: they are ordered by time.

    The answer's id must be greater, so ours is the first of its millisecond.
    """
    now = (read_wall_clock() // 1_000 * 0x1000) & 0xFFFF_FFFF_FFFF
    return f"msg_{now:012x}{''.join(choice(_ALPHABET) for _ in range(14))}"


def parts_of(launch: Launch, content: tuple[ContentBlock, ...]) -> list[Mapping[str, Any]]:
    """A prompt's content as opencode takes it.

    Raises:
        UnsupportedError: it takes no such content.
    """
    return [_part(launch, one) for one in content]


def _part(launch: Launch, block: ContentBlock) -> Mapping[str, Any]:
    match block:
        case TextContent():
            return {"type": "text", "text": block.text}
        case ImageContent():
            return _file(block.mime_type, f"data:{block.mime_type};base64,{block.data}")
        case ResourceLink():
            return {"type": "text", "text": f"[{block.name}]({block.uri})"}
        case EmbeddedResource():
            resource = block.resource
            if resource.text is not None:
                text = f'<context ref="{resource.uri}">\n{resource.text}\n</context>'
                return {"type": "text", "text": text}
            mime_type = resource.mime_type or "application/octet-stream"
            return _file(mime_type, f"data:{mime_type};base64,{resource.blob or ''}")
        case _:
            raise UnsupportedError(launch.agent, "daemon", "take sound")


def _file(mime_type: str, url: str) -> dict[str, Any]:
    return {"type": "file", "mime": mime_type, "url": url}


_log = logging.getLogger(__name__)

_AWAY = 30.0
"""Seconds for which a server may be away before the session counts as lost."""
_AGAIN = 0.2
"""Seconds until a connection is tried again."""
_STOPPING = 1.0
"""Seconds after which a turn that goes on is interrupted again."""


class OpencodeLink:
    """One session of opencode; see ``drivers.link.Link``.

    Args:
        launch: how the server is started, or where it is.
        away: seconds for which it may be away before the session counts as lost.
        again: seconds until a connection is tried again.
    """

    transport = "daemon"
    supported_options = AGENT_OPTIONS
    capabilities = Capabilities(
        asks=True,
        streams=True,
        steers=True,
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
        self._mode = OpencodeMode()
        self._model: tuple[str, str] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._over: LinkError | None = None
        self._ending: asyncio.Task[AgentExit | None] | None = None

    _host: LinkHost
    _api: OpencodeClient
    _listener: OpencodeListener
    _session: str = ""

    # Beginning

    def enforcement(self, opening: DriverSessionOptions) -> Enforcement:
        """What a session asks about, and what it does unasked."""
        return enforcement_of(self._launch, opening, asks=True)

    async def start(self, host: LinkHost) -> StartedAgent:
        """Start the server, or find it, and open, resume or fork a session.

        Raises:
            OpenFailedError, UnsupportedError: and ``end`` is all that is left to do.
        """
        self._host = host
        opening = host.opening
        self._mode = parse_opencode_mode(self._launch, opening.options.agent_mode)
        if opening.options.model is not None:
            self._model = model_of(self._launch, opening.options.model)
        version = await self._server.start(opening)
        self._api = self._server.api
        try:
            info = await self._open(opening)
        except FAULTS as error:
            raise OpenFailedError(f"{self._launch.agent} refused: {error}") from error
        self._session = as_text(info.get("id"))
        if not self._session:
            raise WrongProtocolError(f"{self._launch.agent} opened a session without an id")
        model = opening.options.model or _model_name(as_map(info.get("model")))
        self._listener = self._make_listener(host, model or "", as_text(info.get("title")))
        if opening.options.resume is not None and opening.replay:
            await self._replay()
        self._tasks = [
            start_task(self._watch(), name="opencode: server"),
            start_task(self._listener.run(), name="opencode: listen"),
        ]
        await self._hears()
        return StartedAgent(
            agent_session=self._session,
            agent_version=version,
            model=model,
            mode=opening.options.agent_mode,
        )

    def _make_listener(self, host: LinkHost, model: str, title: str) -> OpencodeListener:
        agent, session = self._launch.agent, self._session
        reader = OpencodeServerReader(agent, session, model=model, title=title)
        away, again = self._away, self._again
        return OpencodeListener(
            agent, session, host, self._api, reader, self._lose, away=away, again=again
        )

    async def _open(self, opening: DriverSessionOptions) -> Mapping[str, Any]:
        for server in opening.options.mcp_servers:
            await self._api.post("/mcp", {"name": server.name, "config": server_of(server)})
        rules = {"permission": rules_of(opening, self._mode)}
        title = {"title": opening.title} if opening.title is not None else {}
        if opening.options.resume is None:
            return as_map(await self._api.post("/session", {**rules, **title}))
        past = opening.options.resume
        if opening.options.fork:
            copy = as_map(await self._api.post(path_of("session", past, "fork")))
            past = as_text(copy.get("id"))
        # Not created here, so it has the rules of its creator.
        return as_map(await self._api.send("PATCH", path_of("session", past), {**rules, **title}))

    async def _replay(self) -> None:
        kept = await self._listener.kept(self._session)
        for role, event in self._listener.reader.past(kept):
            if role == "user" and isinstance(event, MessageChunk):
                event = msgspec.structs.replace(event, role="user")
            await self._host.emit(event)

    async def _hears(self) -> None:
        """Wait until the stream of events is open."""
        connected = start_task(self._listener.connected.wait(), name="opencode: connect")
        try:
            await asyncio.wait([connected, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_tasks((connected,))
        if self._over is not None:
            raise self._over

    # Turns

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        """Send a prompt and return when the turn is over.

        Raises:
            LinkError: the server is gone.
            UnsupportedError: it does not take this kind of content.
        """
        if self._over is not None:
            raise self._over
        id_ = new_prompt_id()
        body = self._body(id_, content)
        try:
            return await self._send(id_, body, self._listener.begin(id_))
        finally:
            await self._listener.finish()

    def _body(self, id_: str, content: tuple[ContentBlock, ...]) -> dict[str, Any]:
        body: dict[str, Any] = {"messageID": id_, "parts": parts_of(self._launch, content)}
        if self._model is not None:
            vendor, name = self._model
            body["model"] = {"providerID": vendor, "modelID": name}
        if self._mode.agent is not None:
            body["agent"] = self._mode.agent
        if self._host.opening.options.system_prompt is not None:
            body["system"] = self._host.opening.options.system_prompt
        return body

    async def steer(self, content: tuple[ContentBlock, ...]) -> bool:
        """Add a message: opencode reads those that came meanwhile before each step.

        One that comes after the last step begins another, in the same turn: it rests only then.
        """
        turn = self._listener.turn
        if turn is None or turn.done() or self._listener.reader.is_over:
            return False
        body = self._body(new_prompt_id(), content)
        try:
            await self._api.post(path_of("session", self._session, "prompt_async"), body)
        except FAULTS as error:
            raise DriverError(
                f"{self._launch.agent} did not take the message: {error}; send it again"
            ) from error
        return True

    async def _send(
        self, id_: str, body: Mapping[str, Any], turn: "asyncio.Future[TurnOutcome]"
    ) -> TurnOutcome:
        try:
            await self._until_there(path_of("session", self._session, "prompt_async"), body)
        except BrokenResponseError as error:
            if not await self._is_taken(id_):
                return TurnOutcome(stop="failed", reason=f"the prompt was not delivered: {error}")
        except (OpencodeStatusError, OpencodeAnswerError) as error:
            return TurnOutcome(stop="failed", reason=f"{self._launch.agent} refused: {error}")
        return await turn

    async def _until_there(self, path: str, body: Mapping[str, Any]) -> None:
        """Send it, again while there is no connection. A request that was cut off is not resent."""
        while self._over is None:
            try:
                await self._api.post(path, body)
                return
            except NoConnectionError:
                await asyncio.sleep(self._again)
        raise self._over

    async def _is_taken(self, id_: str) -> bool:
        """Whether the server has a prompt of which it is not known that it arrived."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TAKING):
                while self._over is None and not self._listener.reader.has_begun:
                    with suppress(*FAULTS):
                        await self._api.get(path_of("session", self._session, "message", id_))
                        return True
                    await asyncio.sleep(self._again)
        return self._listener.reader.has_begun

    async def interrupt(self) -> None:
        """Send ``abort`` until the turn ends: one that arrives before the turn begins is lost."""
        self._listener.interrupt()
        turn = self._listener.turn
        while turn is not None and not turn.done():
            with suppress(*FAULTS):
                await self._api.post(path_of("session", self._session, "abort"))
            await asyncio.wait([turn], timeout=_STOPPING)

    # Settings

    async def set_mode(self, mode: str) -> None:
        """Have another of its agents answer, from the next prompt on."""
        opencode_mode = parse_opencode_mode(self._launch, mode)
        if opencode_mode.asks != self._mode.asks:
            rules = {"permission": rules_of(self._host.opening, opencode_mode)}
            await self._api.send("PATCH", path_of("session", self._session), rules)
        self._mode = opencode_mode
        await self._host.emit(ModeChanged(mode=mode))

    async def set_model(self, model: str) -> None:
        """Use another model, from the next prompt on."""
        self._model = model_of(self._launch, model)
        await self._host.emit(SessionChanged(model=model))

    async def set_option(self, option: str, value: str | bool) -> None:
        """It has no other settings to change."""
        raise UnsupportedError(self._launch.agent, self.transport, f"change the option {option!r}")

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The sessions of this directory, newest first."""
        listed = await self._api.get("/session", roots="true")
        return tuple(as_map(one) for one in as_list(listed))

    # The end

    async def _watch(self) -> None:
        self._lose(await self._server.watch())

    def _lose(self, error: LinkError) -> None:
        """Fail whatever waits for the server: it is gone."""
        self._over = self._over or error
        self._listener.fail(self._over)
        self._host.lost(self._over)

    async def end(self) -> AgentExit | None:
        """End a server of our own and all that it started; may be called again."""
        if self._ending is None:
            self._ending = start_task(self._end(), name="opencode: end")
        return await asyncio.shield(self._ending)

    async def _end(self) -> AgentExit | None:
        self._over = self._over or LinkClosedError(f"the session of {self._launch.agent} is closed")
        if not self._server.is_ours and self._tasks and self._listener.turn is not None:
            with suppress(TimeoutError, *FAULTS):
                async with asyncio.timeout(_STOPPING):
                    await self._api.post(path_of("session", self._session, "abort"))
        if self._tasks:
            await cancel_tasks(self._tasks)
            await self._listener.close()
            self._listener.fail(self._over)
        return await self._server.end()


def _model_name(data: Mapping[str, Any]) -> str | None:
    vendor, name = as_text(data.get("providerID")), as_text(data.get("id"))
    return f"{vendor}/{name}" if vendor and name else None


if TYPE_CHECKING:
    from ...link import AgentLink

    _link: AgentLink = OpencodeLink(Launch(agent="", command=()))
