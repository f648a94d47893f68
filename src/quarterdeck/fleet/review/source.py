"""What all parts of a review share: agents, their states in the log, and what is compared."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from quarterdeck.journal import Journal
from quarterdeck.system.errors import GitError
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.tasks import BackgroundTasks

from ..agent_entry import AgentEntry
from ..live_index import LiveIndex, LogWriter
from .acceptance import ReviewOperations
from .api import ReviewSince
from .changes import ChangeReader
from .comparison import Comparison, FileDifference
from .errors import ReviewError
from .file_list import find_file
from .state import ReviewState, ReviewStates

__all__ = ["ReviewSource", "run_blocking"]

T = TypeVar("T")
_MOST_COMPARED = 64


class ReviewSource:
    """Finds agents and compares their files.

    Args:
        journal: the log, whose records tell of marks and comments.
        current: who is in the fleet.
        notes: writes to the log.
        reader: finds what agents changed.
        work: what is begun here is finished there, also when the caller goes away.
    """

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        notes: LogWriter,
        reader: ChangeReader,
        work: BackgroundTasks,
    ) -> None:
        self.notes = notes
        self.reader = reader
        self._current = current
        self._work = work
        self._states = ReviewStates(journal)
        self._compared: dict[tuple[SessionId, str | None, str | None], Comparison] = {}
        self._locks: dict[SessionId, asyncio.Lock] = {}

    async def agent(self, agent: str) -> tuple[AgentEntry, ReviewState]:
        """An agent by name or id, and the state of its review. Raises NoSuchAgentError."""
        entry = await self._current.find(agent)
        return entry, await self._states.get(entry.session)

    async def state(self, entry: AgentEntry) -> ReviewState:
        """The state of an agent's review, up to now."""
        return await self._states.get(entry.session)

    async def compare(
        self,
        entry: AgentEntry,
        state: ReviewState,
        turn: str | None = None,
        since: ReviewSince | None = None,
    ) -> Comparison:
        """Compare what the agent's files are now. Raises ReviewError, NothingToUndoError."""
        found = await self.reader.compare(entry, state, turn=turn, since=since)
        self._compared[(entry.session, turn, since)] = found
        while len(self._compared) > _MOST_COMPARED:
            self._compared.pop(next(iter(self._compared)))
        return found

    async def recall(
        self, agent: str, turn: str | None, since: ReviewSince | None, tree: str | None
    ) -> tuple[AgentEntry, ReviewState, Comparison]:
        """What was compared before, if its new side is this tree; else what is there now."""
        entry, state = await self.agent(agent)
        known = self._compared.get((entry.session, turn, since))
        if known is not None and known.new == tree:
            return entry, state, known
        return entry, state, await self.compare(entry, state, turn, since)

    async def find(self, entry: AgentEntry, compared: Comparison, file: str) -> FileDifference:
        """A changed file by path or id. Raises NoSuchChangeError."""
        return find_file(entry.name, compared, await self.reader.list_files(compared), file)

    async def alone(self, agent: str, work: Callable[[AgentEntry], Awaitable[T]]) -> T:
        """Do something for an agent, once at a time, and to its end."""
        entry = await self._current.find(agent)

        async def locked() -> T:
            async with self._locks.setdefault(entry.session, asyncio.Lock()):
                return await work(entry)

        return await self._work.finish(locked())

    def operations(self, session: SessionId) -> ReviewOperations:
        """What was accepted and rejected."""
        return ReviewOperations(self.reader.directory(session))


async def run_blocking(work: Callable[[], T]) -> T:
    """Do what blocks; what git and the system refuse is a ReviewError."""
    try:
        return await asyncio.to_thread(work)
    except (GitError, OSError) as error:
        raise ReviewError(f"this cannot be done: {error}") from error
