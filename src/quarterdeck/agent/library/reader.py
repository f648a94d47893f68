"""Reading one file of a command or a skill: its text, and the facts at its top."""

import re
from pathlib import Path

from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.errors import QuarterdeckError

from ..frontmatter import FrontMatter, read_front_matter

__all__ = ["LibraryFileError", "problem_of", "read_document"]

MOST_BYTES = 200_000
"""A file that is longer is nobody's prompt."""
_KEY = re.compile(r"[A-Za-z_][\w.-]*\s*:(\s|$)")
_OPENERS = {"[": "]", '"': '"', "'": "'"}


class LibraryFileError(QuarterdeckError):
    """A file cannot be used; the text says why."""


def read_document(path: Path) -> FrontMatter:
    """Read a file and take it apart.

    Raises:
        Unreadable: it cannot be read, is too long, or begins with facts that are broken.
    """
    try:
        data = read_regular_file(path, MOST_BYTES + 1)
    except OSError as error:
        raise LibraryFileError(error.strerror or str(error)) from error
    if len(data) > MOST_BYTES:
        raise LibraryFileError(f"it is longer than {MOST_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LibraryFileError(f"it is not UTF-8, at byte {error.start}") from error
    if problem := problem_of(text):
        raise LibraryFileError(problem)
    return read_front_matter(text)


def problem_of(text: str) -> str:
    """What is wrong with the facts at the top of a file; empty: nothing, or there are none."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return ""
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() == "---":
            return ""
        if problem := _line_problem(line):
            return f"line {number}: {problem}"
    return "the front matter that begins with --- is not closed"


def _line_problem(line: str) -> str:
    stripped = line.strip()
    if not stripped or stripped.startswith("#") or line[0].isspace() or stripped.startswith("- "):
        return ""
    if not _KEY.match(stripped):
        return f"{stripped[:60]!r} is not 'key: value'"
    value = stripped.partition(":")[2].strip()
    closer = _OPENERS.get(value[:1])
    if closer is not None and (len(value) < 2 or not value.endswith(closer)):
        return f"{value[:60]!r} does not end with {closer!r}"
    return ""
