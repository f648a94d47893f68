"""From spawn options to a running session: checks everything before anything is logged."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace as copy
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places
from quarterdeck.config.schema import PersonSettings, Settings
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import find_workspace
from quarterdeck.drivers.agent_description import Agent
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.driver import DriverSession, DriverSessionOptions, EventSink
from quarterdeck.journal import Journal
from quarterdeck.policy.grants import GrantStore
from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.events import SessionSpawned
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.session_options import SessionOptions

from .agent_entry import AgentEntry, is_own_agent
from .agent_runner import AgentStart
from .api import SpawnOptions
from .errors import InvalidOptionsError
from .live_index import LiveIndex, LogWriter
from .permissions.grants import find_leads, load_session_grants
from .permissions.session_gate import make_gate
from .worktrees.service import WorktreeService

if TYPE_CHECKING:
    from .agent_runner import SessionOpener

__all__ = ["AgentOpener", "SessionFactory"]


class AgentOpener:
    """Opens any agent of the catalogue. Our own over a transport runs as a process of its own."""

    def __init__(self, places: Places, environment: Mapping[str, str], journal: Journal) -> None:
        self._places = places
        self._environment = environment
        self._journal = journal

    async def __call__(self, start: AgentStart, sink: EventSink) -> DriverSession:
        """Start the agent. Raises QuarterdeckError."""
        spawn = start.spawn
        options = spawn.options
        if is_own_agent(options):
            from .native_driver import open_native

            return await open_native(start, self._places, self._environment, self._journal)
        from quarterdeck.drivers.open_session import open_session

        return await open_session(
            options.agent,
            start.opening,
            sink,
            gate=start.gate,
            session_id=start.session,
            is_known=start.is_known,
            transport=options.transport,
            around=start.around,
            on_terminal=start.on_terminal,
            places=self._places,
        )


if TYPE_CHECKING:
    from typing import cast

    _opener: SessionOpener = cast("AgentOpener", None)


class SessionFactory:
    """Makes starts. One book of grants serves every agent of the fleet."""

    def __init__(
        self,
        places: Places,
        environment: Mapping[str, str],
        journal: Journal,
        grants: GrantStore,
        current: LiveIndex,
    ) -> None:
        self._current = current
        self.places = places
        self.state = places.state
        """Our own directory."""
        self.environment = environment
        """The host's own."""
        self._journal = journal
        self.grants = grants
        """Lasting grants, and those of the sessions that run or ran."""

    def make_worktrees(self, current: LiveIndex, notes: LogWriter) -> WorktreeService:
        """The worktrees of the fleet whose agents this starts."""
        return WorktreeService(self.places, self.environment, self._journal, current, notes)

    def find(self, agent: str) -> Agent:
        """What the agent's file says. Touches the disk. Raises UnknownAgentError,
        BadAgentFileError.
        """
        return find_agent(agent, self.places)

    async def check(self, request: SpawnOptions) -> SessionOptions:
        """The options of a request, with the agent's own name.

        Raises:
            InvalidOptionsError, UnknownAgentError, BadAgentFileError: it cannot be.
        """
        await asyncio.to_thread(_check_options, request)
        agent = await asyncio.to_thread(self.find, request.options.agent)
        return replace(request.options, agent=agent.name)

    def load_settings(self, directory: str) -> Settings:
        """The settings that count in a directory; a project's own count if it is trusted.
        Touches the disk. Raises ConfigError.
        """
        path = Path(directory)
        trusted = TrustStore(self.places.trust_file).is_trusted(find_workspace(path).project)
        config = load_config(self.places, directory=path, environ=self.environment, trusted=trusted)
        return config.settings

    def load_people(self) -> Mapping[str, PersonSettings]:
        """The people that the user's own file names. Touches the disk. Raises ConfigError."""
        return load_config(self.places, environ={}).settings.people

    async def new(self, request: SpawnOptions, session: SessionId) -> AgentStart:
        """A start for a request; its name is not settled yet.

        Raises:
            InvalidOptionsError, UnknownAgentError, BadAgentFileError, RuleError, UnknownModeError,
                ConfigError: it cannot be.
        """
        options = await self.check(request)
        spawned = SessionSpawned(
            name=request.name or "",
            options=options,
            parent_session=request.parent,
            lead=request.lead,
            continues=request.continues,
            fallback=request.fallback,
        )
        return await self._start(session, spawned, options)

    async def again(self, entry: AgentEntry) -> AgentStart:
        """A start for an agent that has run, as it was last.

        Raises:
            RuleError, UnknownModeError, ConfigError: the configuration has become wrong.
        """
        is_native, last = entry.is_native, entry.spawn.options
        # Our own agent finds model and effort in its past; others get them again if they got them.
        model = entry.model if last.model is not None and not is_native else None
        options = replace(
            last,
            mode=entry.mode,
            model=model if entry.is_known else last.model,
            effort=None if entry.is_known and is_native else last.effort,
            resume=entry.resume or last.resume,
            # A copy is made once.
            fork=not is_native
            and entry.agent_session is None
            and (last.fork or entry.spawn.forked_from is not None),
        )
        await self._recall_grants(entry.session)
        spawn = replace(entry.spawn, name=entry.name, options=options)
        start = await self._start(entry.session, spawn, options)
        return copy(start, is_known=entry.is_known, missing=options.missing_values)

    async def fork(
        self,
        entry: AgentEntry,
        session: SessionId,
        parent: SessionId | None,
        cwd: str | None = None,
    ) -> AgentStart:
        """A start for a copy of an agent, possibly elsewhere. Raises as ``again``."""
        last = entry.spawn.options
        if cwd is not None:
            last = replace(last, cwd=cwd)
        options = replace(
            last,
            mode=entry.mode,
            model=None if entry.is_native else last.model,
            effort=None if entry.is_native else last.effort,
            resume=entry.resume,
            fork=not entry.is_native,
        )
        spawn = replace(
            entry.spawn,
            name="",
            options=options,
            forked_from=entry.session,
            parent_session=parent,
            continues=None,
        )
        start = await self._start(session, spawn, options)
        return copy(start, missing=options.missing_values)

    async def _start(
        self, session: SessionId, spawn: SessionSpawned, options: SessionOptions
    ) -> AgentStart:
        """A start with these options, with values that the log does not get."""
        gate, around = await make_gate(
            self.places,
            self.environment,
            options.cwd,
            mode=parse_mode(options.mode) if options.mode is not None else None,
            allow=options.allow,
            deny=options.deny,
            roots=options.roots,
            session=session,
            agent=options.agent,
            grants=self.grants,
            find_leads=lambda: find_leads(self._current, session, spawn.parent_session),
        )
        options = replace(options, mode=gate.mode)
        opening = DriverSessionOptions(
            # The worktree is there already, and ``cwd`` is in it.
            options=replace(options.without_missing(), worktree=None),
            parent_session=spawn.parent_session,
        )
        spawn = replace(spawn, options=options)
        return AgentStart(session=session, spawn=spawn, opening=opening, gate=gate, around=around)

    async def _recall_grants(self, session: SessionId) -> None:
        """What was allowed for a session holds when it runs again."""
        found = await self._journal.query(lambda c: load_session_grants(c, session))
        known = {grant.id for grant in self.grants.all}
        await self.grants.add(one for one in found if one.id not in known)


def _check_options(request: SpawnOptions) -> None:
    given = request.options
    for field, path in (("cwd", given.cwd), *(("roots", root) for root in given.roots)):
        if not Path(path).is_absolute():
            raise InvalidOptionsError(f"{field}: {path!r} is not absolute; write the whole path")
        if not Path(path).is_dir():
            raise InvalidOptionsError(f"{field}: there is no directory {path!r}")
    if given.fork and given.resume is None:
        raise InvalidOptionsError("fork: it needs a session to copy; set resume")
    if request.prompt is not None and not request.prompt.strip():
        raise InvalidOptionsError("prompt: it is empty; omit it to send one later")
