"""The radar of a fleet: follows what agents do, compares their work, and notes what changes.

``ChangesCounted`` and ``ConflictChanged`` are written only when they say something new; what they
said before is read from the log, so that a new host repeats nothing.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from quarterdeck.journal import Journal, JournalError
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import find_repository
from quarterdeck.wire.events import (
    ChangesCounted,
    ConflictChanged,
    NoticePosted,
    WorktreeAssigned,
    WorktreeReleased,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import run_beside
from quarterdeck.wire.worktrees import ConflictFile, Worktree

from ..agent_entry import AgentEntry
from ..errors import NoSuchAgentError
from ..live_index import LiveIndex, LogWriter
from ..worktrees.snapshots import WorktreeSnapshots
from .api import (
    BaseConflict,
    ConflictPair,
    ConflictReport,
    LandingProposal,
    RadarAgent,
    RepositoryConflicts,
)
from .comparisons import WorktreeComparisons
from .monitor import WATCHED_EVENTS, TouchedFiles, WorktreeMonitor
from .noted_conflicts import load_noted_paths
from .pairs import BaseComparison
from .worktree_state import WorktreeState

__all__ = [
    "ConflictListener",
    "ConflictRadar",
    "RadarMember",
    "make_repository_report",
    "propose_order",
]

_log = logging.getLogger(__name__)


class RadarMember(Struct, frozen=True, kw_only=True):
    """An agent of a repository and what is known of its work."""

    entry: AgentEntry
    state: WorktreeState | None = None
    base: BaseComparison = BaseComparison()


def make_repository_report(
    repository: str,
    members: Sequence[RadarMember],
    shared: Mapping[tuple[SessionId, SessionId], tuple[ConflictFile, ...]],
) -> RepositoryConflicts:
    """Everything about one repository. ``shared``: what pairs of its agents both change."""
    entries = {member.entry.session: member.entry for member in members}
    pairs = tuple(
        _pair(entries[one], entries[other], files)
        for (one, other), files in sorted(shared.items(), key=lambda item: _weight(item[1]))
        if files and one in entries and other in entries
    )
    against = tuple(
        BaseConflict(
            session=member.entry.session,
            name=member.entry.name,
            base=_base_name(member.entry),
            files=member.base.conflicts,
        )
        for member in members
        if member.base.conflicts
    )
    return RepositoryConflicts(
        repository=repository,
        agents=tuple(_agent(member) for member in members),
        pairs=pairs,
        against_base=against,
        landing_order=propose_order(members, pairs),
    )


def _weight(files: Sequence[ConflictFile]) -> tuple[int, int]:
    return -sum(file.kind == "text" for file in files), -len(files)


def _pair(one: AgentEntry, other: AgentEntry, files: tuple[ConflictFile, ...]) -> ConflictPair:
    return ConflictPair(
        one=one.session,
        one_name=one.name,
        other=other.session,
        other_name=other.name,
        files=files,
        is_shared=_directory(one) == _directory(other)
        or one.worktree is None
        or other.worktree is None,
    )


def _directory(entry: AgentEntry) -> str:
    return entry.worktree.path if entry.worktree is not None else entry.spawn.options.cwd


def _base_name(entry: AgentEntry) -> str:
    worktree = entry.worktree
    return "" if worktree is None else worktree.base_ref or worktree.base[:10]


def _agent(member: RadarMember) -> RadarAgent:
    entry, worktree = member.entry, member.entry.worktree
    return RadarAgent(
        session=entry.session,
        name=entry.name,
        directory=_directory(entry),
        branch=worktree.branch if worktree is not None else None,
        base=_base_name(entry) or None,
        changes=member.state.counts if member.state is not None else None,
        is_landed=member.base.is_landed,
    )


def propose_order(
    members: Iterable[RadarMember], pairs: Iterable[ConflictPair]
) -> tuple[LandingProposal, ...]:
    """Agents with changes that have not landed; who conflicts least comes first."""
    hard: dict[SessionId, int] = {}
    soft: dict[SessionId, int] = {}
    for pair in pairs:
        unmerged = sum(file.kind == "text" for file in pair.files)
        for session in (pair.one, pair.other):
            hard[session] = hard.get(session, 0) + unmerged
            soft[session] = soft.get(session, 0) + len(pair.files) - unmerged
    found = [
        LandingProposal(
            session=member.entry.session,
            name=member.entry.name,
            conflicts=hard.get(member.entry.session, 0) + len(member.base.conflicts),
            shared=soft.get(member.entry.session, 0),
        )
        for member in members
        if member.state is not None and member.state.changes and not member.base.is_landed
    ]
    spawned = {member.entry.session: member.entry.spawned for member in members}
    found.sort(key=lambda one: (one.conflicts, one.shared, spawned[one.session], one.session))
    return tuple(found)


_Pair = tuple[SessionId, SessionId]
_Files = tuple[ConflictFile, ...]

ConflictListener = Callable[[SessionId, SessionId, _Files], Awaitable[None]]
"""Hears of files that two agents share for the first time; the first is the one whose change
brought it about."""


class ConflictRadar:
    """Compares the work of all agents while ``run`` runs; see ``FleetRadar``."""

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        notes: LogWriter,
        snapshots: WorktreeSnapshots,
        on_new: ConflictListener | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        journal: the log.
        current: who is in the fleet.
        notes: writes to the log.
        snapshots: of worktrees.
        on_new: hears of each new conflict once.
        now: seconds that never go back.
        """
        self._journal = journal
        self._current = current
        self._notes = notes
        self._on_new = on_new
        self._now = now
        self._comparisons = WorktreeComparisons(snapshots)
        self._monitor = WorktreeMonitor(now)
        self._touched = TouchedFiles()
        self._watched: set[SessionId] = set()
        """Those with a worktree."""
        self._wake = asyncio.Event()
        self._passing = asyncio.Lock()
        self._reported_limits: set[str] = set()

    async def run(self) -> None:
        """Follow the log until it is closed, or this is cancelled."""
        self._watched = {entry.session for entry in self._members()}
        async with run_beside(self._watch(), name="radar: looks"):
            async for record in self._journal.follow(self._current.seq, kinds=WATCHED_EVENTS):
                if self._take(record):
                    self._wake.set()

    def forget(self, session: SessionId) -> None:
        """Take in that an agent was deleted."""
        self._touched.forget(session)
        self._watched.discard(session)
        self._monitor.forget(session)
        self._monitor.demand(session)
        self._wake.set()

    async def conflicts(self, cwd: str | None = None) -> ConflictReport:
        """What agents change that others change too; see ``FleetRadar``."""
        asked = time.monotonic()
        place = await asyncio.to_thread(_find_place, cwd) if cwd is not None else None
        await self._pass(None, since=asked)
        groups = await asyncio.to_thread(self._group, place)
        paths = {
            entry.worktree.path
            for group in groups.values()
            for entry in group
            if entry.worktree is not None
        }
        shared = self._shared()
        found = [self._report(group, shared) for group in groups.values() if group]
        return ConflictReport(
            repositories=tuple(found),
            problems=(*self._comparisons.limits, *self._comparisons.failures(paths)),
        )

    # Following

    def _take(self, record: Record) -> bool:
        """Take in a record; whether something may be due at another time than before."""
        session = record.session
        if isinstance(record.event, WorktreeAssigned):
            self._watched.add(session)
        is_due = session in self._watched and self._monitor.take(record)
        if isinstance(record.event, WorktreeReleased):
            self._watched.discard(session)
            self._comparisons.forget(record.event.path)
        if self._touched.take(record, self._directory(session)):
            self._monitor.demand(session)
            is_due = True
        return is_due

    def _directory(self, session: SessionId) -> str:
        with suppress(NoSuchAgentError):
            return self._current.get(session).spawn.options.cwd
        return os.sep

    async def _watch(self) -> None:
        while True:
            due = self._monitor.next_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - self._now())):
                    await self._wake.wait()
            self._wake.clear()
            if ready := self._monitor.take_due():
                await self._pass(ready)

    async def _pass(self, due: Collection[SessionId] | None, *, since: float | None = None) -> None:
        """Look at the worktrees of some sessions, or of all, and note what is new.

        ``since``: those that were looked at since then are known well enough.
        """
        async with self._passing:
            try:
                await self._look(due, since)
                await self._note(due or ())
            except JournalError as error:
                _log.warning("conflicts are not in the log yet: %s", error)
                self._retry(due)
            except Exception:
                # A boundary: what one look meets must not end the radar.
                _log.exception("could not compare worktrees")

    def _retry(self, due: Collection[SessionId] | None) -> None:
        for session in due or ():
            self._monitor.demand(session, 5.0)

    def _members(self) -> list[AgentEntry]:
        """The agents with worktrees that are compared."""
        return [
            entry
            for entry in self._current.all()
            if entry.worktree is not None and not entry.status.is_archived
        ]

    async def _look(self, due: Collection[SessionId] | None, since: float | None) -> None:
        members = self._members()
        worktrees = {entry.worktree.path: entry.worktree for entry in members if entry.worktree}
        wanted = {
            entry.worktree.path
            for entry in members
            if entry.worktree is not None and (due is None or entry.session in due)
        }
        repositories = {worktrees[path].repository for path in wanted}
        group = [one for one in worktrees.values() if one.repository in repositories]
        unseen = {one.path for one in group if self._comparisons.state(one.path) is None}
        looked = _chosen(worktrees, wanted | (unseen if len(group) > 1 else set()))
        cost = await self._comparisons.look(looked, since=since)
        if cost:
            self._monitor.report_cost(cost)
        await self._comparisons.compare({one.path for one in group})

    # Noting

    async def _note(self, due: Collection[SessionId]) -> None:
        for entry in self._members():
            assert entry.worktree is not None
            state = self._comparisons.state(entry.worktree.path)
            if state is not None and entry.changes != state.counts:
                await self._notes.note(entry.session, ChangesCounted(counts=state.counts))
        await self._note_pairs(self._outdated(self._shared()), due)
        await self._say_limits(due)

    def _shared(self) -> dict[_Pair, _Files]:
        """What each pair of agents both change, as far as is known."""
        members = sorted(self._members(), key=lambda entry: entry.session)
        found: dict[_Pair, _Files] = {}
        for place, one in enumerate(members):
            for other in members[place + 1 :]:
                assert one.worktree is not None and other.worktree is not None
                if one.worktree.path == other.worktree.path:
                    continue
                files = self._comparisons.pair(one.worktree.path, other.worktree.path)
                found[one.session, other.session] = (
                    files if files is not None else one.conflicts.get(other.session, ())
                )
        for one, other in self._touched.pairs():
            if (one, other) not in found:
                found[one, other] = self._touched.common(one, other, self._top(one, other))
        return found

    def _top(self, one: SessionId, other: SessionId) -> str:
        """The directory that files of a shared tree are named from."""
        with suppress(ValueError):
            return os.path.commonpath([self._directory(one), self._directory(other)])
        return os.sep

    def _outdated(self, shared: Mapping[_Pair, _Files]) -> dict[_Pair, _Files]:
        """The pairs of which the log says something else."""
        known: dict[_Pair, _Files] = dict.fromkeys(shared, ())
        stale: set[_Pair] = set()
        for entry in self._current.all():
            for other in entry.conflicts:
                known.setdefault(_ordered(entry.session, other), ())
        for pair in known:
            files = shared.get(pair, ())
            one, other = pair
            if not (self._is_noted(one, other, files) and self._is_noted(other, one, files)):
                stale.add(pair)
        return {pair: shared.get(pair, ()) for pair in sorted(stale)}

    async def _note_pairs(self, pairs: Mapping[_Pair, _Files], due: Collection[SessionId]) -> None:
        """Write what agents share into the sessions of both, as far as it is not there."""
        if not pairs:
            return
        noted = await self._journal.query(lambda db: load_noted_paths(db, pairs))
        events: dict[SessionId, list[ConflictChanged]] = {}
        new: list[tuple[SessionId, SessionId, _Files]] = []
        for (one, other), files in pairs.items():
            fresh = tuple(file for file in files if file.path not in noted[one, other])
            first, second = (other, one) if other in due and one not in due else (one, other)
            if fresh:
                new.append((first, second, fresh))
            for mine, theirs in ((first, second), (second, first)):
                if self._is_noted(mine, theirs, files):
                    continue
                paths = tuple(file.path for file in fresh) if mine == first else ()
                event = ConflictChanged(other=theirs, files=files, new_paths=paths)
                events.setdefault(mine, []).append(event)
        for session, some in events.items():
            await self._notes.note(session, *some)
        if self._on_new is not None:
            for one, other, files in new:
                await self._on_new(one, other, files)

    def _is_noted(self, mine: SessionId, theirs: SessionId, files: _Files) -> bool:
        """Whether the log says so already; of a session that was deleted it has nothing to say."""
        try:
            return self._current.get(mine).conflicts.get(theirs, ()) == files
        except NoSuchAgentError:
            return True

    async def _say_limits(self, due: Collection[SessionId]) -> None:
        session = next((one for one in due if one in self._watched), None)
        for sentence in self._comparisons.limits if session is not None else ():
            if sentence in self._reported_limits or session is None:
                continue
            self._reported_limits.add(sentence)
            _log.warning("%s", sentence)
            await self._notes.note(session, NoticePosted(title=sentence, severity="warning"))

    # Reporting

    def _group(self, place: str | None) -> dict[str, list[AgentEntry]]:
        """The agents to report about, by repository; reads the disk for those without worktree."""
        sharing = {session for pair in self._touched.pairs() for session in pair}
        groups: dict[str, list[AgentEntry]] = {}
        for entry in sorted(self._current.all(), key=lambda entry: entry.spawned):
            if entry.status.is_archived:
                continue
            if (worktree := entry.worktree) is not None:
                state = self._comparisons.state(worktree.path)
                key = state.snapshot.repository.common_dir if state else worktree.repository
            elif entry.session in sharing:
                key = _find_place(entry.spawn.options.cwd)
            else:
                continue
            if place is None or key == place:
                groups.setdefault(key, []).append(entry)
        return groups

    def _report(
        self, group: Iterable[AgentEntry], shared: Mapping[_Pair, _Files]
    ) -> RepositoryConflicts:
        members = [self._member(entry) for entry in group]
        worktrees = [one.entry.worktree for one in members if one.entry.worktree is not None]
        top = worktrees[0].repository if worktrees else members[0].entry.spawn.options.cwd
        return make_repository_report(top, members, shared)

    def _member(self, entry: AgentEntry) -> RadarMember:
        worktree = entry.worktree
        if worktree is None:
            return RadarMember(entry=entry)
        path = worktree.path
        return RadarMember(
            entry=entry, state=self._comparisons.state(path), base=self._comparisons.base(path)
        )


def _chosen(worktrees: Mapping[str, Worktree], paths: Collection[str]) -> list[Worktree]:
    return [worktree for path, worktree in sorted(worktrees.items()) if path in paths]


def _ordered(one: SessionId, other: SessionId) -> _Pair:
    return (one, other) if one < other else (other, one)


def _find_place(directory: str) -> str:
    """What is one repository for all of its worktrees; a directory outside of any is its own."""
    with suppress(GitError):
        if (repository := find_repository(directory)) is not None:
            return repository.common_dir
    return os.path.realpath(directory)
