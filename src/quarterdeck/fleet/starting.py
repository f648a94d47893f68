"""From a wish to a start: everything that can be checked is, before anything is noted."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace as copy
from pathlib import Path

from msgspec.structs import replace

from quarterdeck.config.places import Places
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.description import Agent
from quarterdeck.drivers.driver import Opening
from quarterdeck.journal import Journal
from quarterdeck.policy.book import GrantBook
from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.events import SessionSpawned
from quarterdeck.wire.ids import SessionId

from .entry import Entry
from .errors import BadWish
from .granted import load_session_grants
from .ground import make_gate
from .member import Start
from .port import Spawn

__all__ = ["Starting"]


class Starting:
    """Makes starts. One book of grants serves every agent of the fleet."""

    def __init__(
        self,
        places: Places,
        environment: Mapping[str, str],
        journal: Journal,
        grants: GrantBook,
    ) -> None:
        self._places = places
        self.environment = environment
        """The host's own."""
        self._journal = journal
        self.grants = grants
        """Lasting grants, and those of the sessions that run or ran."""

    def find(self, agent: str) -> Agent:
        """What the agent's file says. Touches the disk. Raises UnknownAgent, BadAgentFile."""
        return find_agent(agent, self._places)

    async def new(self, wish: Spawn, session: SessionId) -> Start:
        """A start for a wish; its name is not settled yet.

        Raises:
            BadWish, UnknownAgent, BadAgentFile, RuleError, UnknownMode, ConfigError: it cannot be.
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

    async def again(self, entry: Entry) -> Start:
        """A start for an agent that has run, as it was last.

        Raises:
            RuleError, UnknownMode, ConfigError: the configuration has become wrong.
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

    async def fork(self, entry: Entry, session: SessionId, parent: SessionId | None) -> Start:
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
    ) -> Start:
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
        opening = Opening(
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
        return Start(session=session, wish=wish, opening=opening, gate=gate, around=around)

    async def _recall_grants(self, session: SessionId) -> None:
        """What was allowed for a session holds when it runs again."""
        found = await self._journal.query(lambda c: load_session_grants(c, session))
        known = {grant.id for grant in self.grants.all}
        await self.grants.add(one for one in found if one.id not in known)


def _check_directories(wish: Spawn) -> None:
    for field, path in (("cwd", wish.cwd), *(("roots", root) for root in wish.roots)):
        if not Path(path).is_absolute():
            raise BadWish(f"{field}: {path!r} is not absolute; write the whole path")
        if not Path(path).is_dir():
            raise BadWish(f"{field}: there is no directory {path!r}")
    if wish.prompt is not None and not wish.prompt.strip():
        raise BadWish("prompt: it is empty; leave it out to give one later")
