"""One pump for each session: follows its log and sends the updates, in order, once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from quarterdeck.agent.session import Session
from quarterdeck.wire.acp.schema import SessionUpdate
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.record import Record

from .updates import Translator, Updates

__all__ = ["Pump"]

_log = logging.getLogger(__name__)


class Pump:
    """Sends what a session's log says to the client.

    There is one task, and so one order. Starting again ends the one before: whatever is loaded
    twice is replayed, and never told twice from then on.

    Args:
        translator: makes one, told whether it will see the session from its first record on.
        send: sends one update; raises ``LinkError`` when the client is gone.
        notice: takes each record that is new, after its updates were sent; must not wait.
    """

    def __init__(
        self,
        session: Session,
        translator: Callable[[bool], Translator],
        send: Callable[[SessionUpdate], Awaitable[None]],
        notice: Callable[[Record], None],
    ) -> None:
        self._session = session
        self._translator = translator
        self._send = send
        self._notice = notice
        self._task: asyncio.Task[None] | None = None
        self._passed = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def start(self, *, after: int, replay_until: int = 0, first: Updates = ()) -> None:
        """Begin behind a sequence number; up to ``replay_until`` it is the past that is told.

        Nothing is sent before the caller waits for something; ``first`` is sent before all else.
        """
        await self.stop()
        self._passed = after
        self._task = asyncio.create_task(
            self._run(after, replay_until, first), name=f"pump {self._session.id}"
        )

    async def caught_up(self, seq: int) -> None:
        """Wait until every record up to ``seq`` was sent, or the pump is over."""
        if self._passed >= seq or self._task is None or self._task.done():
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((seq, future))
        await future

    async def stop(self) -> None:
        """End the task; who waits for it goes on waiting for the next."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """End for good."""
        await self.stop()
        self._wake()

    async def _run(self, after: int, replay_until: int, first: Updates) -> None:
        try:
            for update in first:
                await self._send(update)
            await self._follow(after, replay_until)
        except LinkError:
            _log.debug("session %s: the client is gone", self._session.id)
        except Exception:
            _log.exception("session %s: its updates end here", self._session.id)
        # Not when it was cancelled: then another run takes over those who wait.
        self._wake()

    async def _follow(self, after: int, replay_until: int) -> None:
        translator = self._translator(after == 0)
        records = self._session.journal.follow(after, self._session.id)
        async with aclosing(records):
            async for record in records:
                is_replay = record.seq <= replay_until
                for update in translator.translate(record, is_replay=is_replay):
                    await self._send(update)
                if not is_replay:
                    self._notice(record)
                self._passed = record.seq
                if self._waiting:
                    self._wake(record.seq)

    def _wake(self, passed: int | None = None) -> None:
        waiting, self._waiting = self._waiting, []
        for seq, future in waiting:
            if passed is not None and seq > passed:
                self._waiting.append((seq, future))
            elif not future.done():
                future.set_result(None)
