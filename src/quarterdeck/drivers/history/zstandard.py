"""Zstandard, where Python has it."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from .errors import HistoryUnreadable

__all__ = ["open_zstd"]


@contextmanager
def open_zstd(path: Path) -> Generator[IO[bytes]]:
    """Open a compressed file for reading.

    Raises:
        HistoryUnreadable: it cannot be opened, or this Python is older than 3.14.
    """
    try:
        zstd: Any = import_module("compression.zstd")
    except ImportError:
        told = f"it is compressed, which takes Python 3.14; or run: zstd -d {str(path)!r}"
        raise HistoryUnreadable(path, told) from None
    try:
        with zstd.open(path, "rb") as file:
            yield file
    except (OSError, EOFError, zstd.ZstdError) as error:
        raise HistoryUnreadable(path, str(error)) from error
