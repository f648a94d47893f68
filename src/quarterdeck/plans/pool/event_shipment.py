"""Records of a worker's log on their way to the pool: in batches, each once, in order.

A session is shipped from where the pool's records of it end; so a worker that was killed, or a
database that was gone, leaves no gap and no double.
"""

import asyncio
import logging
from contextlib import aclosing

from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import FleetError, NoHostError
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.tasks import cancel_tasks, start_task

from ..turn import PATIENCE
from .errors import LeaseLostError, PoolUnreachableError
from .store import Lease, PoolStore

__all__ = ["EventShipment"]

_log = logging.getLogger(__name__)
_PAGE = 500
_BATCH_SECONDS = 0.1
"""How long records are collected before they are sent."""
_RETRY_SECONDS = 0.5


class _ShippedSession:
    def __init__(self, lease: Lease, session: str) -> None:
        self.lease = lease
        self.session = session
        self.has_more = asyncio.Event()
        self.has_more.set()
        self.last: int | None = None
        """The last record that the pool has; None: not known yet."""
        self.lock = asyncio.Lock()


class EventShipment:
    """Ships the sessions of one worker.

    Args:
        fleet: of this machine.
        store: of the pool.
    """

    def __init__(self, fleet: HostClient, store: PoolStore) -> None:
        self._fleet = fleet
        self._store = store
        self._sessions: dict[str, _ShippedSession] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.shipped = 0
        """Records since the start."""

    async def run(self) -> None:
        """Notice what is new in the log, for ever.

        Raises:
            NoHostError, LinkError: the host went away, and no other came.
        """
        async with aclosing(self._fleet.follow(None, patience=PATIENCE)) as records:
            async for record in records:
                if (found := self._sessions.get(record.session)) is not None:
                    found.has_more.set()

    async def watch(self, lease: Lease, session: str) -> None:
        """Ship a session from now on, with what it has said before; may be called again."""
        found = self._sessions.get(session)
        if found is not None and found.lease.token == lease.token:
            return
        if found is not None:
            await self._end(session)
        found = self._sessions[session] = _ShippedSession(lease, session)
        self._tasks[session] = start_task(self._ship_all(found), name=f"pool: ship {session}")

    async def flush(self, lease: Lease) -> None:
        """Ship all that the sessions of a task have said so far.

        Raises:
            LeaseLostError, PoolUnreachableError: as the pool does.
        """
        for found in [one for one in self._sessions.values() if one.lease == lease]:
            await self._ship(found)

    def list_sessions(self, lease: Lease) -> list[str]:
        """The sessions of a task on this worker."""
        return [one.session for one in self._sessions.values() if one.lease == lease]

    async def forget(self, lease: Lease) -> None:
        """Ship nothing of a task any more."""
        for session in self.list_sessions(lease):
            await self._end(session)

    async def close(self) -> None:
        """End."""
        for session in list(self._sessions):
            await self._end(session)

    async def _end(self, session: str) -> None:
        self._sessions.pop(session, None)
        if (task := self._tasks.pop(session, None)) is not None:
            await cancel_tasks([task])

    async def _ship_all(self, found: _ShippedSession) -> None:
        while True:
            await found.has_more.wait()
            await asyncio.sleep(_BATCH_SECONDS)
            found.has_more.clear()
            try:
                await self._ship(found)
            except (PoolUnreachableError, LinkError, NoHostError) as error:
                _log.info("%s is not shipped for now: %s", found.session, error)
                found.has_more.set()
                await asyncio.sleep(_RETRY_SECONDS)
            except (LeaseLostError, FleetError) as error:
                _log.info("%s is not shipped any more: %s", found.session, error)
                return

    async def _ship(self, found: _ShippedSession) -> None:
        async with found.lock:
            if found.last is None:
                found.last = await self._store.find_last(found.lease.worker, found.session)
            while True:
                page = await self._fleet.read(found.session, after=found.last, limit=_PAGE)
                info = await self._fleet.agent(found.session)
                await self._store.ship(found.lease, info, page)
                self.shipped += len(page)
                if page:
                    found.last = page[-1].seq
                if len(page) < _PAGE:
                    return
