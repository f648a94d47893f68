"""Snapshots of the worktrees of agents, one recorder for each, shared by all who compare them."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.system.git.repository import GitRepository
from quarterdeck.system.git.tree_snapshot import TreeRecorder
from quarterdeck.system.git.worktree import open_worktree
from quarterdeck.wire.worktrees import Worktree

__all__ = ["WorktreeSnapshot", "WorktreeSnapshots", "describe_gone", "note_repositories"]

_MOST_NAMED = 5


class WorktreeSnapshot(Struct, frozen=True, kw_only=True):
    """A worktree at one moment."""

    repository: GitRepository
    """As it was found then: its HEAD is what was checked out."""
    tree: str
    """The tree object: committed, uncommitted and untracked files."""
    objects: str
    """The directory with the objects that the repository does not have; an alternate of it."""
    repositories: tuple[bytes, ...] = ()
    """Repositories within, of which the tree has nothing."""


def describe_gone(path: str, agent: str) -> str:
    """What to say of an agent whose worktree is not there any more."""
    return (
        f"the worktree {path!r} of {agent!r} is gone; `quarterdeck worktrees recreate {agent}` "
        "makes it again from its branch"
    )


def note_repositories(names: Sequence[bytes]) -> str:
    """What to say of repositories within a worktree; nothing if there are none."""
    if not names:
        return ""
    shown = ", ".join(path_line(name) for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    what = "is a repository" if len(names) == 1 else "are repositories"
    return f"{shown}{more} {what} within the worktree: files in it are neither shown nor landed"


class WorktreeSnapshots:
    """Takes snapshots; of one worktree one at a time, in a thread.

    What they need is kept below ``directory`` and may be deleted at any time.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._recorders: dict[str, TreeRecorder] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def take(self, worktree: Worktree) -> WorktreeSnapshot:
        """Write down what is in a worktree.

        Raises:
            GitError: it is no worktree any more, or cannot be read.
        """
        async with self._locks.setdefault(worktree.path, asyncio.Lock()):
            return await asyncio.to_thread(self._take, worktree)

    async def forget(self, path: str) -> None:
        """Delete what is kept of a worktree that is gone."""
        async with self._locks.setdefault(path, asyncio.Lock()):
            self._recorders.pop(path, None)
            await asyncio.to_thread(shutil.rmtree, self._place(path), ignore_errors=True)
        self._locks.pop(path, None)

    def _take(self, worktree: Worktree) -> WorktreeSnapshot:
        path = worktree.path
        repository = open_worktree(path, worktree.repository)
        recorder = self._recorders.get(path)
        if recorder is None or recorder.repository.git_dir != repository.git_dir:
            recorder = self._recorders[path] = TreeRecorder(repository, self._place(path))
        recorder.repository = repository  # its HEAD may be another by now
        tree = recorder.take()
        assert recorder.objects is not None
        return WorktreeSnapshot(
            repository=repository,
            tree=tree,
            objects=recorder.objects,
            repositories=recorder.repositories,
        )

    def _place(self, path: str) -> Path:
        key = hashlib.blake2b(os.fsencode(path), digest_size=12).hexdigest()
        return self._directory / key
