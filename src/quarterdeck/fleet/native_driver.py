"""Our own agent in this process, as a session like every other: the driver's contract over it.

Its events go to the fleet's log by themselves, so the sink is not used.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from quarterdeck.agent.checkpoints.service import Checkpoints
from quarterdeck.agent.config_options import EFFORTS
from quarterdeck.agent.native import SUPPORTED_OPTIONS, NativeAgent, NativeSessionOptions
from quarterdeck.agent.ports import NO_BUDGET
from quarterdeck.agent.session import Session as AgentSession
from quarterdeck.agent.session_store import NoSuchSessionError
from quarterdeck.agent.tools.tool import Tool
from quarterdeck.agent.tools.toolbox import SPAWN_TOOLS, LazyTool, shipped_tools
from quarterdeck.config.places import Places
from quarterdeck.drivers.driver import Capabilities, ClosedAs
from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.journal import Journal, SessionSummary
from quarterdeck.policy.gate import Gate, PermissionAnswer, QuestionReply
from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.events import Origin, SessionEnded, TurnEnded
from quarterdeck.wire.ids import MessageId, RequestId, SessionId
from quarterdeck.wire.session_options import SessionOptions, find_unsupported
from quarterdeck.wire.tasks import start_task

from .agent_entry import NATIVE
from .agent_runner import AgentStart

__all__ = ["NativeSession", "SharedStore", "open_native"]

_TRANSPORT = "native"
_CAPABILITIES = Capabilities(
    asks=True,
    streams=True,
    steers=True,
    resumes=True,
    forks=True,
    lists=True,
    sets_mode=True,
    sets_model=True,
    images=True,
    resources=True,
    questions=True,
)


class SharedStore:
    """Sessions in the one log of a host."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def create(self, id_: SessionId) -> AbstractAsyncContextManager[Journal]:
        """The host's log."""
        return self._lend()

    async def open(self, id_: str) -> AbstractAsyncContextManager[Journal]:
        """The host's log. Raises NoSuchSessionError when it has no such session."""
        if not await self._journal.read(0, SessionId(id_), limit=1):
            raise NoSuchSessionError(id_)
        return self._lend()

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        agent: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[SessionSummary]:
        """The sessions opened last, newest first."""
        found = await self._journal.sessions(before=before)
        wanted = (
            one
            for one in found
            if (cwd is None or one.cwd == cwd) and (agent is None or one.agent == agent)
        )
        return list(wanted)[:limit]

    async def delete(self, id_: str) -> bool:
        """Nothing: what a fleet has noted about a session stays, also when it could not begin."""
        return False

    @asynccontextmanager
    async def _lend(self) -> AsyncGenerator[Journal]:
        yield self._journal


async def open_native(
    start: AgentStart, places: Places, environment: Mapping[str, str], journal: Journal
) -> "NativeSession":
    """Begin, load or fork a session of our own agent.

    Raises:
        UnsupportedError: the options have something that it cannot do.
        QuarterdeckError: the configuration, the model or the directory is not usable.
    """
    spawn, options = start.spawn, start.opening.options
    _check_options(options)
    given = tuple(tool.name for tool in start.tools)
    native = NativeSessionOptions(
        options=replace(
            options, tools=(*options.tools, *given) if options.tools is not None else None
        ),
        rules=start.rules,
        make_tools=lambda: _tools(start),
        recorder=start.recorder,
        budget=start.budget or NO_BUDGET,
        find_leads=start.gate.find_leads,
    )
    own = {**environment, **options.variables}
    agent = NativeAgent(places, own, store=SharedStore(journal))
    if start.is_known:
        session = await agent.load(start.session, options=native.at(""))
    elif spawn.forked_from is not None:
        session = await agent.fork(spawn.forked_from, options=native.at(""), new_id=start.session)
    elif options.resume is not None:
        what = f"resume {options.resume!r} under another name"
        raise UnsupportedError(NATIVE, _TRANSPORT, what, "Resume that agent, or fork it.")
    else:
        session = await agent.new(native, id_=start.session)
    return NativeSession(agent, session)


