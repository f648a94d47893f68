"""The tool ``grep``: lines of files that match a regular expression, in bounded batches."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Literal, Protocol, TypeAlias

from msgspec import Meta

from quarterdeck.system.api import (
    CommandSpec,
    DirectoryEntry,
    EndingDeadlines,
    Files,
    Process,
    System,
)
from quarterdeck.system.errors import NoSuchPathError, PathError, SpawnError
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.terminal_text import count_noun
from quarterdeck.wire.tool_calls import ToolCallLocation, ToolKind

from ..file_access import FileTarget, expect_unmoved, look_up_path
from ..file_tree import DirectoryTree, list_tree
from ..globs import compile_glob
from ..tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    ToolError,
    ToolOutcome,
    read_description,
    text_outcome,
)
from ..truncation import keep_head
from ..workspace import ToolWorkspace
from . import search as program
from .prefilter import WORTH, LiteralFilter, find_candidates, make_literal_filter
from .search import NOTHING, FileMatches, GrepLine, GrepQuery, Searcher, frame, is_quick

__all__ = [
    "FILE_BYTES",
    "GrepArguments",
    "GrepReport",
    "GrepTool",
    "SearchEngine",
    "Skipped",
    "open_engine",
    "search_files",
]

_AT_ONCE = EndingDeadlines(ask=0, terminate=0)


class SearchEngine(Protocol):
    """Searches the content of files, one batch after the other."""

    async def search(self, batch: Sequence[bytes]) -> list[FileMatches]:
        """Search each content; one result for each, in order.

        Raises:
            ToolError: the search broke down.
        """
        ...


@asynccontextmanager
async def open_engine(query: GrepQuery, system: System) -> AsyncGenerator[SearchEngine, None]:
    """Open the engine for a query; cancelling a search ends what it runs in.

    Raises:
        ToolError: The pattern is not valid.
    """
    try:
        searcher = Searcher(query)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(f"The pattern {query.pattern!r} is not valid: {error}.") from error
    process = None if is_quick(query.pattern) else await _spawn(system)
    if process is None:
        yield _ThreadEngine(searcher)
        return
    try:
        yield _ProcessEngine(process, query)
    finally:
        await process.end(_AT_ONCE)


async def _spawn(system: System) -> Process | None:
    """Start the program; None where there is no Python to run it with."""
    if not sys.executable or not program.__file__:
        return None
    try:
        # Isolated and without site: it starts in a few milliseconds and imports nothing of ours.
        argv = (sys.executable, "-I", "-S", program.__file__)
        return await system.processes.spawn(CommandSpec(argv=argv))
    except SpawnError:
        return None


class _ThreadEngine:
    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    async def search(self, batch: Sequence[bytes]) -> list[FileMatches]:
        return await asyncio.to_thread(self._all, batch)

    def _all(self, batch: Sequence[bytes]) -> list[FileMatches]:
        return [self._searcher.search(data) for data in batch]


class _ProcessEngine:
    def __init__(self, process: Process, query: GrepQuery) -> None:
        self._process = process
        self._unsent = frame(json.dumps(query).encode())
        self._received = bytearray()

    async def search(self, batch: Sequence[bytes]) -> list[FileMatches]:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send(batch))
            receiving = group.create_task(self._receive(len(batch)))
        found = receiving.result()
        if found is None:
            raise ToolError(f"The search failed: {self._process.stderr()[-500:]}")
        return found

    async def _send(self, batch: Sequence[bytes]) -> None:
        try:
            for data in batch:
                await self._process.send(self._unsent + frame(data))
                self._unsent = b""
        except LinkError:
            return  # it is gone: receiving sees that too, and says so

    async def _receive(self, count: int) -> list[FileMatches] | None:
        found: list[FileMatches] = []
        while len(found) < count:
            data = await self._frame()
            if data is None:
                return None
            matches, rows, is_binary = json.loads(data)
            found.append(FileMatches(matches, tuple(GrepLine(*row) for row in rows), is_binary))
        return found

    async def _frame(self) -> bytes | None:
        while len(self._received) < 4 or len(self._received) < 4 + self._wanted:
            try:
                piece = await self._process.receive()
            except LinkError:
                return None
            if not piece:
                return None
            self._received += piece
        end = 4 + self._wanted
        data = bytes(self._received[4:end])
        del self._received[:end]
        return data

    @property
    def _wanted(self) -> int:
        return int.from_bytes(self._received[:4], "big")


FILE_BYTES = 16 * 1_048_576
"""Larger files are not searched."""
_BATCH_FILES = 64
_BATCH_BYTES = 16 * 1_048_576

Skipped: TypeAlias = Literal["large", "unreadable"]


async def search_files(
    files: Files,
    top: str,
    entries: Sequence[DirectoryEntry],
    engine: SearchEngine,
    sieve: LiteralFilter | None = None,
) -> AsyncIterator[tuple[str, FileMatches | Skipped]]:
    """Search the entries below ``top``, in their order; symlinks are not followed.

    What does not pass the ``sieve`` does not get to the engine.
    """
    regular = [entry for entry in entries if entry.kind == "file"]
    for batch in _batches(regular):
        read: list[bytes | FileMatches | Skipped] = list(
            await asyncio.gather(*(_read(files, top, entry) for entry in batch))
        )
        if sieve is not None:
            read = await asyncio.to_thread(_sifted, read, sieve)
        found = iter(await engine.search([data for data in read if isinstance(data, bytes)]))
        for entry, data in zip(batch, read, strict=True):
            yield entry.path, next(found) if isinstance(data, bytes) else data


def _sifted(
    read: Sequence[bytes | FileMatches | Skipped], sieve: LiteralFilter
) -> list[bytes | FileMatches | Skipped]:
    return [
        NOTHING if isinstance(data, bytes) and not sieve.passes(data) else data for data in read
    ]


def _batches(entries: Sequence[DirectoryEntry]) -> Iterator[list[DirectoryEntry]]:
    batch: list[DirectoryEntry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) >= _BATCH_FILES or size + (entry.size or 0) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += min(entry.size or 0, FILE_BYTES)
    if batch:
        yield batch


async def _read(files: Files, top: str, entry: DirectoryEntry) -> bytes | Skipped:
    if (entry.size or 0) > FILE_BYTES:
        return "large"
    try:
        path = f"{top.rstrip('/')}/{entry.path}" if entry.path else top
        content = await files.read(path, limit=FILE_BYTES)
    except PathError:
        return "unreadable"
    return content.data if content.at_end else "large"


_NARROW = "narrow the search with path, glob or pattern"


class GrepReport:
    """Collects matches, file by file, up to a limit; counts all of them."""

    def __init__(
        self,
        mode: Literal["content", "files", "count"],
        limit: int,
        *,
        is_multiline: bool = False,
        has_context: bool = False,
    ) -> None:
        self._has_context = has_context
        self._mode = mode
        self._limit = limit
        self._unit = "matches" if is_multiline else "matching lines"
        self._rows: list[str] = []
        self._shown = 0
        self._matches = 0
        self._files = 0
        self._skipped: dict[Skipped, int] = {"large": 0, "unreadable": 0}

    def add(self, path: str, found: FileMatches | Skipped) -> None:
        """Take in what was found in the next file."""
        if isinstance(found, str):
            self._skipped[found] += 1
            return
        if not found.total:
            return
        self._matches += found.total
        self._files += 1
        if self._mode == "content":
            self._add_content(path, found)
        elif self._shown < self._limit:
            self._shown += 1
            self._rows.append(path if self._mode == "files" else f"{path}:{found.total}")

    def text(self, pattern: str, where: str, notes: Iterable[str]) -> str:
        """The result, and what is missing from it."""
        after = [*self._skips(), *notes]
        if not self._files:
            return "\n".join([f"Nothing in {where} matches {pattern!r}.", *after])
        kept = keep_head(self._rows, max_lines=len(self._rows))
        found = f"{self._matches} {self._unit} in {count_noun(self._files, 'file')}"
        shown_all = self._shown == (self._matches if self._mode == "content" else self._files)
        if not kept.is_whole:
            after.insert(0, f"({found}; only the first {kept.lines} lines are shown: {_NARROW})")
        elif not shown_all:
            after.insert(0, f"({found}; only the first {self._shown} are shown: {_NARROW})")
        elif self._mode == "count":
            after.insert(0, f"({found})")
        return "\n".join([kept.text, *after])

    def _add_content(self, path: str, found: FileMatches) -> None:
        room = self._limit - self._shown
        previous = -1
        for row in found.rows:
            if row.near > room:
                continue
            if self._has_context and self._rows and row.number != previous + 1:
                self._rows.append("--")
            sign = ":" if 0 < row.match <= room else "-"
            self._rows.append(f"{path}{sign}{row.number}{sign}{row.text}")
            previous = row.number
        self._shown += min(found.total, room)

    def _skips(self) -> Iterator[str]:
        if count := self._skipped["large"]:
            yield f"({count} files are larger than {FILE_BYTES} bytes and were not searched)"
        if count := self._skipped["unreadable"]:
            yield f"({count} files could not be read)"


GrepMode: TypeAlias = Literal["content", "files", "count"]
_LINES = 200
_FILES = 500
_SECONDS = 60.0
_PATTERN_LENGTH = 2000


class GrepArguments(Arguments, frozen=True, kw_only=True):
    """What to look for, and where."""

    pattern: Annotated[str, Meta(min_length=1, description="Regular expression, Python syntax.")]
    path: Annotated[str, Meta(description="Directory or file; default: the working directory.")] = (
        "."
    )
    glob: Annotated[str | None, Meta(description="Only files that match, such as `*.py`.")] = None
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=50, description="Lines around each match.")] = 0
    mode: GrepMode = "content"
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Matches (or files) to show; default 200 (500)."),
    ] = None
    multiline: Annotated[bool, Meta(description="Allow a match to span several lines.")] = False


class GrepTool:
    """Searches files; the same answer each time, and the end of it says what is missing."""

    name = "grep"
    kind: ToolKind = "search"
    arguments = GrepArguments

    def __init__(self, *, worth: int = WORTH) -> None:
        """``worth``: from how many bytes of files on ripgrep is asked first, where it is."""
        self._worth = worth

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__name__)

    async def prepare(self, arguments: GrepArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Look at the path and the patterns.

        Raises NoSuchPathError, OutsideRootsError, ToolError.
        """
        if len(arguments.pattern) > _PATTERN_LENGTH:
            raise ToolError(f"The pattern is longer than {_PATTERN_LENGTH} characters.")
        only = compile_glob(arguments.glob) if arguments.glob else None
        target = await look_up_path(workspace, arguments.path, "read")
        if target.stat is None:
            raise NoSuchPathError(arguments.path)

        async def run(live: LiveCall) -> ToolOutcome:
            return await _grep(arguments, workspace, target, only, self._worth)

        return PreparedCall(
            title=f"Search {arguments.pattern!r}"
            + ("" if target.shown == "." else f" in {target.shown}"),
            call=workspace.call(self.name, self.kind, paths=(target.use,)),
            run=run,
            locations=(ToolCallLocation(path=target.path),),
            timeout=_SECONDS,
        )


