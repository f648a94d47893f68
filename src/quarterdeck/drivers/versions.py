"""Asking programs for their versions: with a limit, a few at a time, and once for each binary.

What a program said is kept with what the binary was (its real path, size and time of change), so
that nothing is started twice to learn the same. What went wrong is kept for some minutes only.
"""

import asyncio
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from quarterdeck.config.errors import UnusablePlaceError
from quarterdeck.config.places import make_private
from quarterdeck.system.api import CommandSpec, EndingDeadlines, Process, ProcessExit
from quarterdeck.system.errors import SpawnError, StillRunningError
from quarterdeck.system.local import LocalSystem
from quarterdeck.wire.clock import read_wall_seconds

__all__ = ["VersionAnswer", "VersionQuery", "ask_versions"]

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
"""Colours, which some print whoever reads."""
_QUIET = {"LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "CI": "1"}
_END = EndingDeadlines(ask=0.0, terminate=0.3, kill=5.0)


@dataclass(frozen=True, slots=True)
class VersionQuery:
    """A program, by its absolute path, and the words that make it tell its version."""

    path: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VersionAnswer:
    """What it said: a version, or why there is none."""

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
    """What it printed, and how it left; None when it printed more than anybody wants to read."""
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
        file = msgspec.json.decode(memory.read_bytes(), type=_File)
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
