"""Zstandard: by Python itself since 3.14, else by the program ``zstd``, if there is one."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from quarterdeck.system.environment import find_own_program

from .errors import HistoryUnreadableError
from .files import open_plain

__all__ = ["can_unpack", "open_zstd"]

_MOST = 4 << 30
"""Bytes that one file may unpack to."""


def can_unpack() -> bool:
    """Whether compressed files can be read here."""
    return _module() is not None or _program() is not None


@contextmanager
def open_zstd(path: Path) -> Generator[IO[bytes]]:
    """Open a compressed file for reading; ends after 4 GiB, whatever it unpacks to.

    Raises:
        HistoryUnreadableError: it cannot be opened, is damaged as far as it is read, or neither
            this Python nor a program can read it.
    """
    module, program = _module(), _program()
    if module is None and program is None:
        text = "it is compressed: install the program zstd, or use Python 3.14"
        raise HistoryUnreadableError(path, text)
    with open_plain(path) as packed:
        if module is not None:
            yield cast("IO[bytes]", _ByModule(path, module, packed))
            return
        with _ByProgram(path, cast("str", program), packed) as unpacked:
            yield cast("IO[bytes]", unpacked)


def _program() -> str | None:
    return find_own_program("zstd", [os.getcwd()])  # noqa: PTH109 - none of a project's


def _module() -> Any:
    try:
        return import_module("compression.zstd")
    except ImportError:
        return None


class _ByModule:
    """Reads through Python's own."""

    def __init__(self, path: Path, module: Any, packed: IO[bytes]) -> None:
        self._path = path
        self._error: type[Exception] = module.ZstdError
        self._file: IO[bytes] = module.open(packed, "rb")
        self._left = _MOST

    def read(self, wanted: int) -> bytes:
        try:
            data = self._file.read(min(wanted, self._left))
        except (OSError, EOFError, self._error) as error:
            raise HistoryUnreadableError(self._path, str(error)) from error
        self._left -= len(data)
        return data


class _ByProgram:
    """Reads what the program writes; it ends with us."""

    def __init__(self, path: Path, program: str, packed: IO[bytes]) -> None:
        self._path = path
        self._left = _MOST
        self._process = subprocess.Popen(
            (program, "-dcq"),
            stdin=packed.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
        )

    def __enter__(self) -> "_ByProgram":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def read(self, wanted: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(min(wanted, self._left))
        self._left -= len(data)
        if not data and self._left and self._process.wait():
            raise HistoryUnreadableError(self._path, "it is compressed, and damaged")
        return data
