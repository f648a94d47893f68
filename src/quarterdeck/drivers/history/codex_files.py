"""The files of Codex sessions: rollouts, compressed or not, given names, the index."""

import contextlib
import os
import re
import subprocess
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from quarterdeck.system.environment import find_own_program

from ..foreign_json import as_map, as_number, as_text
from .databases import open_database
from .files import (
    FoundFile,
    ReadBudget,
    decode_json,
    json_lines,
    list_files,
    list_folders,
    make_title,
    open_plain,
    parse_time,
    tail_lines,
)
from .reader import ReadTally
from .session import HistoryError, HistoryUnreadableError

__all__ = [
    "IndexedSession",
    "Rollout",
    "RolloutPiece",
    "can_unpack",
    "current_rollouts",
    "find_rollouts",
    "open_rollout",
    "open_zstd",
    "read_first_prompts",
    "read_index",
    "read_names",
    "rollout_lineage",
]

_MOST = 4 << 30
"""Bytes that one file may unpack to."""


def can_unpack() -> bool:
    """Whether compressed files can be read here."""
    return _module() is not None or _program() is not None


@contextmanager
def open_zstd(path: Path) -> Generator[IO[bytes]]:
    """Open a compressed file for reading; ends after 4 GiB, whatever it unpacks to.

    Raises:
        HistoryUnreadableError: it cannot be opened, is damaged as far as it is read, or neither
            this Python nor a program can read it.
    """
    module, program = _module(), _program()
    if module is None and program is None:
        text = "it is compressed: install the program zstd, or use Python 3.14"
        raise HistoryUnreadableError(path, text)
    with open_plain(path) as packed:
        if module is not None:
            yield cast("IO[bytes]", _ByModule(path, module, packed))
            return
        with _ByProgram(path, cast("str", program), packed) as unpacked:
            yield cast("IO[bytes]", unpacked)


def _program() -> str | None:
    return find_own_program("zstd", [os.getcwd()])  # noqa: PTH109 - none of a project's


def _module() -> Any:
    try:
        return import_module("compression.zstd")
    except ImportError:
        return None


class _ByModule:
    """Reads through Python's own."""

    def __init__(self, path: Path, module: Any, packed: IO[bytes]) -> None:
        self._path = path
        self._error: type[Exception] = module.ZstdError
        self._file: IO[bytes] = module.open(packed, "rb")
        self._left = _MOST

    def read(self, wanted: int) -> bytes:
        try:
            data = self._file.read(min(wanted, self._left))
        except (OSError, EOFError, self._error) as error:
            raise HistoryUnreadableError(self._path, str(error)) from error
        self._left -= len(data)
        return data


