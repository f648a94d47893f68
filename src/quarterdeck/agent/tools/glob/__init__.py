"""``glob``: files by their path."""

import asyncio
import re
from typing import Annotated

from msgspec import Meta

from quarterdeck.system.errors import NoSuchPath
from quarterdeck.wire.toolcalls import ToolCallLocation, ToolKind

from ..describe import describe
from ..globs import compile_glob, split_fixed
from ..targets import Target, expect_unmoved, look
from ..tool import Arguments, Live, Outcome, Prepared, ToolError, said
from ..tree import Tree, survey
from ..truncate import keep_head
from ..workspace import Workspace

__all__ = ["Glob", "GlobArguments"]

_LIMIT = 500


class GlobArguments(Arguments, frozen=True, kw_only=True):
    """Which paths to find."""

    pattern: Annotated[
        str, Meta(min_length=1, description="Such as `**/*.py`, relative to `path`.")
    ]
    path: Annotated[str, Meta(description="The directory; the working directory if not given.")] = (
        "."
    )


class Glob:
    """Finds the files below a directory whose path matches; the same answer each time."""

    name = "glob"
    kind: ToolKind = "search"
    arguments = GlobArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return describe(__name__)

    async def prepare(self, arguments: GlobArguments, workspace: Workspace) -> Prepared:
        """Look at the directory. Raises NoSuchPath, OutsideRoots, ToolError."""
        path, pattern = arguments.path, arguments.pattern
        if pattern.startswith("/"):
            path, pattern = split_fixed(pattern)
        if ".." in pattern.split("/"):
            raise ToolError("A pattern cannot hold '..'; give the directory as path.")
        regex = compile_glob(pattern)
        target = await look(workspace, path, "read")
        if target.stat is None:
            raise NoSuchPath(path)
        if target.stat.kind != "directory":
            raise ToolError(f"{target.shown!r} is no directory; give the one to search in.")

        async def run(live: Live) -> Outcome:
            return await _find(workspace, target, regex, arguments.pattern)

        return Prepared(
            title=f"Find {pattern}" + ("" if target.shown == "." else f" in {target.shown}"),
            call=workspace.call(self.name, self.kind, paths=(target.use,)),
            run=run,
            locations=(ToolCallLocation(path=target.path),),
        )


async def _find(
    workspace: Workspace, target: Target, regex: re.Pattern[str], pattern: str
) -> Outcome:
    await expect_unmoved(workspace.system.files, target)
    tree = await survey(workspace.system.files, target.real, may_read=workspace.may_read)
    return said(await asyncio.to_thread(_told, target, tree, regex, pattern))


def _told(target: Target, tree: Tree, regex: re.Pattern[str], pattern: str) -> str:
    prefix = "" if target.shown == "." else target.shown.rstrip("/") + "/"
    paths = [prefix + entry.path for entry in tree.files if regex.fullmatch(entry.path)]
    notes = list(tree.notes)
    if not paths:
        return "\n".join([f"No file in {target.shown} matches {pattern!r}.", *notes])
    kept = keep_head(paths, max_lines=_LIMIT)
    if not kept.is_whole:
        notes.insert(0, f"({kept.lines} of {len(paths)} files; give a narrower pattern or path)")
    return "\n".join([kept.text, *notes])
