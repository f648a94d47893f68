"""Worktrees as people manage them: listed, removed, discarded, restored, recreated, pruned.

Each change is noted in the log of the agents that work there.
"""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.config.schema import WorktreeSettings
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.references import resolve_commit
from quarterdeck.system.git.repository import GitRepository, find_repository
from quarterdeck.system.git.worktree import open_worktree
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import Event, SessionEnded, WorktreeAssigned, WorktreeReleased
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import ReleaseKind, Worktree

from ..agent_entry import AgentEntry
from ..errors import AgentNotReadyError, NoSuchAgentError, NoSuchWorktreeError, WorktreeError
from .api import TrashedWorktree, WorktreeInfo, WorktreeOutcome
from .disposal import RemovedWorktree
from .includes import read_patterns
from .inspection import (
    WorktreeContent,
    count_commits,
    inspect_worktree,
    is_merged,
    leave_out_landed,
    measure_directory,
)
from .record import TrashRecord, WorktreeRecord, WorktreeRecords
from .service import WorktreeService, call_in_thread

__all__ = ["WorktreeManagement", "choose_removable", "describe_worktree", "is_expired"]

_log = logging.getLogger(__name__)

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
    is_archived = all(entry.status.is_archived for entry in entries)
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


def _has_landed(
    content: WorktreeContent,
    repository: GitRepository,
    record: WorktreeRecord,
    records: WorktreeRecords,
) -> bool:
    """Whether all of a worktree is as it was merged."""
    if record.landed is None or content.head != record.landed or content.repositories:
        return False
    left = leave_out_landed(content, repository, record, records.directory / "scratch")
    return not left.is_dirty


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
        is_landed = record is not None and _has_landed(content, repository, record, records)
    except GitError as error:
        is_gone = not os.path.lexists(worktree.path)
        return replace(info, problem="it is gone" if is_gone else str(error))
    return replace(
        info,
        branch=content.branch,
        ahead=ahead,
        behind=behind,
        is_dirty=content.is_dirty,
        is_landed=is_landed,
        repositories=tuple(path_line(one.rstrip(b"/")) for one in content.repositories),
        size=measure_directory(worktree.path) if measure else None,
    )


_INTERVAL = 900.0
"""Seconds between two looks at which worktrees are no longer kept."""


