"""Text files through the client, so that what is unsaved in its editor counts.

Where a path leads, whether it may be used, and what is no text is decided here, on this machine;
only the text itself goes through the client. A client that refuses a file is obeyed.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec.structs import replace

from quarterdeck.system.api import (
    DirectoryEntry,
    FileContent,
    FileIdentity,
    FileLines,
    FileStat,
    PathLike,
    System,
)
from quarterdeck.system.errors import FileChangedError, NoSuchPathError, PathRefusedError
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.errors import RESOURCE_NOT_FOUND, MalformedAnswerError
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.errors import QuarterdeckError, RpcError

__all__ = ["DelegatedFiles", "DelegationClient"]

P = TypeVar("P")
R = TypeVar("R")


class DelegationClient(Protocol):
    """A way to ask the client about one session."""

    @property
    def session_id(self) -> str:
        """The session, as the client knows it."""
        ...

    async def call(self, method: Method[P, R], params: P, *, timeout: float | None = None) -> R:
        """Ask the client.

        Raises:
            OperatingSystemError: it is gone.
            RpcError: it answered with an error.
            TimeoutError: it did not answer in time (seconds).
        """
        ...


_LARGEST = 4 * 1_048_576
"""Bytes; a larger file goes not through the client."""
_HEAD = 8192


class DelegatedFiles:
    """The ``Files`` port through a client; see there for what holds."""

    is_disk = False

    def __init__(self, link: DelegationClient, local: System) -> None:
        self._link = link
        self._local = local.files
        self._roots = local.roots
        self._real_roots: tuple[str, ...] | None = None

    async def stat(self, path: PathLike, *, follow: bool = True) -> FileStat:
        """Look at a path on the disk."""
        return await self._local.stat(path, follow=follow)

    async def read(
        self, path: PathLike, *, offset: int = 0, limit: int | None = None
    ) -> FileContent:
        """Read bytes: of the editor's text, or of the disk for what is no text."""
        stat = await self._local.stat(path)
        data = await self._text(path, stat)
        if data is None:
            return await self._local.read(path, offset=offset, limit=limit)
        end = len(data) if limit is None else offset + limit
        return FileContent(
            data=data[offset:end], identity=_identity(stat, data), at_end=end >= len(data)
        )

    async def read_lines(
        self,
        path: PathLike,
        *,
        line: int = 1,
        limit: int | None = None,
        max_bytes: int = 1_048_576,
    ) -> FileLines:
        """Read a window of lines of the editor's text."""
        stat = await self._local.stat(path)
        data = await self._text(path, stat)
        if data is None:
            return await self._local.read_lines(path, line=line, limit=limit, max_bytes=max_bytes)
        first = max(line, 1)
        window, count, is_cut = _window(data, first, limit, max_bytes)
        total = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
        return FileLines(
            data=window,
            identity=_identity(stat, data),
            first=first,
            count=count,
            total=total,
            is_cut=is_cut,
        )

    async def write(
        self,
        path: PathLike,
        data: bytes,
        *,
        expected: FileIdentity | None = None,
        create: bool | None = None,
    ) -> FileIdentity:
        """Replace the text of a file in the editor, or on the disk for what is no text."""
        text = _decoded(data)
        stat = await self._existing(path)
        there = await self._text(path, stat) if stat is not None else b""
        if text is None or there is None:
            return await self._local.write(path, data, expected=expected, create=create)
        _check(os.fspath(path), stat, there, expected, create)
        if stat is None:
            await self._local.make_directory(self._absolute(path).parent)
        real = stat.path if stat is not None else await self._future(path)
        params = acp.WriteTextFileRequest(
            session_id=self._link.session_id, path=await self._spelled(real), content=text
        )
        try:
            await self._link.call(acp.FS_WRITE_TEXT_FILE, params)
        except (RpcError, MalformedAnswerError) as error:
            raise PathRefusedError(
                os.fspath(path), f"the editor reported: {_words(error)}"
            ) from error
        written = await self._existing(path)
        return _identity(written, data)

    async def list(self, path: PathLike = ".") -> tuple[DirectoryEntry, ...]:
        """The entries of a directory of the disk."""
        return await self._local.list(path)

    def walk(
        self,
        path: PathLike = ".",
        *,
        limit: int = 100_000,
        prune: Callable[[DirectoryEntry], bool] | None = None,
    ) -> AsyncIterator[DirectoryEntry]:
        """Everything below a directory of the disk."""
        return self._local.walk(path, limit=limit, prune=prune)

    async def make_directory(self, path: PathLike) -> None:
        """Make a directory and its parents."""
        await self._local.make_directory(path)

    async def remove(self, path: PathLike) -> None:
        """Remove a file, a symlink or an empty directory."""
        await self._local.remove(path)

    async def rename(self, source: PathLike, target: PathLike) -> None:
        """Move within the roots."""
        await self._local.rename(source, target)

    async def _existing(self, path: PathLike) -> FileStat | None:
        try:
            return await self._local.stat(path)
        except NoSuchPathError:
            return None

    async def _future(self, path: PathLike) -> str:
        """The real path of a file that is not there yet; its directory is."""
        place = self._absolute(path)
        return str(Path((await self._local.stat(place.parent)).path) / place.name)

    def _absolute(self, path: PathLike) -> Path:
        return Path(self._roots[0]) / path

    async def _text(self, path: PathLike, stat: FileStat) -> bytes | None:
        """The text as the editor has it; None for what does not go through the client."""
        if stat.kind != "file" or stat.size > _LARGEST:
            return None
        head = await self._local.read(path, limit=_HEAD)
        if not _is_text(head.data, is_whole=head.at_end):
            return None
        params = acp.ReadTextFileRequest(
            session_id=self._link.session_id, path=await self._spelled(stat.path)
        )
        try:
            answer = await self._link.call(acp.FS_READ_TEXT_FILE, params)
            return answer.content.encode("utf-8")
        except RpcError as error:
            if error.code == RESOURCE_NOT_FOUND:
                raise NoSuchPathError(os.fspath(path)) from error
            raise PathRefusedError(
                os.fspath(path), f"the editor reported: {_words(error)}"
            ) from error
        except (MalformedAnswerError, UnicodeEncodeError) as error:
            raise PathRefusedError(os.fspath(path), f"the editor's answer: {error}") from error

    async def _spelled(self, real: str) -> str:
        """A real path as the client spells it: below the root that it gave us."""
        if self._real_roots is None:
            self._real_roots = await asyncio.to_thread(_real, self._roots)
        for root, below in zip(self._roots, self._real_roots, strict=True):
            if real == below or real.startswith(below.rstrip("/") + "/"):
                return root.rstrip("/") + real[len(below.rstrip("/")) :]
        return real


