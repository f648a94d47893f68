"""The worktrees of all agents as they were last seen, and what their comparison came to.

Only what has changed is read and compared again. Git works in threads, two at a time.
"""

import asyncio
import itertools
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from quarterdeck.system.errors import GitError
from quarterdeck.wire.tasks import run_to_end
from quarterdeck.wire.worktrees import ConflictFile, Worktree

from ..worktrees.snapshots import WorktreeSnapshot, WorktreeSnapshots
from .merge_scratch import MERGE_GIT, MergeScratch, can_merge_trees
from .pairs import BaseComparison, compare_with_base, compare_worktrees
from .symbols import missing_grammars
from .worktree_state import WorktreeState, read_worktree_state

__all__ = ["WorktreeComparisons"]

T = TypeVar("T")
_AT_ONCE = 2
_Key = tuple[str | None, ...]


class WorktreeComparisons:
    """What is known of worktrees, by their paths."""

    def __init__(self, snapshots: WorktreeSnapshots) -> None:
        self._snapshots = snapshots
        self._states: dict[str, WorktreeState] = {}
        self._seen: dict[str, float] = {}
        """When each was looked at, in monotonic seconds."""
        self._pairs: dict[tuple[str, str], tuple[_Key, tuple[ConflictFile, ...]]] = {}
        self._bases: dict[str, tuple[_Key, BaseComparison]] = {}
        self._failures: dict[tuple[str, ...], str] = {}
        self._threads = asyncio.Semaphore(_AT_ONCE)
        self._merges = True

    def state(self, path: str) -> WorktreeState | None:
        """A worktree as it was last seen; None: it was not, or it is gone."""
        return self._states.get(path)

    def base(self, path: str) -> BaseComparison:
        """A worktree against its base."""
        return self._bases[path][1] if path in self._bases else BaseComparison()

    def pair(self, one: str, other: str) -> tuple[ConflictFile, ...] | None:
        """What two worktrees both change; None: it is not known.

        One whose changes have landed shares nothing any more: the base has them.
        """
        mine, theirs = self._states.get(one), self._states.get(other)
        if mine is None or theirs is None:
            return None
        if not _is_same_repository(mine, theirs):
            return ()
        if self.base(one).is_landed or self.base(other).is_landed:
            return ()
        found = self._pairs.get(_ordered(one, other))
        return found[1] if found is not None else None

    @property
    def limits(self) -> list[str]:
        """Why less is compared than could be, in sentences."""
        found: list[str] = []
        if not self._merges:
            found.append(
                f"Conflicts are found by files and symbols only, because git is older than "
                f"{MERGE_GIT}; update git to have merges tried."
            )
        if missing := missing_grammars():
            found.append(
                f"Symbols of some files are not compared, because {', '.join(missing)} cannot be "
                f"loaded; install it with pip."
            )
        return found

    def failures(self, paths: Collection[str]) -> list[str]:
        """What could not be read or compared of these worktrees."""
        return [text for key, text in sorted(self._failures.items()) if key[0] in paths]

    def forget(self, path: str) -> None:
        """Drop a worktree that is gone."""
        self._states.pop(path, None)
        self._seen.pop(path, None)
        self._bases.pop(path, None)
        self._pairs = {key: one for key, one in self._pairs.items() if path not in key}
        self._failures = {key: one for key, one in self._failures.items() if path not in key}

    async def look(self, worktrees: Iterable[Worktree], *, since: float | None = None) -> float:
        """Look at worktrees, but not at those that were looked at ``since`` then (monotonic).

        What cannot be read keeps its last state, and is among the failures; what is gone has none.
        Returns the seconds that one took, on average.
        """
        latest = math.inf if since is None else since
        wanted = [one for one in worktrees if self._seen.get(one.path, -math.inf) <= latest]
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for worktree in wanted:
                group.create_task(self._look(worktree))
        return (time.monotonic() - started) / len(wanted) if wanted else 0.0

    async def _look(self, worktree: Worktree) -> None:
        path = worktree.path
        self._seen[path] = time.monotonic()
        async with self._threads:
            try:
                taken = self._snapshots.take(worktree)
                snapshot = await run_to_end(taken, name="radar: snapshot")
                before = self._states.get(path)
                state = await _in_thread(lambda: _read(worktree, snapshot, before))
            except GitError as error:
                if await asyncio.to_thread(_is_gone, path):
                    self.forget(path)
                self._failures[(path,)] = f"{path} is not compared: {str(error).rstrip('.')}."
                return
        self._failures.pop((path,), None)
        self._states[path] = state

    async def compare(self, paths: Collection[str]) -> None:
        """Compare these worktrees with each other and with their bases, where they changed."""
        states = [self._states[path] for path in sorted(paths) if path in self._states]
        bases = [state for state in states if self._is_old_base(state)]
        pairs = [
            (one, other)
            for one, other in itertools.combinations(states, 2)
            if _is_same_repository(one, other) and self._is_old_pair(one, other)
        ]
        repositories = {state.snapshot.repository.common_dir for state in states}
        for repository in sorted(repositories):
            mine = [one for one in bases if _repository(one) == repository]
            ours = [pair for pair in pairs if _repository(pair[0]) == repository]
            if mine or ours:
                async with self._threads:
                    await _in_thread(lambda mine=mine, ours=ours: self._compare_all(mine, ours))

    def _is_old_base(self, state: WorktreeState) -> bool:
        known = self._bases.get(state.worktree.path)
        return known is None or known[0] != (*state.key, state.tip)

    def _is_old_pair(self, one: WorktreeState, other: WorktreeState) -> bool:
        known = self._pairs.get(_ordered(one.worktree.path, other.worktree.path))
        return known is None or known[0] != _pair_key(one, other)

    def _compare_all(
        self, bases: Sequence[WorktreeState], pairs: Sequence[tuple[WorktreeState, WorktreeState]]
    ) -> None:
        """Of one repository; in a thread, of which there is one at a time for this."""
        with MergeScratch([*bases, *(state for pair in pairs for state in pair)]) as scratch:
            for one in bases:
                self._compare_base(one, scratch)
            try:
                self._keep_pairs(pairs, compare_worktrees(pairs, scratch))
            except GitError:
                for pair in pairs:  # so that one that cannot be merged costs only itself
                    self._compare_pair(pair, scratch)
            self._merges = can_merge_trees()

    def _compare_base(self, one: WorktreeState, scratch: MergeScratch) -> None:
        path, found = one.worktree.path, BaseComparison()
        key = (path, "base")
        self._failures.pop(key, None)
        try:
            found = compare_with_base(one, scratch)
        except GitError as error:
            self._failures[key] = f"{error}."
        self._bases[path] = ((*one.key, one.tip), found)

    def _compare_pair(
        self, pair: tuple[WorktreeState, WorktreeState], scratch: MergeScratch
    ) -> None:
        try:
            self._keep_pairs((pair,), compare_worktrees((pair,), scratch))
        except GitError as error:
            self._keep_pairs((pair,), ((),))
            names = _names(pair)
            self._failures[names] = f"{' and '.join(names)} could not be compared: {error}."

    def _keep_pairs(
        self,
        pairs: Iterable[tuple[WorktreeState, WorktreeState]],
        found: Iterable[tuple[ConflictFile, ...]],
    ) -> None:
        for (one, other), files in zip(pairs, found, strict=True):
            names = _names((one, other))
            self._failures.pop(names, None)
            self._pairs[names] = (_pair_key(one, other), files)


def _read(
    worktree: Worktree, snapshot: WorktreeSnapshot, before: WorktreeState | None
) -> WorktreeState:
    if snapshot.repository.top != os.path.realpath(worktree.path):
        raise GitError(f"it is no worktree any more, but in {snapshot.repository.top!r}")
    return read_worktree_state(worktree, snapshot, before)


def _is_gone(path: str) -> bool:
    return not os.path.lexists(f"{path}/.git")


def _is_same_repository(one: WorktreeState, other: WorktreeState) -> bool:
    return _repository(one) == _repository(other)


def _repository(state: WorktreeState) -> str:
    return state.snapshot.repository.common_dir


def _names(pair: tuple[WorktreeState, WorktreeState]) -> tuple[str, str]:
    return _ordered(*(state.worktree.path for state in pair))


def _ordered(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _pair_key(one: WorktreeState, other: WorktreeState) -> _Key:
    states: Mapping[str, WorktreeState] = {one.worktree.path: one, other.worktree.path: other}
    return tuple(part for path in sorted(states) for part in states[path].key)


async def _in_thread(work: Callable[[], T]) -> T:
    """Also when this is cancelled the thread is waited for: it has processes."""
    return await run_to_end(asyncio.to_thread(work), name="radar: git")
