"""Slash commands that are Markdown files: a prompt with places for what is typed after the name."""

import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.wire.content import ContentBlock, text

from ..commands import CommandSession, ExpandedCommand
from ..frontmatter import FrontMatter, LibraryFileError
from .folders import LibraryFolder

if TYPE_CHECKING:
    from ..tools.workspace import ToolWorkspace

__all__ = ["fill_prompt", "mentions", "read_command"]

_NAME = re.compile(r"[A-Za-z0-9][\w.:-]{0,63}")
_PLACE = re.compile(r"\$(ARGUMENTS\b|[1-9](?![0-9]))")
_MENTION = re.compile(r"(?<![\w`@/])@([\w.~/-]*[\w/~-])")
_KNOWN = frozenset(("description", "argument-hint", "name"))
_MOST_FILES = 10
_MOST_BYTES = 100_000
_LONGEST = 100


def read_command(
    path: Path, document: FrontMatter, shelf: LibraryFolder, workspace: "ToolWorkspace"
) -> tuple[ExpandedCommand, list[str]]:
    """Make the command of a file; its name is the file's, with ``:`` for directories.

    Gives also what is ignored of it, in words for people.

    Raises:
        Unreadable: it has no name or no prompt.
    """
    name = ":".join(path.relative_to(shelf.path).with_suffix("").parts)
    if not _NAME.fullmatch(name):
        raise LibraryFileError(f"/{name} is not a valid command name")
    if not document.body:
        raise LibraryFileError("it has no prompt")
    command = ExpandedCommand(
        name=name,
        description=_description(document),
        hint=document.text("argument-hint"),
        source=f"{shelf.owner}: {path}",
        expand=partial(_expand, document.body, workspace),
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


async def _expand(
    template: str, workspace: "ToolWorkspace", session: CommandSession, words: str
) -> tuple[ContentBlock, ...]:
    prompt = fill_prompt(template, words)
    files: list[ContentBlock] = []
    for path in mentions(prompt)[:_MOST_FILES]:
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
