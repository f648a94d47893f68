"""The temporary worktree in which checks run: the result of a landing, before it is landed.

It is a linked worktree of the repository, below the state directory, with no branch checked out.
Nothing that the repository names runs when it is made.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import GitRepository, find_repository
from quarterdeck.system.git.worktree import (
    add_worktree,
    delete_directory,
    find_worktree,
    remove_worktree,
)
from quarterdeck.wire.ids import new_request_id

from ..worktrees.includes import copy_included

__all__ = ["CheckTree", "remove_check_trees"]

_log = logging.getLogger(__name__)
_SECONDS = 300.0
_PREFIX = "quarterdeck-check-"


class CheckTree:
    """A temporary worktree; ``remove`` it.

    Args:
        repository: whose commits are checked out.
        directory: of ours, in which it is made.
    """

    def __init__(self, repository: GitRepository, directory: Path) -> None:
        self.path = directory / f"{_PREFIX}{new_request_id()[-12:]}"
        self.source = repository.top
        """The checkout that it was made from."""
        self.needed = (repository.common_dir, repository.top)
        """Directories that git, or a command, has to read."""
        self._repository = repository
        self._tree: GitRepository | None = None

    def check_out(self, commit: str) -> bool:
        """Let its files be those of a commit; what a command left there stays. Blocks.

        Returns whether it was made now.

        Raises:
            GitError: it cannot be written.
        """
        try:
            if self._tree is None:
                self._tree = add_worktree(self._repository, str(self.path), commit=commit)
                return True
            Path(self._tree.git_dir, "HEAD").write_text(f"{commit}\n")
        except OSError as error:
            raise GitError(f"cannot write the worktree {str(self.path)!r}: {error}") from error
        self._tree = replace(self._tree, head=commit)
        self._tree.change(("read-tree", "--reset", "-u", commit), seconds=_SECONDS)
        return False

    def copy_included(self, patterns: Sequence[str]) -> None:
        """Copy ignored files that work needs, as into the worktree of an agent. Blocks.

        Raises:
            GitError: they cannot be read or written.
        """
        try:
            copy_included(self._repository, str(self.path), patterns)
        except OSError as error:
            raise GitError(f"cannot copy files into {str(self.path)!r}: {error}") from error

    def remove(self) -> None:
        """Delete it. Blocks."""
        _remove(self._repository, self.path)


def remove_check_trees(directory: Path) -> None:
    """Delete what a killed host left. Blocks."""
    for path in sorted(directory.glob(f"{_PREFIX}*")):
        try:
            repository = find_repository(str(path))
        except GitError:
            repository = None
        _remove(repository, path)


def _remove(repository: GitRepository | None, path: Path) -> None:
    try:
        found = find_worktree(repository, str(path)) if repository is not None else None
        if found is not None:
            remove_worktree(found)
        delete_directory(str(path))
    except (GitError, OSError) as error:
        _log.warning("the temporary worktree %s could not be deleted: %s", path, error)