def _check_options(options: SessionOptions) -> None:
    if options.agent_mode is not None:
        what = f"have a mode {options.agent_mode!r} of its own"
        raise UnsupportedError(NATIVE, _TRANSPORT, what, "It uses our modes: set mode.")
    if refused := find_unsupported(options, SUPPORTED_OPTIONS):
        what = f"accept the option {', '.join(map(repr, refused))}"
        raise UnsupportedError(NATIVE, _TRANSPORT, what)


def _tools(start: AgentStart) -> tuple[Tool | LazyTool, ...]:
    """Our agent's own tools and the fleet's; a lead starts agents by the fleet's tools alone."""
    leads = any(tool.name == "spawn_agent" for tool in start.tools)
    own = (tool for tool in shipped_tools() if not (leads and tool.name in SPAWN_TOOLS))
    return (*own, *start.tools)


class NativeSession:
    """A session of our own agent; see ``drivers.driver.Session``."""

    def __init__(self, agent: NativeAgent, session: AgentSession) -> None:
        self.id = session.id
        self.agent = NATIVE
        self.transport = _TRANSPORT
        self.agent_session: str | None = session.id
        self.capabilities = _CAPABILITIES
        self._owner = agent
        self._session = session
        self._ended: asyncio.Future[SessionEnded] = asyncio.get_running_loop().create_future()
        self._closing: asyncio.Task[None] | None = None

    @property
    def gate(self) -> Gate:
        """Decides about tool calls."""
        return self._session.gate

    @property
    def is_running(self) -> bool:
        """Whether a turn is under way or waits for its start."""
        return self._session.is_running

    async def prompt(
        self,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        message: MessageId | None = None,
    ) -> TurnEnded:
        """Run a turn."""
        return await self._session.prompt(content, origin=origin, sender=sender, message=message)

    async def steer(
        self,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        message: MessageId | None = None,
    ) -> bool:
        """Give the running turn a message; False if none is running."""
        return self._session.steer(content, origin=origin, sender=sender, message=message)

    def answer(self, request: RequestId, answer: PermissionAnswer) -> bool:
        """Answer a permission request; False if it is not, or no longer, open."""
        return self.gate.answer(request, answer)

    def reply(self, request: RequestId, reply: QuestionReply) -> bool:
        """Answer a question; False if it is not, or no longer, open."""
        return self.gate.reply(request, reply)

    async def interrupt(self) -> None:
        """End the running turn as cancelled, if there is one."""
        await self._session.cancel()

    @property
    def checkpoints(self) -> Checkpoints:
        """What its turns did to files, and the ways back."""
        return self._session.checkpoints

    async def rewind(self, turns: int) -> None:
        """Raises UnsupportedError: files and conversation go back together, by ``checkpoints``."""
        raise UnsupportedError(NATIVE, _TRANSPORT, "go back in its conversation alone")

    async def set_mode(self, mode: str) -> None:
        """Change the mode; its own modes are ours. Raises UnknownModeError."""
        await self._session.set_mode(parse_mode(mode))

    async def set_model(self, model: str) -> None:
        """Change the model from the next turn on. Raises ModelSetupError."""
        await self._session.set_model(model)

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change the effort, the one setting besides mode and model."""
        for effort in EFFORTS:
            if option == "effort" and value == effort:
                await self._session.set_effort(effort)
                return
        raise UnsupportedError(NATIVE, _TRANSPORT, f"set {option!r} to {value!r}")

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The sessions of this directory."""
        found = await self._owner.sessions(cwd=self._session.cwd)
        return tuple(msgspec.to_builtins(one) for one in found)

    async def close(self, how: ClosedAs = "closed", reason: str | None = None) -> SessionEnded:
        """Cancel what runs, write the end, free everything; may be called again."""
        if self._closing is None:
            self._closing = start_task(self._close(how, reason), name=f"close {self.id}")
        await asyncio.shield(self._closing)
        return await self.wait()

    async def wait(self) -> SessionEnded:
        """Wait until the session is over."""
        return await asyncio.shield(self._ended)

    async def _close(self, how: ClosedAs, reason: str | None) -> None:
        try:
            await self._owner.close(self.id, how, reason)
        finally:
            self._ended.set_result(SessionEnded(how=how, reason=reason))


if TYPE_CHECKING:
    from typing import cast

    from quarterdeck.agent.session_store import SessionStorage
    from quarterdeck.drivers.driver import DriverSession

    _session: DriverSession = cast("NativeSession", None)
    _store: SessionStorage = cast("SharedStore", None)