async def _grep(
    arguments: GrepArguments,
    workspace: ToolWorkspace,
    target: FileTarget,
    only: re.Pattern[str] | None,
    worth: int,
) -> ToolOutcome:
    await expect_unmoved(workspace.system.files, target)
    limit = arguments.limit or (_LINES if arguments.mode == "content" else _FILES)
    report = GrepReport(
        arguments.mode,
        limit,
        is_multiline=arguments.multiline,
        has_context=arguments.context > 0,
    )
    query = GrepQuery(
        arguments.pattern,
        arguments.ignore_case,
        arguments.multiline,
        arguments.context,
        limit if arguments.mode == "content" else 0,
    )
    async with open_engine(query, workspace.system) as engine:
        tree, prefix = await _candidates(workspace, target)
        entries = [e for e in tree.files if not only or not e.path or only.fullmatch(e.path)]
        sieve = make_literal_filter(query)
        if sieve is not None:
            entries = await _promising(workspace.system, target.real, entries, sieve, worth)
        found = search_files(workspace.system.files, target.real, entries, engine, sieve)
        async for path, matches in found:
            report.add(prefix + path if path else target.shown, matches)
    return text_outcome(report.text(arguments.pattern, target.shown, tree.notes))


async def _promising(
    system: System, top: str, entries: list[DirectoryEntry], sieve: LiteralFilter, worth: int
) -> list[DirectoryEntry]:
    """The entries without those of which ripgrep knows that they cannot match."""
    small = [e for e in entries if e.path and e.kind == "file" and (e.size or 0) <= FILE_BYTES]
    if sum(entry.size or 0 for entry in small) < worth:
        return entries
    kept = await find_candidates(system, top, small, sieve)
    if kept is None:
        return entries
    hopeless = {entry.path for entry in small} - kept
    return [entry for entry in entries if entry.path not in hopeless]


async def _candidates(workspace: ToolWorkspace, target: FileTarget) -> tuple[DirectoryTree, str]:
    """What to search, and what to put before each path. A file that is named is searched alone."""
    files = workspace.system.files
    if target.stat is not None and target.stat.kind == "directory":
        prefix = "" if target.shown == "." else target.shown.rstrip("/") + "/"
        return await list_tree(files, target.real, may_read=workspace.may_read), prefix
    if target.stat is None or target.stat.kind != "file":
        raise ToolError(f"{target.shown!r} is neither a file nor a directory.")
    return DirectoryTree(files=(DirectoryEntry(path="", kind="file", size=target.stat.size),)), ""
