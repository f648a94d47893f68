"""A file that a call names: where its path leads, whether the model has seen it, what its text
is.
"""

from dataclasses import dataclass

from quarterdeck.policy.call import Access, PathUse
from quarterdeck.system.api import FileIdentity, Files, FileStat
from quarterdeck.system.errors import NoSuchPathError

from .tool import ToolError
from .workspace import ToolWorkspace

__all__ = [
    "HEAD_BYTES",
    "FileTarget",
    "FileText",
    "binary_reason",
    "decode_file",
    "expect_seen",
    "expect_unmoved",
    "is_same",
    "look_up_file",
    "look_up_path",
    "shown_path",
    "uses_crlf",
    "with_crlf",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """A path of a call, looked at once; what policy judges is what is used later."""

    use: PathUse
    shown: str
    """For people and the model: relative to the working directory where it is below."""
    stat: FileStat | None
    """None: nothing is there."""

    @property
    def real(self) -> str:
        """Where the path leads after symlinks."""
        return self.use.resolved

    @property
    def path(self) -> str:
        """The path as it was given, made absolute."""
        return self.use.path


async def look_up_path(workspace: ToolWorkspace, path: str, access: Access) -> FileTarget:
    """Look where ``path`` leads; it may be missing.

    Raises:
        OutsideRootsError: it leads out of the workspace.
        ToolError: it is a symlink to nothing.
    """
    files = workspace.system.files
    given = workspace.path(path, access).path
    shown = shown_path(workspace, given)
    try:
        stat = await files.stat(given)
    except NoSuchPathError:
        await _expect_no_symlink(files, given, shown)
        real = await _future_path(files, given)
        return FileTarget(use=workspace.path(given, access, real), shown=shown, stat=None)
    return FileTarget(use=workspace.path(given, access, stat.path), shown=shown, stat=stat)


async def look_up_file(
    workspace: ToolWorkspace, path: str, access: Access
) -> tuple[FileTarget, FileStat]:
    """Look at a file that has to be there. Raises as ``look_up_path``, NoSuchPath, ToolError."""
    target = await look_up_path(workspace, path, access)
    if target.stat is None:
        raise NoSuchPathError(path)
    if target.stat.kind == "directory":
        raise ToolError(f"{target.shown!r} is a directory; list it with ls.")
    if target.stat.kind != "file":
        raise ToolError(
            f"{target.shown!r} is a {target.stat.kind}; only regular files can be read or written."
        )
    return target, target.stat


async def expect_unmoved(files: Files, target: FileTarget) -> None:
    """Make sure that the path still leads where it led when the call was judged.

    Raises:
        ToolError: a part of the path was replaced by a symlink.
    """
    try:
        now = (await files.stat(target.real)).path
    except NoSuchPathError:
        now = await _future_path(files, target.real)
    if now != target.real:
        raise ToolError(
            f"{target.shown!r} now resolves to a different path than when the call was checked; "
            "nothing was done. Check the path again."
        )


def is_same(seen: FileIdentity, now: FileIdentity) -> bool:
    """Whether two looks at a file saw the same content, as far as both know."""
    if seen.digest and now.digest:
        return seen.digest == now.digest
    return (seen.device, seen.inode, seen.size, seen.modified_ns) == (
        now.device,
        now.inode,
        now.size,
        now.modified_ns,
    )


def shown_path(workspace: ToolWorkspace, path: str) -> str:
    """An absolute path as people see it: relative to the working directory where it is below."""
    if path == workspace.cwd:
        return "."
    return path.removeprefix(workspace.cwd.rstrip("/") + "/")


async def _expect_no_symlink(files: Files, given: str, shown: str) -> None:
    try:
        stat = await files.stat(given, follow=False)
    except NoSuchPathError:
        return
    if stat.kind == "symlink":
        raise ToolError(
            f"{shown!r} is a symlink to something that does not exist. Use the target path."
        )


async def _future_path(files: Files, given: str) -> str:
    """Where a path that does not exist would be: its nearest existing parent decides."""
    parent, missing = given, ""
    while parent not in ("", "/"):
        parent, _, name = parent.rpartition("/")
        missing = f"/{name}{missing}"
        try:
            return (await files.stat(parent or "/")).path.rstrip("/") + missing
        except NoSuchPathError:
            await _expect_no_symlink(files, parent or "/", parent)
    return given


def expect_seen(
    workspace: ToolWorkspace, target: FileTarget, now: FileIdentity | None = None
) -> None:
    """Make sure that the file was read, and, where ``now`` is known, that it is as it was then.

    Raises:
        ToolError: it was not, or has changed since.
    """
    seen = workspace.seen.get(target.real)
    if seen is None:
        raise ToolError(
            f"{target.shown!r} was not read in this session; nothing was changed. "
            "Read it first, then retry."
        )
    if now is not None and not is_same(seen, now):
        raise ToolError(
            f"{target.shown!r} was changed since it was read; nothing was written. Read it again, "
            "then retry."
        )


HEAD_BYTES = 8192
"""How much of a file is looked at to see whether it is text."""
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """The text of a file without its byte order mark; line ends are as in the file."""

    text: str
    has_bom: bool

    def encode(self, text: str) -> bytes:
        """Make the bytes of the file with other text in it."""
        return ((_BOM if self.has_bom else "") + text).encode("utf-8")


def binary_reason(head: bytes) -> str:
    """Say why the first bytes of a file are no text; empty when they are."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16 text; only UTF-8 is supported"
    if head.startswith(b"%PDF-"):
        return "it is a PDF document"
    if b"\0" in head[:HEAD_BYTES]:
        return "it contains NUL bytes"
    return ""


def decode_file(data: bytes, shown: str) -> FileText:
    """Read the content of a file that is to be changed.

    Raises:
        ToolError: it is no UTF-8; writing it back would change what was not touched.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{shown!r} is not UTF-8 (byte {error.start} is {data[error.start]:#04x}); editing it "
            "would damage it. Change it with a command that supports its encoding."
        ) from error
    return FileText(text=text.removeprefix(_BOM), has_bom=text.startswith(_BOM))


def uses_crlf(text: str) -> bool:
    """Whether most lines end in CR LF."""
    crlf = text.count("\r\n")
    return crlf > text.count("\n") - crlf


def with_crlf(text: str) -> str:
    """The text with every line end as CR LF."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
