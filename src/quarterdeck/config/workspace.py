"""Which project a directory belongs to."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["FOLDER", "Workspace", "find_workspace"]

FOLDER = ".quarterdeck"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A project on disk."""

    root: Path
    """The top of the git repository, or the directory itself where there is none. This is what
    a person trusts."""
    folder: Path | None
    """The nearest ``.quarterdeck`` directory with settings, from the directory up to the root."""

    @property
    def project_file(self) -> Path | None:
        """Settings that everybody who works on the project shares."""
        return self.folder / "config.toml" if self.folder else None

    @property
    def local_file(self) -> Path | None:
        """Settings for this checkout alone; not for version control."""
        return self.folder / "config.local.toml" if self.folder else None


def find_workspace(directory: Path) -> Workspace:
    """Find the project of a directory.

    Outside of a repository nothing above the directory is looked at: whoever can write to
    ``/tmp`` shall not configure what runs in ``/tmp/mine``.
    """
    start = directory.resolve()
    chain = (start, *start.parents)
    root = next((place for place in chain if _exists(place / ".git")), start)
    for place in chain[: chain.index(root) + 1]:
        folder = place / FOLDER
        if _exists(folder / "config.toml") or _exists(folder / "config.local.toml"):
            return Workspace(root=root, folder=folder)
    return Workspace(root=root, folder=None)


def _exists(path: Path) -> bool:
    # A path that may not be looked at counts as there: reading it then gives the clear error.
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
