"""What is on this machine of the agents that are described: programs, versions, logins.

Looking starts nothing but version commands, and those once for each binary. Whether somebody is
logged in is told from what is there, never from what it holds.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from quarterdeck.config.places import Places
from quarterdeck.system.environment import child_environment, find_program
from quarterdeck.system.errors import SpawnError
from quarterdeck.version import __version__

from .agent_description import SELF, Agent, AgentTransport, LoginEvidence, expand_command
from .driver import Transport
from .transports import SESSION_TRANSPORTS
from .versions import VersionAnswer, VersionQuery, ask_versions

__all__ = ["AgentInstallation", "LoginState", "TransportInstallation", "login_state", "probe"]

LoginState: TypeAlias = Literal["yes", "no", "unknown"]
"""``no``: none of the signs that would be there; ``unknown``: there may be others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportInstallation:
    """One transport of an agent on this machine."""

    name: Transport
    program: str
    path: str | None
    """Where the program is; None: it is not there, or cannot be started."""
    version: str | None
    """Of that program, where known."""
    verified: str
    """What it was proven with; empty: wired, unverified."""
    install: str
    is_linked: bool
    """Whether a session can be opened over it at all."""
    is_tried: bool
    """Whether a session is opened over it unless another is named."""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInstallation:
    """One agent on this machine."""

    agent: Agent
    path: str | None
    """Where its program is, or the first that one of its transports needs."""
    version: str | None
    login: LoginState
    transports: tuple[TransportInstallation, ...]
    """Those that are tried first, in their order."""
    problem: str = ""
    """Why there is no version although there is a program."""

    @property
    def is_installed(self) -> bool:
        """Whether any program of it is there."""
        return self.path is not None

    @property
    def usable(self) -> tuple[TransportInstallation, ...]:
        """The transports over which a session could be opened now."""
        return tuple(one for one in self.transports if one.is_tried and one.path is not None)


async def probe(
    agents: Iterable[Agent],
    *,
    places: Places | None = None,
    environment: Mapping[str, str] | None = None,
    limit: float = 3.0,
    refresh: bool = False,
) -> list[AgentInstallation]:
    """Look for each agent. ``limit``: seconds for one version command; four run at a time.

    ``environment`` is where programs, keys and files are looked for: ours, if not given.
    ``refresh`` asks every version anew.
    """
    wanted = tuple(agents)
    ours = dict(os.environ if environment is None else environment)
    look = await asyncio.to_thread(_Look.at, wanted, ours)
    memory = (places or Places.find(ours)).cache / "agents.json"
    answers = await ask_versions(
        look.questions, memory, environment=ours, limit=limit, refresh=refresh
    )
    return [look.state(agent, answers) for agent in wanted]


def login_state(login: LoginEvidence, environment: Mapping[str, str]) -> LoginState:
    """Whether anything shows a login. Blocks on files; opens none."""
    if any(environment.get(name) for name in login.variables):
        return "yes"
    if any(path and Path(path).exists() for path in _expanded(login.files, environment)):
        return "yes"
    return "no" if login.complete else "unknown"


def _expanded(files: Sequence[str], environment: Mapping[str, str]) -> Iterable[str]:
    for file in files:
        first, _, rest = file.partition("/")
        variable = "HOME" if first == "~" else first[1:] if first.startswith("$") else None
        if variable is None:
            yield file
        elif start := environment.get(variable):
            yield f"{start}/{rest}"


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found without starting anything."""

    paths: Mapping[str, str | None]
    problems: Mapping[str, str]
    """Why a program that is there cannot be started."""
    logins: Mapping[str, LoginState]
    questions: tuple[VersionQuery, ...]

    @classmethod
    def at(cls, agents: Sequence[Agent], environment: Mapping[str, str]) -> "_Look":
        """Find every program and every sign of a login. Blocks."""
        seen = child_environment(source=environment)
        paths: dict[str, str | None] = {}
        problems: dict[str, str] = {}
        for program in dict.fromkeys(name for agent in agents for name in _programs(agent)):
            try:
                paths[program] = find_program(program, seen, "/")
            except SpawnError as error:
                paths[program] = None
                problems[program] = str(error)
        asked = (
            question
            for agent in agents
            for words in (agent.version, *(reach.version for reach in agent.transports.values()))
            if (question := _question(words, paths)) is not None
        )
        logins: dict[str, LoginState] = {
            agent.name: login_state(agent.login, environment) for agent in agents
        }
        return cls(paths, problems, logins, tuple(dict.fromkeys(asked)))

    def state(
        self, agent: Agent, answers: Mapping[VersionQuery, VersionAnswer]
    ) -> AgentInstallation:
        """Put together what is known of one agent."""
        own = self._answer(agent.version, answers)
        transports = tuple(
            self._transport(agent, name, reach, own, answers)
            for name, reach in sorted(
                agent.transports.items(), key=lambda item: _place(agent, item[0])
            )
        )
        main = self.paths.get(_first(agent.version)) if agent.version else None
        there = (one.path for one in transports if one.path is not None)
        return AgentInstallation(
            agent=agent,
            path=main or next(there, None),
            version=own.version,
            login=self.logins[agent.name],
            transports=transports,
            problem=own.problem,
        )

    def _transport(
        self,
        agent: Agent,
        name: Transport,
        reach: AgentTransport,
        own: VersionAnswer,
        answers: Mapping[VersionQuery, VersionAnswer],
    ) -> TransportInstallation:
        program = _first(reach.command)
        if reach.version:
            answer = self._answer(reach.version, answers)
        else:
            answer = own if program == _first(agent.version) else VersionAnswer(None)
        path = self.paths[program]
        return TransportInstallation(
            name=name,
            program=program,
            path=path,
            version=answer.version,
            verified=reach.verified,
            install=reach.install or agent.install,
            is_linked=name in SESSION_TRANSPORTS,
            is_tried=name in agent.tried,
            problem=self.problems[program] if path is None else answer.problem,
        )

    def _answer(
        self, words: tuple[str, ...], answers: Mapping[VersionQuery, VersionAnswer]
    ) -> VersionAnswer:
        if words and words[0] == SELF:
            return VersionAnswer(__version__)
        question = _question(words, self.paths)
        return answers[question] if question is not None else VersionAnswer(None)


def _question(words: tuple[str, ...], paths: Mapping[str, str | None]) -> VersionQuery | None:
    # Ourselves we need not ask; and the binary would be Python's, which says nothing about us.
    if not words or words[0] == SELF:
        return None
    path = paths.get(words[0])
    return VersionQuery(path, words[1:]) if path is not None else None


def _programs(agent: Agent) -> Iterable[str]:
    for words in (agent.version, *(reach.command for reach in agent.transports.values())):
        if words:
            yield _first(words)
    for reach in agent.transports.values():
        if reach.version:
            yield _first(reach.version)


def _first(words: tuple[str, ...]) -> str:
    return expand_command(words[:1])[0] if words else ""


def _place(agent: Agent, transport: str) -> int:
    names: Sequence[str] = agent.tried
    return names.index(transport) if transport in names else len(names)
