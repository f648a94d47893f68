"""``ls``: the names in a directory."""

from typing import Annotated

from msgspec import Meta

from quarterdeck.system.errors import NoSuchPath
from quarterdeck.system.port import Entry
from quarterdeck.wire.toolcalls import ToolCallLocation, ToolKind

from ..describe import describe
from ..targets import Target, expect_unmoved, look
from ..tool import Arguments, Live, Outcome, Prepared, ToolError, said
from ..truncate import keep_head
from ..workspace import Workspace

__all__ = ["Ls", "LsArguments"]

_LIMIT = 1000


class LsArguments(Arguments, frozen=True, kw_only=True):
    """Which directory to list."""

    path: Annotated[str, Meta(description="The directory; the working directory if not given.")] = (
        "."
    )


class Ls:
    """Lists a directory as it is, sorted by name; nothing is left out but what is said."""

    name = "ls"
    kind: ToolKind = "read"
    arguments = LsArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return describe(__name__)

    async def prepare(self, arguments: LsArguments, workspace: Workspace) -> Prepared:
        """Look at the directory. Raises NoSuchPath, OutsideRoots, ToolError."""
        target = await look(workspace, arguments.path, "read")
        if target.stat is None:
            raise NoSuchPath(arguments.path)
        if target.stat.kind != "directory":
            raise ToolError(f"{target.shown!r} is a {target.stat.kind}, no directory; use read.")

        async def run(live: Live) -> Outcome:
            return await _list(workspace, target)

        return Prepared(
            title=f"List {target.shown}",
            call=workspace.call(self.name, self.kind, paths=(target.use,)),
            run=run,
            locations=(ToolCallLocation(path=target.path),),
        )


async def _list(workspace: Workspace, target: Target) -> Outcome:
    await expect_unmoved(workspace.system.files, target)
    entries = await workspace.system.files.list(target.real)
    if not entries:
        return said(f"{target.shown} is empty.")
    kept = keep_head(map(_row, entries), max_lines=_LIMIT)
    if kept.is_whole:
        return said(kept.text)
    return said(
        f"{kept.text}\n({kept.lines} of {len(entries)} entries; use glob to narrow it down)"
    )


def _row(entry: Entry) -> str:
    match entry.kind:
        case "directory":
            return f"{entry.path}/"
        case "symlink":
            return f"{entry.path}@"
        case "file":
            return f"{entry.path}  {entry.size}"
        case kind:
            return f"{entry.path}  ({kind})"
