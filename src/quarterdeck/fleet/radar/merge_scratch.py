"""Merges of snapshots that leave no trace: commits and results in a temporary directory.

No object, reference or file of the repository is written, and nothing that it names is run.
Everything here blocks.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType

from msgspec import Struct

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitIdentity, GitPlaces, run_git
from quarterdeck.system.git.object_store import ObjectStore

from .worktree_state import WorktreeState

__all__ = ["MERGE_GIT", "MergeScratch", "TreeMerge", "can_merge_trees"]

MERGE_GIT = "2.38"
"""The oldest git that merges trees without a checkout."""
_SECONDS = 60.0
_WHO = GitIdentity(name="Quarterdeck", email="quarterdeck@localhost", date="1000000000 +0000")
_VERSION = re.compile(rb"git version (\d+)\.(\d+)")
_SETTINGS = ("merge.renameLimit=1000", "core.fsync=none", "core.looseCompression=0")
_AT_ONCE = 50
"""Merges that one process makes."""


class TreeMerge(Struct, frozen=True):
    """What two commits came to."""

    tree: str
    conflicts: frozenset[bytes]
    """The paths that git cannot merge."""


def can_merge_trees() -> bool:
    """Whether the git on PATH can merge trees; asked once. Raises GitError where there is none."""
    return _git_version(os.environ.get("PATH", "")) >= (2, 38)


@cache
def _git_version(path: str) -> tuple[int, int]:
    """Of the git that is found in the directories of ``path``."""
    nowhere = tempfile.mkdtemp(prefix="quarterdeck-git-")
    try:
        output = run_git(GitPlaces(git_dir=nowhere), ("version",)).data
    finally:
        shutil.rmtree(nowhere, ignore_errors=True)
    found = _VERSION.match(output)
    return (int(found[1]), int(found[2])) if found else (0, 0)


class MergeScratch:
    """A temporary object directory for merges in one repository; use it in a ``with`` block."""

    def __init__(self, states: Sequence[WorktreeState]) -> None:
        """``states``: the worktrees whose objects are needed."""
        self._repository = states[0].snapshot.repository
        self._alternates = sorted({state.snapshot.objects for state in states})
        self._directory = tempfile.mkdtemp(prefix="quarterdeck-radar-")
        self._objects = str(Path(self._directory, "objects"))
        Path(self._objects).mkdir()
        # Commits of all worktrees are needed for one that has changed: git would take a process
        # for each.
        self._store = ObjectStore(Path(self._directory), self._repository.object_format)
        self._commits: dict[tuple[str, ...], str] = {}

    def __enter__(self) -> "MergeScratch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def merge(self, pairs: Sequence[tuple[str, str]]) -> list[TreeMerge]:
        """Merge commits, two and two. Raises GitError if one of the merges cannot be tried."""
        if _git_version(os.environ.get("PATH", "")) < (2, 39):
            return [self._merge_one(ours, theirs) for ours, theirs in pairs]
        return [merge for some in _slices(pairs) for merge in self._merge_some(some)]

    def _merge_one(self, ours: str, theirs: str) -> TreeMerge:
        words = (*_MERGE, "-z", ours, theirs)
        tree, *paths = self._run(words, accepted=(0, 1)).split(b"\0")
        return TreeMerge(tree.decode(), _clean(paths, ours, theirs))

    def _merge_some(self, pairs: Sequence[tuple[str, str]]) -> Iterator[TreeMerge]:
        given = "".join(f"{ours} {theirs}\n" for ours, theirs in pairs).encode()
        output = iter(self._run((*_MERGE, "--stdin"), given=given).split(b"\0"))
        for ours, theirs in pairs:
            next(output)  # whether it is clean, which the paths tell too
            tree = next(output).decode()
            paths = list(iter(lambda: next(output), b""))
            yield TreeMerge(tree, _clean(paths, ours, theirs))

    def commit(self, state: WorktreeState, tree: str | None = None) -> str:
        """A commit of a snapshot, or of another tree, as its agent would make it now."""
        parents = [state.head] if state.head else []
        if state.worktree.start is not None:
            # What was carried along is common to all that started with it.
            parents.append(self._make_commit(state.start, [state.worktree.base]))
        return self._make_commit(tree or state.snapshot.tree, parents)

    def _make_commit(self, tree: str, parents: Sequence[str]) -> str:
        key = (tree, *parents)
        if key not in self._commits:
            try:
                self._commits[key] = self._store.put_commit(
                    tree, parents, identity=_WHO, message="snapshot"
                )
            except OSError as error:
                raise GitError(f"a commit cannot be written: {error}") from error
        return self._commits[key]

    def level(self, one: WorktreeState, other: WorktreeState, paths: Collection[bytes]) -> str:
        """The other's tree with these files as the one has them: they take no part in a merge."""
        absent = "0" * len(one.snapshot.tree)
        lines: list[bytes] = []
        for path in paths:
            change = one.changes[path]
            entry = f"{change.new_mode or '0'} {change.new or absent}\t".encode()
            lines.append(entry + path + b"\0")
        index = str(Path(self._directory, "index"))
        self._run(("read-tree", other.snapshot.tree), index=index)
        self._run(("update-index", "-z", "--index-info"), given=b"".join(lines), index=index)
        return self._run(("write-tree",), index=index).decode().strip()

    def sizes(self, objects: Collection[str]) -> dict[str, int]:
        """The sizes of contents; those that are not there are left out. Raises GitError."""
        if not objects:
            return {}
        given = "".join(f"{name}\n" for name in sorted(objects)).encode()
        output = self._run(("cat-file", "--batch-check"), given=given).decode()
        words = [line.split() for line in output.splitlines()]
        return {line[0]: int(line[2]) for line in words if len(line) == 3}

    def contents(self, objects: Collection[str]) -> dict[str, bytes]:
        """Contents by their names; the caller knows that they are small. Raises GitError."""
        if not objects:
            return {}
        given = "".join(f"{name}\n" for name in sorted(objects)).encode()
        output = self._run(("cat-file", "--batch"), given=given)
        found: dict[str, bytes] = {}
        place = 0
        while place < len(output):
            end = output.index(b"\n", place)
            head = output[place:end].split()
            place = end + 1
            if len(head) == 3:
                size = int(head[2])
                found[head[0].decode()] = output[place : place + size]
                place += size + 1
        return found

    def _run(
        self,
        words: Sequence[str],
        *,
        given: bytes = b"",
        index: str | None = None,
        accepted: Sequence[int] = (0,),
    ) -> bytes:
        return self._repository.change(
            words,
            objects=self._objects,
            alternates=self._alternates,
            index=index,
            identity=_WHO,
            settings=_SETTINGS,
            given=given,
            seconds=_SECONDS,
            accepted=accepted,
        ).data


_MERGE = (
    *("merge-tree", "--write-tree", "--name-only", "--no-messages"),
    "--allow-unrelated-histories",
)


def _slices(pairs: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    for start in range(0, len(pairs), _AT_ONCE):
        yield pairs[start : start + _AT_ONCE]


def _clean(paths: Sequence[bytes], ours: str, theirs: str) -> frozenset[bytes]:
    """Without what git adds to the name of a file that has no place: ``~`` and the commit."""
    if not any(b"~" in path for path in paths):
        return frozenset(path for path in paths if path)
    made_up = re.compile(rb"~(?:%s|%s)(?:_\d+)?" % (ours.encode(), theirs.encode()))
    return frozenset(made_up.sub(b"", path) for path in paths if path)