class _ByProgram:
    """Reads what the program writes; it ends with us."""

    def __init__(self, path: Path, program: str, packed: IO[bytes]) -> None:
        self._path = path
        self._left = _MOST
        self._process = subprocess.Popen(
            (program, "-dcq"),
            stdin=packed.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
        )

    def __enter__(self) -> "_ByProgram":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def read(self, wanted: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(min(wanted, self._left))
        self._left -= len(data)
        if not data and self._left and self._process.wait():
            raise HistoryUnreadableError(self._path, "it is compressed, and damaged")
        return data


_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAME = re.compile(
    rf"rollout-(\d{{4}}-\d\d-\d\d)(?:T(\d\d-\d\d-\d\d))?-({_UUID})(?:_({_UUID}))?"
    r"\.(?:jsonl|json|jsonl\.zst)"
)
_LONGEST = 100
"""Files that one session is read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A file of a session."""

    file: FoundFile
    session: str
    """What Codex takes to go on with it."""
    id: str
    """The file's own: the session's for the first, another for each time of going back."""
    started: int
    """When the session began, in microseconds since the epoch."""

    @property
    def is_packed(self) -> bool:
        """Whether it is compressed."""
        return self.file.path.suffix == ".zst"

    @property
    def is_first(self) -> bool:
        """Whether it holds the beginning of the session."""
        return self.id == self.session

    @classmethod
    def of(cls, file: FoundFile) -> "Rollout | None":
        """What a file's name says; None if it is no rollout."""
        named = _NAME.fullmatch(file.path.name)
        if named is None:
            return None
        day, clock, session, piece = named.groups()
        text = f"{day}T{clock.replace('-', ':')}" if clock else day
        return cls(file=file, session=session, id=piece or session, started=parse_time(text))

    @classmethod
    def named(cls, path: Path) -> "Rollout | None":
        """The same of a path, without a look at the file."""
        return cls.of(FoundFile(path, 0, 0))


@dataclass(frozen=True, slots=True)
class RolloutPiece:
    """A part of a session: a file, up to a place."""

    path: Path
    end: int | None = None
    """The ordinal of the first entry that no longer counts; None: all do."""


def find_rollouts(home: Path) -> Iterator[Rollout]:
    """Every rollout below Codex's directory; plain and compressed at once counts once."""
    for folder in _folders(home):
        found = {one.path.name: one for one in list_files(folder, _is_rollout)}
        for name, file in found.items():
            if name.endswith(".zst") and name.removesuffix(".zst") in found:
                continue  # Codex unpacks it beside itself before it goes on with it
            rollout = Rollout.of(file)
            if rollout is not None:
                yield rollout


def current_rollouts(found: Iterable[Rollout]) -> list[Rollout]:
    """Of each session the file that it goes on in; those written last come first."""
    chosen: dict[str, Rollout] = {}
    for one in found:
        other = chosen.get(one.session)
        if other is None or _rank(one) > _rank(other):
            chosen[one.session] = one
    return sorted(chosen.values(), key=lambda one: one.file.changed, reverse=True)


def rollout_lineage(home: Path, path: Path) -> tuple[list[RolloutPiece], str | None]:
    """The pieces that a session is read from, the oldest first; and what is missing before them."""
    pieces = [RolloutPiece(path)]
    known: dict[str, Rollout] | None = None
    while len(pieces) < _LONGEST and (base := _base(pieces[0].path)):
        known = known or {one.id: one for one in find_rollouts(home)}
        before, end = as_text(base.get("thread_id")), base.get("end_ordinal_exclusive")
        source = known.pop(before, None)
        if source is None or not isinstance(end, int):
            return pieces, before
        pieces.insert(0, RolloutPiece(source.file.path, end))
    return pieces, None


def open_rollout(path: Path) -> AbstractContextManager[IO[bytes]]:
    """Open a rollout as lines, compressed or not.

    Raises:
        HistoryUnreadableError: it cannot be opened.
    """
    return open_zstd(path) if path.suffix == ".zst" else open_plain(path)


def _base(path: Path) -> Mapping[str, Any]:
    """The session that a file continues; empty if it continues none or cannot be read."""
    if path.suffix == ".json":
        return {}
    try:
        with open_rollout(path) as file:
            first = as_map(next(json_lines(file, ReadTally()), None))
    except (HistoryUnreadableError, OSError):
        return {}
    return as_map(as_map(first.get("payload")).get("history_base"))


def _folders(home: Path) -> Iterator[Path]:
    yield home / "archived_sessions"
    level = [home / "sessions"]
    for _ in ("all", "year", "month", "day"):
        yield from level
        level = [below for folder in level for below in list_folders(folder)]


def _is_rollout(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _rank(one: Rollout) -> tuple[bool, str, int]:
    """What comes later ranks higher: ids of files are made of the time."""
    return not one.is_first, one.id if not one.is_first else "", one.file.changed


_NAMES = 256 * 1024
"""Bytes of the end of the list of names that are read."""
_PROMPTS = 2 * 1024 * 1024
"""Bytes of the end of the list of prompts that are read: some ten thousand."""
_FIRST_SECONDS = 3_600
"""A prompt is a first one if its session is no older."""


@dataclass(frozen=True, slots=True)
class IndexedSession:
    """A session in the index."""

    cwd: str | None
    title: str | None
    is_sub_agent: bool


def read_names(home: Path, budget: ReadBudget) -> Mapping[str, str]:
    """The names that were given last, by session."""
    given: dict[str, str] = {}
    for file in list_files(home, lambda name: name == "session_index.jsonl"):
        for line in tail_lines(file.path, file.size, budget, most=_NAMES):
            data = as_map(decode_json(line))
            if name := make_title(as_text(data.get("thread_name"))):
                given.setdefault(as_text(data.get("id")), name)
    return given


def read_first_prompts(home: Path, budget: ReadBudget) -> Mapping[str, str]:
    """What was said first, by session, as far as Codex has noted it for its key ``up``.

    The list has every prompt that a person typed; a session's own file has the first one only
    behind tens of kilobytes of instructions.
    """
    prompts: dict[str, str] = {}
    for file in list_files(home, lambda name: name == "history.jsonl"):
        is_whole = file.size <= _PROMPTS
        for line in tail_lines(file.path, file.size, budget, most=_PROMPTS):
            data = as_map(decode_json(line))
            session, words = as_text(data.get("session_id")), make_title(as_text(data.get("text")))
            if words and _is_first(session, as_number(data.get("ts")), is_whole):
                prompts[session] = words  # the last line comes first, so that the oldest stays
    return prompts


def _is_first(session: str, seconds: float, is_whole: bool) -> bool:
    """Whether a prompt may be the first of its session; what a program said is not in the list."""
    begun = _time_of(session)
    return is_whole if begun is None else seconds - begun <= _FIRST_SECONDS


def _time_of(session: str) -> float | None:
    """When a session began, in seconds: its id is a UUID of version 7, which has the time."""
    digits = session.replace("-", "")
    if len(digits) != 32 or digits[12] != "7":
        return None
    try:
        return int(digits[:12], 16) / 1000
    except ValueError:
        return None


def read_index(home: Path) -> Mapping[str, IndexedSession]:
    """The newest index, by session; empty where it cannot be read."""
    found = list_files(home, lambda name: name.startswith("state_") and name.endswith(".sqlite"))
    newest = max(found, key=lambda one: one.changed, default=None)
    if newest is None:
        return {}
    data: dict[str, IndexedSession] = {}
    with contextlib.suppress(HistoryError), open_database(newest.path) as connection:
        query = "SELECT id, cwd, title, source FROM threads"
        for id_, cwd, title, source in connection.execute(query):
            data[as_text(id_)] = IndexedSession(
                as_text(cwd) or None, make_title(as_text(title)), "subagent" in as_text(source)
            )
    return data
