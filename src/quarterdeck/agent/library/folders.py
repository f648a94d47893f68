"""The folders in which commands, skills and profiles of child agents are looked for."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

__all__ = ["LibraryFolder", "ProfileFolder", "library_folders", "profile_folders"]


class LibraryFolder(Struct, frozen=True, kw_only=True):
    """A directory with commands or with skills."""

    path: Path
    holds: Literal["commands", "skills"]
    owner: Literal["project", "user"]


def library_folders(config: Path, project: Path | None) -> tuple[LibraryFolder, ...]:
    """The directories that count, the strongest first; ``project``: None if it is not trusted."""
    own = (
        LibraryFolder(path=config / "commands", holds="commands", owner="user"),
        LibraryFolder(path=config / "skills", holds="skills", owner="user"),
    )
    if project is None:
        return own
    theirs = (
        LibraryFolder(
            path=project / ".quarterdeck" / "commands", holds="commands", owner="project"
        ),
        LibraryFolder(path=project / ".claude" / "commands", holds="commands", owner="project"),
        LibraryFolder(path=project / ".quarterdeck" / "skills", holds="skills", owner="project"),
        LibraryFolder(path=project / ".claude" / "skills", holds="skills", owner="project"),
        LibraryFolder(path=project / ".agents" / "skills", holds="skills", owner="project"),
    )
    return theirs + own


class ProfileFolder(Struct, frozen=True, kw_only=True):
    """A directory with profiles."""

    path: Path
    claude: bool = False
    """They are written for Claude Code."""


def profile_folders(config: Path, project: Path | None) -> tuple[ProfileFolder, ...]:
    """The directories that count, the strongest first; ``project``: None if it is not trusted."""
    own = ProfileFolder(path=config / "profiles")
    if project is None:
        return (own,)
    theirs = ProfileFolder(path=project / ".quarterdeck" / "profiles")
    return (theirs, ProfileFolder(path=project / ".claude" / "agents", claude=True), own)
