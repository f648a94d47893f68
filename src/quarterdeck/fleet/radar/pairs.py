"""Comparison of two worktrees, and of one with its base: what git cannot merge, what both change.

Snapshots are merged by ``git merge-tree`` as commits that exist in a temporary directory only; no
object, reference or file of the repository is written. Worktrees whose changes lie apart are not
merged at all: most pairs cost no process. Everything here blocks.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType

from msgspec import Struct

from quarterdeck.agent.checkpoints.file_state import path_text
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitIdentity, GitPlaces, run_git
from quarterdeck.wire.worktrees import ConflictFile, ConflictKind

from .symbols import LARGEST_SOURCE, find_language, touched_symbols
from .worktree_state import PathChange, WorktreeState

__all__ = [
    "MERGE_GIT",
    "MOST_FILES",
    "BaseComparison",
    "MergeScratch",
    "can_merge_trees",
    "compare_with_base",
    "compare_worktrees",
    "may_conflict",
]

MERGE_GIT = "2.38"
"""The oldest git that merges trees without a checkout."""
MOST_FILES = 200
"""Files of one pair that are reported; those that cannot be merged come first."""
_LARGEST_MERGED = 20_000_000
"""Bytes; of a larger file it is only told whether both have changed it."""
_MOST_SYMBOLS = 100
"""Files of one pair that are parsed."""
_SECONDS = 60.0
_WHO = GitIdentity(name="Quarterdeck", email="quarterdeck@localhost", date="1000000000 +0000")
_VERSION = re.compile(rb"git version (\d+)\.(\d+)")
_SETTINGS = ("merge.renameLimit=1000", "core.fsync=none", "core.looseCompression=0")
_PLAIN = ("100644", "100755")
_ORDER: Mapping[ConflictKind, int] = {"text": 0, "symbol": 1, "file": 2}


class BaseComparison(Struct, frozen=True, kw_only=True):
    """A worktree against the branch that it started from, as that is now."""

    conflicts: tuple[ConflictFile, ...] = ()
    is_landed: bool = False
    """The branch has all of its changes."""


class _Merge(Struct, frozen=True):
    tree: str
    conflicts: frozenset[bytes]


def can_merge_trees() -> bool:
    """Whether the git on PATH can merge trees; asked once. Raises GitError where there is none."""
    return _can_merge_trees(os.environ.get("PATH", ""))


@cache
def _can_merge_trees(path: str) -> bool:
    nowhere = tempfile.mkdtemp(prefix="quarterdeck-git-")
    try:
        said = run_git(GitPlaces(git_dir=nowhere), ("version",)).data
    finally:
        shutil.rmtree(nowhere, ignore_errors=True)
    found = _VERSION.match(said)
    return found is not None and (int(found[1]), int(found[2])) >= (2, 38)


class MergeScratch:
    """A temporary object directory for merges; use it in a ``with`` block."""

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="quarterdeck-radar-")
        self._objects = str(Path(self._directory, "objects"))
        Path(self._objects).mkdir()
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

    def merge_pair(
        self, one: WorktreeState, other: WorktreeState, alike: Collection[bytes] = ()
    ) -> frozenset[bytes]:
        """The paths that git cannot merge. ``alike``: files to leave out. Raises GitError."""
        tree = self._level(one, other, alike) if alike else other.snapshot.tree
        both = (one, other)
        commits = (self._commit(one, one.snapshot.tree), self._commit(other, tree))
        return self._merge(both, *commits).conflicts

    def merge_with_base(self, one: WorktreeState, tip: str) -> _Merge:
        """Merge with a commit of the repository. Raises GitError."""
        return self._merge((one,), self._commit(one, one.snapshot.tree), tip)

    def run(
        self, states: Sequence[WorktreeState], *words: str, given: bytes = b"", index: bool = False
    ) -> bytes:
        """Run git with the objects of these snapshots; return what it prints. Raises GitError."""
        return self._run(states, words, given, index)[0]

    def _run(
        self, states: Sequence[WorktreeState], words: Sequence[str], given: bytes, index: bool
    ) -> tuple[bytes, int]:
        answer = states[0].snapshot.repository.change(
            words,
            objects=self._objects,
            alternates=[state.snapshot.objects for state in states],
            index=str(Path(self._directory, "index")) if index else None,
            identity=_WHO,
            settings=_SETTINGS,
            given=given,
            seconds=_SECONDS,
            accepted=(0, 1) if words[0] == "merge-tree" else (0,),
        )
        return answer.data, answer.code

    def _merge(self, states: Sequence[WorktreeState], ours: str, theirs: str) -> _Merge:
        words = (
            *("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"),
            *("--allow-unrelated-histories", ours, theirs),
        )
        data, code = self._run(states, words, b"", index=False)
        tree, *paths = data.split(b"\0")
        if code == 0:
            return _Merge(tree.decode().strip(), frozenset())
        made_up = re.compile(rb"~(?:%s|%s)(?:_\d+)?" % (ours.encode(), theirs.encode()))
        found = {made_up.sub(b"", path) for path in paths if path}
        return _Merge(tree.decode().strip(), frozenset(found))

    def _commit(self, state: WorktreeState, tree: str) -> str:
        """A commit of a tree, as the agent would make it now."""
        parents = [state.head] if state.head else []
        if state.worktree.start is not None:
            # What was carried along is common to all that started with it.
            started = self._make_commit(state, state.start, [state.worktree.base])
            parents.append(started)
        return self._make_commit(state, tree, parents)

    def _make_commit(self, state: WorktreeState, tree: str, parents: Sequence[str]) -> str:
        key = (tree, *parents)
        if key not in self._commits:
            named = [word for parent in parents for word in ("-p", parent)]
            said = self.run((state,), "commit-tree", *named, "-m", "snapshot", tree)
            self._commits[key] = said.decode().strip()
        return self._commits[key]

    def _level(self, one: WorktreeState, other: WorktreeState, paths: Collection[bytes]) -> str:
        """The other's tree with these files as the one has them: they take no part in a merge."""
        both = (one, other)
        absent = "0" * len(one.snapshot.tree)
        lines: list[bytes] = []
        for path in paths:
            change = one.changes[path]
            entry = f"{change.new_mode or '0'} {change.new or absent}\t".encode()
            lines.append(entry + path + b"\0")
        self.run(both, "read-tree", other.snapshot.tree, index=True)
        self.run(both, "update-index", "-z", "--index-info", given=b"".join(lines), index=True)
        return self.run(both, "write-tree", index=True).decode().strip()


