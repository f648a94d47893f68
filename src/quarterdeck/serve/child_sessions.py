"""Children as sessions below their parent, for clients that know ACP's draft of sub-agents.

A child is announced on its parent's session, then its own updates follow under its own id, and at
its end it is idle. Nobody else hears of them: the call that waits shows how far they got.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from quarterdeck.journal import Journal
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.methods import Notification
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import ChildEnded, ChildStarted, SessionEnded
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.values import AcpValue

from .updates import UpdateTranslator

__all__ = ["ServedChildSessions"]

_TITLE = 60
_log = logging.getLogger(__name__)


class _Subagent(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="subagent_update"
):
    """A child's place below its parent. Unstable in ACP, so it is not among the generated types."""

    session_id: str
    title: str | None = None
    description: str | None = None
    state: dict[str, str] | None = None


class _Note(AcpValue, frozen=True, kw_only=True):
    """What is sent on the parent's session."""

    session_id: str
    update: _Subagent


_UPDATE: Notification[_Note] = Notification(name="session/update", params=_Note, side="client")


class ServedChildSessions:
    """Tells one client of one session's children, and of theirs.

    Args:
        translator: makes one for a child.
    """

    def __init__(
        self,
        connection: AcpConnection,
        journal: Journal,
        translator: Callable[[], UpdateTranslator],
    ) -> None:
        self._connection = connection
        self._journal = journal
        self._translator = translator
        self._telling: dict[SessionId, asyncio.Task[None]] = {}
        self._ended: set[SessionId] = set()

    def notice(self, record: Record) -> None:
        """Take a record of the parent that was sent: a child that starts is told from there on."""
        match record.event:
            case ChildStarted(child=child) as started:
                work = self._tell(record.session, started, record.seq)
                self._telling[child] = start_task(work, name=f"child {child}")
            case ChildEnded(child=child):
                self._ended.add(child)
            case _:
                pass

    async def settle(self) -> None:
        """Wait until all was sent of those that are over."""
        over = [task for child, task in self._telling.items() if child in self._ended]
        if over:
            await asyncio.wait(over)

    async def close(self) -> None:
        """Tell nothing more."""
        tasks = tuple(self._telling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self, parent: SessionId, started: ChildStarted, after: int) -> None:
        child = started.child
        try:
            words = " ".join(started.task.split())
            await self._place(
                parent,
                _Subagent(
                    session_id=child,
                    title=f"{started.name}: {words[:_TITLE]}",
                    description=words,
                    state={"state": "running"},
                ),
            )
            await self._follow(child, after)
            await self._place(parent, _Subagent(session_id=child, state={"state": "idle"}))
        except QuarterdeckError as error:
            _log.debug("child %s: its updates end here: %s", child, error)

    async def _follow(self, child: SessionId, after: int) -> None:
        translator = self._translator()
        records = self._journal.follow(after, child)
        async with aclosing(records):
            async for record in records:
                # As in a replay: its prompt is shown, its settings are nobody's to change.
                for update in translator.translate(record, is_replay=True):
                    note = acp.SessionNotification(session_id=child, update=update)
                    await self._connection.send(acp.SESSION_UPDATE, note)
                self.notice(record)
                if isinstance(record.event, SessionEnded):
                    return

    async def _place(self, parent: SessionId, update: _Subagent) -> None:
        await self._connection.send(_UPDATE, _Note(session_id=parent, update=update))
