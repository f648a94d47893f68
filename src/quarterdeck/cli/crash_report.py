"""A file for an unexpected error."""

import os
import platform
import sys
import traceback
from pathlib import Path

from quarterdeck import __version__
from quarterdeck.config.errors import ConfigError
from quarterdeck.config.places import Places, make_private
from quarterdeck.wire.clock import format_local_time, read_wall_clock
from quarterdeck.wire.private_files import open_private

__all__ = ["MOST_REPORTS", "write_crash_report"]

MOST_REPORTS = 20
"""Reports that are kept; the oldest go."""


def write_crash_report(error: Exception) -> Path | None:
    """Write the traceback to a file of its own; None if there is nowhere to write.

    Arguments and values are left out: they may be private.
    """
    try:
        directory = make_private(Places.find().logs)
        when = format_local_time(read_wall_clock(), "%Y%m%d-%H%M%S")
        path = directory / f"crash-{when}-{os.getpid()}.log"
        data = _text(error).encode("utf-8", "backslashreplace")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(open_private(path, flags), "wb") as file:
            file.write(data)
        for old in sorted(directory.glob("crash-*.log"))[:-MOST_REPORTS]:
            old.unlink(missing_ok=True)
    except (OSError, ConfigError):
        return None
    return path


def _text(error: Exception) -> str:
    head = (
        f"quarterdeck {__version__}, Python {platform.python_version()}, "
        f"{sys.platform} {platform.release()}"
    )
    return "\n".join([head, "", *traceback.format_exception(error)])
