"""Snapshots of the worktrees of agents, one recorder for each, shared by all who compare them."""

import asyncio
import hashlib
import os
import shutil
from pathlib import Path

from msgspec import Struct

from quarterdeck.system.git.repository import GitRepository
from quarterdeck.system.git.tree_snapshot import TreeRecorder
from quarterdeck.system.git.worktree import open_worktree
from quarterdeck.wire.worktrees import Worktree

__all__ = ["WorktreeSnapshot", "WorktreeSnapshots"]


class WorktreeSnapshot(Struct, frozen=True, kw_only=True):
    """A worktree at one moment."""

    repository: GitRepository
    """As it was found then: its HEAD is what was checked out."""
    tree: str
    """The tree object: committed, uncommitted and untracked files."""
    objects: str
    """The directory with the objects that the repository does not have; an alternate of it."""


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
        return WorktreeSnapshot(repository=repository, tree=tree, objects=recorder.objects)

    def _place(self, path: str) -> Path:
        key = hashlib.blake2b(os.fsencode(path), digest_size=12).hexdigest()
        return self._directory / key
