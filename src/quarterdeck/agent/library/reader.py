"""Reading the files of commands and skills; what is wrong with one leaves it out, and is told."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.errors import QuarterdeckError

from ..commands.command import Command
from ..frontmatter import FrontMatter, read_front_matter
from .session_library import LibraryFolder

if TYPE_CHECKING:
    from ..tools.workspace import ToolWorkspace
    from .skills import Skill

__all__ = ["LibraryContents", "LibraryFileError", "problem_of", "read_document", "read_library"]

MOST_BYTES = 200_000
"""A file that is longer is nobody's prompt."""
_KEY = re.compile(r"[A-Za-z_][\w.-]*\s*:(\s|$)")
_OPENERS = {"[": "]", '"': '"', "'": "'"}


class LibraryFileError(QuarterdeckError):
    """A file cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryContents:
    """What the shelves hold, the strongest first."""

    commands: tuple[Command, ...]
    skills: "dict[str, Skill]"
    problems: tuple[str, ...]


def read_library(
    files: Mapping[LibraryFolder, tuple[Path, ...]], workspace: "ToolWorkspace"
) -> LibraryContents:
    """Read every file; never raises for what is in them."""
    from .command_files import read_command
    from .skills import read_skill, skill_command

    commands: list[tuple[int, Command]] = []
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for shelf, paths in files.items():
        rank = 0 if shelf.whose == "project" else 1
        for path in paths:
            try:
                document = read_document(path)
                if shelf.holds == "skills":
                    skill = read_skill(path, document, shelf)
                    skills.setdefault(skill.name, skill)
                    commands.append((rank, skill_command(skill)))
                else:
                    command, ignored = read_command(path, document, shelf, workspace)
                    commands.append((rank, command))
                    problems += ignored
            except LibraryFileError as error:
                problems.append(f"{path} is skipped: {error}")
    commands.sort(key=lambda pair: pair[0])  # stable: a project's before the user's
    found = tuple(command for _, command in commands)
    return LibraryContents(commands=found, skills=skills, problems=tuple(problems))


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
