"""A turn: begins, is watched, is stopped, and ends exactly once."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from quarterdeck.policy.gate import Gate
from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.errors import LinkBrokenError, LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.events import (
    EMPTY_TURN,
    CompactionChanged,
    Event,
    MessageChunk,
    Prompted,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import TurnId, new_turn_id
from quarterdeck.wire.tasks import run_beside, start_task

from .driver import DriverSessionOptions, EventSink
from .errors import DriverError
from .link import AgentLink, TurnOutcome
from .tool_calls import ToolCallNormalizer

__all__ = ["DriverTurn"]

_log = logging.getLogger(__name__)


class DriverTurn:
    """One turn of a session. ``run`` it once; anything else may be called at any time.

    Args:
        lost: called when the agent does not obey and must be ended.
        answered: waits until every request that was open has its answer in the log.
    """

    def __init__(
        self,
        link: AgentLink,
        opening: DriverSessionOptions,
        sink: EventSink,
        gate: Gate,
        ledger: ToolCallNormalizer,
        lost: Callable[[LinkError], None],
        answered: Callable[[], Awaitable[object]],
    ) -> None:
        self.id: TurnId = new_turn_id()
        self.is_interrupted = False
        self._link = link
        self._opening = opening
        self._sink = sink
        self._gate = gate
        self._ledger = ledger
        self._lost = lost
        self._answered = answered
        self._running: asyncio.Task[TurnOutcome] | None = None
        self._is_asked = False
        self._began = asyncio.Event()
        """Set when the agent has the prompt, or will not get it."""
        self._steering = asyncio.Lock()
        self._over = asyncio.Event()
        self._overdue: str | None = None
        self._spent: str | None = None
        """The limit that it has reached."""
        self._sign_of_life = time.monotonic()
        self._is_empty = True
        """No message and no tool call so far, nor other work."""

    def shows_life(self, event: Event | None = None) -> None:
        """Record a sign of life of the agent: this event."""
        self._sign_of_life = time.monotonic()
        match event:
            case MessageChunk(role="agent", content=TextContent(text=words)) if not words.strip():
                pass
            case MessageChunk(role="agent") | ToolCallStarted() | CompactionChanged():
                self._is_empty = False
            case _:
                pass

    async def run(self, prompted: Prompted) -> TurnEnded:
        """Run it from its prompt to its end; a cancelled caller interrupts it."""
        try:
            await self._sink(prompted)
            await self._sink(TurnStarted(prompt=prompted.message), turn=self.id)
            if self.is_interrupted:  # while its beginning was written down
                return await self._end(TurnOutcome(stop="cancelled"))
            self._running = start_task(self._ask(prompted.content), name=self.id)
            return await self._settle(self._running)
        finally:
            self._began.set()
            self._over.set()

    async def steer(self, prompted: Prompted) -> bool:
        """Give it a further message; False: it does not take one any more."""
        async with self._steering:  # the log has messages in the order in which they were sent
            await self._began.wait()
            if not self._is_asked or self.is_interrupted:
                return False
            if self._running is None or self._running.done():
                return False
            if not await self._pass_on(prompted.content):
                return False
            await self._sink(prompted, turn=self.id)
            return True

    async def _pass_on(self, content: tuple[ContentBlock, ...]) -> bool:
        limit = self._opening.cancel_limit
        try:
            async with asyncio.timeout(limit):
                return await self._link.steer(content)
        except TimeoutError:
            raise DriverError(
                f"the agent did not confirm the message within {limit:g} s; it may have it or not"
            ) from None

    async def interrupt(self) -> None:
        """End it as cancelled; returns when it has ended."""
        if self._running is None:
            # It is about to begin, and will not, or about to end.
            self.is_interrupted = True
        await self._stop()
        await self._over.wait()

    async def stop_for(self, reason: str) -> None:
        """End it as failed for this reason; returns when the agent has stopped."""
        if self._overdue is None:
            self._overdue = reason
        await self._stop()

    def fails_for(self, reason: str) -> None:
        """Let it end as failed for this reason, although the agent is done."""
        self._overdue = self._overdue or reason

    async def give_up(self) -> None:
        """Its agent is gone: let it end, soon."""
        if self._running is not None and not self._running.done():
            await asyncio.wait([self._running], timeout=1)
            self._running.cancel()

    async def _ask(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        if self.is_interrupted:  # before this task came to run
            return TurnOutcome(stop="cancelled")
        self._is_asked = True
        self._began.set()
        return await self._link.prompt(content)

    async def _stop(self) -> None:
        """Have the agent stop; returns when it has."""
        running = self._running
        if running is None or running.done():
            return
        self.is_interrupted = True
        self._gate.cancel_open()
        limit = self._opening.cancel_limit
        try:
            async with asyncio.timeout(limit):
                if self._is_asked:  # else the agent knows of no turn
                    await self._link.interrupt()
                await asyncio.wait([running])
        except TimeoutError:
            self._lost(
                LinkBrokenError(
                    f"it did not stop within {limit:g} s after an interrupt, and was killed"
                )
            )
            await asyncio.wait([running])
        except LinkError:
            await asyncio.wait([running])
        except QuarterdeckError as error:
            self._lost(LinkBrokenError(f"it could not be interrupted, and was killed: {error}"))
            await asyncio.wait([running])

    async def _settle(self, running: asyncio.Task[TurnOutcome]) -> TurnEnded:
        """Wait for its end, whatever it is, and write it down."""
        try:
            async with self._watched():
                await asyncio.wait([running])
        except asyncio.CancelledError:
            await _finish(self._stop())
            await _finish(self._end(_outcome(running)))
            raise
        return await self._end(_outcome(running))

    async def _end(self, outcome: TurnOutcome) -> TurnEnded:
        self._began.set()
        self._running = None
        stop, reason = outcome.stop, outcome.reason
        if self.is_interrupted:
            stop = "cancelled"
        self._gate.cancel_open()
        await self._answered()
        async with self._steering:  # a message that was taken is in the log before the end
            pass
        if self._overdue is not None:
            stop, reason = "failed", self._overdue
        elif self._spent is not None and stop == "cancelled":
            stop, reason = "max_turn_requests", self._spent
        is_stopped = stop == "cancelled" or reason is self._spent is not None
        left = "cancelled" if is_stopped else "failed"
        for event in self._ledger.close(left, "the agent did not say how it ended"):
            await self._sink(event, turn=self.id)
        if stop == "end_turn" and self._is_empty:
            await self._sink(EMPTY_TURN, turn=self.id)
        ended = TurnEnded(stop=stop, reason=reason, usage=outcome.usage, cost=outcome.cost)
        await self._sink(ended, turn=self.id)
        return ended

    @asynccontextmanager
    async def _watched(self) -> AsyncGenerator[None]:
        """Interrupt it when it takes too long, or the agent shows no sign of life for too long."""
        idle, whole = self._opening.idle_limit, self._opening.options.limits.seconds
        if idle is None and whole is None:
            yield
            return
        self.shows_life()
        async with run_beside(
            self._watch(idle or math.inf, whole or math.inf), name="turn: limits"
        ):
            yield

    async def _watch(self, idle: float, whole: float) -> None:
        waited, began = self._gate.pauses.seconds, time.monotonic()
        while True:
            people = self._gate.pauses.seconds - waited
            end = min(self._sign_of_life + idle, began + whole)
            left = end + people - time.monotonic()
            if left <= 0:
                break
            await asyncio.sleep(left)
        if end == began + whole:
            self._spent = f"it took {whole:g} s"
        else:
            self._overdue = f"no activity for {idle:g} s"
        await self._stop()


def _outcome(running: "asyncio.Task[TurnOutcome]") -> TurnOutcome:
    """How a finished turn went; every failure becomes one that can be written down."""
    if running.cancelled():
        return TurnOutcome(stop="failed", reason="the agent has ended")
    error = running.exception()
    match error:
        case None:
            return running.result()
        case RpcError():
            return TurnOutcome(stop="failed", reason=error.description)
        case QuarterdeckError():
            return TurnOutcome(stop="failed", reason=str(error))
        case _:
            _log.error("internal error in a turn", exc_info=error)
            return TurnOutcome(stop="failed", reason=f"internal error: {error!r}")


async def _finish(step: Coroutine[Any, Any, object]) -> None:
    """Do this to its end although the caller is being cancelled."""
    task = start_task(step, name="end of a turn")
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a turn failed after its caller was cancelled", exc_info=error)
