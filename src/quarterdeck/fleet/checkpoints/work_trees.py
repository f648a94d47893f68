"""The work trees that agents work in, and which of them changed what there.

A snapshot is taken whenever a turn begins or ends in a tree. What changed between two of them is a
*segment*. While one turn runs alone, all of its segments are its own. Where several run at the same
time, what each says in its tool calls decides; a change that no one has named is shared.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from quarterdeck.agent.checkpoints import TREES
from quarterdeck.agent.checkpoints.errors import SnapshotError
from quarterdeck.agent.checkpoints.file_state import FileState
from quarterdeck.agent.checkpoints.git_snapshot import (
    Deadline,
    IgnoredFiles,
    ShadowRepository,
    TreeSnapshot,
    describe_plain_directory,
)
from quarterdeck.config.schema import CheckpointSettings
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import GitRepository, find_repository
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.tasks import run_to_end, start_task

__all__ = ["PendingTurn", "TurnSegment", "WatchedTree", "WatchedTurn", "WorkTrees"]

Paths: TypeAlias = Iterable[bytes]

_MOST_FAILURES = 2
_PAUSE = 600.0
"""Seconds without an attempt after so many failed: a turn must not wait in vain each time."""


class TurnSegment(Struct, frozen=True, kw_only=True):
    """A part of a turn: a tree at its beginning and at its end."""

    top: bytes
    before: TreeSnapshot
    after: TreeSnapshot
    agents: tuple[str, ...] = ()
    """The names of the others that ran at the same time."""
    excluded: tuple[bytes, ...] = ()
    """Paths that an undo of another agent changed meanwhile."""


class PendingTurn(Struct, kw_only=True):
    """What is kept on disk of a turn that is not over."""

    v: int = 1
    turn: TurnId
    opened: dict[bytes, TreeSnapshot] = field(default_factory=dict[bytes, TreeSnapshot])
    """By the top of a tree: its last snapshot."""
    segments: list[TurnSegment] = field(default_factory=list[TurnSegment])
    agents: dict[bytes, tuple[str, ...]] = field(default_factory=dict[bytes, tuple[str, ...]])
    """By the top of a tree: who else runs there."""
    preimages: dict[bytes, FileState | None] = field(default_factory=dict[bytes, FileState | None])
    """By absolute path: what was there before a tool of our own agent changed it."""


class WatchedTurn:
    """A turn that runs, as its trees see it.

    Args:
        save: puts ``pending`` on disk; blocks. None: it is over, and recorded only now.
    """

    def __init__(
        self,
        session: SessionId,
        name: str,
        turn: TurnId,
        save: Callable[[PendingTurn], None] | None,
    ) -> None:
        self.session = session
        self.name = name
        self.pending = PendingTurn(turn=turn)
        self.others: list[tuple[WatchedTurn, ...]] = []
        """For each segment: the turns that ran at the same time."""
        self.claims: set[str] = set()
        """Paths that its tool calls say they change."""
        self.met: dict[SessionId, WatchedTurn] = {}
        """Turns that ran at the same time in one of its trees, the last of each agent."""
        self.problems: list[str] = []
        self.runs_commands = False
        """It ran something that may have changed what no tool call names."""
        self.save = save

    def close_segment(
        self,
        top: bytes,
        snapshot: TreeSnapshot,
        others: "tuple[WatchedTurn, ...]" = (),
        *,
        names: Iterable[str] = (),
        excluded: Paths = (),
    ) -> None:
        """The tree has another snapshot now; ``names``: of others that are not known any more."""
        before = self.pending.opened.get(top)
        if before is None:
            return
        if before != snapshot:
            agents = sorted({*(one.name for one in others), *names})
            self.pending.segments.append(
                TurnSegment(
                    top=top,
                    before=before,
                    after=snapshot,
                    agents=tuple(agents),
                    excluded=tuple(excluded),
                )
            )
            self.others.append(others)
        self.pending.opened[top] = snapshot


class WatchedTree:
    """One work tree. Snapshots come one after another; one serves all who ask before it begins."""

    def __init__(self, shadow: ShadowRepository, settings: CheckpointSettings, plain: bool) -> None:
        self.shadow = shadow
        self.top = shadow.top
        self.turns: dict[SessionId, WatchedTurn] = {}
        """Those that run."""
        self._settings = settings
        self._is_plain = plain
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[TreeSnapshot] | None = None
        self._joining: list[WatchedTurn] = []
        self._leaving: list[WatchedTurn] = []
        self._failures = 0
        self._failed_at = 0.0
        self._problem = ""

    async def begin(self, turn: WatchedTurn) -> None:
        """Note the tree before a turn; returns when it is on disk. Raises SnapshotError."""
        self._joining.append(turn)
        await self.snapshot()

    async def finish(self, turn: WatchedTurn) -> None:
        """Note the tree after a turn. Raises SnapshotError."""
        self._leaving.append(turn)
        await self.snapshot()

    async def run_aside(self, work: Callable[[], Awaitable[Paths]]) -> Paths:
        """Change files so that the change counts as no turn's; ``work`` returns the paths.

        Raises:
            Exception: whatever the work raises.
        """
        async with self._lock:
            if not self.turns:
                return await work()
            await self._mark(())
            changed: Paths = ()
            try:
                changed = await work()
            finally:
                await self._mark(changed)
            return changed

    async def _mark(self, excluded: Paths) -> None:
        with suppress(SnapshotError):  # who runs here may lose some; an undo does not wait for that
            await run_to_end(self._take(excluded), name="checkpoint: around an undo")

    def take(self) -> TreeSnapshot:
        """The tree as it is now; blocks. Raises SnapshotError."""
        if self._failures >= _MOST_FAILURES and time.monotonic() - self._failed_at < _PAUSE:
            raise SnapshotError(self._problem)
        try:
            if self._is_plain:
                check_plain_size(self.top, self._settings, self.shadow.hidden)
            snapshot = self.shadow.take(Deadline(self._settings.patience))
        except (SnapshotError, OSError) as error:
            self._failures += 1
            self._problem = str(error)
            self._failed_at = time.monotonic()
            raise SnapshotError(str(error)) from error
        self._failures = 0
        return snapshot

    async def snapshot(self) -> TreeSnapshot:
        """The tree at a moment after this call. Raises SnapshotError."""
        if self._next is None:
            self._next = start_task(self._take_next(), name="checkpoint: snapshot")
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._next)

    async def _take_next(self) -> TreeSnapshot:
        async with self._lock:
            self._next = None  # who asks from here on needs one that begins later
            return await self._take(())

    async def _take(self, excluded: Paths) -> TreeSnapshot:
        """Take a snapshot; it ends a segment of all that run, some leave, others join."""
        joining, self._joining = self._joining, []
        leaving, self._leaving = self._leaving, []
        for turn in self.turns.values():
            turn.met |= {id_: one for id_, one in self.turns.items() if one is not turn}
        try:
            snapshot = await asyncio.to_thread(self.take)
        except SnapshotError:
            self._join(joining)
            self._leave(leaving)
            raise
        for turn in self.turns.values():
            others = tuple(one for one in self.turns.values() if one is not turn)
            turn.close_segment(self.top, snapshot, others, excluded=excluded)
        self._leave(leaving)
        for turn in joining:
            turn.pending.opened[self.top] = snapshot
        self._join(joining)
        await asyncio.to_thread(self._save)
        return snapshot

    def _join(self, joining: list[WatchedTurn]) -> None:
        self.turns |= {turn.session: turn for turn in joining}

    def _leave(self, leaving: list[WatchedTurn]) -> None:
        for turn in leaving:
            if self.turns.get(turn.session) is turn:
                del self.turns[turn.session]

    def _save(self) -> None:
        for turn in tuple(self.turns.values()):
            if turn.save is not None:
                names = {one.name for one in tuple(self.turns.values()) if one is not turn}
                turn.pending.agents[self.top] = tuple(sorted(names))
                turn.save(turn.pending)


class WorkTrees:
    """The work trees of a fleet, found by the directories of its agents.

    Args:
        state: our own directory, which is never part of a snapshot.
    """

    def __init__(self, state: Path) -> None:
        self._trees = state / "checkpoints" / TREES
        self._state = state
        self._hidden = b""
        self._known: dict[bytes, tuple[GitRepository, WatchedTree]] = {}

    async def find(self, roots: Iterable[str], settings: CheckpointSettings) -> list[WatchedTree]:
        """The trees that these directories lie in. Raises SnapshotError."""
        found: dict[bytes, WatchedTree] = {}
        for repository, is_plain in await asyncio.to_thread(self._look, tuple(roots)):
            tree = self._get(repository, settings, is_plain)
            found[tree.top] = tree
        return list(found.values())

    def open_top(self, top: bytes, settings: CheckpointSettings) -> WatchedTree:
        """The tree at a top that a turn of an earlier process named; blocks."""
        ((repository, is_plain),) = self._look((os.fsdecode(top),))
        if os.fsencode(repository.top) != top:
            repository, is_plain = describe_plain_directory(os.fsdecode(top), self._trees), True
        return self._get(repository, settings, is_plain)

    def _look(self, roots: tuple[str, ...]) -> list[tuple[GitRepository, bool]]:
        found: list[tuple[GitRepository, bool]] = []
        self._hidden = os.fsencode(os.path.realpath(self._state))
        for root in roots:
            real = os.path.realpath(root)
            try:
                repository = find_repository(real)
            except GitError as error:
                raise SnapshotError(str(error)) from error
            plain = describe_plain_directory(real, self._trees)
            found.append((repository or plain, repository is None))
        return found

    def _get(
        self, repository: GitRepository, settings: CheckpointSettings, is_plain: bool
    ) -> WatchedTree:
        top = os.fsencode(repository.top)
        # What is checked out does not matter here.
        same = replace(repository, head="")
        known = self._known.get(top)
        if known is None or (known[0] != same and not known[1].turns):
            ignored = IgnoredFiles(patterns=settings.ignored, most_bytes=settings.ignored_bytes)
            store = self._trees / ShadowRepository.key_of(top)
            shadow = ShadowRepository(repository, self._trees, store, self._hidden, ignored)
            known = self._known[top] = (same, WatchedTree(shadow, settings, is_plain))
        return known[1]


def check_plain_size(top: bytes, settings: CheckpointSettings, hidden: bytes) -> None:
    """See that a directory outside of git is small enough; blocks. Raises SnapshotError."""
    files = size = 0
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name != b".git" and entry.path != hidden:
                            waiting.append(entry.path)
                        continue
                    files += 1
                    size += entry.stat(follow_symlinks=False).st_size
                    if files > settings.plain_files or size > settings.plain_bytes:
                        raise SnapshotError(
                            f"{os.fsdecode(top)!r} is not in a git repository and has more than "
                            f"{settings.plain_files:,} files or {settings.plain_bytes:,} bytes; "
                            "run `git init` there, or raise checkpoints.plain_files"
                        )
        except OSError:
            continue  # it may not be read, or is gone
