"""The agent's files through us: inside the session's roots, and decided like calls of our own."""

import posixpath
from pathlib import PurePath

from msgspec.structs import replace

from quarterdeck.system.api import Files
from quarterdeck.system.errors import (
    NoSuchPathError,
    OutsideRootsError,
    PathError,
    SpecialFileError,
)
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.errors import RESOURCE_NOT_FOUND
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.rpc.errors import INTERNAL_ERROR, INVALID_PARAMS
from quarterdeck.wire.tool_calls import Diff

from ..link import LinkHost, ServedCall

__all__ = ["ServedFiles", "path_error_text", "plain_path"]

_LARGEST = 16 * 1024 * 1024
"""Bytes of a file that one answer may hold; escaped as JSON they still fit into a message."""


class ServedFiles:
    """Answers ``fs/read_text_file`` and ``fs/write_text_file``.

    ``is_missing_empty``: a file that is not there is read as an empty one.
    """

    def __init__(self, files: Files, host: LinkHost, *, is_missing_empty: bool = False) -> None:
        self._files = files
        self._host = host
        self._is_missing_empty = is_missing_empty

    async def read(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
        """Read a text file, or ``limit`` lines of it from ``line`` on, counted from 1.

        Raises:
            RpcError: it is not there (-32002), outside of the roots, no text, too large.
            NotPermittedError: it may not be read.
        """
        request = replace(request, path=plain_path(request.path))
        await self._expect_inside(request.path)
        call = ServedCall(
            name="read",
            kind="read",
            title=f"Read {PurePath(request.path).name}",
            raw_input={"path": request.path},
        )
        return await self._host.carry_out(call, lambda _: self._read(request))

    async def write(self, request: acp.WriteTextFileRequest) -> acp.Empty:
        """Write a text file as a whole; directories on the way are made.

        Raises:
            RpcError: it is outside of the roots.
            NotPermittedError: it may not be written.
        """
        request = replace(request, path=plain_path(request.path))
        await self._expect_inside(request.path)
        call = ServedCall(
            name="write",
            kind="edit",
            title=f"Write {PurePath(request.path).name}",
            raw_input={"path": request.path},
            content=(Diff(path=request.path, new_text=request.content),),
        )
        return await self._host.carry_out(call, lambda _: self._write(request))

    async def _expect_inside(self, path: str) -> None:
        """Refuse a path outside the roots before anyone is asked for permission."""
        try:
            await self._files.stat(path)
        except OutsideRootsError as error:
            raise path_error_text(error) from error
        except PathError:
            return

    async def _read(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
        try:
            data = await self._data(request)
        except NoSuchPathError as error:
            if self._is_missing_empty:
                return acp.ReadTextFileResponse(content="")
            raise path_error_text(error) from error
        except PathError as error:
            raise path_error_text(error) from error
        try:
            return acp.ReadTextFileResponse(content=data.decode())
        except UnicodeDecodeError as error:
            raise RpcError(INVALID_PARAMS, f"{request.path!r} is not UTF-8 text") from error

    async def _write(self, request: acp.WriteTextFileRequest) -> acp.Empty:
        try:
            await self._files.write(request.path, request.content.encode())
        except PathError as error:
            raise path_error_text(error) from error
        except UnicodeEncodeError as error:
            raise RpcError(INVALID_PARAMS, f"the content is not text: {error}") from error
        return acp.Empty()

    async def _data(self, request: acp.ReadTextFileRequest) -> bytes:
        if request.line is None and request.limit is None:
            content = await self._files.read(request.path, limit=_LARGEST)
            if not content.at_end:
                raise _too_large(request.path)
            return content.data
        lines = await self._files.read_lines(
            request.path, line=request.line or 1, limit=request.limit, max_bytes=_LARGEST
        )
        wanted = request.limit if request.limit is not None else (lines.total or 0) + 1
        if lines.is_cut or (lines.next is not None and lines.count < wanted):
            raise _too_large(request.path)
        return lines.data


def plain_path(path: str) -> str:
    """The path in a form in which policy and the system mean the same place by it.

    ``..`` is resolved by text, where the kernel would go back from the target of a symlink, and
    ``~`` stays an ordinary name.
    """
    plain = posixpath.normpath(path) if path else path
    return f"./{plain}" if plain.startswith("~") else plain


def path_error_text(error: PathError) -> RpcError:
    """The error sent to an agent for a path that cannot be used."""
    match error:
        case NoSuchPathError():
            return RpcError(RESOURCE_NOT_FOUND, str(error), {"uri": error.path})
        case OutsideRootsError() | SpecialFileError():
            return RpcError(INVALID_PARAMS, str(error))
        case _:
            return RpcError(INTERNAL_ERROR, str(error))


def _too_large(path: str) -> RpcError:
    return RpcError(
        INVALID_PARAMS,
        f"{path!r} is larger than the {_LARGEST} bytes allowed for one answer; read it by line "
        "and limit",
    )
