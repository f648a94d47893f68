"""Read one configuration file, whatever lies at its path."""

import os
import stat
from pathlib import Path
from typing import Any

from .errors import UnreadableConfigError

__all__ = ["LARGEST", "read_toml"]

LARGEST = 1_048_576
"""Bytes; a larger file is an error, not a configuration."""


def read_toml(path: Path) -> dict[str, Any] | None:
    """Read a TOML file; None if there is none.

    The file may come with a repository that nobody has looked at: a pipe, a device or an
    endless file is refused without waiting for it.

    Raises:
        UnreadableConfigError: it is there and cannot be used; the reason names line and column
            where the text is at fault.
    """
    data = _read(path)
    if data is None:
        return None
    import tomllib  # late: most directories have no file of ours

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableConfigError(
            str(path), f"not UTF-8 in line {line}; save the file as UTF-8"
        ) from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableConfigError(
            str(path), f"not TOML: {_with_line(str(error), text)}"
        ) from error
    except RecursionError as error:
        raise UnreadableConfigError(str(path), "unsupported TOML: nested too deeply") from error


def _read(path: Path) -> bytes | None:
    try:
        # Without O_NONBLOCK opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableConfigError(str(path), _reason(error)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableConfigError(str(path), "not a file; a configuration file goes here")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UnreadableConfigError(str(path), _reason(error)) from error
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        raise UnreadableConfigError(str(path), f"larger than {LARGEST} bytes")
    return data


def _reason(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def _with_line(message: str, text: str) -> str:
    end = "(at end of document)"
    if not message.endswith(end):
        return message
    line, column = text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
    return f"{message.removesuffix(end)}(at line {line}, column {column}, the end)"
