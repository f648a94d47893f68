"""Which worktrees are no longer kept, by the settings. Blocks."""

from collections.abc import Mapping, Sequence

from quarterdeck.config.schema import WorktreeSettings
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.references import resolve_commit
from quarterdeck.system.git.worktree import open_worktree
from quarterdeck.wire.clock import read_wall_clock

from ..agent_entry import AgentEntry
from .includes import read_patterns
from .inspection import inspect_worktree, is_merged, leave_out_landed, measure_directory
from .record import TrashRecord, WorktreeRecord, WorktreeRecords

__all__ = ["choose_removable", "is_expired"]

_DAY = 86_400_000_000
_GIGABYTE = 1_000_000_000


def choose_removable(
    made: Sequence[WorktreeRecord],
    users: Mapping[str, Sequence[AgentEntry]],
    settings: Mapping[str, WorktreeSettings],
    records: WorktreeRecords,
) -> list[WorktreeRecord]:
    """The worktrees that the settings let go, the longest unused first.

    Only those without uncommitted work, in which no agent is live, whose changes were merged or
    whose agents are archived or deleted; adopted ones have no record and are never among them.
    ``users`` and ``settings`` are by path.
    """
    now = read_wall_clock()
    last = {one.worktree.path: _last_used(one, users) for one in made}
    possible = [
        one
        for one in sorted(made, key=lambda one: last[one.worktree.path])
        if _may_go(one, users.get(one.worktree.path, ()), settings[one.worktree.path], records)
    ]
    chosen = [
        one
        for one in possible
        if now - last[one.worktree.path] >= settings[one.worktree.path].keep_days * _DAY
    ]
    limits = [one.keep_size for one in settings.values() if one.keep_size is not None]
    if limits:
        sizes = {one.worktree.path: measure_directory(one.worktree.path) for one in made}
        total = sum(sizes.values()) - sum(sizes[one.worktree.path] for one in chosen)
        for one in possible:
            if one not in chosen and total > min(limits) * _GIGABYTE:
                chosen.append(one)
                total -= sizes[one.worktree.path]
    return chosen


def is_expired(trash: TrashRecord) -> bool:
    """Whether a discarded worktree need not be kept any longer."""
    return read_wall_clock() >= trash.expires


def _last_used(record: WorktreeRecord, users: Mapping[str, Sequence[AgentEntry]]) -> int:
    entries = users.get(record.worktree.path, ())
    return max([record.created, *(entry.updated for entry in entries)])


def _may_go(
    record: WorktreeRecord,
    entries: Sequence[AgentEntry],
    settings: WorktreeSettings,
    records: WorktreeRecords,
) -> bool:
    if record.stage != "ready" or any(entry.is_started for entry in entries):
        return False
    is_archived = all(entry.standing.is_archived for entry in entries)
    try:
        if not (is_archived and "archive" in settings.remove_after) and not (
            "merge" in settings.remove_after and _was_merged(record)
        ):
            return False
        repository = open_worktree(record.worktree.path, record.worktree.repository)
        included = records.included(record.worktree.path)
        patterns = (*settings.include_ignored, *read_patterns(record.worktree.repository))
        content = inspect_worktree(repository, included, patterns)
        content = leave_out_landed(content, repository, record, records.directory / "scratch")
    except GitError:
        return False
    return not content.is_dirty and not content.repositories


def _was_merged(record: WorktreeRecord) -> bool:
    """Whether it has commits of its own and all of them are on another branch."""
    worktree = record.worktree
    repository = open_worktree(worktree.path, worktree.repository)
    head = resolve_commit(repository, "HEAD")
    if head == record.landed:
        return True
    base = worktree.base_ref
    return head != worktree.base and base is not None and is_merged(repository, head, base)
