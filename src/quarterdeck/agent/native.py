"""The native agent: makes, loads, forks, lists and deletes sessions."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from quarterdeck.config.places import Places
from quarterdeck.journal import Journal, SessionSummary
from quarterdeck.models.model import Model
from quarterdeck.models.registry import choose_model_name, make_model
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grants import GrantStore
from quarterdeck.policy.modes import NO_SANDBOX, parse_mode
from quarterdeck.wire.clock import WaitTimer
from quarterdeck.wire.events import Event, NoticePosted, SessionOpened, SessionResumed
from quarterdeck.wire.ids import SessionId, TurnId, new_session_id
from quarterdeck.wire.session_options import AgentMcpServer, SessionOptions

from .checkpoints import delete_checkpoints
from .children import introduce_profiles, make_children_factory
from .config_options import parse_effort
from .environment import (
    SessionEnvironment,
    approvers_of,
    limits_of,
    model_options,
    offered_models,
    prepare_environment,
    rules_of,
    session_rules,
    tool_options,
)
from .instructions import NestedInstructions
from .library import attach_library
from .library.folders import profile_folders
from .ports import (
    NO_BUDGET,
    NO_HOOKS,
    NO_SERVERS,
    CallBudget,
    Hooks,
    SessionClock,
    ToolServers,
    TurnRecorder,
)
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

__all__ = [
    "SUPPORTED_OPTIONS",
    "NativeAgent",
    "NativeSessionOptions",
    "SystemFactory",
    "find_hooks",
    "find_servers",
]

SystemFactory: TypeAlias = Callable[[tuple[str, ...], SessionEnvironment], SessionSystem]
"""Makes the system a session works on, from its directories."""


class NativeSessionOptions(Struct, frozen=True, kw_only=True):
    """How a session is opened: its options, and what only a program in this process can give."""

    options: SessionOptions = SessionOptions()
    """What is not set comes from the configuration, or from the session's past."""
    rules: "tuple[Rule, ...]" = ()
    """Besides those of the options."""
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings that outrank every file, as nested tables."""
    attended: bool = True
    """Whether a person can answer a question."""
    servers: tuple[ServerDefinition, ...] = ()
    """Servers that lend tools, besides those of the options and the configuration."""
    make_system: SystemFactory = make_local_system
    make_tools: Callable[[], Iterable[Tool | LazyTool]] = shipped_tools
    """Makes the tools; give your own, or ours and your own."""
    make_model: Callable[[str], Model] | None = None
    """Makes a model from its name, in a thread; None for those of the known vendors."""
    pace: SessionClock = field(default_factory=SessionClock)
    recorder: TurnRecorder | None = None
    """Records what turns do to files; None: the session does it itself."""
    budget: CallBudget = NO_BUDGET
    """Where model calls are reserved."""
    find_leads: Callable[[], tuple[str, ...]] | None = None
    """Says which live sessions lead this one, for grants that are for a tree of agents."""

    @classmethod
    def of(cls, **fields: Any) -> "NativeSessionOptions":
        """From fields of ``SessionOptions`` and of this class, by name. Raises TypeError."""
        own = {name: fields.pop(name) for name in cls.__struct_fields__ if name in fields}
        return cls(options=SessionOptions(**fields), **own)

    def with_options(self, **changes: Any) -> "NativeSessionOptions":
        """The same with other values of these fields of ``options``."""
        return replace(self, options=replace(self.options, **changes))

    def at(self, cwd: str, roots: tuple[str, ...] = ()) -> "NativeSessionOptions":
        """The same in another directory."""
        return self.with_options(cwd=cwd, roots=roots)


_DEFAULTS = NativeSessionOptions()
SUPPORTED_OPTIONS = frozenset(
    (
        *("agent", "cwd", "roots", "transport", "model", "effort", "mode", "allow", "deny"),
        *("tools", "denied_tools", "mcp_servers", "environment", "system_prompt"),
        *("limits.model_calls", "limits.tokens", "limits.cost", "limits.seconds"),
        *("resume", "fork"),
    )
)
"""The options of a session that our own agent honours; others are refused by name."""


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
    denied: tuple[str, ...] = (),
) -> tuple[ToolServers, tuple[NoticePosted, ...]]:
    """The servers of a session, not started, and what a person should know of those left out.

    ``given`` come from the opener of the session and win over those of the same name in files.
    ``wanted`` are the only tools that the session may have; None: all. It has none of ``denied``.
    """
    if not (given or session_environment.settings.mcp_servers or session_environment.has_mcp_file):
        return NO_SERVERS, ()
    if wanted is not None and not any(name.startswith("mcp__") for name in wanted):
        return NO_SERVERS, ()
    from .mcp.servers import session_servers

    return await session_servers(
        session_environment, environment, roots, given=given, wanted=wanted, denied=denied
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
        options: NativeSessionOptions,
        *,
        id_: SessionId | None = None,
    ) -> Session:
        """Begin a session in the directory of its options; ``id_``: None for a new one.

        Raises:
            QuarterdeckError: the configuration, the model or the directory is not usable; the
                message says what to do. Nothing is left behind.
        """
        past = ResumeState(cwd=options.options.cwd, roots=options.options.roots)
        return await self._begin(id_ or new_session_id(), past, options, ())

    async def load(
        self,
        id_: str,
        *,
        options: NativeSessionOptions = _DEFAULTS,
    ) -> Session:
        """Go on with a session, open or stored; with a ``cwd`` it works there from now on.

        Raises:
            NoSuchSessionError: there is none of that id.
            JournalLockedError: another process has it open.
            DamagedSessionError: its log no longer says where it works.
            QuarterdeckError: as ``new``.
        """
        if (session := self.get(id_)) is not None:
            return session
        from .recovery import close_children

        stack = AsyncExitStack()
        try:
            journal = await stack.enter_async_context(await self._store.open(id_))
            session_id = SessionId(id_)
            records = [record async for record in journal.history(session=session_id)]
            past = read_resume_state(records)
            if past.agent != "native":
                raise NoSuchSessionError(id_, agent=past.agent)
            past.cwd = options.options.cwd or past.cwd
            allow_for_damage(id_, records, past)
            past.roots = options.options.roots or past.roots
            session = await self._assemble(session_id, journal, past, options, stack)
            for turn, event in past.closing:
                await journal.append(session_id, event, turn=turn)
            await close_children(journal, records)
            await session.begin(past, SessionResumed(options=_recorded_options(options)))
        except BaseException:
            await stack.aclose()
            raise
        self._open[session_id] = (session, stack)
        return session

    async def fork(
        self,
        id_: str,
        *,
        until: int | None = None,
        options: NativeSessionOptions = _DEFAULTS,
        new_id: SessionId | None = None,
    ) -> Session:
        """Begin a session with the history of another, whole or up to a sequence number.

        Raises:
            NoSuchSessionError, JournalLockedError, QuarterdeckError: as ``load``.
        """
        from .recovery import FORKED

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
        past.closing, past.began = (), None
        if options.options.cwd or options.options.roots:
            past.cwd, past.roots = options.options.cwd or past.cwd, options.options.roots
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
        options: NativeSessionOptions,
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
                options=_recorded_options(options),
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
        options: NativeSessionOptions,
        stack: AsyncExitStack,
    ) -> Session:
        flags = _flags(options)
        session_environment = await prepare_environment(
            self._places, self._environment, past.cwd, past.roots, flags, past.began
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
        setup.servers, more = await find_servers(
            session_environment,
            self._environment,
            system.roots,
            given=(*options.servers, *map(_server, options.options.mcp_servers)),
            wanted=options.options.tools,
            denied=options.options.denied_tools,
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
        more = (*notices, *more, *problems)
        session = Session(
            id_, journal, setup, gate, past.conversation, commands, title=past.title, notices=more
        )
        setup.workspace.make_children = make_children_factory(
            session, setup, session_environment, shelves
        )
        return session

    async def _gate(
        self,
        session_environment: SessionEnvironment,
        past: ResumeState,
        options: NativeSessionOptions,
        system: SessionSystem,
    ) -> Gate:
        grants = GrantStore(self._places.state / "grants.json")
        await grants.load()
        await grants.add(past.grants)
        wanted = options.options.mode or past.mode
        mode = parse_mode(wanted) if wanted else session_environment.settings.mode
        return Gate(
            mode=mode,
            rules=(
                *rules_of(session_environment.config),
                *session_rules(options.options),
                *options.rules,
            ),
            grants=grants,
            sandbox=await system.sandbox() if mode == "full-auto" else NO_SANDBOX,
            find_sandbox=None if mode == "full-auto" else system.sandbox,
            trusted=session_environment.trusted,
            attended=options.attended,
            patience=session_environment.settings.permissions.patience,
            approvers=approvers_of(session_environment.config),
            pauses=WaitTimer(options.pace.clock),
            find_leads=options.find_leads,
        )

    async def _setup(
        self,
        id_: SessionId,
        session_environment: SessionEnvironment,
        past: ResumeState,
        options: NativeSessionOptions,
        system: SessionSystem,
    ) -> SessionSetup:
        model_settings = model_options(session_environment.settings)
        given = options.options
        name = (
            given.model or past.model or await choose_model_name(self._environment, model_settings)
        )
        toolbox = await asyncio.to_thread(_toolbox, options)
        make: Callable[[str], Model] = options.make_model or (
            lambda other: make_model(other, self._environment, model_settings)
        )
        return SessionSetup(
            model=await asyncio.to_thread(make, name),
            make_model=make,
            models=await asyncio.to_thread(offered_models, self._environment, model_settings),
            effort=parse_effort(given.effort or past.effort or session_environment.settings.effort),
            system_prompt="\n\n".join(
                filter(None, (session_environment.system_prompt, given.system_prompt))
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
            recorder=options.recorder,
            budget=options.budget,
            find_sandbox=system.sandbox,
            pace=options.pace,
            hear=find_telemetry(),
        )


def _toolbox(options: NativeSessionOptions) -> Toolbox:
    """The tools of a session; their texts are read here, in a thread."""
    toolbox = Toolbox(options.make_tools())
    wanted, denied = options.options.tools, options.options.denied_tools
    toolbox.only(name for name in denied if not name.startswith("mcp__"))  # one must be known
    if wanted is not None:
        toolbox = toolbox.only(name for name in wanted if not name.startswith("mcp__"))
    if denied:
        toolbox = toolbox.only(name for name in toolbox.names if name not in denied)
    assert toolbox.specs is not None
    return toolbox


def _flags(options: NativeSessionOptions) -> dict[str, Any]:
    """The settings of a session that outrank every file: those given, and its limits."""
    every = asdict(options.options.limits)
    limits = {name: value for name, value in every.items() if value is not None}
    given = dict(options.flags)
    return {**given, "limits": {**given.get("limits", {}), **limits}} if limits else given


def _recorded_options(options: NativeSessionOptions) -> SessionOptions | None:
    """What the log keeps of the options of a run; None: there is nothing that it does not have."""
    given = options.options
    allow, deny = given.allow, given.deny
    if options.rules:
        from quarterdeck.policy.grammar import print_pattern

        allow += tuple(print_pattern(r.pattern) for r in options.rules if r.effect == "allow")
        deny += tuple(print_pattern(r.pattern) for r in options.rules if r.effect == "deny")
    kept = SessionOptions(
        effort=given.effort,
        allow=allow,
        deny=deny,
        tools=given.tools,
        denied_tools=given.denied_tools,
        mcp_servers=given.mcp_servers,
        system_prompt=given.system_prompt,
        limits=given.limits,
    )
    return None if kept == _NO_OPTIONS else kept.without_values()


_NO_OPTIONS = SessionOptions()


def _server(server: AgentMcpServer) -> ServerDefinition:
    return ServerDefinition(
        name=server.name,
        command=() if server.url else server.command,
        env=server.variables,
        url=server.url or None,
        headers=server.sent_headers,
        source="the session's options",
    )
