"""``ls``: the names in a directory."""

from typing import Annotated

from msgspec import Meta

from quarterdeck.system.api import DirectoryEntry
from quarterdeck.system.errors import NoSuchPathError
from quarterdeck.wire.tool_calls import ToolCallLocation, ToolKind

from ..file_access import FileTarget, expect_unmoved, look_up_path
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

__all__ = ["LsArguments", "LsTool"]

_LIMIT = 1000


class LsArguments(Arguments, frozen=True, kw_only=True):
    """Which directory to list."""

    path: Annotated[str, Meta(description="The directory; default: the working directory.")] = "."


class LsTool:
    """Lists a directory as it is, sorted by name; whatever is left out is counted in the result."""

    name = "ls"
    kind: ToolKind = "read"
    arguments = LsArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__name__)

    async def prepare(self, arguments: LsArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Look at the directory. Raises NoSuchPathError, OutsideRootsError, ToolError."""
        target = await look_up_path(workspace, arguments.path, "read")
        if target.stat is None:
            raise NoSuchPathError(arguments.path)
        if target.stat.kind != "directory":
            raise ToolError(f"{target.shown!r} is a {target.stat.kind}, not a directory; use read.")

        async def run(live: LiveCall) -> ToolOutcome:
            return await _list(workspace, target)

        return PreparedCall(
            title=f"List {target.shown}",
            call=workspace.call(self.name, self.kind, paths=(target.use,)),
            run=run,
            locations=(ToolCallLocation(path=target.path),),
        )


async def _list(workspace: ToolWorkspace, target: FileTarget) -> ToolOutcome:
    await expect_unmoved(workspace.system.files, target)
    entries = await workspace.system.files.list(target.real)
    if not entries:
        return text_outcome(f"{target.shown} is empty.")
    kept = keep_head(map(_row, entries), max_lines=_LIMIT)
    if kept.is_whole:
        return text_outcome(kept.text)
    return text_outcome(
        f"{kept.text}\n({kept.lines} of {len(entries)} entries; use glob to narrow the list)"
    )


def _row(entry: DirectoryEntry) -> str:
    match entry.kind:
        case "directory":
            return f"{entry.path}/"
        case "symlink":
            return f"{entry.path}@"
        case "file":
            return f"{entry.path}  {entry.size}"
        case kind:
            return f"{entry.path}  ({kind})"
