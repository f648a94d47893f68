"""The native agent: makes, loads, forks, lists and deletes sessions."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from msgspec import Struct, field

from quarterdeck.config.places import Places
from quarterdeck.journal import Journal, SessionSummary
from quarterdeck.models.model import Effort, Model
from quarterdeck.models.registry import choose_model_name, make_model
from quarterdeck.policy.gate import Gate, WaitTimer
from quarterdeck.policy.grant_store import GrantStore
from quarterdeck.policy.modes import NO_SANDBOX, Mode, parse_mode
from quarterdeck.wire.events import Event, NoticePosted, SessionOpened, SessionResumed
from quarterdeck.wire.ids import SessionId, TurnId, new_session_id

from .checkpoints.storage import delete_checkpoints
from .children.factory import introduce_profiles, make_children_factory
from .children.folders import profile_folders
from .clock import SessionClock
from .environment import (
    SessionEnvironment,
    limits_of,
    model_options,
    offered_models,
    prepare_environment,
    rules_of,
    tool_options,
)
from .instructions import NestedInstructions
from .library.session_library import attach_library
from .ports import NO_HOOKS, NO_SERVERS, Hooks, ToolServers
from .recovery import FORKED, close_children
from .resume import ResumeState, allow_for_damage, read_resume_state, shared_events
from .session import Session
from .session_setup import SessionSetup
from .session_store import NoSuchSessionError, SessionStorage, SessionStore
from .session_system import SessionSystem, make_local_system
from .telemetry import find_telemetry
from .tool_servers import ServerDefinition
from .tools.tool import Tool
from .tools.toolbox import LazyTool, Toolbox, shipped_tools
from .tools.workspace import ToolWorkspace

if TYPE_CHECKING:
    from quarterdeck.policy.rules import Rule

__all__ = ["NativeAgent", "SessionOptions", "SystemFactory", "find_hooks", "find_servers"]

SystemFactory: TypeAlias = Callable[[tuple[str, ...], SessionEnvironment], SessionSystem]
"""Makes the system a session works on, from its directories."""


class SessionOptions(Struct, frozen=True, kw_only=True):
    """How a session shall be; what is left out comes from the configuration."""

    model: str | None = None
    mode: Mode | None = None
    effort: Effort | None = None
    system_prompt: str | None = None
    """Added to ours."""
    rules: "tuple[Rule, ...]" = ()
    tools: tuple[str, ...] | None = None
    """Only these tools; None for all."""
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings that outrank every file, as nested tables."""
    attended: bool = True
    """Whether anybody can answer a question."""
    servers: tuple[ServerDefinition, ...] = ()
    """Servers that lend tools, besides those of the configuration."""
    make_system: SystemFactory = make_local_system
    make_tools: Callable[[], Iterable[Tool | LazyTool]] = shipped_tools
    """Makes the tools; give your own, or ours and your own."""
    make_model: Callable[[str], Model] | None = None
    """Makes a model from its name, in a thread; None for those of the known vendors."""
    pace: SessionClock = field(default_factory=SessionClock)


_DEFAULTS = SessionOptions()


def find_hooks(
    session_environment: SessionEnvironment, environment: Mapping[str, str], session: str
) -> Hooks:
    """The hooks of a session, as the configuration has them.

    Raises:
        HookError: one is declared wrongly; the message names it.
    """
    if not session_environment.settings.hooks.any:
        return NO_HOOKS
    from .hooks.runner import session_hooks

    return session_hooks(session_environment, environment, session)


async def find_servers(
    session_environment: SessionEnvironment,
    environment: Mapping[str, str],
    roots: tuple[str, ...],
    *,
    given: tuple[ServerDefinition, ...] = (),
    wanted: tuple[str, ...] | None = None,
) -> tuple[ToolServers, tuple[NoticePosted, ...]]:
    """The servers of a session, not started, and what a person should know of those left out.

    ``given`` come from whoever opens the session and win over those of the same name in files.
    ``wanted`` are the only tools that the session may have; None: all.
    """
    if not (given or session_environment.settings.mcp_servers or session_environment.has_mcp_file):
        return NO_SERVERS, ()
    if wanted is not None and not any(name.startswith("mcp__") for name in wanted):
        return NO_SERVERS, ()
    from .mcp.servers import session_servers

    return await session_servers(
        session_environment, environment, roots, given=given, wanted=wanted
    )


