"""Skills: folders with a ``SKILL.md``; and reading all that a session's folders hold."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.content import ContentBlock, text

from ..commands import Command, CommandSession, ExpandedCommand
from ..frontmatter import FrontMatter, LibraryFileError, read_document
from .command_files import fill_prompt, read_command
from .folders import LibraryFolder

if TYPE_CHECKING:
    from ..tools.workspace import ToolWorkspace

__all__ = [
    "LibraryContents",
    "Skill",
    "list_skill_files",
    "read_library",
    "read_skill",
    "read_skill_file",
    "skill_command",
    "skill_text",
    "skills_section",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LONGEST_DESCRIPTION = 500
_MOST_LISTED = 12_000
"""Characters that all skills together take in the system prompt."""
_MOST_FILES = 50
MOST_BYTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill of the user or the project."""

    name: str
    description: str
    body: str
    folder: Path
    owner: str


def read_skill(path: Path, document: FrontMatter, shelf: LibraryFolder) -> Skill:
    """Make the skill of a ``SKILL.md``.

    Raises:
        Unreadable: it does not say when to use it, or has no usable name.
    """
    name = document.text("name") or path.parent.name
    if not _NAME.fullmatch(name):
        raise LibraryFileError(
            f"the name {name[:60]!r} may only contain letters, digits, '-', '_' and '.'"
        )
    description = " ".join(document.text("description").split())
    if not description:
        raise LibraryFileError("it has no 'description', which says when to use it")
    return Skill(
        name=name,
        description=description,
        body=document.body,
        folder=path.parent,
        owner=shelf.owner,
    )


def skills_section(skills: Iterable[Skill]) -> str:
    """What the system prompt says of skills: names and descriptions, as many as there is room."""
    lines: list[str] = []
    room, left = _MOST_LISTED, 0
    for skill in sorted(skills, key=lambda skill: skill.name):
        described = skill.description
        if len(described) > _LONGEST_DESCRIPTION:
            described = f"{described[: _LONGEST_DESCRIPTION - 1]}…"
        line = f"- `{skill.name}`: {described}"
        room -= len(line)
        if room < 0:
            left += 1
        else:
            lines.append(line)
    if left:
        lines.append(f"- … and {left} more, omitted for length")
    return "\n".join(
        (
            "# Skills",
            "Instructions for special tasks. When one fits, load it with the tool `skill` before "
            "you begin.",
            *lines,
        )
    )


def list_skill_files(skill: Skill) -> list[str]:
    """The other files in its folder, relative, the first of them. Blocks."""
    found: list[str] = []
    for path in sorted(skill.folder.rglob("*")):
        if path.is_file() and path.name != "SKILL.md":
            found.append(str(path.relative_to(skill.folder)))
        if len(found) >= _MOST_FILES:
            break
    return found


def skill_text(skill: Skill, files: list[str]) -> str:
    """The skill as the model reads it."""
    lines = [f"# Skill {skill.name}", f"Its folder is {skill.folder}.", ""]
    if files:
        lines[-1:] = ["It also has these files:", *(f"- {name}" for name in files), ""]
    return "\n".join([*lines, skill.body])


def read_skill_file(skill: Skill, name: str) -> str:
    """A text file of the skill's folder, cut where it is very long. Blocks.

    Raises:
        Unreadable: there is none, it is not in the folder, or it is no text.
    """
    folder = skill.folder.resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise LibraryFileError(f"{name!r} is not in the folder of the skill {skill.name!r}")
    try:
        data = read_regular_file(path, MOST_BYTES)
    except OSError as error:
        raise LibraryFileError(f"{name!r} cannot be read: {error.strerror or error}") from error
    if b"\0" in data:
        raise LibraryFileError(f"{name!r} is not text")
    return data.decode("utf-8", "replace")


def skill_command(skill: Skill) -> ExpandedCommand:
    """The command that has the model use the skill."""
    return ExpandedCommand(
        name=skill.name,
        description=skill.description[:_LONGEST_DESCRIPTION],
        hint="what to do",
        source=f"{skill.owner} skill: {skill.folder}",
        expand=partial(_expand, skill),
    )


async def _expand(skill: Skill, session: CommandSession, words: str) -> tuple[ContentBlock, ...]:
    files = await asyncio.to_thread(list_skill_files, skill)
    return (text(fill_prompt(skill_text(skill, files), words)),)


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
