"""Worktrees for tests of what compares them: made by git itself, read as the fleet reads them."""

import os
from pathlib import Path

from quarterdeck.fleet.radar.worktree_state import WorktreeState, read_worktree_state
from quarterdeck.fleet.worktrees.snapshots import WorktreeSnapshots
from quarterdeck.wire.worktrees import Worktree

from .work_trees import git

__all__ = ["add_worktree", "read_state", "write_files"]


def add_worktree(project: Path, name: str, *, base: str = "HEAD") -> Worktree:
    """A linked worktree beside a project, on a branch of its own."""
    path = project.parent / f"{project.name}-{name}"
    commit = git(project, "rev-parse", base).strip()
    branch = f"quarterdeck/{name}"
    git(project, "worktree", "add", "-q", "-b", branch, str(path), commit)
    return Worktree(
        path=os.path.realpath(path),
        repository=os.path.realpath(project),
        base=commit,
        base_ref="main",
        branch=branch,
    )


def write_files(worktree: Worktree, files: dict[str | bytes, str | bytes | None]) -> None:
    """Write files below a worktree, by name; None deletes one."""
    for name, content in files.items():
        path = Path(worktree.path, os.fsdecode(name))
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


async def read_state(
    snapshots: WorktreeSnapshots, worktree: Worktree, before: WorktreeState | None = None
) -> WorktreeState:
    """A worktree as the radar sees it now."""
    import asyncio

    snapshot = await snapshots.take(worktree)
    return await asyncio.to_thread(read_worktree_state, worktree, snapshot, before)
