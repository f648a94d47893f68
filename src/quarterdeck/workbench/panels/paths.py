"""Paths: as they are meant, as they may be kept, as they are shown. Any name can be one."""

import os

from rich.cells import cell_len, chop_cells

from ..sanitize import sanitize_text

__all__ = ["format_path", "make_absolute", "safe_path", "shorten_path"]


def make_absolute(cwd: str, path: str) -> str:
    """A path as it is meant by someone in a directory."""
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))  # noqa: PTH111, PTH118


def safe_path(path: str | None) -> str | None:
    """A path that may be kept in JSON; one that is no valid text is not."""
    if path is None:
        return None
    try:
        path.encode()
    except UnicodeEncodeError:
        return None
    return path


def format_path(cwd: str, path: str) -> str:
    """A path in few literal characters: below a directory without it, below home with ``~``."""
    home = os.path.expanduser("~")  # noqa: PTH111
    if path.startswith(cwd.rstrip("/") + "/"):
        path = path[len(cwd.rstrip("/")) + 1 :]
    elif path == home or path.startswith(home + "/"):
        path = "~" + path[len(home) :]
    return sanitize_text(path).replace("\n", "\\n")


def shorten_path(path: str, room: int) -> str:
    """A literal path within so many cells; its first directories go, whole, then its beginning."""
    if cell_len(path) <= room:
        return path
    if room <= 1:
        return "…"
    end = chop_cells(path[::-1], room - 1)[0][::-1]
    _, slash, name = end.partition("/")
    return f"…/{name}" if slash and name else f"…{end}"
