"""``grep``: lines of files that match a regular expression."""

import re
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from quarterdeck.system.errors import NoSuchPath
from quarterdeck.system.port import Entry, System
from quarterdeck.wire.toolcalls import ToolCallLocation, ToolKind

from ..describe import describe
from ..globs import compile_glob
from ..targets import Target, expect_unmoved, look
from ..tool import Arguments, Live, Outcome, Prepared, ToolError, said
from ..tree import Tree, survey
from ..workspace import Workspace
from .engines import open_engine
from .report import Report
from .ripgrep import WORTH, without_hopeless
from .search import Query
from .sieve import Sieve, sieve_of
from .sweep import FILE_BYTES, sweep

__all__ = ["Grep", "GrepArguments"]

Mode: TypeAlias = Literal["content", "files", "count"]
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
    mode: Mode = "content"
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Matches (or files) to show; default 200 (500)."),
    ] = None
    multiline: Annotated[bool, Meta(description="Let a match go over several lines.")] = False


class Grep:
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
        return describe(__name__)

    async def prepare(self, arguments: GrepArguments, workspace: Workspace) -> Prepared:
        """Look at the path and the patterns. Raises NoSuchPath, OutsideRoots, ToolError."""
        if len(arguments.pattern) > _PATTERN_LENGTH:
            raise ToolError(f"The pattern is longer than {_PATTERN_LENGTH} characters.")
        only = compile_glob(arguments.glob) if arguments.glob else None
        target = await look(workspace, arguments.path, "read")
        if target.stat is None:
            raise NoSuchPath(arguments.path)

        async def run(live: Live) -> Outcome:
            return await _grep(arguments, workspace, target, only, self._worth)

        return Prepared(
            title=f"Search {arguments.pattern!r}"
            + ("" if target.shown == "." else f" in {target.shown}"),
            call=workspace.call(self.name, self.kind, paths=(target.use,)),
            run=run,
            locations=(ToolCallLocation(path=target.path),),
            timeout=_SECONDS,
        )


async def _grep(
    arguments: GrepArguments,
    workspace: Workspace,
    target: Target,
    only: re.Pattern[str] | None,
    worth: int,
) -> Outcome:
    await expect_unmoved(workspace.system.files, target)
    limit = arguments.limit or (_LINES if arguments.mode == "content" else _FILES)
    report = Report(
        arguments.mode,
        limit,
        is_multiline=arguments.multiline,
        has_context=arguments.context > 0,
    )
    query = Query(
        arguments.pattern,
        arguments.ignore_case,
        arguments.multiline,
        arguments.context,
        limit if arguments.mode == "content" else 0,
    )
    async with open_engine(query, workspace.system) as engine:
        tree, prefix = await _candidates(workspace, target)
        entries = [e for e in tree.files if not only or not e.path or only.fullmatch(e.path)]
        sieve = sieve_of(query)
        if sieve is not None:
            entries = await _promising(workspace.system, target.real, entries, sieve, worth)
        found = sweep(workspace.system.files, target.real, entries, engine, sieve)
        async for path, matches in found:
            report.add(prefix + path if path else target.shown, matches)
    return said(report.text(arguments.pattern, target.shown, tree.notes))


async def _promising(
    system: System, top: str, entries: list[Entry], sieve: Sieve, worth: int
) -> list[Entry]:
    """The entries without those of which ripgrep knows that they cannot match."""
    small = [e for e in entries if e.path and e.kind == "file" and (e.size or 0) <= FILE_BYTES]
    if sum(entry.size or 0 for entry in small) < worth:
        return entries
    kept = await without_hopeless(system, top, small, sieve)
    if kept is None:
        return entries
    hopeless = {entry.path for entry in small} - kept
    return [entry for entry in entries if entry.path not in hopeless]


async def _candidates(workspace: Workspace, target: Target) -> tuple[Tree, str]:
    """What to search, and what to put before each path. A file that is named is searched alone."""
    files = workspace.system.files
    if target.stat is not None and target.stat.kind == "directory":
        prefix = "" if target.shown == "." else target.shown.rstrip("/") + "/"
        return await survey(files, target.real, may_read=workspace.may_read), prefix
    if target.stat is None or target.stat.kind != "file":
        raise ToolError(f"{target.shown!r} is neither a file nor a directory.")
    return Tree(files=(Entry(path="", kind="file", size=target.stat.size),)), ""
