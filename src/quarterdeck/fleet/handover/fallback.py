"""The rule that hands work on when the vendor of an agent fails: each agent of a list once.

What counts as a failure: the agent does not start or crashes, a turn ends with an error, the
vendor holds it back again and again within a turn, or its own budget is used up.
"""

import asyncio
import logging
from collections.abc import Callable

from quarterdeck.config.schema import Settings
from quarterdeck.journal import Journal, JournalClosedError
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    BudgetReached,
    Event,
    NoticePosted,
    RateLimited,
    SessionEnded,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import BackgroundTasks

from ..agent_entry import AgentEntry
from ..errors import NoSuchAgentError
from ..live_index import LiveIndex, LogWriter
from .api import HandoverOptions
from .service import HandoverService

__all__ = ["FallbackRule"]

_log = logging.getLogger(__name__)
_FAILURES: frozenset[type[Event]] = frozenset((BudgetReached, RateLimited, SessionEnded, TurnEnded))
"""Events that may say that an agent has failed."""
_MOST_HELD_BACK = 3
"""How often a vendor may hold an agent back in one turn."""


class FallbackRule:
    """Follows the log; an agent that fails has its work continued by the next of the list."""

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        notes: LogWriter,
        handovers: HandoverService,
        load_settings: Callable[[str], Settings],
        work: BackgroundTasks,
    ) -> None:
        """Args:
        journal: the log of the fleet.
        current: who is in the fleet.
        notes: writes to the log.
        handovers: does it.
        load_settings: the settings that count in a directory, from the disk.
        work: where a hand-over is finished.
        """
        self._journal = journal
        self._current = current
        self._notes = notes
        self._handovers = handovers
        self._load_settings = load_settings
        self._work = work
        self._held_back: dict[SessionId, int] = {}
        """How often each agent was held back in its turn."""
        self._falling: set[SessionId] = set()

    async def run(self) -> None:
        """Follow the log until it is closed."""
        async for record in self._journal.follow(self._journal.last, kinds=_FAILURES):
            reason = self._find_failure(record) if record.parent is None else None
            if reason is not None and record.session not in self._falling:
                self._falling.add(record.session)
                self._work.start(
                    self._fall_back(record.session, reason), name=f"fallback of {record.session}"
                )

    def _find_failure(self, record: Record) -> str | None:
        """Why the agent of a record has failed by it; None: it has not."""
        session = record.session
        match record.event:
            case RateLimited(reason=reason):
                self._held_back[session] = self._held_back.get(session, 0) + 1
                if self._held_back[session] == _MOST_HELD_BACK:
                    return f"its vendor holds it back: {reason}"
            case TurnEnded(stop=stop, reason=reason):
                self._held_back.pop(session, None)
                if stop == "failed":
                    return f"its turn failed: {reason or 'it is not known why'}"
            case SessionEnded(how=how, reason=reason):
                self._held_back.pop(session, None)
                if how == "broken":
                    return f"it ended: {reason or 'it is not known why'}"
            case BudgetReached(level="stopped", scope="agent" | "tree", subject=subject) as event:
                if subject == session:
                    return f"its budget is used up: {event.reason or event.unit}"
            case _:
                pass
        return None

    async def _fall_back(self, session: SessionId, reason: str) -> None:
        try:
            await self._notes.settled()
            entry = self._current.get(session)
            if entry.status.is_archived or not (entry.turns or entry.queue):
                return
            wanted = await self._list_wanted(entry)
            if wanted:
                await self._try_each(entry, wanted, reason)
        except (NoSuchAgentError, JournalClosedError):
            return  # deleted, or the fleet ends
        except QuarterdeckError as error:
            _log.warning("no agent continues the work of %s: %s", session, error)
        finally:
            self._falling.discard(session)

    async def _list_wanted(self, entry: AgentEntry) -> list[str]:
        """The agents that are left: none that has worked on this already."""
        wanted = entry.spawn.fallback
        if wanted is None:
            cwd = entry.spawn.options.cwd
            wanted = (await asyncio.to_thread(self._load_settings, cwd)).fallback
        if not wanted:
            return []
        used = {entry.spawn.options.agent}
        seen = {entry.session}
        while (earlier := entry.spawn.continues) is not None and earlier not in seen:
            seen.add(earlier)
            try:
                entry = await self._current.find(earlier)
            except NoSuchAgentError:
                break
            used.add(entry.spawn.options.agent)
        return [one for one in dict.fromkeys(wanted) if one not in used]

    async def _try_each(self, entry: AgentEntry, wanted: list[str], reason: str) -> None:
        """Hand over to the first that starts; say it if none does."""
        problems: list[str] = []
        for agent in wanted:
            try:
                request = HandoverOptions(to=agent)
                await self._handovers.continue_with(entry.session, request, reason=reason)
                return
            except JournalClosedError:
                raise
            except QuarterdeckError as error:
                problems.append(str(error))
        notice = NoticePosted(
            title=f"no agent could continue this work; tried {', '.join(wanted)}",
            severity="error",
            description="\n".join([reason, *problems]),
        )
        await self._notes.note(entry.session, notice)
