"""From spawn options to a running session: checks everything before anything is logged."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace as copy
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quarterdeck.config.places import Places
from quarterdeck.drivers.agent_description import Agent
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.driver import DriverSession, DriverSessionOptions, EventSink
from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.journal import Journal
from quarterdeck.policy.grant_store import GrantStore
from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.events import SessionSpawned
from quarterdeck.wire.ids import SessionId

from .agent_entry import NATIVE, AgentEntry
from .agent_runner import AgentStart
from .api import SpawnOptions
from .errors import InvalidOptionsError
from .permissions.grants import load_session_grants
from .permissions.session_gate import make_gate

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
        wish = start.wish
        if wish.agent == NATIVE and wish.transport in (None, NATIVE):
            from .native_driver import open_native

            return await open_native(start, self._places, self._environment, self._journal)
        if wish.tools is not None:
            instead = "Deny the others by rules."
            what = "be restricted to some of its tools"
            raise UnsupportedError(wish.agent, wish.transport or "any protocol", what, instead)
        from quarterdeck.drivers.open_session import open_session

        return await open_session(
            wish.agent,
            start.opening,
            sink,
            gate=start.gate,
            session_id=start.session,
            is_known=start.is_known,
            transport=wish.transport,
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
    ) -> None:
        self._places = places
        self.environment = environment
        """The host's own."""
        self._journal = journal
        self.grants = grants
        """Lasting grants, and those of the sessions that run or ran."""

    def find(self, agent: str) -> Agent:
        """What the agent's file says. Touches the disk. Raises UnknownAgentError,
        BadAgentFileError.
        """
        return find_agent(agent, self._places)

    async def new(self, wish: SpawnOptions, session: SessionId) -> AgentStart:
        """A start for a wish; its name is not settled yet.

        Raises:
            InvalidOptionsError, UnknownAgentError, BadAgentFileError, RuleError, UnknownModeError,
                ConfigError: it cannot be.
        """
        await asyncio.to_thread(_check_directories, wish)
        agent = await asyncio.to_thread(self.find, wish.agent)
        spawned = SessionSpawned(
            name=wish.name or "",
            agent=agent.name,
            cwd=wish.cwd,
            roots=wish.roots,
            transport=wish.transport,
            model=wish.model,
            mode=wish.mode,
            agent_mode=wish.agent_mode,
            system_prompt=wish.system_prompt,
            tools=wish.tools,
            allow=wish.allow,
            deny=wish.deny,
            parent_session=wish.parent,
            lead=wish.lead,
            resume=wish.resume,
        )
        return await self._start(session, spawned, resume=wish.resume, own=wish.environment)

    async def again(self, entry: AgentEntry) -> AgentStart:
        """A start for an agent that has run, as it was last.

        Raises:
            RuleError, UnknownModeError, ConfigError: the configuration has become wrong.
        """
        is_native = entry.is_native
        # Our own agent finds its model in its past; others are told again if they were told.
        model = entry.model if entry.wish.model is not None and not is_native else None
        wish = replace(
            entry.wish,
            name=entry.name,
            mode=entry.mode,
            model=model if entry.is_known else entry.wish.model,
            resume=entry.resume or entry.wish.resume,
        )
        await self._recall_grants(entry.session)
        start = await self._start(
            entry.session,
            wish,
            resume=wish.resume,
            fork=entry.agent_session is None and wish.forked_from is not None and not is_native,
        )
        return copy(start, is_known=entry.is_known)

    async def fork(
        self, entry: AgentEntry, session: SessionId, parent: SessionId | None
    ) -> AgentStart:
        """A start for a copy of an agent. Raises as ``again``."""
        wish = replace(
            entry.wish,
            name="",
            mode=entry.mode,
            model=None if entry.is_native else entry.wish.model,
            resume=entry.resume,
            forked_from=entry.session,
            parent_session=parent,
        )
        return await self._start(session, wish, resume=entry.resume, fork=True)

    async def _start(
        self,
        session: SessionId,
        wish: SessionSpawned,
        *,
        resume: str | None,
        fork: bool = False,
        own: Mapping[str, str] | None = None,
    ) -> AgentStart:
        gate, around = await make_gate(
            self._places,
            self.environment,
            wish.cwd,
            mode=parse_mode(wish.mode) if wish.mode is not None else None,
            allow=wish.allow,
            deny=wish.deny,
            roots=wish.roots,
            session=session,
            agent=wish.agent,
            grants=self.grants,
        )
        opening = DriverSessionOptions(
            cwd=wish.cwd,
            roots=wish.roots,
            model=wish.model,
            mode=gate.mode,
            agent_mode=wish.agent_mode,
            resume=resume,
            fork=fork,
            system_prompt=wish.system_prompt,
            environment=own or {},
            parent_session=wish.parent_session,
        )
        wish = replace(wish, mode=gate.mode)
        return AgentStart(session=session, wish=wish, opening=opening, gate=gate, around=around)

    async def _recall_grants(self, session: SessionId) -> None:
        """What was allowed for a session holds when it runs again."""
        found = await self._journal.query(lambda c: load_session_grants(c, session))
        known = {grant.id for grant in self.grants.all}
        await self.grants.add(one for one in found if one.id not in known)


def _check_directories(wish: SpawnOptions) -> None:
    for field, path in (("cwd", wish.cwd), *(("roots", root) for root in wish.roots)):
        if not Path(path).is_absolute():
            raise InvalidOptionsError(f"{field}: {path!r} is not absolute; write the whole path")
        if not Path(path).is_dir():
            raise InvalidOptionsError(f"{field}: there is no directory {path!r}")
    if wish.prompt is not None and not wish.prompt.strip():
        raise InvalidOptionsError("prompt: it is empty; omit it to send one later")
