"""The folders in which a session's commands and skills are looked for."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

__all__ = ["LibraryFolder", "library_folders"]


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