class NativeAgent:
    """Our own agent. An async context manager; leaving it closes every session.

    Args:
        places: where configuration and sessions are.
        environment: variables for the configuration and the vendors' keys; nothing else is read
            from the process's own environment.
        store: where sessions are kept; None: each in a log of its own.
    """

    def __init__(
        self, places: Places, environment: Mapping[str, str], *, store: SessionStorage | None = None
    ) -> None:
        self._places = places
        self._environment = environment
        self._store: SessionStorage = store or SessionStore(places.state / "sessions")
        self._open: dict[SessionId, tuple[Session, AsyncExitStack]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        async with AsyncExitStack() as closing:  # one that fails does not keep others open
            for id_ in tuple(self._open):
                closing.push_async_callback(self.close, id_)

    def get(self, id_: str) -> Session | None:
        """The open session of that id."""
        found = self._open.get(SessionId(id_))
        return found[0] if found else None

    async def new(
        self,
        cwd: str,
        *,
        roots: tuple[str, ...] = (),
        options: SessionOptions = _DEFAULTS,
        id_: SessionId | None = None,
    ) -> Session:
        """Begin a session in a directory; ``id_``: None for a new one.

        Raises:
            QuarterdeckError: the configuration, the model or the directory is not usable; the
                message says what to do. Nothing is left behind.
        """
        past = ResumeState(cwd=cwd, roots=roots)
        return await self._begin(id_ or new_session_id(), past, options, ())

    async def load(
        self,
        id_: str,
        *,
        cwd: str | None = None,
        roots: tuple[str, ...] | None = None,
        options: SessionOptions = _DEFAULTS,
    ) -> Session:
        """Go on with a session, open or stored; where it works may be another place now.

        Raises:
            NoSuchSessionError: there is none of that id.
            JournalLockedError: another process has it open.
            DamagedSessionError: its log no longer says where it works.
            QuarterdeckError: as ``new``.
        """
        if (session := self.get(id_)) is not None:
            return session
        stack = AsyncExitStack()
        try:
            journal = await stack.enter_async_context(await self._store.open(id_))
            session_id = SessionId(id_)
            records = [record async for record in journal.history(session=session_id)]
            past = read_resume_state(records)
            if past.agent != "native":
                raise NoSuchSessionError(id_, agent=past.agent)
            past.cwd = cwd or past.cwd
            allow_for_damage(id_, records, past)
            past.roots = past.roots if roots is None else roots
            session = await self._assemble(session_id, journal, past, options, stack)
            for turn, event in past.closing:
                await journal.append(session_id, event, turn=turn)
            await close_children(journal, records)
            await session.begin(past, SessionResumed())
        except BaseException:
            await stack.aclose()
            raise
        self._open[session_id] = (session, stack)
        return session

    async def fork(
        self,
        id_: str,
        *,
        cwd: str | None = None,
        roots: tuple[str, ...] | None = None,
        until: int | None = None,
        options: SessionOptions = _DEFAULTS,
        new_id: SessionId | None = None,
    ) -> Session:
        """Begin a session that shares the past of another, whole or up to a sequence number.

        Raises:
            NoSuchSessionError, JournalLockedError, QuarterdeckError: as ``load``.
        """
        source = SessionId(id_)
        if (session := self.get(id_)) is not None:
            await session.journal.durable(session.last_seq)
            records = [record async for record in session.journal.history(session=source)]
        else:
            async with await self._store.open(id_) as journal:
                records = [record async for record in journal.history(session=source)]
        shared = shared_events(records, until)
        kept = [record for record in records if until is None or record.seq <= until]
        past = read_resume_state(kept, FORKED)
        past.cwd, past.closing, past.began = cwd or past.cwd, (), None
        past.roots = past.roots if roots is None else roots
        if past.goal is not None:
            past.goal.seq = -1  # its own log has other numbers
        last = kept[-1].seq if kept else 0
        new_id = new_id or new_session_id()
        return await self._begin(new_id, past, options, shared, forked=(source, last))

    async def sessions(
        self, *, cwd: str | None = None, limit: int = 50, before: int | None = None
    ) -> list[SessionSummary]:
        """The sessions that changed last, newest first; ``before`` is an ``updated`` time."""
        return await self._store.sessions(cwd=cwd, agent="native", limit=limit, before=before)

    async def close(
        self,
        id_: str,
        how: Literal["closed", "killed"] = "closed",
        reason: str | None = None,
    ) -> None:
        """Close a session; one that is not open is no error."""
        entry = self._open.pop(SessionId(id_), None)
        if entry is not None:
            session, stack = entry
            async with stack:
                await session.close(how, reason)

    async def delete(self, id_: str) -> bool:
        """Close a session and delete it for good; False if there was none."""
        await self.close(id_)
        deleted = await self._store.delete(id_)
        await asyncio.to_thread(delete_checkpoints, self._places.state, id_)
        return deleted

    async def _begin(
        self,
        id_: SessionId,
        past: ResumeState,
        options: SessionOptions,
        shared: tuple[tuple[TurnId | None, Event], ...],
        forked: tuple[SessionId, int] | None = None,
    ) -> Session:
        stack = AsyncExitStack()
        try:
            journal = await stack.enter_async_context(self._store.create(id_))
            session = await self._assemble(id_, journal, past, options, stack)
            opened = SessionOpened(
                agent="native",
                cwd=past.cwd,
                roots=past.roots,
                title=past.title,
                model=session.model.name,
                mode=session.gate.mode,
                forked_from=forked[0] if forked else None,
                forked_at=forked[1] if forked else None,
            )
            await journal.append(id_, opened)
            for turn, event in shared:
                await journal.append(id_, event, turn=turn)
            await session.begin(past)
        except BaseException:
            await stack.aclose()
            await self._store.delete(id_)
            raise
        self._open[id_] = (session, stack)
        return session

    async def _assemble(
        self,
        id_: SessionId,
        journal: Journal,
        past: ResumeState,
        options: SessionOptions,
        stack: AsyncExitStack,
    ) -> Session:
        session_environment = await prepare_environment(
            self._places, self._environment, past.cwd, past.roots, options.flags, past.began
        )
        system = options.make_system((past.cwd, *past.roots), session_environment)
        stack.push_async_callback(system.close)
        gate = await self._gate(session_environment, past, options, system)
        setup = await self._setup(id_, session_environment, past, options, system)
        commands = await attach_library(setup, self._places.config, session_environment)
        if session_environment.trusted:
            known = frozenset(Path(path) for path in session_environment.instructions)
            setup.instructions = NestedInstructions(
                root=Path(session_environment.project), known=known
            )
        setup.hooks = await asyncio.to_thread(
            find_hooks, session_environment, self._environment, id_
        )
        stack.push_async_callback(setup.hooks.close)
        setup.servers, told = await find_servers(
            session_environment,
            self._environment,
            system.roots,
            given=options.servers,
            wanted=options.tools,
        )
        stack.push_async_callback(setup.servers.close)
        setup.servers.start()
        if past.goal is not None:
            from .goals.pursuit import resume_goal

            await resume_goal(setup, past.goal)
        project = Path(session_environment.project) if session_environment.trusted else None
        shelves = profile_folders(self._places.config, project)
        profiles, problems = await introduce_profiles(shelves, setup.toolbox)
        setup.system_prompt = "\n\n".join(filter(None, (setup.system_prompt, profiles)))
        like = setup.workspace.call("read", "read")
        setup.workspace.may_read = lambda path: gate.may_read(path, like)
        notices = tuple(
            NoticePosted(title=str(notice), severity="warning")
            for notice in (*session_environment.config.notices, *session_environment.problems)
        )
        told = (*notices, *told, *problems)
        session = Session(
            id_, journal, setup, gate, past.conversation, commands, title=past.title, notices=told
        )
        setup.workspace.make_children = make_children_factory(
            session, setup, session_environment, shelves
        )
        return session

    async def _gate(
        self,
        session_environment: SessionEnvironment,
        past: ResumeState,
        options: SessionOptions,
        system: SessionSystem,
    ) -> Gate:
        grants = GrantStore(self._places.state / "grants.json")
        await grants.load()
        await grants.add(past.grants)
        mode = options.mode or (
            parse_mode(past.mode) if past.mode else session_environment.settings.mode
        )
        return Gate(
            mode=mode,
            rules=(*rules_of(session_environment.config), *options.rules),
            grants=grants,
            sandbox=await system.sandbox() if mode == "full-auto" else NO_SANDBOX,
            find_sandbox=None if mode == "full-auto" else system.sandbox,
            trusted=session_environment.trusted,
            attended=options.attended,
            patience=session_environment.settings.permissions.patience,
            pauses=WaitTimer(options.pace.clock),
        )

    async def _setup(
        self,
        id_: SessionId,
        session_environment: SessionEnvironment,
        past: ResumeState,
        options: SessionOptions,
        system: SessionSystem,
    ) -> SessionSetup:
        model_settings = model_options(session_environment.settings)
        name = (
            options.model
            or past.model
            or await choose_model_name(self._environment, model_settings)
        )
        toolbox = await asyncio.to_thread(_toolbox, options)
        make: Callable[[str], Model] = options.make_model or (
            lambda other: make_model(other, self._environment, model_settings)
        )
        return SessionSetup(
            model=await asyncio.to_thread(make, name),
            make_model=make,
            models=await asyncio.to_thread(offered_models, self._environment, model_settings),
            effort=options.effort or past.effort or session_environment.settings.effort,
            system_prompt="\n\n".join(
                filter(None, (session_environment.system_prompt, options.system_prompt))
            ),
            toolbox=toolbox,
            workspace=ToolWorkspace(
                system=system,
                contain=system.terminals_for,
                home=self._environment.get("HOME", ""),
                project=session_environment.project,
                session=id_,
                options=tool_options(session_environment.settings),
            ),
            limits=limits_of(session_environment.settings),
            context=session_environment.settings.context,
            checkpoints=self._places.state
            if session_environment.settings.checkpoints.enabled
            else None,
            checkpoint_patience=session_environment.settings.checkpoints.patience,
            find_sandbox=system.sandbox,
            pace=options.pace,
            hear=find_telemetry(),
        )


def _toolbox(options: SessionOptions) -> Toolbox:
    """The tools of a session; their texts are read here, in a thread."""
    toolbox = Toolbox(options.make_tools())
    if options.tools is not None:
        toolbox = toolbox.only(name for name in options.tools if not name.startswith("mcp__"))
    assert toolbox.specs is not None
    return toolbox
