"""Worktrees of a fleet's agents: made before an agent starts, found again when it is resumed,
listed, removed, discarded and restored; each change is noted in the log.
"""
# Names may be no text, and are joined as they are.

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from msgspec.structs import replace

from quarterdeck.agent.environment import prepare_environment
from quarterdeck.config.places import Places
from quarterdeck.config.schema import WorktreeSettings
from quarterdeck.drivers.driver import DriverSession, EventSink
from quarterdeck.journal import Journal
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import find_repository
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import CommandRan, Event, WorktreeAssigned, WorktreeReleased
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import ReleaseKind, Worktree, WorktreeOptions

from ..agent_entry import AgentEntry
from ..errors import (
    AgentNotReadyError,
    InvalidOptionsError,
    NoSuchAgentError,
    NoSuchWorktreeError,
    WorktreeError,
    WorktreeSetupError,
)
from .api import TrashedWorktree, WorktreeInfo, WorktreeOutcome
from .builder import MadeWorktree, WorktreeBuilder
from .commands import run_worktree_command, worktree_variables
from .disposal import RemovedWorktree, WorktreeDisposal
from .inventory import describe_worktree
from .record import TrashRecord, WorktreeRecord, WorktreeRecords
from .retention import choose_removable, is_expired
from .snapshots import WorktreeSnapshots

if TYPE_CHECKING:
    from ..agent_runner import AgentStart, SessionOpener
    from ..live_index import LiveIndex
    from ..log_writer import LogWriter