def _real(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(Path(path).resolve()) for path in paths)


def _identity(stat: FileStat | None, data: bytes) -> FileIdentity:
    """Which content this is: the place on the disk, and the text of the editor."""
    import hashlib  # late: it loads the library of ciphers

    digest = hashlib.blake2b(data).hexdigest()
    if stat is None:  # not yet on the disk: the editor keeps it for itself so far
        return FileIdentity(device=0, inode=0, size=len(data), modified_ns=0, digest=digest)
    return replace(stat.identity, digest=digest)


def _check(
    path: str,
    stat: FileStat | None,
    there: bytes,
    expected: FileIdentity | None,
    create: bool | None,
) -> None:
    """Refuse to write over something else than what was expected."""
    if stat is None:
        if create is False:
            raise NoSuchPathError(path)
        if expected is not None:
            raise FileChangedError(path, "was removed")
        return
    if stat.kind != "file":
        raise PathRefusedError(path, f"it is a {stat.kind}")
    if create:
        raise FileChangedError(path, "exists, although it was not expected to,")
    if expected is None:
        return
    now = _identity(stat, there)
    is_same = now.digest == expected.digest if expected.digest else stat.identity == expected
    if not is_same:
        raise FileChangedError(path, "was changed")


def _decoded(data: bytes) -> str | None:
    if b"\0" in data or len(data) > _LARGEST:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _is_text(head: bytes, *, is_whole: bool) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character may lie across the end of what was looked at.
        return not is_whole and error.start >= len(head) - 3
    return True


def _window(data: bytes, first: int, limit: int | None, max_bytes: int) -> tuple[bytes, int, bool]:
    """Whole lines from ``first`` on, how many, and whether the only one is cut."""
    kept: list[bytes] = []
    room = max_bytes
    lines = data.split(b"\n")
    rows = [row + b"\n" for row in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    stop = len(rows) if limit is None else first - 1 + limit
    for row in rows[first - 1 : stop]:
        if len(row) > room:
            if not kept:
                cut = row[:max_bytes].decode("utf-8", "ignore").encode()
                return cut, int(bool(cut)), True
            break
        kept.append(row)
        room -= len(row)
    return b"".join(kept), len(kept), False


def _words(error: QuarterdeckError) -> str:
    return error.message if isinstance(error, RpcError) else str(error)
