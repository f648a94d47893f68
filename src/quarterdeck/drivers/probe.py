"""What is on this machine of the agents that are described: programs, versions, logins.

Looking starts nothing but version commands, and those once for each binary. Whether a user is
logged in follows from which files and variables exist, never from their contents.

The answer of a program is kept with the binary's identity (real path, size, time of change), so
that nothing is started twice to learn the same. What went wrong is kept for some minutes only.
"""

import asyncio
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from quarterdeck.config.errors import UnusablePlaceError
from quarterdeck.config.places import Places, make_private
from quarterdeck.system.api import CommandSpec, EndingDeadlines, Process, ProcessExit
from quarterdeck.system.environment import child_environment, find_program
from quarterdeck.system.errors import SpawnError, StillRunningError
from quarterdeck.system.local import LocalSystem
from quarterdeck.version import __version__
from quarterdeck.wire.clock import read_wall_seconds
from quarterdeck.wire.decoders import decode_json

from .agent_description import SELF, Agent, AgentTransport, LoginEvidence, expand_command
from .driver import Transport
from .transports import SESSION_TRANSPORTS

__all__ = [
    "AgentInstallation",
    "LoginState",
    "TransportInstallation",
    "VersionAnswer",
    "VersionQuery",
    "ask_versions",
    "login_state",
    "probe",
]