def may_conflict(one: WorktreeState, other: WorktreeState) -> bool:
    """Whether the changes of two worktrees meet; where not, git need not be asked.

    They meet in a file, where a file is a directory on the other side, and where one adds files
    below a directory from which the other takes them away.
    """
    if not one.changes or not other.changes:
        return False
    if _overlap(one, other):
        return True
    one_above, other_above = _directories(one.changes), _directories(other.changes)
    if one.changes.keys() & other_above or other.changes.keys() & one_above:
        return True
    return bool(_emptied(one) & _filled(other) or _emptied(other) & _filled(one))


def _overlap(one: WorktreeState, other: WorktreeState) -> list[bytes]:
    """The paths that both have changed, and not to the same."""
    found: list[bytes] = []
    for path in one.changes.keys() & other.changes.keys():
        mine, theirs = one.changes[path], other.changes[path]
        if (mine.new_mode, mine.new) != (theirs.new_mode, theirs.new):
            found.append(path)
    return sorted(found)


def _directories(paths: Iterable[bytes]) -> set[bytes]:
    """Every directory above these paths, but the top."""
    found: set[bytes] = set()
    for path in paths:
        above = path.rpartition(b"/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition(b"/")[0]
    return found


def _emptied(state: WorktreeState) -> set[bytes]:
    return _directories(path for path, change in state.changes.items() if not change.new_mode)


def _filled(state: WorktreeState) -> set[bytes]:
    return _directories(
        path for path, change in state.changes.items() if not change.old_mode or change.renamed_from
    )


def compare_worktrees(
    one: WorktreeState, other: WorktreeState, scratch: MergeScratch
) -> tuple[ConflictFile, ...]:
    """What two worktrees both change, the worst first; at most ``MOST_FILES``.

    With a git that cannot merge trees, files are compared but nothing is merged.

    Raises:
        GitError: git failed.
    """
    if not may_conflict(one, other):
        return ()
    common = _overlap(one, other)
    sizes = _sizes((one, other), common, {}, scratch)
    large = [path for path in common if _is_large(path, (one, other), sizes)]
    unmerged: frozenset[bytes] = frozenset()
    if can_merge_trees():
        unmerged = scratch.merge_pair(one, other, large)
        if one.worktree.base != other.worktree.base:
            # The merge has also what the base's branch gained between the two starts.
            unmerged = frozenset(path for path in unmerged if _is_of_both(path, one, other))
    renamed = {_source(path, one, other) for path in unmerged} - {None}
    paths = [*unmerged, *(path for path in common if path not in unmerged | renamed)]
    sizes = _sizes((one, other), paths, sizes, scratch)
    symbols = dict(_common_symbols(one, other, paths, sizes, scratch))
    files = [_file(path, path in unmerged, symbols.get(path, ())) for path in paths]
    files.sort(key=lambda file: (_ORDER[file.kind], file.path))
    return tuple(files[:MOST_FILES])


def _file(path: bytes, is_unmerged: bool, symbols: tuple[str, ...]) -> ConflictFile:
    kind: ConflictKind = "text" if is_unmerged else "symbol" if symbols else "file"
    return ConflictFile(path=path_text(path), kind=kind, symbols=symbols)


def _source(path: bytes, one: WorktreeState, other: WorktreeState) -> bytes | None:
    """The name that a file had before one of the two has renamed it."""
    for state in (one, other):
        change = state.changes.get(path)
        if change is not None and change.renamed_from is not None:
            return change.renamed_from
    return None


def _change_of(
    state: WorktreeState, path: bytes, one: WorktreeState, other: WorktreeState
) -> PathChange | None:
    """What a worktree does to a file, also where it has another name in one of the two."""
    found = state.changes.get(path)
    if found is None and (source := _source(path, one, other)) is not None:
        found = state.changes.get(source)
    return found


def _is_of_both(path: bytes, one: WorktreeState, other: WorktreeState) -> bool:
    return all(_change_of(state, path, one, other) is not None for state in (one, other))


def _sizes(
    states: tuple[WorktreeState, WorktreeState],
    paths: Iterable[bytes],
    known: Mapping[str, int],
    scratch: MergeScratch,
) -> dict[str, int]:
    """The sizes of all contents of these paths, by object, with those that are known."""
    changes = [_change_of(state, path, *states) for path in paths for state in states]
    wanted = {
        object_
        for change in changes
        if change is not None
        for mode, object_ in ((change.old_mode, change.old), (change.new_mode, change.new))
        if mode in _PLAIN and object_ not in known
    }
    if not wanted:
        return dict(known)
    given = "".join(f"{object_}\n" for object_ in sorted(wanted)).encode()
    said = scratch.run(states, "cat-file", "--batch-check", given=given)
    words = [line.split() for line in said.decode().splitlines()]
    return {**known, **{line[0]: int(line[2]) for line in words if len(line) == 3}}


def _is_large(path: bytes, states: Iterable[WorktreeState], sizes: Mapping[str, int]) -> bool:
    changes = [state.changes[path] for state in states]
    return any(
        sizes.get(object_, 0) > _LARGEST_MERGED
        for change in changes
        for object_ in (change.old, change.new)
    )


def _common_symbols(
    one: WorktreeState,
    other: WorktreeState,
    paths: Iterable[bytes],
    sizes: Mapping[str, int],
    scratch: MergeScratch,
) -> Iterator[tuple[bytes, tuple[str, ...]]]:
    """The symbols that both touch, by path; only of files that can be read."""
    wanted: dict[bytes, tuple[str, PathChange, PathChange]] = {}
    for path in paths:
        language = find_language(path)
        mine, theirs = (_change_of(state, path, one, other) for state in (one, other))
        if language is None or mine is None or theirs is None or len(wanted) >= _MOST_SYMBOLS:
            continue
        if _is_source(mine, sizes) and _is_source(theirs, sizes):
            wanted[path] = (language, mine, theirs)
    texts = _read_objects(one, other, wanted.values(), scratch)
    for path, (language, mine, theirs) in wanted.items():
        touched = [
            touched_symbols(language, texts.get(change.old), texts.get(change.new))
            for change in (mine, theirs)
        ]
        if found := _narrow(touched[0] & touched[1]):
            yield path, found


def _is_source(change: PathChange, sizes: Mapping[str, int]) -> bool:
    pairs = ((change.old_mode, change.old), (change.new_mode, change.new))
    return all(not mode or mode in _PLAIN for mode, _ in pairs) and all(
        sizes.get(object_, 0) <= LARGEST_SOURCE for _, object_ in pairs
    )


def _narrow(symbols: Collection[str]) -> tuple[str, ...]:
    """Without the classes of which a member is named."""
    holders = {name.partition(".")[0] for name in symbols if "." in name}
    return tuple(sorted(name for name in symbols if name not in holders))


def _read_objects(
    one: WorktreeState,
    other: WorktreeState,
    wanted: Iterable[tuple[str, PathChange, PathChange]],
    scratch: MergeScratch,
) -> dict[str, bytes]:
    names = {
        object_
        for _, *changes in wanted
        for change in changes
        for object_ in (change.old, change.new)
        if object_
    }
    if not names:
        return {}
    given = "".join(f"{name}\n" for name in sorted(names)).encode()
    said = scratch.run((one, other), "cat-file", "--batch", given=given)
    found: dict[str, bytes] = {}
    place = 0
    while place < len(said):
        end = said.index(b"\n", place)
        head = said[place:end].split()
        place = end + 1
        if len(head) == 3:
            size = int(head[2])
            found[head[0].decode()] = said[place : place + size]
            place += size + 1
    return found


def compare_with_base(one: WorktreeState, scratch: MergeScratch) -> BaseComparison:
    """Whether the branch that a worktree started from can take its changes. Raises GitError."""
    tip = one.tip
    if tip is None or not one.changes or not can_merge_trees():
        return BaseComparison()
    if tip == one.worktree.base:
        return BaseComparison()
    if one.tip_tree == one.snapshot.tree:
        return BaseComparison(is_landed=True)
    try:
        merged = scratch.merge_with_base(one, tip)
    except GitError as error:
        raise GitError(f"{one.worktree.path!r} cannot be merged with its base: {error}") from error
    paths = sorted(path_text(path) for path in merged.conflicts)
    return BaseComparison(
        conflicts=tuple(ConflictFile(path=path, kind="text") for path in paths[:MOST_FILES]),
        is_landed=not merged.conflicts and merged.tree == one.tip_tree,
    )
