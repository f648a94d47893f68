"""An agent that speaks ACP over its standard input and output."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quarterdeck.system.errors import PathFault
from quarterdeck.system.guard import shared_guard
from quarterdeck.system.local import LocalSystem
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.errors import MalformedAnswer
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import LinkError, RpcError
from quarterdeck.wire.events import Notice
from quarterdeck.wire.rpc.handler import Limits
from quarterdeck.wire.rpc.stream import ByteStream
from quarterdeck.wire.usage import Cost

from ..child import Child, Launch
from ..driver import Capabilities, Opening
from ..enforcement import Enforcement, enforcement_of
from ..errors import OpenFailed
from ..link import Departure, Host, Outcome, Started
from .choosing import Chooser
from .containment import ContainedTerminals
from .departing import Outlet
from .desk import Desk
from .files import ServedFiles
from .handshake import capabilities_of, choose_way, command_words, greet, open_session
from .listing import list_sessions
from .outcomes import answered, cost_between, failed, rate_limit
from .prompts import blocks_for
from .quirks import ECHOES_PROMPTS, EMPTY_FOR_MISSING, NEVER_ASKS
from .routing import ClientRouter
from .settings import Settings
from .terminals import ServedTerminals
from .updates import Translator

__all__ = ["AcpLink"]

_LIMITS = Limits(grace_seconds=0.5)
_ANSWERING = 1.0
"""Seconds that cancelled questions may take to be answered before the agent is told to stop."""
_TELLING = 1.0
"""Seconds that the last output of terminals may take to be told."""


class AcpLink:
    """One session with an agent that speaks ACP; see ``drivers.link.Link``.

    Args:
        launch: how the agent is started.
        login: a way to log in, by the agent's id of it, before the session is opened.
        stream: talk over this, and start no program.
    """

    transport = "acp"

    def __init__(
        self, launch: Launch, *, login: str | None = None, stream: ByteStream | None = None
    ) -> None:
        self._launch = launch
        self._login = login
        self._stream = stream
        self._capabilities = Capabilities(asks=True, streams=True)
        self._settings = Settings(launch.agent)
        self._child: Child | None = None
        self._outlet: Outlet | None = None
        self._system: LocalSystem | None = None
        self._contained: ContainedTerminals | None = None
        self._terminals: ServedTerminals | None = None
        self._watching: asyncio.Task[None] | None = None
        self._over: asyncio.Future[LinkError] | None = None
        self._ending: asyncio.Task[Departure | None] | None = None
        self._told_malformed = 0
        self._has_spent = True
        """Whether the session may have cost something that we were not told of."""

    _host: Host
    _connection: AcpConnection
    _translator: Translator
    _desk: Desk
    _router: ClientRouter
    _chooser: Chooser
    _prompts: acp.PromptCapabilities
    _session: str

    @property
    def capabilities(self) -> Capabilities:
        """What the agent can do."""
        return self._capabilities

    def enforcement(self, opening: Opening) -> Enforcement:
        """What a session asks about, and what it does unasked."""
        return enforcement_of(self._launch, opening, asks=NEVER_ASKS not in self._launch.quirks)

    # Beginning

    async def start(self, host: Host) -> Started:
        """Start the agent and open, resume or fork its session.

        Raises:
            OpenFailed, Unsupported: and ``end`` is all that is left to do.
        """
        self._host = host
        opening = host.opening
        self._system = LocalSystem([opening.cwd, *opening.roots], guard=shared_guard())
        stream = self._stream or await self._run(opening, self._system)
        self._connect(host, self._system, stream)
        await self._connection.__aenter__()
        self._over = asyncio.get_running_loop().create_future()
        self._watching = asyncio.create_task(self._watch())
        return await self._open(opening)

    async def _run(self, opening: Opening, system: LocalSystem) -> ByteStream:
        words = command_words(self._launch, opening)
        try:
            self._child = await Child.start(self._launch, opening, system, words)
        except PathFault as error:
            raise OpenFailed(f"{self._launch.agent} could not be started: {error}") from error
        self._outlet = Outlet(self._launch.agent, self._child)
        return self._outlet

    def _connect(self, host: Host, system: LocalSystem, stream: ByteStream) -> None:
        quirks = self._launch.quirks
        contained = self._contained = ContainedTerminals(system)
        terminals = ServedTerminals(contained, host, host.emit)
        self._terminals = terminals
        self._translator = Translator(
            self._launch.agent,
            self._settings,
            host.emit,
            terminals.show,
            drops_echoes=ECHOES_PROMPTS in quirks,
        )
        files = ServedFiles(system.files, host, is_missing_empty=EMPTY_FOR_MISSING in quirks)
        self._desk = Desk(host, self._translator, files, terminals)
        self._router = ClientRouter(self._translator)
        self._desk.serve(self._router)
        self._connection = AcpConnection(
            stream,
            self._router,
            limits=_LIMITS,
            answer_malformed=False,
            name=self._launch.agent,
        )

    async def _open(self, opening: Opening) -> Started:
        connection, launch = self._connection, self._launch
        hello = await greet(connection, launch)
        agent = hello.agent_capabilities
        self._capabilities = capabilities_of(launch, agent)
        way = choose_way(launch, opening, agent)
        if (login := self._login or opening.login) is not None:
            await connection.call(acp.AUTHENTICATE, acp.AuthenticateRequest(method_id=login))
        if opening.resume is not None and not opening.fork:
            self._router.session = opening.resume
        self._translator.mute(way.is_silent)
        opened = await open_session(connection, launch, opening, hello, way)
        self._translator.mute(False)
        session = self._router.session or opened.session_id
        self._desk.session = self._router.session = session
        for event in self._settings.opened(opened):
            await self._host.emit(event)
        await self._router.catch_up()
        self._prompts = agent.prompt_capabilities
        self._session = session or ""
        self._has_spent = opening.resume is not None
        self._chooser = Chooser(
            launch.agent, self._session, connection, self._settings, self._host.emit
        )
        await self._chooser.begin(launch, opening, agent.session_capabilities)
        self._capabilities = replace(
            self._capabilities,
            sets_mode=self._settings.has_modes,
            sets_model=self._settings.has_models,
        )
        info = hello.agent_info
        return Started(
            agent_session=session,
            agent_version=info.version if info is not None else None,
            model=self._settings.model,
            mode=self._settings.mode,
        )

    # Turns

    async def prompt(self, content: tuple[ContentBlock, ...]) -> Outcome:
        """Send a prompt and return when the turn is over.

        Raises:
            LinkError: the agent is gone.
            Unsupported: it does not take this kind of content.
        """
        blocks = blocks_for(self._launch.agent, content, self._prompts)
        request = acp.PromptRequest(session_id=self._session, prompt=blocks)
        translator, before = self._translator, self._translator.cost
        translator.begin_turn()
        try:
            answer = await self._connection.call(acp.SESSION_PROMPT, request)
        except RpcError as error:
            if (limit := rate_limit(error)) is not None:
                await self._host.emit(limit)
            return failed(error, self._spent(before))
        except MalformedAnswer as error:
            return Outcome(stop="failed", reason=str(error))
        except LinkError:
            raise await self._verdict() from None
        finally:
            translator.end_turn()
            await self._desk.drop_questions()
        await self._tell_malformed()
        return answered(answer, failure=translator.failure, cost=self._spent(before))

    def _spent(self, before: Cost | None) -> Cost | None:
        cost = cost_between(before, self._translator.cost, is_first=not self._has_spent)
        self._has_spent = True
        return cost

    async def interrupt(self) -> None:
        """Tell the agent to stop; what it was asking is answered as cancelled before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWERING):
                await self._desk.all_answered()
        note = acp.CancelNotification(session_id=self._session)
        await self._connection.send(acp.SESSION_CANCEL, note)

    async def _tell_malformed(self) -> None:
        """Say so, once a turn, when the agent printed what is no message."""
        seen = self._connection.peer.counters.malformed
        count, self._told_malformed = seen - self._told_malformed, seen
        if count:
            title = f"{count} lines on its output were no messages and were ignored."
            await self._host.emit(Notice(title=title, severity="warning"))

    # Settings

    async def set_mode(self, mode: str) -> None:
        """Change the agent's own mode."""
        await self._chooser.mode(mode)

    async def set_model(self, model: str) -> None:
        """Change the model."""
        await self._chooser.model(model)

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change another setting."""
        await self._chooser.option(option, value)

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The sessions of this directory that the agent knows."""
        return await list_sessions(self._connection, self._launch, self._host.opening.cwd)

    # The end

    async def end(self) -> Departure | None:
        """End the agent and everything it started, here or through us; may be called again."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        return await asyncio.shield(self._ending)

    async def _end(self) -> Departure | None:
        departure: Departure | None = None
        try:
            if self._watching is not None:
                await self._connection.close()
            elif self._stream is not None:
                await self._stream.close()
            if self._child is not None:
                departure = await self._child.end()
        finally:
            if self._contained is not None:
                await self._contained.close()
            if self._system is not None:
                await self._system.close()
            if self._terminals is not None:
                await self._terminals.close(_TELLING)
            if self._watching is not None:
                await asyncio.wait([self._watching])
        return departure

    async def _watch(self) -> None:
        """Wait for the end of the connection and tell the session what it means."""
        ending = await self._connection.wait_closed()
        verdict = await self._outlet.explain(ending) if self._outlet is not None else ending
        assert self._over is not None
        self._over.set_result(verdict)
        self._host.lost(verdict)

    async def _verdict(self) -> LinkError:
        """What the end of the connection means; the process may have more to say than it."""
        assert self._over is not None
        return await asyncio.shield(self._over)


if TYPE_CHECKING:
    from ..link import Link

    _link: Link = AcpLink(Launch(agent="", command=()))
