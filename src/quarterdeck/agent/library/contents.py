"""All commands and skills of a session's folders; a file that is wrong is left out, and told."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..commands.command import Command
from .command_files import read_command
from .folders import LibraryFolder
from .reader import LibraryFileError, read_document
from .skills import Skill, read_skill, skill_command

if TYPE_CHECKING:
    from ..tools.workspace import ToolWorkspace

__all__ = ["LibraryContents", "read_library"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryContents:
    """What the shelves hold, the strongest first."""

    commands: tuple[Command, ...]
    skills: dict[str, Skill]
    problems: tuple[str, ...]


def read_library(
    files: Mapping[LibraryFolder, tuple[Path, ...]], workspace: "ToolWorkspace"
) -> LibraryContents:
    """Read every file; never raises for what is in them."""
    commands: list[tuple[int, Command]] = []
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for shelf, paths in files.items():
        rank = 0 if shelf.owner == "project" else 1
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
