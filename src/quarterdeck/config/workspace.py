"""Which project a directory belongs to."""

from pathlib import Path
from typing import NamedTuple

from quarterdeck.wire.git_link import read_git_link

__all__ = ["FOLDER", "Workspace", "find_workspace"]

FOLDER = ".quarterdeck"


class Workspace(NamedTuple):
    """A project on disk."""

    root: Path
    """The top of the git repository, or the directory itself where there is none."""
    project: Path
    """What a person trusts and grants permissions for: the root, or for a linked git worktree the
    main checkout of its repository."""
    folder: Path | None
    """The nearest ``.quarterdeck`` directory with settings, from the directory up to the root. For
    a linked worktree it is looked for in the same place of the main checkout: agents write and
    check out files in worktrees, and what they bring is not what a person has trusted."""

    @property
    def project_file(self) -> Path | None:
        """Settings that are shared by all who work on the project."""
        return self.folder / "config.toml" if self.folder else None

    @property
    def local_file(self) -> Path | None:
        """Settings for this checkout and its worktrees alone; not for version control."""
        return self.folder / "config.local.toml" if self.folder else None


def find_workspace(directory: Path) -> Workspace:
    """Find the project of a directory.

    Outside of a repository nothing above the directory is looked at: write access to
    ``/tmp`` must not configure what runs in ``/tmp/mine``.
    """
    start = directory.resolve()
    chain = (start, *start.parents)
    root = next((place for place in chain if _exists(place / ".git")), start)
    project = _project(root)
    for place in chain[: chain.index(root) + 1]:
        folder = project / place.relative_to(root) / FOLDER
        if _exists(folder / "config.toml") or _exists(folder / "config.local.toml"):
            return Workspace(root=root, project=project, folder=folder)
    return Workspace(root=root, project=project, folder=None)


def _project(root: Path) -> Path:
    link = read_git_link(str(root))
    checkout = link.checkout if link is not None else None
    return Path(checkout) if checkout is not None else root


def _exists(path: Path) -> bool:
    # A path that may not be looked at counts as there: reading it then gives the clear error.
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
