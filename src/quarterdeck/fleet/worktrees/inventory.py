"""Worktrees as people see them in a list. Blocks."""

import os
from collections.abc import Sequence

from msgspec.structs import replace

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.worktree import open_worktree
from quarterdeck.wire.worktrees import Worktree

from ..agent_entry import AgentEntry
from .api import WorktreeInfo
from .includes import read_patterns
from .inspection import count_commits, inspect_worktree, measure_directory
from .record import WorktreeRecords

__all__ = ["describe_worktree"]


def describe_worktree(
    name: str,
    worktree: Worktree,
    entries: Sequence[AgentEntry],
    records: WorktreeRecords,
    *,
    measure: bool = False,
) -> WorktreeInfo:
    """What is known of a worktree; one that cannot be read says why."""
    record = records.find(worktree.path)
    info = WorktreeInfo(
        name=name,
        worktree=worktree,
        agents=tuple(entry.name for entry in entries),
        sessions=tuple(entry.session for entry in entries),
        is_live=any(entry.is_started for entry in entries),
        branch=worktree.branch,
        last_active=max(
            [record.created if record is not None else 0, *(entry.updated for entry in entries)]
        ),
    )
    if record is not None and record.stage != "ready":
        return replace(info, problem="it is being made or removed")
    try:
        repository = open_worktree(worktree.path, worktree.repository)
        included = records.included(worktree.path)
        content = inspect_worktree(repository, included, read_patterns(worktree.repository))
        ahead, behind = count_commits(repository, worktree)
    except GitError as error:
        is_gone = not os.path.lexists(worktree.path)
        return replace(info, problem="it is gone" if is_gone else str(error))
    return replace(
        info,
        branch=content.branch,
        ahead=ahead,
        behind=behind,
        is_dirty=content.is_dirty,
        size=measure_directory(worktree.path) if measure else None,
    )
