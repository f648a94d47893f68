"""Skills and slash commands of a library, both Markdown files.

A slash command is a prompt with places for what is typed after the name. A skill is a text that the
model reads when it needs it.
"""

import asyncio
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.content import ContentBlock, text

from ..commands import Command, CommandSession, ExpandedCommand
from ..frontmatter import FrontMatter, LibraryFileError, read_document
from .folders import LibraryFolder

if TYPE_CHECKING:
    from ..tools.workspace import ToolWorkspace

__all__ = [
    "LibraryContents",
    "Skill",
    "fill_prompt",
    "list_skill_files",
    "mentions",
    "read_command",
    "read_library",
    "read_skill",
    "read_skill_file",
    "skill_command",
    "skill_text",
    "skills_section",
]

_COMMAND_NAME = re.compile(r"[A-Za-z0-9][\w.:-]{0,63}")
_PLACE = re.compile(r"\$(ARGUMENTS\b|[1-9](?![0-9]))")
_MENTION = re.compile(r"(?<![\w`@/])@([\w.~/-]*[\w/~-])")
_KNOWN = frozenset(("description", "argument-hint", "name"))
_MOST_MENTIONS = 10
_MOST_BYTES = 100_000
_LONGEST = 100


def read_command(
    path: Path, document: FrontMatter, shelf: LibraryFolder, workspace: "ToolWorkspace"
) -> tuple[ExpandedCommand, list[str]]:
    """Make the command of a file; its name is the file's, with ``:`` for directories.

    Gives also what is ignored of it, in words for people.

    Raises:
        LibraryFileError: it has no name or no prompt.
    """
    name = ":".join(path.relative_to(shelf.path).with_suffix("").parts)
    if not _COMMAND_NAME.fullmatch(name):
        raise LibraryFileError(f"/{name} is not a valid command name")
    if not document.body:
        raise LibraryFileError("it has no prompt")
    command = ExpandedCommand(
        name=name,
        description=_description(document),
        hint=document.text("argument-hint"),
        source=f"{shelf.owner}: {path}",
        expand=partial(_expand_prompt, document.body, workspace),
    )
    return command, _ignored(path, document)


def _description(document: FrontMatter) -> str:
    first = document.body.splitlines()[0].lstrip("# ")
    words = " ".join((document.text("description") or first).split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _ignored(path: Path, document: FrontMatter) -> list[str]:
    problems: list[str] = []
    if unknown := sorted(set(document.facts) - _KNOWN):
        problems.append(f"{path}: {', '.join(unknown)} not supported; ignored")
    if "!`" in document.body:
        problems.append(f"{path}: commands in !`…` are not run; the model sees them as text")
    return problems


def fill_prompt(template: str, words: str) -> str:
    """Put what was typed into a prompt: ``$ARGUMENTS`` all of it, ``$1`` to ``$9`` a word.

    Where the prompt has no such place, the words follow it. What is put in is not looked at
    again. Never raises.
    """
    if not _PLACE.search(template):
        return f"{template}\n\n{words}" if words else template
    split = _split(words)
    return _PLACE.sub(partial(_place, words, split), template)


def _place(words: str, split: Sequence[str], match: "re.Match[str]") -> str:
    if match[1] == "ARGUMENTS":
        return words
    index = int(match[1]) - 1
    return split[index] if index < len(split) else ""


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError:  # a quotation mark alone, as in "don't"
        return words.split()


def mentions(prompt: str) -> tuple[str, ...]:
    """The paths that a prompt names with an ``@``, each once."""
    return tuple(dict.fromkeys(match[1] for match in _MENTION.finditer(prompt)))


async def _expand_prompt(
    template: str, workspace: "ToolWorkspace", session: CommandSession, words: str
) -> tuple[ContentBlock, ...]:
    prompt = fill_prompt(template, words)
    files: list[ContentBlock] = []
    for path in mentions(prompt)[:_MOST_MENTIONS]:
        included = await _include(path, workspace, workspace.may_read)
        if included is not None:
            files.append(text(included))
    return (text(prompt), *files)


async def _include(
    path: str, workspace: "ToolWorkspace", may_read: Callable[[str], bool]
) -> str | None:
    """The content of a file of the workspace; None: there is none, so that it is only a word."""
    use = workspace.path(path, "read")
    if not may_read(use.path):
        return None
    try:
        content = await workspace.system.files.read(use.path, limit=_MOST_BYTES)
    except (OperatingSystemError, OSError, ValueError):
        return None
    if b"\0" in content.data:
        return None
    shown = content.data.decode("utf-8", "replace")
    return f'<file path="{path}">\n{shown}\n</file>'


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
        LibraryFileError: it does not say when to use it, or has no usable name.
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
        LibraryFileError: there is none, it is not in the folder, or it is no text.
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
