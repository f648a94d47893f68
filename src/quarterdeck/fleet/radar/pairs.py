"""Comparison of worktrees, two and two, and of one with its base: what git cannot merge, what both
change.

Worktrees whose changes lie apart are not merged at all, and all others of one pass are merged by
one process. Everything here blocks.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from quarterdeck.agent.checkpoints.file_state import path_text
from quarterdeck.system.errors import GitError
from quarterdeck.wire.worktrees import ConflictFile, ConflictKind

from .merge_scratch import MergeScratch, can_merge_trees
from .symbols import LARGEST_SOURCE, find_language, touched_symbols
from .worktree_state import PathChange, WorktreeState

__all__ = [
    "MOST_FILES",
    "BaseComparison",
    "compare_with_base",
    "compare_worktrees",
    "may_conflict",
]

MOST_FILES = 200
"""Files of one pair that are reported; those that cannot be merged come first."""
_LARGEST_MERGED = 20_000_000
"""Bytes; of a larger file it is only known whether both have changed it."""
_MOST_SYMBOLS = 100
"""Files of one pair that are parsed."""
_MOST_READ = 64_000_000
"""Bytes of source that are read for one comparison."""
_PLAIN = ("100644", "100755")
_ORDER: Mapping[ConflictKind, int] = {"text": 0, "symbol": 1, "file": 2}


class BaseComparison(Struct, frozen=True, kw_only=True):
    """A worktree against the branch that it started from, as that is now."""

    conflicts: tuple[ConflictFile, ...] = ()
    is_landed: bool = False
    """The branch has all of its changes."""


class _Pair:
    """Two worktrees whose changes meet."""

    def __init__(self, one: WorktreeState, other: WorktreeState) -> None:
        self.one = one
        self.other = other
        self.common = _overlap(one, other)
        self.unmerged: frozenset[bytes] = frozenset()

    @property
    def paths(self) -> list[bytes]:
        """What is reported."""
        renamed = {self._source(path) for path in self.unmerged} - {None}
        left = (path for path in self.common if path not in self.unmerged | renamed)
        return [*sorted(self.unmerged), *left]

    def changes(self, path: bytes) -> tuple[PathChange | None, PathChange | None]:
        """What each does to a file, also where it has another name in one of the two."""
        source = self._source(path)
        found = [
            state.changes.get(path) or (state.changes.get(source) if source is not None else None)
            for state in (self.one, self.other)
        ]
        return found[0], found[1]

    def objects(self, paths: Iterable[bytes]) -> set[str]:
        """The contents that these paths have and had, of plain files."""
        return {
            object_
            for path in paths
            for change in self.changes(path)
            if change is not None
            for mode, object_ in ((change.old_mode, change.old), (change.new_mode, change.new))
            if mode in _PLAIN
        }

    def take_merge(self, conflicts: frozenset[bytes]) -> None:
        """Keep what git cannot merge, as far as it is the doing of these two."""
        if self.one.worktree.base != self.other.worktree.base:
            # The merge has also what the base's branch gained between the two starts.
            conflicts = frozenset(path for path in conflicts if None not in self.changes(path))
        self.unmerged = conflicts

    def _source(self, path: bytes) -> bytes | None:
        """The name that a file had before one of the two has renamed it."""
        for state in (self.one, self.other):
            change = state.changes.get(path)
            if change is not None and change.renamed_from is not None:
                return change.renamed_from
        return None


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
    pairs: Sequence[tuple[WorktreeState, WorktreeState]], scratch: MergeScratch
) -> list[tuple[ConflictFile, ...]]:
    """What worktrees of one repository both change, for each pair; the worst files first.

    With a git that cannot merge trees, files are compared but nothing is merged.

    Raises:
        GitError: git failed.
    """
    met = {
        place: _Pair(one, other)
        for place, (one, other) in enumerate(pairs)
        if may_conflict(one, other)
    }
    found: list[tuple[ConflictFile, ...]] = [()] * len(pairs)
    sizes = scratch.sizes({name for pair in met.values() for name in pair.objects(pair.common)})
    if can_merge_trees():
        _merge(list(met.values()), sizes, scratch)
        renamed = {name for pair in met.values() for name in pair.objects(pair.unmerged)}
        sizes |= scratch.sizes(renamed - sizes.keys())
    sources = _Sources(_read_sources(met.values(), sizes, scratch))
    for place, pair in met.items():
        files = [_make_file(pair, path, sources) for path in pair.paths]
        files.sort(key=lambda file: (_ORDER[file.kind], file.path))
        found[place] = tuple(files[:MOST_FILES])
    return found


def _merge(pairs: Sequence[_Pair], sizes: Mapping[str, int], scratch: MergeScratch) -> None:
    commits: list[tuple[str, str]] = []
    for pair in pairs:
        large = [path for path in pair.common if _is_large(pair, path, sizes)]
        tree = scratch.level(pair.one, pair.other, large) if large else None
        commits.append((scratch.commit(pair.one), scratch.commit(pair.other, tree)))
    for pair, merge in zip(pairs, scratch.merge(commits), strict=True):
        pair.take_merge(merge.conflicts)


def _is_large(pair: _Pair, path: bytes, sizes: Mapping[str, int]) -> bool:
    return any(sizes.get(name, 0) > _LARGEST_MERGED for name in pair.objects((path,)))


class _Sources:
    """Source files by their objects; each is parsed once."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts
        self._known: dict[tuple[str, bytes], dict[str, bytes]] = {}

    def has(self, change: PathChange) -> bool:
        """Whether both versions were read, as far as there are two."""
        return all(not name or name in self._texts for name in (change.old, change.new))

    def touched(self, language: str, change: PathChange) -> frozenset[str]:
        """The symbols that a change touches."""
        old, new = self._texts.get(change.old), self._texts.get(change.new)
        return touched_symbols(language, old, new, self._known)