class WorktreeManagement:
    """Manages the worktrees that a service makes; see ``FleetWorktrees`` for each method."""

    def __init__(self, service: WorktreeService) -> None:
        self._service = service
        self.settings = service.settings
        self.mark_landed = service.mark_landed

    async def worktrees(
        self, *, repository: str | None = None, measure: bool = False
    ) -> list[WorktreeInfo]:
        """The worktrees of agents; see ``FleetWorktrees``."""
        users = await self._users()
        known = {
            one.worktree.path: one for one in await asyncio.to_thread(self._service.records.all)
        }
        adopted = {
            entry.worktree.path: entry.worktree
            for entries in users.values()
            for entry in entries
            if entry.worktree is not None and entry.worktree.path not in known
        }
        rows = [(one.name, one.worktree) for one in known.values() if one.stage != "deleting"]
        rows += [(os.path.basename(path), one) for path, one in adopted.items()]  # noqa: PTH119
        if repository is not None:
            rows = await asyncio.to_thread(_of_repository, rows, repository)
        found = [
            await asyncio.to_thread(
                describe_worktree,
                name,
                worktree,
                users.get(worktree.path, ()),
                self._service.records,
                measure=measure,
            )
            for name, worktree in rows
        ]
        return sorted(found, key=lambda one: one.last_active, reverse=True)

    async def remove_worktree(self, worktree: str, *, keep_branch: bool = False) -> WorktreeOutcome:
        """Remove a worktree in which nothing would be lost; see ``FleetWorktrees``."""
        record = await self._find(worktree)
        with self._service.claims.remove(record.worktree.path):
            entries, settings = await self._prepare_removal(record)
            async with self._service.making:
                done = await call_in_thread(
                    lambda: self._service.disposal.remove(
                        record, settings, keeps_branch=keep_branch
                    )
                )
            return await self._released(record, entries, done, "removed")

    async def discard_worktree(self, worktree: str) -> WorktreeOutcome:
        """Put a worktree into the trash; see ``FleetWorktrees``."""
        record = await self._find(worktree)
        with self._service.claims.remove(record.worktree.path):
            entries, settings = await self._prepare_removal(record)
            sessions = tuple(entry.session for entry in entries)
            async with self._service.making:
                done = await call_in_thread(
                    lambda: self._service.disposal.discard(record, settings, sessions)
                )
            return await self._released(record, entries, done, "discarded")

    async def trash(self) -> list[TrashedWorktree]:
        """What can be restored; see ``FleetWorktrees``."""
        found: list[TrashedWorktree] = []
        for one in await asyncio.to_thread(self._service.records.trash):
            names = [entry.name for entry in await self._entries_of(one)]
            found.append(
                TrashedWorktree(
                    id=one.id,
                    name=one.name,
                    worktree=one.worktree,
                    reference=one.reference,
                    commit=one.commit,
                    agents=tuple(names),
                    discarded=one.discarded,
                    expires=one.expires,
                )
            )
        return found

    async def restore_worktree(self, trashed: str) -> WorktreeOutcome:
        """Make a discarded worktree again; see ``FleetWorktrees``."""
        for one in await asyncio.to_thread(self._service.records.trash):
            entries = await self._entries_of(one)
            names = {one.id, one.name, one.worktree.path}
            names |= {name for entry in entries for name in (entry.name, entry.session)}
            if trashed in names:
                break
        else:
            raise NoSuchWorktreeError(trashed, is_trash=True)
        async with self._service.making:
            record = await call_in_thread(self._service.disposal.restore, one)
        for entry in entries:
            await self._service.notes.note(
                entry.session, WorktreeAssigned(worktree=record.worktree)
            )
        return WorktreeOutcome(
            name=record.name, worktree=record.worktree, branch=record.worktree.branch
        )

    async def recreate_worktree(self, agent: str) -> WorktreeOutcome:
        """Make the worktree of an agent again; see ``FleetWorktrees``."""
        entry = await self._service.current.find(agent)
        worktree = entry.worktree or await self._last_worktree(entry.session)
        if worktree is None:
            raise AgentNotReadyError(f"{entry.name!r} never had a worktree")
        cwd = entry.spawn.options.cwd
        settings = await self._service.settings(worktree.repository)
        async with self._service.making:
            made = await call_in_thread(self._service.builder.recreate, worktree, cwd, settings)
        events: list[Event] = [WorktreeAssigned(worktree=made.worktree), *made.notices]
        await self._service.notes.note(entry.session, *events)
        name = os.path.basename(worktree.path)  # noqa: PTH119
        return WorktreeOutcome(name=name, worktree=made.worktree, branch=worktree.branch)

    async def prune_worktrees(self, *, dry_run: bool = False) -> list[WorktreeOutcome]:
        """Remove what the settings no longer keep; see ``FleetWorktrees``."""
        done: list[WorktreeOutcome] = []
        users = await self._users()
        records = await asyncio.to_thread(self._service.records.all)
        settings = {one.worktree.path: await self._settings_of(one) for one in records}
        chosen = await asyncio.to_thread(
            choose_removable, records, users, settings, self._service.records
        )
        for record in chosen:
            outcome = WorktreeOutcome(name=record.name, worktree=record.worktree)
            try:
                if not dry_run:
                    outcome = await self.remove_worktree(record.worktree.path)
            except QuarterdeckError as error:
                _log.info("the worktree %r stays: %s", record.worktree.path, error)
                continue
            done.append(outcome)
        for trash in await asyncio.to_thread(self._service.records.trash):
            if is_expired(trash) and not dry_run:
                await asyncio.to_thread(self._service.disposal.drop, trash)
        return done

    # At the start

    async def keep_tidy(self) -> None:
        """Remove, again and again, what the settings no longer keep; until it is cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            try:
                await self.prune_worktrees()
            except QuarterdeckError as error:
                _log.warning("worktrees are not tidied: %s", error)

    async def follow_ends(self) -> None:
        """Remove landed worktrees as their agents end, if the settings keep them not a day."""
        current = self._service.current
        self._service.followed = current.seq
        ends = self._service.journal.follow(current.seq, kinds=frozenset((SessionEnded,)))
        async for record in ends:
            await current.reached(record.seq)
            try:
                await self._let_go(record.session)
            except QuarterdeckError as error:
                _log.info("the worktree of %s stays: %s", record.session, error)
            self._service.followed = record.seq

    async def _let_go(self, session: SessionId) -> None:
        worktree = self._service.current.get(session).worktree
        records = await asyncio.to_thread(self._service.records.all)
        for one in records:
            if worktree is None or one.worktree.path != worktree.path or one.landed is None:
                continue
            settings = await self._settings_of(one)
            if settings.keep_days > 0:
                continue
            known = {one.worktree.path: settings}
            users, store = await self._users(), self._service.records
            if await asyncio.to_thread(choose_removable, [one], users, known, store):
                await self.remove_worktree(one.worktree.path)

    async def recover(self) -> None:
        """Finish or take back what was under way when an earlier host was killed."""
        gone = await asyncio.to_thread(self._service.disposal.recover)
        users = await self._users() if gone else {}
        for worktree in gone:
            for entry in users.get(worktree.path, ()):
                released = WorktreeReleased(path=worktree.path, how="removed")
                await self._service.notes.note(entry.session, released)

    # Parts

    async def _users(self) -> dict[str, list[AgentEntry]]:
        """The agents of each worktree, by its path."""
        found: dict[str, list[AgentEntry]] = {}
        archived = await self._service.current.archived()
        alive = [one for one in self._service.current.all() if not one.status.is_archived]
        for entry in (*alive, *archived):
            if entry.worktree is not None:
                found.setdefault(entry.worktree.path, []).append(entry)
        return found

    async def _find(self, name: str) -> WorktreeRecord:
        """A worktree that we made, by path, name or agent. Raises NoSuchWorktreeError."""
        records = await asyncio.to_thread(self._service.records.all)
        same = [one for one in records if name in (one.worktree.path, one.name)]
        if len(same) > 1 and not name.startswith(os.sep):
            places = ", ".join(repr(one.worktree.path) for one in same)
            raise WorktreeError(f"several worktrees are named {name!r}; use a path: {places}")
        if same:
            return same[0]
        try:
            worktree = (await self._service.current.find(name)).worktree
        except NoSuchAgentError:
            worktree = None
        path = worktree.path if worktree is not None else name
        for one in records:
            if one.worktree.path == path:
                return one
        for other, entries in (await self._users()).items():
            if other == path or os.path.basename(other) == name:  # noqa: PTH119
                is_adopted = any(one.worktree and one.worktree.is_adopted for one in entries)
                who = "you made" if is_adopted else "nothing is known of"
                raise WorktreeError(f"{who} the worktree {other!r}; use `git worktree remove`")
        raise NoSuchWorktreeError(name)

    async def _expect_idle(self, record: WorktreeRecord) -> list[AgentEntry]:
        """The agents of a worktree. Raises AgentNotReadyError if one is live, or works below."""
        path = record.worktree.path
        if record.stage != "ready":
            raise AgentNotReadyError(f"the worktree {path!r} is being made or removed; wait")
        for entry in self._service.current.all():
            cwd = entry.spawn.options.cwd
            if entry.is_started and (cwd == path or cwd.startswith(f"{path}/")):
                raise AgentNotReadyError(
                    f"{entry.name!r} is live in the worktree {path!r}; close it first"
                )
        return (await self._users()).get(path, [])

    async def _prepare_removal(
        self, record: WorktreeRecord
    ) -> tuple[list[AgentEntry], WorktreeSettings]:
        """See that no agent is live there, and run the tear-down. The caller holds the claim."""
        entries = await self._expect_idle(record)
        settings = await self._settings_of(record)
        await self._tear_down(record, entries, settings)
        return entries, settings

    async def _settings_of(self, record: WorktreeRecord) -> WorktreeSettings:
        try:
            return await self._service.settings(record.worktree.repository)
        except QuarterdeckError as error:
            _log.warning("settings of %r: %s", record.worktree.repository, error)
            return WorktreeSettings()

    async def _tear_down(
        self, record: WorktreeRecord, entries: Sequence[AgentEntry], settings: WorktreeSettings
    ) -> None:
        """Run the tear-down commands; one that fails is noted, and the others run."""
        name = entries[0].name if entries else record.name
        for line in settings.teardown:
            ran = await self._service.run(line, record.worktree, name, "teardown", by_agent=True)
            for entry in entries[:1]:
                await self._service.notes.note(entry.session, ran)

    async def _released(
        self,
        record: WorktreeRecord,
        entries: Sequence[AgentEntry],
        done: RemovedWorktree,
        how: ReleaseKind,
    ) -> WorktreeOutcome:
        await self._service.snapshots.forget(record.worktree.path)
        trash = done.trash
        for entry in entries:
            released = WorktreeReleased(
                path=record.worktree.path,
                how=how,
                branch=done.branch,
                trash=trash.reference if trash is not None else None,
            )
            await self._service.notes.note(entry.session, released)
        return WorktreeOutcome(
            name=record.name,
            worktree=record.worktree,
            branch=done.branch,
            trash=trash.id if trash is not None else None,
        )

    async def _entries_of(self, trash: TrashRecord) -> list[AgentEntry]:
        found: list[AgentEntry] = []
        for session in trash.sessions:
            try:
                found.append(await self._service.current.find(session))
            except NoSuchAgentError:
                continue
        return found

    async def _last_worktree(self, session: SessionId) -> Worktree | None:
        """The worktree that an agent had last, by the log."""
        found: Worktree | None = None
        async for record in self._service.journal.history(0, session):
            if isinstance(record.event, WorktreeAssigned):
                found = record.event.worktree
        return found


def _of_repository(rows: list[tuple[str, Worktree]], directory: str) -> list[tuple[str, Worktree]]:
    """Those whose repository is the one around a directory."""
    try:
        found = find_repository(directory)
    except GitError:
        found = None
    if found is None:
        return []
    kept: list[tuple[str, Worktree]] = []
    for name, worktree in rows:
        try:
            other = find_repository(worktree.repository)
        except GitError:
            continue
        if other is not None and other.common_dir == found.common_dir:
            kept.append((name, worktree))
    return kept
