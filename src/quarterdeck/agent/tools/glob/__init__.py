"""``glob``: files by their path."""

import asyncio
import re
from typing import Annotated

from msgspec import Meta

from quarterdeck.system.errors import NoSuchPathError
from quarterdeck.wire.tool_calls import ToolCallLocation, ToolKind

from ..file_access import FileTarget, expect_unmoved, look_up_path
from ..file_tree import DirectoryTree, list_tree
from ..globs import compile_glob, split_fixed
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

__all__ = ["GlobArguments", "GlobTool"]

_LIMIT = 500


class GlobArguments(Arguments, frozen=True, kw_only=True):
    """Which paths to find."""

    pattern: Annotated[
        str, Meta(min_length=1, description="Such as `**/*.py`, relative to `path`.")
    ]
    path: Annotated[str, Meta(description="The directory; default: the working directory.")] = "."


class GlobTool:
    """Finds the files below a directory whose path matches; the same answer each time."""

    name = "glob"
    kind: ToolKind = "search"
    arguments = GlobArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__name__)

    async def prepare(self, arguments: GlobArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Look at the directory. Raises NoSuchPathError, OutsideRootsError, ToolError."""
        path, pattern = arguments.path, arguments.pattern
        if pattern.startswith("/"):
            path, pattern = split_fixed(pattern)
        if ".." in pattern.split("/"):
            raise ToolError("A pattern cannot contain '..'; give the directory as path.")
        regex = compile_glob(pattern)
        target = await look_up_path(workspace, path, "read")
        if target.stat is None:
            raise NoSuchPathError(path)
        if target.stat.kind != "directory":
            raise ToolError(f"{target.shown!r} is not a directory; give the directory to search.")

        async def run(live: LiveCall) -> ToolOutcome:
            return await _find(workspace, target, regex, arguments.pattern)

        return PreparedCall(
            title=f"Find {pattern}" + ("" if target.shown == "." else f" in {target.shown}"),
            call=workspace.call(self.name, self.kind, paths=(target.use,)),
            run=run,
            locations=(ToolCallLocation(path=target.path),),
        )


async def _find(
    workspace: ToolWorkspace, target: FileTarget, regex: re.Pattern[str], pattern: str
) -> ToolOutcome:
    await expect_unmoved(workspace.system.files, target)
    tree = await list_tree(workspace.system.files, target.real, may_read=workspace.may_read)
    return text_outcome(await asyncio.to_thread(_result_text, target, tree, regex, pattern))


def _result_text(
    target: FileTarget, tree: DirectoryTree, regex: re.Pattern[str], pattern: str
) -> str:
    prefix = "" if target.shown == "." else target.shown.rstrip("/") + "/"
    paths = [prefix + entry.path for entry in tree.files if regex.fullmatch(entry.path)]
    notes = list(tree.notes)
    if not paths:
        return "\n".join([f"No file in {target.shown} matches {pattern!r}.", *notes])
    kept = keep_head(paths, max_lines=_LIMIT)
    if not kept.is_whole:
        notes.insert(0, f"({kept.lines} of {len(paths)} files; give a narrower pattern or path)")
    return "\n".join([kept.text, *notes])
