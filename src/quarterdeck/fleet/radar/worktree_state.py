"""The state of an agent's worktree, as the radar compares it: its snapshot and what is changed.

What an agent has changed is the difference between the tree that it started from and the snapshot
of now: committed, uncommitted and untracked files alike. Everything here blocks.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import GitRepository
from quarterdeck.wire.worktrees import ChangeCounts, Worktree

from ..worktrees.snapshots import WorktreeSnapshot

__all__ = ["PathChange", "WorktreeState", "read_worktree_state"]

_MOST = 64_000_000
"""Bytes of a list of changes."""
_SECONDS = 60.0
_ABSENT = "000000"
_OBJECT = re.compile(rb"([0-9a-f]{40,64}) (commit|tree) ")


class PathChange(Struct, frozen=True):
    """What became of one path; an empty mode and object: there is no file."""

    old_mode: str
    new_mode: str
    old: str
    new: str
    renamed_from: bytes | None = None
    """The path that it had before; that path has an entry of its own, without a new file."""


class WorktreeState(Struct, frozen=True, kw_only=True):
    """A worktree at one moment."""

    worktree: Worktree
    snapshot: WorktreeSnapshot
    head: str | None
    """The commit that is checked out; None: there is none yet."""
    start: str
    """The tree from which changes count."""
    tip: str | None
    """The commit that the base's branch points at now; None: there is no such branch."""
    tip_tree: str | None
    changes: Mapping[bytes, PathChange]
    """By path."""
    counts: ChangeCounts

    @property
    def key(self) -> tuple[str | None, ...]:
        """What a comparison with another depends on."""
        return (self.snapshot.tree, self.head, self.start, self.worktree.base)


def read_worktree_state(
    worktree: Worktree, snapshot: WorktreeSnapshot, before: WorktreeState | None = None
) -> WorktreeState:
    """Read what is changed in a worktree; what ``before`` knows already is not read again.

    Raises:
        GitError: the repository cannot be read, or its base is gone.
    """
    repository = snapshot.repository
    head, head_tree, tip, tip_tree, start = _resolve(repository, worktree)
    if start is None:
        raise GitError(f"the base {worktree.base!r} of {worktree.path!r} is not in the repository")
    if before is not None and (before.snapshot.tree, before.start) == (snapshot.tree, start):
        changes, counts = before.changes, before.counts
    else:
        changes, counts = _read_changes(snapshot, start)
    if before is not None and (before.head, before.tip) == (head, tip):
        ahead, behind = before.counts.ahead, before.counts.behind
    else:
        ahead, behind = _count_commits(repository, head, tip or worktree.base)
    counts = ChangeCounts(
        files=counts.files,
        added=counts.added,
        removed=counts.removed,
        ahead=ahead,
        behind=behind if tip is not None else 0,
        is_dirty=head_tree != snapshot.tree,
    )
    return WorktreeState(
        worktree=worktree,
        snapshot=snapshot,
        head=head,
        start=start,
        tip=tip,
        tip_tree=tip_tree,
        changes=changes,
        counts=counts,
    )


def _resolve(repository: GitRepository, worktree: Worktree) -> list[str | None]:
    """HEAD's commit and tree, those of the base's branch, and the tree that changes count from."""
    branch = worktree.base_ref
    tip = f"refs/heads/{branch.removeprefix('refs/heads/')}" if branch else None
    start = f"{worktree.start}^{{tree}}" if worktree.start else f"{worktree.base}^{{tree}}"
    names = (
        "HEAD^{commit}",
        "HEAD^{tree}",
        f"{tip}^{{commit}}" if tip else "",
        f"{tip}^{{tree}}" if tip else "",
        start,
    )
    given = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
    output = repository.ask(("cat-file", "--batch-check"), given=given).data.split(b"\n")
    found = [_OBJECT.match(line) for line in output[: len(names)]]
    return [match[1].decode() if match else None for match in found]


def _count_commits(repository: GitRepository, head: str | None, base: str) -> tuple[int, int]:
    """Commits that only HEAD has, and that only the base has."""
    if head is None or head == base:
        return 0, 0
    words = ("rev-list", "--left-right", "--count", f"{head}...{base}", "--")
    try:
        ahead, behind = repository.ask(words, seconds=_SECONDS).data.split()
    except GitError:
        return 0, 0  # a shallow clone may not have all of them
    return int(ahead), int(behind)


def _read_changes(
    snapshot: WorktreeSnapshot, start: str
) -> tuple[dict[bytes, PathChange], ChangeCounts]:
    words = (
        *("diff-tree", "-r", "-z", "--raw", "--numstat", "-M", "-l1000", "--no-abbrev"),
        *(start, snapshot.tree, "--"),
    )
    answer = snapshot.repository.change(
        words,
        alternates=(snapshot.objects,),
        settings=("core.bigFileThreshold=20m",),
        most=_MOST,
        seconds=_SECONDS,
    )
    if answer.is_cut:
        raise GitError(f"too many files are changed in {snapshot.repository.top!r} to compare them")
    return _parse_changes(answer.data.split(b"\0"))


def _parse_changes(output: Sequence[bytes]) -> tuple[dict[bytes, PathChange], ChangeCounts]:
    """What ``diff-tree --raw --numstat -z`` says, split at the zeros."""
    changes: dict[bytes, PathChange] = {}
    place = files = added = removed = 0
    while place < len(output) and output[place].startswith(b":"):
        place += _parse_raw(output, place, changes)
        files += 1
    while place < len(output) and output[place]:
        plus, minus, path = output[place].split(b"\t", 2)
        added += int(plus) if plus != b"-" else 0
        removed += int(minus) if minus != b"-" else 0
        place += 1 if path else 3  # a renamed file has its two names behind
    return changes, ChangeCounts(files=files, added=added, removed=removed)


def _parse_raw(output: Sequence[bytes], place: int, changes: dict[bytes, PathChange]) -> int:
    """Take in one entry; return how many words it has."""
    old_mode, new_mode, old, new, status = output[place][1:].decode().split(" ")
    path = output[place + 1]
    if not status.startswith("R"):
        changes[path] = _change(old_mode, new_mode, old, new)
        return 2
    target = output[place + 2]
    changes.setdefault(path, _change(old_mode, _ABSENT, old, ""))
    changes[target] = _change(old_mode, new_mode, old, new, path)
    return 3


def _change(
    old_mode: str, new_mode: str, old: str, new: str, source: bytes | None = None
) -> PathChange:
    before, after = old_mode != _ABSENT, new_mode != _ABSENT
    return PathChange(
        old_mode if before else "",
        new_mode if after else "",
        old if before else "",
        new if after else "",
        source,
    )
