"""The path that a call names: where it really leads, and how people see it."""

from dataclasses import dataclass

from quarterdeck.policy.call import Access, PathUse
from quarterdeck.system.errors import NoSuchPath
from quarterdeck.system.port import Files, Identity, Stat

from .tool import ToolError
from .workspace import Workspace

__all__ = ["Target", "expect_unmoved", "is_same", "look", "look_at_file", "shown_path"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A path of a call, looked at once; what policy judges is what is used later."""

    use: PathUse
    shown: str
    """For people and the model: relative to the working directory where it is below."""
    stat: Stat | None
    """None: nothing is there."""

    @property
    def real(self) -> str:
        """Where the path leads after symlinks."""
        return self.use.resolved

    @property
    def path(self) -> str:
        """The path as it was given, made absolute."""
        return self.use.path


async def look(workspace: Workspace, path: str, access: Access) -> Target:
    """Look where ``path`` leads; it may be missing.

    Raises:
        OutsideRoots: it leads out of the workspace.
        ToolError: it is a symlink to nothing.
    """
    files = workspace.system.files
    given = workspace.path(path, access).path
    shown = shown_path(workspace, given)
    try:
        stat = await files.stat(given)
    except NoSuchPath:
        await _expect_no_symlink(files, given, shown)
        real = await _future_path(files, given)
        return Target(use=workspace.path(given, access, real), shown=shown, stat=None)
    return Target(use=workspace.path(given, access, stat.path), shown=shown, stat=stat)


async def look_at_file(workspace: Workspace, path: str, access: Access) -> tuple[Target, Stat]:
    """Look at a file that has to be there. Raises as ``look``, NoSuchPath, ToolError."""
    target = await look(workspace, path, access)
    if target.stat is None:
        raise NoSuchPath(path)
    if target.stat.kind == "directory":
        raise ToolError(f"{target.shown!r} is a directory; list it with ls.")
    if target.stat.kind != "file":
        raise ToolError(
            f"{target.shown!r} is a {target.stat.kind}; only regular files can be read or written."
        )
    return target, target.stat


async def expect_unmoved(files: Files, target: Target) -> None:
    """Make sure that the path still leads where it led when the call was judged.

    Raises:
        ToolError: somebody replaced a part of the path by a symlink.
    """
    try:
        now = (await files.stat(target.real)).path
    except NoSuchPath:
        now = await _future_path(files, target.real)
    if now != target.real:
        raise ToolError(
            f"{target.shown!r} leads to another place than when the call was looked at; "
            "nothing was done. Look at the path again."
        )


def is_same(seen: Identity, now: Identity) -> bool:
    """Whether two looks at a file saw the same content, as far as both know."""
    if seen.digest and now.digest:
        return seen.digest == now.digest
    return (seen.device, seen.inode, seen.size, seen.modified_ns) == (
        now.device,
        now.inode,
        now.size,
        now.modified_ns,
    )


def shown_path(workspace: Workspace, path: str) -> str:
    """An absolute path as people see it: relative to the working directory where it is below."""
    if path == workspace.cwd:
        return "."
    return path.removeprefix(workspace.cwd.rstrip("/") + "/")


async def _expect_no_symlink(files: Files, given: str, shown: str) -> None:
    try:
        stat = await files.stat(given, follow=False)
    except NoSuchPath:
        return
    if stat.kind == "symlink":
        raise ToolError(
            f"{shown!r} is a symlink to something that does not exist. Use the path that it "
            "should lead to."
        )


async def _future_path(files: Files, given: str) -> str:
    """Where a path that does not exist would be: its nearest existing parent decides."""
    parent, missing = given, ""
    while parent not in ("", "/"):
        parent, _, name = parent.rpartition("/")
        missing = f"/{name}{missing}"
        try:
            return (await files.stat(parent or "/")).path.rstrip("/") + missing
        except NoSuchPath:
            await _expect_no_symlink(files, parent or "/", parent)
    return given
