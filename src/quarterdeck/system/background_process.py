"""Processes of our own that outlive the one that starts them, and the end of their logs."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["read_last_lines", "start_background"]

_MOST_BYTES = 4096


def start_background(
    *words: str, log_file: Path, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start ``quarterdeck`` with these words, in a session of its own. Blocks shortly.

    It reads nothing and writes into the log, which only its owner may read. Set ``returncode`` of
    what is returned if no one waits for its end.

    Raises:
        OSError: the log cannot be written, or the operating system refuses.
    """
    output = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            (sys.executable, "-P", "-m", "quarterdeck", *words),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=dict(environ),
            start_new_session=True,
        )
    finally:
        os.close(output)


def read_last_lines(log_file: Path, count: int = 5) -> list[str]:
    """The end of a log, indented to stand below a message. Blocks."""
    try:
        with log_file.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    return [f"  {line}" for line in lines[-count:]] or ["  (nothing)"]
