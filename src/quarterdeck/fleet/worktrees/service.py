"""Worktrees of a fleet's agents: made before an agent starts, found again when it is resumed,
copied when it is forked.
"""
# Names may be no text, and are joined as they are.

import asyncio
import logging
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from msgspec.structs import replace

from quarterdeck.agent.environment import prepare_environment
from quarterdeck.config.places import Places
from quarterdeck.config.schema import Settings, WorktreeSettings
from quarterdeck.drivers.driver import DriverSession, EventSink
from quarterdeck.journal import Journal
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import find_common_directory, find_repository
from quarterdeck.wire.events import CommandRan, WorktreeReleased
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import CommandPurpose, Worktree, WorktreeOptions

from ..agent_entry import AgentEntry
from ..errors import (
    AgentNotReadyError,
    InvalidOptionsError,
    NoSuchAgentError,
    WorktreeError,
    WorktreeSetupError,
)
from .builder import MadeWorktree, WorktreeBuilder
from .commands import CommandContainment, run_worktree_command, worktree_variables
from .disposal import WorktreeDisposal
from .record import WorktreeRecords
from .snapshots import WorktreeSnapshots, describe_gone

if TYPE_CHECKING:
    from ..agent_runner import AgentStart, SessionOpener
    from ..live_index import LiveIndex, LogWriter

__all__ = ["WorktreeClaims", "WorktreeService", "call_in_thread", "predict_directory"]

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class WorktreeClaims:
    """Who is about to work in a directory, and which worktrees are about to go.

    A start is held from the check of its directory until the agent counts as started, a removal
    from the check that no agent is there until the directory is gone. Neither waits for the other:
    the later one is refused.
    """

    def __init__(self) -> None:
        self._starting: list[str] = []
        self._removing: set[str] = set()

    @contextmanager
    def start(self, directory: str) -> Generator[None]:
        """Hold a directory for an agent that starts there. Raises AgentNotReadyError."""
        for path in self._removing:
            if _is_within(directory, path):
                raise AgentNotReadyError(f"the worktree {path!r} is being removed; wait")
        self._starting.append(directory)
        try:
            yield
        finally:
            self._starting.remove(directory)

    @contextmanager
    def remove(self, path: str) -> Generator[None]:
        """Hold a worktree that is to go. Raises AgentNotReadyError."""
        if path in self._removing:
            raise AgentNotReadyError(f"the worktree {path!r} is being removed; wait")
        if any(_is_within(directory, path) for directory in self._starting):
            raise AgentNotReadyError(f"an agent is starting in the worktree {path!r}; close it")
        self._removing.add(path)
        try:
            yield
        finally:
            self._removing.discard(path)