def _make_file(pair: _Pair, path: bytes, sources: _Sources) -> ConflictFile:
    symbols = _common_symbols(pair, path, sources)
    kind: ConflictKind = "text" if path in pair.unmerged else "symbol" if symbols else "file"
    return ConflictFile(path=path_text(path), kind=kind, symbols=symbols)


def _common_symbols(pair: _Pair, path: bytes, sources: _Sources) -> tuple[str, ...]:
    """The symbols that both touch; none where one of the files was not read."""
    language = find_language(path)
    mine, theirs = pair.changes(path)
    if language is None or mine is None or theirs is None:
        return ()
    if not sources.has(mine) or not sources.has(theirs):
        return ()
    return _narrow(sources.touched(language, mine) & sources.touched(language, theirs))


def _narrow(symbols: Collection[str]) -> tuple[str, ...]:
    """Without the classes of which a member is named."""
    holders = {name.partition(".")[0] for name in symbols if "." in name}
    return tuple(sorted(name for name in symbols if name not in holders))


def _read_sources(
    pairs: Iterable[_Pair], sizes: Mapping[str, int], scratch: MergeScratch
) -> dict[str, bytes]:
    """The source files of all pairs, as far as they are of a size that people write."""
    wanted: dict[str, int] = {}
    for pair in pairs:
        sources = [path for path in pair.paths if find_language(path) is not None]
        for name in sorted(pair.objects(sources[:_MOST_SYMBOLS])):
            size = sizes.get(name, LARGEST_SOURCE + 1)
            if size <= LARGEST_SOURCE and sum(wanted.values()) + size <= _MOST_READ:
                wanted[name] = size
    return scratch.contents(wanted)


def compare_with_base(one: WorktreeState, scratch: MergeScratch) -> BaseComparison:
    """Whether the branch that a worktree started from can take its changes. Raises GitError."""
    tip = one.tip
    if tip is None or not one.changes or tip == one.worktree.base:
        return BaseComparison()
    if one.tip_tree == one.snapshot.tree:
        return BaseComparison(is_landed=True)
    if not can_merge_trees():
        return BaseComparison()
    try:
        (merged,) = scratch.merge([(scratch.commit(one), tip)])
    except GitError as error:
        raise GitError(f"{one.worktree.path!r} cannot be merged with its base: {error}") from error
    paths = sorted(path_text(path) for path in merged.conflicts)
    return BaseComparison(
        conflicts=tuple(ConflictFile(path=path, kind="text") for path in paths[:MOST_FILES]),
        is_landed=not merged.conflicts and merged.tree == one.tip_tree,
    )
