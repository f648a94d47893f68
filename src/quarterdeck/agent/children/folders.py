"""The folders in which the profiles of child agents are looked for."""

from pathlib import Path

from msgspec import Struct

__all__ = ["ProfileFolder", "profile_folders"]


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