def _is_within(directory: str, path: str) -> bool:
    return directory == path or directory.startswith(f"{path}/")


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
        self.journal = journal
        self.current = current
        self.notes = notes
        directory = places.state / "worktrees"
        self.records = WorktreeRecords(directory)
        self.builder = WorktreeBuilder(self.records, directory)
        self.disposal = WorktreeDisposal(self.records, directory / "scratch")
        self.claims = WorktreeClaims()
        self.making = asyncio.Lock()
        """Held while names are chosen and files are written."""
        self.followed = 0
        """The last end of an agent after which landed worktrees were let go."""

    # For agents that start

    async def settings(self, directory: str) -> WorktreeSettings:
        """The settings that count in a directory. Raises ConfigError."""
        return (await self._load(directory)).worktrees

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
        async with self.making:
            return await call_in_thread(self.builder.make, options, agent, settings)

    async def copy(self, entry: AgentEntry, agent: str) -> MadeWorktree:
        """A worktree for a copy of an agent that has one, in the same state.

        Raises AgentNotReadyError, WorktreeError.
        """
        await self.check(entry)
        source, cwd = entry.worktree, entry.spawn.options.cwd
        assert source is not None
        settings = await self.settings(source.repository)
        async with self.making:
            return await call_in_thread(self.builder.copy, source, cwd, agent, settings)

    async def undo(self, made: MadeWorktree) -> None:
        """Remove a worktree again in which no agent has started."""
        try:
            await asyncio.to_thread(self.builder.undo, made)
        except (GitError, OSError) as error:
            _log.warning("the worktree %r could not be removed: %s", made.worktree.path, error)

    async def check(self, entry: AgentEntry) -> None:
        """Raise AgentNotReadyError if an agent that works in a worktree has none any more."""
        worktree, options = entry.worktree, entry.spawn.options
        if worktree is None and options.worktree is None:
            return
        if worktree is not None and await asyncio.to_thread(_is_there, worktree):
            return
        if worktree is None and await asyncio.to_thread(os.path.isdir, options.cwd):
            return
        place = worktree.path if worktree is not None else options.cwd
        for trash in await asyncio.to_thread(self.records.trash):
            if entry.session in trash.sessions:
                raise AgentNotReadyError(
                    f"the worktree {place!r} of {entry.name!r} was discarded; `quarterdeck "
                    f"worktrees restore {trash.id}` restores it"
                )
        raise AgentNotReadyError(describe_gone(place, entry.name))

    def wrap_opener(self, opener: "SessionOpener") -> "SessionOpener":
        """The same, after the set-up commands of a new worktree."""

        async def open_in_worktree(start: "AgentStart", sink: EventSink) -> DriverSession:
            worktree = self.current.get(start.session).worktree
            if worktree is not None:
                await self._set_up(start, worktree, sink)
            return await opener(start, sink)

        return open_in_worktree

    async def _set_up(self, start: "AgentStart", worktree: Worktree, sink: EventSink) -> None:
        record = await asyncio.to_thread(self.records.find, worktree.path)
        if record is None or not record.needs_setup:
            return
        settings = await self.settings(worktree.repository)
        failed: CommandRan | None = None
        for line in settings.setup:
            ran = await self.run(
                line,
                worktree,
                start.spawn.name,
                "setup",
                by_agent=start.spawn.parent_session is not None,
            )
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
        await asyncio.to_thread(self.records.write, replace(record, needs_setup=False))

    async def run(
        self,
        line: str,
        worktree: Worktree,
        agent: str,
        purpose: CommandPurpose,
        *,
        by_agent: bool,
    ) -> CommandRan:
        """Run a command of the settings in a worktree, and return what came of it.

        ``by_agent``: an agent may have written what it runs, so that it is contained.

        Raises ConfigError.
        """
        settings = await self._load(worktree.repository)
        containment = None
        if by_agent and settings.worktrees.sandbox:
            needed = await asyncio.to_thread(_list_needed, worktree)
            containment = CommandContainment(
                settings=settings.sandbox,
                setting="worktrees.sandbox",
                readable=needed,
                hidden=(str(self._places.state), str(self._places.runtime)),
            )
        return await run_worktree_command(
            line,
            cwd=worktree.path,
            purpose=purpose,
            variables=worktree_variables(worktree, agent),
            timeout=settings.worktrees.timeout,
            containment=containment,
        )

    async def _load(self, directory: str) -> Settings:
        return (await prepare_environment(self._places, self._environment, directory)).settings

    async def mark_landed(self, worktree: Worktree, commit: str, files: str | None) -> None:
        """Note that everything up to a commit of a worktree is on another branch.

        ``files``: see ``WorktreeRecord.landed_files``.
        """
        record = await asyncio.to_thread(self.records.find, worktree.path)
        if record is not None:
            marked = replace(record, landed=commit, landed_files=files)
            await asyncio.to_thread(self.records.write, marked)

    async def _find_path(self, name: str) -> str:
        """Where an existing worktree is. Raises InvalidOptionsError."""
        if Path(name).is_absolute():
            if not await asyncio.to_thread(os.path.isdir, name):
                raise InvalidOptionsError(f"worktree: there is no directory {name!r}")
            return name
        for record in await asyncio.to_thread(self.records.all):
            if name == record.name:
                return record.worktree.path
        with suppress(NoSuchAgentError):
            worktree = (await self.current.find(name)).worktree
            if worktree is not None:
                return worktree.path
        raise InvalidOptionsError(
            f"worktree: there is no worktree {name!r}; `quarterdeck worktrees` lists them"
        )


async def predict_directory(
    places: Places, environment: Mapping[str, str], options: SessionOptions, agent: str
) -> str:
    """Where a host of these places will let a new agent of this name work, in a new worktree.

    Raises:
        InvalidOptionsError, WorktreeError, ConfigError: it cannot be as it is asked for.
    """
    found = await prepare_environment(places, environment, options.cwd)
    directory = places.state / "worktrees"
    builder = WorktreeBuilder(WorktreeRecords(directory), directory)
    return await call_in_thread(builder.predict, options, agent, found.settings.worktrees)


async def call_in_thread(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run something that blocks. Raises WorktreeError where the system refuses."""
    try:
        return await asyncio.to_thread(function, *args, **named)
    except (GitError, OSError) as error:
        raise WorktreeError(f"worktree: {error}") from error


def _list_needed(worktree: Worktree) -> tuple[str, ...]:
    """Directories outside of a worktree that git, or a command, has to read there."""
    with suppress(GitError):
        if (common := find_common_directory(worktree.repository)) is not None:
            return worktree.repository, common
    return (worktree.repository,)


def _is_there(worktree: Worktree) -> bool:
    if not os.path.lexists(f"{worktree.path}/.git"):
        return False
    try:
        found = find_repository(worktree.path)
    except GitError:
        return True  # whatever is wrong with it, the agent's start says so
    return found is not None and found.top == worktree.path
