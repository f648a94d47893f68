"""Markdown files that begin with facts between two lines of dashes, and their checks.

Only what people write there is read, not all of YAML: ``key: value``, a list in brackets or of
lines that begin with a dash, text in quotes, and text that goes on over indented lines.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["FrontMatter", "LibraryFileError", "problem_of", "read_document", "read_front_matter"]

_FENCE = "---"
_QUOTES = ('"', "'")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The facts at the top of a file, as text or as lists of text, and what follows them."""

    facts: dict[str, str | tuple[str, ...]] = field(
        default_factory=dict["str", "str | tuple[str, ...]"]
    )
    body: str = ""

    def text(self, key: str) -> str:
        """A fact as text; a list is joined with commas. Empty: there is none."""
        value = self.facts.get(key, "")
        return value if isinstance(value, str) else ", ".join(value)

    def words(self, key: str) -> tuple[str, ...] | None:
        """A fact as a list; text is split at commas. None: there is none."""
        value = self.facts.get(key)
        if value is None or isinstance(value, tuple):
            return value
        return tuple(word for part in value.split(",") if (word := part.strip()))


def read_front_matter(text: str) -> FrontMatter:
    """Take a file apart; one that does not begin with dashes has no facts. Never raises."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return FrontMatter(body=text.strip())
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        return FrontMatter(body=text.strip())
    return FrontMatter(_facts(lines[1:end]), "\n".join(lines[end + 1 :]).strip())


def _facts(lines: list[str]) -> dict[str, str | tuple[str, ...]]:
    facts: dict[str, str | tuple[str, ...]] = {}
    key = ""
    for line in lines:
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if key and (line[0].isspace() or stripped.startswith("- ")):
            facts[key] = _longer(facts[key], stripped)
        elif ":" in stripped:
            key, _, value = stripped.partition(":")
            key = key.strip()
            facts[key] = _value(value.strip())
    return facts


def _longer(value: str | tuple[str, ...], line: str) -> str | tuple[str, ...]:
    if line.startswith("- "):
        return (*(value if isinstance(value, tuple) else ()), _plain(line[2:]))
    return f"{value} {line}".strip() if isinstance(value, str) else value


def _value(value: str) -> str | tuple[str, ...]:
    if value.startswith("[") and value.endswith("]"):
        return tuple(word for part in value[1:-1].split(",") if (word := _plain(part)))
    # A sign that the text is on the next lines.
    return "" if value in (">", "|", ">-", "|-") else _plain(value)


def _plain(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]:
        return value[1:-1]
    return value


MOST_BYTES = 200_000
"""A longer file cannot be a prompt."""
_KEY = re.compile(r"[A-Za-z_][\w.-]*\s*:(\s|$)")
_OPENERS = {"[": "]", '"': '"', "'": "'"}


class LibraryFileError(QuarterdeckError):
    """A file cannot be used; the text says why."""


def read_document(path: Path) -> FrontMatter:
    """Read a file and take it apart.

    Raises:
        LibraryFileError: it cannot be read, is too long, or begins with facts that are broken.
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
