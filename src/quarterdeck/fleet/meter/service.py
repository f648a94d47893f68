"""The meter of a fleet: which agents are behind it, what is written about their calls."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace as copy
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quarterdeck.config.schema import Settings
from quarterdeck.drivers.agent_description import Agent
from quarterdeck.drivers.driver import DriverSession, EventSink
from quarterdeck.journal import JournalError
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    EMPTY_TURN,
    Event,
    ModelCallMetered,
    NoticePosted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.tasks import BackgroundTasks

from ..agent_entry import is_own_agent
from ..errors import NoSuchAgentError
from ..live_index import LiveIndex, LogWriter
from ..mcp.tokens import AgentTokens
from .api import (
    CallEnd,
    CallGuard,
    CallRefusal,
    MeteredRequest,
    MeteredSession,
    MeterStatus,
    OpenCallGuard,
)

if TYPE_CHECKING:
    from ..agent_runner import AgentStart, SessionOpener
    from .exchange import MeterSeat
    from .route import MeterRoute
    from .server import MeterServer
    from .upstream import Upstream

__all__ = ["ALL_AGENTS", "MeterError", "MeterService"]

_log = logging.getLogger(__name__)

ALL_AGENTS = "*"
"""In the setting ``meter.agents``: every agent whose file says how."""
_UNCHECKED = "the call could not be checked against the budgets; see the log of the host"


class MeterError(QuarterdeckError):
    """An agent that is to be behind the meter cannot be."""


class _Seat:
    """One run of an agent behind the meter; a ``MeterSeat``."""

    recorder = None
    player = None

    def __init__(
        self, shown: MeteredSession, route: "MeterRoute", notes: LogWriter, service: "MeterService"
    ) -> None:
        self.shown = shown
        self.upstreams: Mapping[str, Upstream] = route.upstreams
        self.is_exposed = bool(route.arguments)
        self._notes = notes
        self._service = service
        self._turn: TurnId | None = None
        self._refusal: str | None = None
        """Why a call of the running turn was refused."""
        self._turns: dict[str, TurnId | None] = {}
        """Of the calls that run."""

    def watch(self, sink: EventSink) -> EventSink:
        """A sink that goes on to another, and from which the turn of a call is known.

        Some agents show nothing of a refusal; then the notice about their turn says it.
        """

        async def take(
            event: Event, *, turn: TurnId | None = None, parent: ToolCallId | None = None
        ) -> None:
            if isinstance(event, TurnStarted):
                self._turn, self._refusal = turn, None
            elif isinstance(event, TurnEnded):
                self._turn = None
            elif event == EMPTY_TURN and self._refusal is not None:
                words = f"A model call was refused: {self._refusal}"
                event = NoticePosted(title=EMPTY_TURN.title, severity="warning", description=words)
            await sink(event, turn=turn, parent=parent)

        return take

    async def begin(self, request: MeteredRequest) -> CallRefusal | None:
        """Have a call authorized and write that it starts, or that it was refused."""
        turn = self._turn
        refusal = await self._authorize(request)
        event = ModelCallMetered(
            call=request.call,
            state="started" if refusal is None else "refused",
            wire=request.wire,
            model=request.model,
            reason=refusal.reason if refusal is not None else None,
        )
        try:
            await self._notes.take(self.shown.session, event, turn=turn)
        except BaseException:
            if refusal is None:
                unsent = CallEnd(reason="it is not in the log", is_sent=False)
                self._service.settle(self.shown.session, request, unsent)
            raise
        if refusal is not None:
            self._count(refused=1)
            self._refusal = refusal.reason
            return refusal
        self._turns[request.call] = turn
        self._count(calls=1, running=1)
        return None

    async def _authorize(self, request: MeteredRequest) -> CallRefusal | None:
        try:
            return await self._service.guard.authorize(self.shown.session, request)
        except Exception:
            # Without an answer no money may be spent.
            _log.exception("a model call of agent %s was refused", self.shown.session)
            return CallRefusal(reason=_UNCHECKED)

    def finish(self, request: MeteredRequest, end: CallEnd) -> None:
        """Write what a call used."""
        usage, has_failed = end.usage, end.has_failed
        self._count(running=-1, failed=has_failed, uncounted=not has_failed and usage is None)
        if usage is not None:
            self.shown = replace(self.shown, tokens=self.shown.tokens + usage)
        event = ModelCallMetered(
            call=request.call,
            state="finished",
            wire=request.wire,
            model=request.model,
            usage=usage,
            status=end.status,
            reason=end.reason,
        )
        turn = self._turns.pop(request.call, None)
        self._service.settle(self.shown.session, request, end, event, turn)

    def pass_other(self) -> None:
        """Count a request that is no model call."""
        self._count(other=1)

    def _count(self, **added: int) -> None:
        shown = self.shown
        self.shown = replace(shown, **{n: getattr(shown, n) + one for n, one in added.items()})


class MeterService:
    """The meter of the agents of one fleet; listens when the first agent needs it."""

    def __init__(
        self,
        current: LiveIndex,
        notes: LogWriter,
        find: Callable[[str], Agent],
        load_settings: Callable[[str], Settings],
        environment: Mapping[str, str],
    ) -> None:
        """Args:
        current: where agents stand.
        notes: writes to the log.
        find: what an agent's file says, from the disk.
        load_settings: the settings that count in a directory, from the disk.
        environment: the host's own; proxies are looked up in it.
        """
        self.guard: CallGuard = OpenCallGuard()
        """Asked before every call."""
        self._current = current
        self._notes = notes
        self._find = find
        self._load_settings = load_settings
        self._environment = environment
        self._tokens = AgentTokens()
        self._seats: dict[SessionId, _Seat] = {}
        self._serving = AsyncExitStack()
        self._server: MeterServer | None = None
        self._starting = asyncio.Lock()
        self._work = BackgroundTasks()

    def wrap_opener(self, inner: "SessionOpener") -> "SessionOpener":
        """An opener that puts an agent behind the meter where a setting wants it."""

        async def open_(start: "AgentStart", sink: EventSink) -> DriverSession:
            if not await self._is_wanted(start.spawn.options):
                return await inner(start, sink)
            route = await self._make_route(start)
            if route is None:
                session = await inner(start, sink)
                await sink(_unmetered(start.spawn.options.agent))
                return session
            seat = self._seats[start.session] = self._make_seat(start, route)
            opening = start.opening.with_options(
                environment={**start.opening.options.variables, **route.environment}
            )
            opening = copy(opening, arguments=(*opening.arguments, *route.arguments))
            try:
                return await inner(copy(start, opening=opening), seat.watch(sink))
            except BaseException:
                self._forget(start.session)
                raise

        return open_

    async def meter(self) -> MeterStatus:
        """Where it listens, and which live agents are behind it."""
        for session in tuple(self._seats):
            self._find_live(session)
        seats = [seat.shown for seat in self._seats.values()]
        return MeterStatus(
            address=self._server.address if self._server is not None else None,
            sessions=tuple(replace(one, name=self._current.get(one.session).name) for one in seats),
        )

    async def leads(self, options: SessionOptions) -> bool:
        """Whether the model calls of an agent that is about to start will pass the meter."""
        if not await self._is_wanted(options):
            return False
        from .route import make_route

        agent = await asyncio.to_thread(self._find, options.agent)
        return make_route(agent, "", options.variables, self._environment) is not None

    async def close(self) -> None:
        """Listen no longer; what calls used is written when this returns."""
        await self._serving.aclose()
        await self._work.wait()

    # For seats

    def settle(
        self,
        session: SessionId,
        request: MeteredRequest,
        end: CallEnd,
        event: ModelCallMetered | None = None,
        turn: TurnId | None = None,
    ) -> None:
        """Write how a call ended, then give it to the guard, without waiting for either."""
        settling = self._settle(session, request, end, event, turn)
        self._work.start(settling, name="meter: settle")

    async def _settle(
        self,
        session: SessionId,
        request: MeteredRequest,
        end: CallEnd,
        event: ModelCallMetered | None,
        turn: TurnId | None,
    ) -> None:
        try:
            if event is not None:
                await self._notes.take(session, event, turn=turn)
            await self.guard.settle(session, request, end)
        except JournalError as error:
            _log.warning("what a call of agent %s used is not in the log: %s", session, error)

    # Starting

    async def _is_wanted(self, options: SessionOptions) -> bool:
        if is_own_agent(options):
            return False  # it counts its calls itself
        settings = await asyncio.to_thread(self._load_settings, options.cwd)
        wanted = settings.meter.agents
        return ALL_AGENTS in wanted or options.agent in wanted

    async def _make_route(self, start: "AgentStart") -> "MeterRoute | None":
        from .route import make_route  # with h11: most hosts do not need it

        agent = await asyncio.to_thread(self._find, start.spawn.options.agent)
        if not agent.meter:
            return None
        server = await self._serve()
        address = f"{server.address}/{self._tokens.issue(start.session)}"
        own = start.opening.options.variables
        route = make_route(agent, address, own, self._environment)
        if route is None:
            self._tokens.revoke(start.session)
        return route

    async def _serve(self) -> "MeterServer":
        async with self._starting:
            if self._server is None:
                from .server import serve_meter

                try:
                    self._server = await self._serving.enter_async_context(
                        serve_meter(self._seat_of, self._environment)
                    )
                except OSError as error:
                    raise MeterError(f"the meter cannot listen on loopback: {error}") from error
        return self._server

    def _make_seat(self, start: "AgentStart", route: "MeterRoute") -> _Seat:
        shown = MeteredSession(
            session=start.session,
            name=start.spawn.name,
            agent=start.spawn.options.agent,
            upstreams={name: one.address for name, one in route.upstreams.items()},
        )
        return _Seat(shown, route, self._notes, self)

    def _seat_of(self, token: str) -> "MeterSeat | None":
        session = self._tokens.holder(token)
        return self._find_live(session) if session is not None else None

    def _find_live(self, session: SessionId) -> _Seat | None:
        """The seat of a session; None, and gone, once it has ended."""
        try:
            is_live = self._current.get(session).is_started
        except NoSuchAgentError:
            is_live = False
        if not is_live:
            self._forget(session)
        return self._seats.get(session)

    def _forget(self, session: SessionId) -> None:
        self._tokens.revoke(session)
        self._seats.pop(session, None)


def _unmetered(agent: str) -> NoticePosted:
    return NoticePosted(
        title=f"the model calls of {agent} do not pass the meter",
        severity="warning",
        description="Its file has no way to point it there, or its base URL is not known: "
        "docs/meter.md says what to add.",
    )


if TYPE_CHECKING:
    from typing import cast

    _seat: MeterSeat = cast("_Seat", None)
