"""The library of a session: slash commands and skills that users write in files.

``session_library`` is all that a session knows; the rest is imported when there is a file to
read.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quarterdeck.wire.events import NoticePosted

from ..commands import CommandRegistry, FoundCommands, builtin_commands
from .folders import LibraryFolder, library_folders

if TYPE_CHECKING:
    from ..environment import SessionEnvironment
    from ..session_setup import SessionSetup
    from ..tools.workspace import ToolWorkspace
    from .skills import Skill

__all__ = ["SessionLibrary", "attach_library"]

_MOST_FILES = 500
"""Files that are read of one directory."""
_DEEPEST = 4
"""Directories below a directory of commands."""
_Stamp = tuple[str, int, int]


class SessionLibrary(Struct, eq=False):
    """The commands and skills of one session; files are read again when they have changed."""

    shelves: tuple[LibraryFolder, ...]
    workspace: "ToolWorkspace"
    skills: "dict[str, Skill]" = field(default_factory=dict[str, "Skill"])
    """By name, the strongest of each."""
    _stamps: tuple[_Stamp, ...] = ()
    _found: FoundCommands | None = None
    _reported: set[str] = field(default_factory=set[str])

    async def look(self) -> None:
        """Look for files that have changed, and read them."""
        await asyncio.to_thread(self._look)

    async def __call__(self) -> FoundCommands | None:
        """The commands for a ``CommandRegistry``; None: nothing has changed since the last call."""
        await self.look()
        found, self._found = self._found, None
        return found

    def _look(self) -> None:
        files = {shelf: tuple(_files(shelf)) for shelf in self.shelves}
        stamps = tuple(
            stamp for found in files.values() for path in found for stamp in _stamp(path)
        )
        if stamps == self._stamps:
            return
        self._stamps = stamps
        from .skills import read_library

        read = read_library(files, self.workspace)
        self.skills = read.skills
        notices = tuple(
            NoticePosted(title=problem, severity="warning")
            for problem in read.problems
            if problem not in self._reported
        )
        self._reported |= set(read.problems)
        self._found = FoundCommands(read.commands, notices)


async def attach_library(
    setup: "SessionSetup", config: Path, session_environment: "SessionEnvironment"
) -> CommandRegistry:
    """Give a session the skills of its user and, where trusted, of its project.

    Returns its commands: ours, and those of the same folders.
    """
    project = Path(session_environment.project) if session_environment.trusted else None
    library = SessionLibrary(library_folders(config, project), setup.workspace)
    await library.look()
    commands = CommandRegistry(builtin_commands(), library)
    if "skill" not in setup.toolbox.names:
        return commands
    if not library.skills:
        setup.toolbox = setup.toolbox.only(name for name in setup.toolbox.names if name != "skill")
        return commands
    from .skills import skills_section

    setup.workspace.keep(library)
    section = skills_section(library.skills.values())
    setup.system_prompt = f"{setup.system_prompt.rstrip()}\n\n{section}\n"
    return commands


def _files(shelf: LibraryFolder) -> Iterator[Path]:
    """The files of a shelf, by name; of what cannot be looked at, none."""
    if not shelf.path.is_dir():
        return
    pattern = "*/SKILL.md" if shelf.holds == "skills" else "**/*.md"
    found = sorted(shelf.path.glob(pattern))
    for path in found[:_MOST_FILES]:
        if len(path.relative_to(shelf.path).parts) <= _DEEPEST:
            yield path


def _stamp(path: Path) -> Iterator[_Stamp]:
    try:
        status = path.stat()
    except OSError:
        return
    yield str(path), status.st_mtime_ns, status.st_size