__all__ = ["WorktreeService"]

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class WorktreeService:
    """Owns the worktrees of a fleet."""

    def __init__(
        self,
        places: Places,
        environment: Mapping[str, str],
        journal: Journal,
        current: "LiveIndex",
        notes: "LogWriter",
    ) -> None:
        self.snapshots = WorktreeSnapshots(places.state / "snapshots")
        """What worktrees hold, for all who compare them."""
        self._places = places
        self._environment = environment
        self._journal = journal
        self._current = current
        self._notes = notes
        directory = places.state / "worktrees"
        self._records = WorktreeRecords(directory)
        self._builder = WorktreeBuilder(self._records, directory)
        self._disposal = WorktreeDisposal(self._records, directory / "scratch")
        self._making = asyncio.Lock()
        """Held while names are chosen and files are written."""

    # For agents that start

    async def settings(self, directory: str) -> WorktreeSettings:
        """The settings that count in a directory. Raises ConfigError."""
        ground = await prepare_environment(self._places, self._environment, directory)
        return ground.settings.worktrees

    async def find_wanted(self, options: SessionOptions) -> WorktreeOptions | None:
        """The worktree that a new agent is to have: what is asked for, else what settings say.

        Raises ConfigError, InvalidOptionsError.
        """
        wanted = options.worktree
        if wanted is not None:
            if wanted.path is not None:
                return replace(wanted, path=await self._find_path(wanted.path))
            return None if wanted.is_off else wanted
        if not (await self.settings(options.cwd)).default:
            return None
        try:
            found = await asyncio.to_thread(find_repository, options.cwd)
        except GitError:
            return None
        return WorktreeOptions() if found is not None else None

    async def make(self, options: SessionOptions, agent: str) -> MadeWorktree:
        """Make or find the worktree of a new agent. Raises InvalidOptionsError, WorktreeError."""
        settings = await self.settings(options.cwd)
        async with self._making:
            return await _in_thread(self._builder.make, options, agent, settings)

    async def copy(self, entry: AgentEntry, agent: str) -> MadeWorktree:
        """A worktree for a copy of an agent that has one, in the same state.

        Raises AgentNotReadyError, WorktreeError.
        """
        await self.check(entry)
        source, cwd = entry.worktree, entry.wish.options.cwd
        assert source is not None
        settings = await self.settings(source.repository)
        async with self._making:
            return await _in_thread(self._builder.copy, source, cwd, agent, settings)

    async def undo(self, made: MadeWorktree) -> None:
        """Remove a worktree again in which no agent has started."""
        try:
            await asyncio.to_thread(self._builder.undo, made)
        except (GitError, OSError) as error:
            _log.warning("the worktree %r could not be removed: %s", made.worktree.path, error)

    async def check(self, entry: AgentEntry) -> None:
        """Raise AgentNotReadyError if an agent that works in a worktree has none any more."""
        worktree, options = entry.worktree, entry.wish.options
        if worktree is None and options.worktree is None:
            return
        if worktree is not None and await asyncio.to_thread(_is_there, worktree):
            return
        if worktree is None and await asyncio.to_thread(os.path.isdir, options.cwd):
            return
        place = worktree.path if worktree is not None else options.cwd
        raise AgentNotReadyError(
            f"the worktree {place!r} of {entry.name!r} is gone; `quarterdeck worktrees recreate "
            f"{entry.name}` makes it again from its branch"
        )

    def wrap_opener(self, opener: "SessionOpener") -> "SessionOpener":
        """The same, after the set-up commands of a new worktree."""

        async def open_in_worktree(start: "AgentStart", sink: EventSink) -> DriverSession:
            worktree = self._current.get(start.session).worktree
            if worktree is not None:
                await self._set_up(start, worktree, sink)
            return await opener(start, sink)

        return open_in_worktree

    async def _set_up(self, start: "AgentStart", worktree: Worktree, sink: EventSink) -> None:
        record = await asyncio.to_thread(self._records.find, worktree.path)
        if record is None or not record.needs_setup:
            return
        settings = await self.settings(worktree.repository)
        failed: CommandRan | None = None
        for line in settings.setup:
            ran = await self._run(line, worktree, start.wish.name, settings, "setup")
            await sink(ran)
            if ran.exit_code != 0:
                failed = ran
                break
        if failed is not None:
            if not start.is_known:  # no agent was ever in it
                await self.undo(MadeWorktree(worktree=worktree, cwd=worktree.path))
                await sink(WorktreeReleased(path=worktree.path, how="removed"))
            code = failed.exit_code
            how = "did not end" if code is None else f"failed with exit code {code}"
            raise WorktreeSetupError(
                f"the set-up command {failed.command!r} of the worktree {how}: {failed.output}"
            )
        await asyncio.to_thread(self._records.write, replace(record, needs_setup=False))

    async def _run(
        self,
        line: str,
        worktree: Worktree,
        agent: str,
        settings: WorktreeSettings,
        purpose: str,
    ) -> CommandRan:
        return await run_worktree_command(
            line,
            cwd=worktree.path,
            purpose="setup" if purpose == "setup" else "teardown",
            variables=worktree_variables(worktree, agent),
            timeout=settings.timeout,
        )

    # For people

    async def worktrees(
        self, *, repository: str | None = None, measure: bool = False
    ) -> list[WorktreeInfo]:
        """The worktrees of agents; see ``FleetWorktrees``."""
        users = await self._users()
        known = {one.worktree.path: one for one in await asyncio.to_thread(self._records.all)}
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
                self._records,
                measure=measure,
            )
            for name, worktree in rows
        ]
        return sorted(found, key=lambda one: one.last_active, reverse=True)

    async def remove_worktree(self, worktree: str, *, keep_branch: bool = False) -> WorktreeOutcome:
        """Remove a worktree in which nothing would be lost; see ``FleetWorktrees``."""
        record = await self._find(worktree)
        entries = await self._expect_idle(record)
        settings = await self._settings_of(record)
        await self._tear_down(record, entries, settings)
        async with self._making:
            done = await _in_thread(
                lambda: self._disposal.remove(record, settings, keeps_branch=keep_branch)
            )
        return await self._released(record, entries, done, "removed")

    async def discard_worktree(self, worktree: str) -> WorktreeOutcome:
        """Put a worktree into the trash; see ``FleetWorktrees``."""
        record = await self._find(worktree)
        entries = await self._expect_idle(record)
        settings = await self._settings_of(record)
        await self._tear_down(record, entries, settings)
        sessions = tuple(entry.session for entry in entries)
        async with self._making:
            done = await _in_thread(lambda: self._disposal.discard(record, settings, sessions))
        return await self._released(record, entries, done, "discarded")

    async def trash(self) -> list[TrashedWorktree]:
        """What can be restored; see ``FleetWorktrees``."""
        found: list[TrashedWorktree] = []
        for one in await asyncio.to_thread(self._records.trash):
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
        for one in await asyncio.to_thread(self._records.trash):
            entries = await self._entries_of(one)
            names = {one.id, one.name, one.worktree.path}
            names |= {name for entry in entries for name in (entry.name, entry.session)}
            if trashed in names:
                break
        else:
            raise NoSuchWorktreeError(trashed, is_trash=True)
        async with self._making:
            record = await _in_thread(self._disposal.restore, one)
        for entry in entries:
            await self._notes.note(entry.session, WorktreeAssigned(worktree=record.worktree))
        return WorktreeOutcome(
            name=record.name, worktree=record.worktree, branch=record.worktree.branch
        )

    async def recreate_worktree(self, agent: str) -> WorktreeOutcome:
        """Make the worktree of an agent again; see ``FleetWorktrees``."""
        entry = await self._current.find(agent)
        worktree = entry.worktree or await self._last_worktree(entry.session)
        if worktree is None:
            raise AgentNotReadyError(f"{entry.name!r} never had a worktree")
        cwd = entry.wish.options.cwd
        settings = await self.settings(worktree.repository)
        async with self._making:
            made = await _in_thread(self._builder.recreate, worktree, cwd, settings)
        events: list[Event] = [WorktreeAssigned(worktree=made.worktree), *made.notices]
        await self._notes.note(entry.session, *events)
        name = os.path.basename(worktree.path)  # noqa: PTH119
        return WorktreeOutcome(name=name, worktree=made.worktree, branch=worktree.branch)

    async def prune_worktrees(self, *, dry_run: bool = False) -> list[WorktreeOutcome]:
        """Remove what the settings no longer keep; see ``FleetWorktrees``."""
        done: list[WorktreeOutcome] = []
        users = await self._users()
        records = await asyncio.to_thread(self._records.all)
        settings = {one.worktree.path: await self._settings_of(one) for one in records}
        chosen = await asyncio.to_thread(choose_removable, records, users, settings, self._records)
        for record in chosen:
            outcome = WorktreeOutcome(name=record.name, worktree=record.worktree)
            try:
                if not dry_run:
                    outcome = await self.remove_worktree(record.worktree.path)
            except QuarterdeckError as error:
                _log.info("the worktree %r stays: %s", record.worktree.path, error)
                continue
            done.append(outcome)
        for trash in await asyncio.to_thread(self._records.trash):
            if is_expired(trash) and not dry_run:
                await asyncio.to_thread(self._disposal.drop, trash)
        return done

    async def mark_landed(self, worktree: Worktree, commit: str) -> None:
        """Note that everything up to a commit of a worktree is on another branch."""
        record = await asyncio.to_thread(self._records.find, worktree.path)
        if record is not None:
            await asyncio.to_thread(self._records.write, replace(record, landed=commit))

    # At the start

    async def recover(self) -> None:
        """Finish or take back what was under way when an earlier host was killed."""
        gone = await asyncio.to_thread(self._disposal.recover)
        users = await self._users() if gone else {}
        for worktree in gone:
            for entry in users.get(worktree.path, ()):
                released = WorktreeReleased(path=worktree.path, how="removed")
                await self._notes.note(entry.session, released)

    # Parts

    async def _users(self) -> dict[str, list[AgentEntry]]:
        """The agents of each worktree, by its path."""
        found: dict[str, list[AgentEntry]] = {}
        archived = await self._current.archived()
        alive = [one for one in self._current.all() if not one.standing.is_archived]
        for entry in (*alive, *archived):
            if entry.worktree is not None:
                found.setdefault(entry.worktree.path, []).append(entry)
        return found

    async def _find_path(self, name: str) -> str:
        """Where an existing worktree is. Raises InvalidOptionsError."""
        if Path(name).is_absolute():
            if not await asyncio.to_thread(os.path.isdir, name):
                raise InvalidOptionsError(f"worktree: there is no directory {name!r}")
            return name
        for info in await self.worktrees():
            if name == info.name or name in info.agents:
                return info.worktree.path
        raise InvalidOptionsError(
            f"worktree: there is no worktree {name!r}; `quarterdeck worktrees` lists them"
        )

    async def _find(self, name: str) -> WorktreeRecord:
        """A worktree that we made, by path, name or agent. Raises NoSuchWorktreeError."""
        records = await asyncio.to_thread(self._records.all)
        same = [one for one in records if name in (one.worktree.path, one.name)]
        if len(same) > 1 and not name.startswith(os.sep):
            places = ", ".join(repr(one.worktree.path) for one in same)
            raise WorktreeError(f"several worktrees are named {name!r}; use a path: {places}")
        if same:
            return same[0]
        try:
            worktree = (await self._current.find(name)).worktree
        except NoSuchAgentError:
            worktree = None
        path = worktree.path if worktree is not None else name
        for one in records:
            if one.worktree.path == path:
                return one
        if worktree is not None:
            raise WorktreeError(
                f"{path!r} was not made by Quarterdeck and is never removed; use git for that"
            )
        raise NoSuchWorktreeError(name)

    async def _expect_idle(self, record: WorktreeRecord) -> list[AgentEntry]:
        """The agents of a worktree. Raises AgentNotReadyError if one is live, or works below."""
        path = record.worktree.path
        if record.stage != "ready":
            raise AgentNotReadyError(f"the worktree {path!r} is being made or removed; wait")
        for entry in self._current.all():
            cwd = entry.wish.options.cwd
            if entry.is_started and (cwd == path or cwd.startswith(f"{path}/")):
                raise AgentNotReadyError(
                    f"{entry.name!r} is live in the worktree {path!r}; close it first"
                )
        return (await self._users()).get(path, [])

    async def _settings_of(self, record: WorktreeRecord) -> WorktreeSettings:
        try:
            return await self.settings(record.worktree.repository)
        except QuarterdeckError as error:
            _log.warning("settings of %r: %s", record.worktree.repository, error)
            return WorktreeSettings()

    async def _tear_down(
        self, record: WorktreeRecord, entries: Sequence[AgentEntry], settings: WorktreeSettings
    ) -> None:
        """Run the tear-down commands; one that fails is noted, and the others run."""
        name = entries[0].name if entries else record.name
        for line in settings.teardown:
            ran = await self._run(line, record.worktree, name, settings, "teardown")
            for entry in entries[:1]:
                await self._notes.note(entry.session, ran)

    async def _released(
        self,
        record: WorktreeRecord,
        entries: Sequence[AgentEntry],
        done: RemovedWorktree,
        how: ReleaseKind,
    ) -> WorktreeOutcome:
        await self.snapshots.forget(record.worktree.path)
        trash = done.trash
        for entry in entries:
            released = WorktreeReleased(
                path=record.worktree.path,
                how=how,
                branch=done.branch,
                trash=trash.reference if trash is not None else None,
            )
            await self._notes.note(entry.session, released)
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
                found.append(await self._current.find(session))
            except NoSuchAgentError:
                continue
        return found

    async def _last_worktree(self, session: SessionId) -> Worktree | None:
        """The worktree that an agent had last, by the log."""
        found: Worktree | None = None
        async for record in self._journal.history(0, session):
            if isinstance(record.event, WorktreeAssigned):
                found = record.event.worktree
        return found


async def _in_thread(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run something that blocks. Raises WorktreeError where the system refuses."""
    try:
        return await asyncio.to_thread(function, *args, **named)
    except (GitError, OSError) as error:
        raise WorktreeError(f"worktree: {error}") from error


def _is_there(worktree: Worktree) -> bool:
    if not os.path.lexists(f"{worktree.path}/.git"):
        return False
    try:
        found = find_repository(worktree.path)
    except GitError:
        return True  # whatever is wrong with it, the agent's start says so
    return found is not None and found.top == worktree.path


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