_AT_ONCE = 4
_READ = 65_536
"""Bytes of output within which a version must come."""
_LONGEST = 60
"""Characters that a version may have."""
_FAILURE_KEPT = 600.0
"""Seconds for which a failure is remembered."""
_MOST = 500
"""Answers that are kept."""
_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+[\w.+-]*)")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""Colours, which some programs print even to a pipe."""
_QUIET = {"LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "CI": "1"}
_END = EndingDeadlines(ask=0.0, terminate=0.3, kill=5.0)


@dataclass(frozen=True, slots=True)
class VersionQuery:
    """A program, by its absolute path, and the words that make it print its version."""

    path: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VersionAnswer:
    """The answer of a program: a version, or why there is none."""

    version: str | None
    problem: str = ""


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    words: tuple[str, ...]
    size: int
    modified: int
    """Nanoseconds."""
    version: str | None
    problem: str
    asked: float


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: int = 1
    answers: tuple[_Kept, ...] = ()


async def ask_versions(
    questions: Iterable[VersionQuery],
    memory: Path | None,
    *,
    environment: Mapping[str, str],
    limit: float = 3.0,
    refresh: bool = False,
) -> dict[VersionQuery, VersionAnswer]:
    """The answer to each question, from memory where the binary is still the same.

    Programs get a clean environment, no input and no project to look at; each is ended with all
    that it started when it has answered or ``limit`` seconds are over. ``memory`` is the file that
    keeps the answers; one that cannot be read or written is as good as none.
    """
    wanted = dict.fromkeys(questions)
    identities = await asyncio.to_thread(_identities, wanted)
    kept = () if memory is None else await asyncio.to_thread(_recall, memory)
    known = {} if refresh else _fitting(identities, kept)
    missing = [question for question in wanted if question not in known]
    if not missing:
        return known
    fresh = await _ask_all(missing, environment, limit)
    if memory is not None:
        now = [_keep(identities[one], answer) for one, answer in fresh.items()]
        await asyncio.to_thread(_remember, memory, now, kept)
    return known | fresh


async def _ask_all(
    questions: Sequence[VersionQuery], environment: Mapping[str, str], limit: float
) -> dict[VersionQuery, VersionAnswer]:
    own = {name: environment[name] for name in ("PATH", "HOME") if name in environment}
    turns = asyncio.Semaphore(_AT_ONCE)
    answers: dict[VersionQuery, VersionAnswer] = {}

    async def ask(question: VersionQuery) -> None:
        async with turns:
            answers[question] = await _ask(system, question, {**own, **_QUIET}, limit)

    async with LocalSystem(["/"]) as system, asyncio.TaskGroup() as group:
        for question in questions:
            group.create_task(ask(question))
    return answers


async def _ask(
    system: LocalSystem, question: VersionQuery, environment: Mapping[str, str], limit: float
) -> VersionAnswer:
    argv = (question.path, *question.words)
    try:
        process = await system.processes.spawn(CommandSpec(argv=argv, cwd="/", env=environment))
    except SpawnError as error:
        return VersionAnswer(None, f"cannot be started: {error}")
    try:
        async with asyncio.timeout(limit):
            process.close_input()
            return _answer(question, *await _hear(process))
    except TimeoutError:
        return VersionAnswer(None, f"{_shown(question)} did not answer within {limit:g} s")
    finally:
        with suppress(StillRunningError):
            await process.end(_END)


async def _hear(process: Process) -> tuple[str, ProcessExit | None]:
    """What it printed, and how it left; None when it printed more than a version."""
    data = b""
    while chunk := await process.receive():
        data += chunk
        if len(data) >= _READ:
            return data.decode("utf-8", "replace"), None
    exit_ = await process.wait()
    return data.decode("utf-8", "replace") + "\n" + process.stderr()[:_READ], exit_


def _answer(question: VersionQuery, text: str, exit_: ProcessExit | None) -> VersionAnswer:
    if exit_ is not None and not exit_.is_success:
        return VersionAnswer(None, f"{_shown(question)} ended with {exit_}")
    found = _VERSION.search(_ESCAPE.sub("", text))
    if found is None or len(found[1]) > _LONGEST:
        return VersionAnswer(None, f"{_shown(question)} printed no version")
    return VersionAnswer(found[1].rstrip(".-+"))


def _shown(question: VersionQuery) -> str:
    return f"`{' '.join((Path(question.path).name, *question.words))}`"


# Memory


def _identities(questions: Iterable[VersionQuery]) -> dict[VersionQuery, _Kept]:
    """What each binary is now, as an answer without content."""
    return {question: _identity(question) for question in questions}


def _identity(question: VersionQuery) -> _Kept:
    real = os.path.realpath(question.path)
    size, modified = 0, 0
    with suppress(OSError):
        status = Path(real).stat()
        size, modified = status.st_size, status.st_mtime_ns
    return _Kept(
        path=real,
        words=question.words,
        size=size,
        modified=modified,
        version=None,
        problem="",
        asked=0.0,
    )


def _key(kept: _Kept) -> tuple[str, tuple[str, ...]]:
    return kept.path, kept.words


def _fitting(
    identities: Mapping[VersionQuery, _Kept], kept: Iterable[_Kept]
) -> dict[VersionQuery, VersionAnswer]:
    """The kept answers of binaries that have not changed since."""
    by_key = {_key(one): one for one in kept}
    found: dict[VersionQuery, VersionAnswer] = {}
    for question, identity in identities.items():
        one = by_key.get(_key(identity))
        if one is None or (one.size, one.modified) != (identity.size, identity.modified):
            continue
        if one.version is not None or 0 <= read_wall_seconds() - one.asked < _FAILURE_KEPT:
            found[question] = VersionAnswer(one.version, one.problem)
    return found


def _keep(identity: _Kept, answer: VersionAnswer) -> _Kept:
    return msgspec.structs.replace(
        identity, version=answer.version, problem=answer.problem, asked=read_wall_seconds()
    )


def _recall(memory: Path) -> tuple[_Kept, ...]:
    try:
        file = decode_json(memory.read_bytes(), _File)
    except (OSError, msgspec.DecodeError):
        return ()
    return file.answers if file.format == _File().format else ()


def _remember(memory: Path, fresh: Sequence[_Kept], kept: Sequence[_Kept]) -> None:
    known = {_key(one): one for one in (*kept, *fresh)}
    newest = sorted(known.values(), key=lambda one: one.asked)[-_MOST:]
    beside = memory.with_name(f"{memory.name}.{os.getpid()}")
    with suppress(OSError, UnusablePlaceError):
        make_private(memory.parent)
        beside.write_bytes(msgspec.json.encode(_File(answers=tuple(newest))))
        beside.replace(memory)


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
