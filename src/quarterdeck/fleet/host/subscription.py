"""What one client follows, on its way to it: records, or what is seen of a terminal."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from msgspec import Raw

from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.rpc import Peer

from ..errors import HostError
from .faults import carry
from .methods import ENDED, RECORDS, Ended, Records

__all__ = ["BATCH_BYTES", "BATCH_RECORDS", "WINDOW", "Subscription"]

T = TypeVar("T")

WINDOW = 8
"""Batches that may be on their way, or lie unused at the client."""
BATCH_BYTES = 256 * 1024
"""A batch takes no further record beyond this; a single record may be longer."""
BATCH_RECORDS = 512


class Subscription(Generic[T]):
    """Follows something for a client, as fast as the client takes it.

    What is ready goes at once and together. A client that does not say ``fleet/taken`` gets
    ``window`` batches and then no more: it holds back its own subscription and nothing else, and
    neither side keeps more than that many. What follows waits where it comes from: in the log,
    or at the terminal, which shows a viewer that is far behind its screen anew.
    """

    def __init__(
        self,
        id_: int,
        peer: Peer,
        encode: Callable[[T], bytes],
        *,
        window: int = WINDOW,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.id = id_
        self._peer = peer
        self._encode = encode
        self._batch_bytes = batch_bytes
        self._ready: list[Raw] = []
        self._bytes = 0
        self._is_over = False
        """Nothing follows what is ready."""
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._credit = asyncio.Semaphore(window)
        self._owed = 0

    def taken(self) -> None:
        """The client has used a batch; one that it never got is not counted."""
        if self._owed:
            self._owed -= 1
            self._credit.release()

    async def run(self, items: AsyncGenerator[T]) -> None:
        """Send until cancelled; their end is told to the client, after the last of them."""
        sending = asyncio.create_task(self._send(), name=f"subscription {self.id}: send")
        gathering = asyncio.create_task(self._gather(items), name=f"subscription {self.id}: gather")
        try:
            await asyncio.wait((sending, gathering), return_when=asyncio.FIRST_EXCEPTION)
            for task in (gathering, sending):
                if task.done():
                    task.result()
            await self._tell_end(HostError("it has ended; there is nothing more to follow"))
        except LinkError:
            # The client is gone, or the log was closed under us because the host stops.
            return
        except QuarterdeckError as error:
            await self._tell_end(error)
        finally:
            sending.cancel()
            gathering.cancel()
            await asyncio.gather(sending, gathering, return_exceptions=True)

    async def _gather(self, items: AsyncGenerator[T]) -> None:
        async with aclosing(items):
            async for item in items:
                data = Raw(self._encode(item))
                while self._ready and self._is_full(len(data)):
                    self._room.clear()
                    await self._room.wait()
                self._ready.append(data)
                self._bytes += len(data)
                self._filled.set()
        self._is_over = True
        self._filled.set()

    async def _send(self) -> None:
        while True:
            await self._filled.wait()
            if self._is_over and not self._ready:
                return
            await self._credit.acquire()
            self._owed += 1
            batch, self._ready, self._bytes = tuple(self._ready), [], 0
            if not self._is_over:
                self._filled.clear()
            self._room.set()
            await self._peer.notify(RECORDS, Records(subscription=self.id, records=batch))

    def _is_full(self, more: int) -> bool:
        return self._bytes + more > self._batch_bytes or len(self._ready) >= BATCH_RECORDS

    async def _tell_end(self, error: QuarterdeckError) -> None:
        answer = carry(error)
        told = Ended(
            subscription=self.id, message=answer.message, code=answer.code, data=answer.data
        )
        try:
            await self._peer.notify(ENDED, told)
        except LinkError:
            return
