"""One end of a JSON-RPC link: asks, tells, and answers, all at once."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from quarterdeck.wire.errors import (
    LinkBrokenError,
    LinkBusyError,
    LinkClosedError,
    LinkEndedError,
    LinkError,
)
from quarterdeck.wire.rpc.dispatcher import CANCEL_REQUEST, Dispatcher
from quarterdeck.wire.rpc.frames import encode_notification, encode_request
from quarterdeck.wire.rpc.handler import Observers, RpcCounters, RpcLimits
from quarterdeck.wire.rpc.outbox import Outbox, PendingRequests
from quarterdeck.wire.tasks import start_task

if TYPE_CHECKING:
    from collections.abc import Iterable

    import msgspec

    from quarterdeck.wire.rpc.handler import Handler, Observer
    from quarterdeck.wire.rpc.stream import ByteStream

__all__ = ["Peer"]

log = logging.getLogger(__name__)

_DEFAULT_LIMITS = RpcLimits()


class Peer:
    """A link to one peer over a byte stream, which it owns; an async context manager.

    Guarantees (``docs/rpc.md`` says them at length): messages are handled in the order they
    arrived and written in the order they were issued; nothing waits forever once the link is
    over; memory is bounded by ``limits``.

    Args:
        stream: where the bytes come from and go to; closed with the peer.
        handler: takes the peer's requests and notifications.
        limits: how much the peer may make us hold.
        observers: see each raw frame in both directions.
        answer_malformed: answer what is no message with an error, as JSON-RPC asks. Turn it off
            towards a program that may print other text on its output.
        cancel: the notification by which either side gives a request up; its params name the
            request by ``requestId``.
        name: what errors and logs call the peer.
    """

    def __init__(
        self,
        stream: ByteStream,
        handler: Handler,
        *,
        limits: RpcLimits = _DEFAULT_LIMITS,
        observers: Iterable[Observer] = (),
        answer_malformed: bool = True,
        cancel: str = CANCEL_REQUEST,
        name: str = "peer",
    ) -> None:
        self.name = name
        self._cancel = cancel
        self.counters = RpcCounters()
        self._stream = stream
        self._limits = limits
        shown_to = Observers(observers)
        self._outbox = Outbox(stream, limits, shown_to)
        self._pending = PendingRequests(limits.max_pending, self.counters)
        self._dispatcher = Dispatcher(
            self,
            handler,
            outbox=self._outbox,
            pending=self._pending,
            limits=limits,
            observers=shown_to,
            counters=self.counters,
            answer_malformed=answer_malformed,
            cancel=cancel,
        )
        self._ending: LinkError | None = None
        self._reader: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._finisher: asyncio.Task[None] | None = None
        self._finished = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Start to read and write."""
        self._reader = start_task(self._read(), name=f"{self.name}: read")
        self._writer = start_task(self._write(), name=f"{self.name}: write")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    @property
    def ending(self) -> LinkError | None:
        """How the link ended: ``LinkClosedError``, ``LinkEndedError`` or ``LinkBrokenError``; None
        as long as it lives.
        """
        return self._ending

    async def request(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> msgspec.Raw:
        """Ask the peer and wait for its result; ``timeout`` is in seconds.

        Every notification that arrived before the answer has been handled when this returns, and
        none that arrived after it. When the waiting task is cancelled or the time is over, the
        peer is told with the ``cancel`` notification and its answer will be ignored.

        Raises:
            RpcError: the peer answered with an error.
            TimeoutError: no answer in time.
            LinkClosedError, Ended, LinkBrokenError: the link is over, or was before the answer
                came.
            Busy: too many requests wait, or this is called from a notification handler of the
                same peer, where the answer could never be read.
            FrameTooLargeError, TypeError: the params cannot be sent.
        """
        if self._ending is not None:
            raise copy(self._ending)
        if self._is_reading():
            raise LinkBusyError(
                f"a notification handler of {self.name!r} cannot wait for an answer to "
                f"{method!r}: nothing is read until it returns. Start a task for the request"
            )
        id, future = self._pending.open()
        try:
            self._outbox.put(encode_request(id, method, params))
            async with asyncio.timeout(timeout):
                outcome = await future
        except (asyncio.CancelledError, TimeoutError):
            if not future.done() or future.cancelled():
                self._give_up(id)
            raise
        finally:
            self._pending.forget(id)
        return self._pending.unwrap(outcome)

    async def notify(self, method: str, params: Any = None) -> None:
        """Tell the peer something.

        Returns at once while the peer keeps up, and otherwise waits until it has read. Cancelled
        while it waits, the notification is sent all the same.

        Raises:
            LinkClosedError, Ended, LinkBrokenError: the link is over.
            FrameTooLargeError, TypeError: the params cannot be sent.
        """
        ending = self._ending
        if ending is not None and not isinstance(ending, LinkEndedError):
            raise copy(ending)
        line = encode_notification(method, params)
        outbox = self._outbox
        if self._is_reading():
            # Two peers that both wait here would wait for each other.
            outbox.put_from_reader(line)
            return
        outbox.put(line)
        if outbox.is_full:
            await outbox.room()

    async def close(self) -> None:
        """End the link and wait until all of it is gone; may be called again.

        Waiting requests raise ``LinkClosedError`` at once; the peer's requests are cancelled;
        frames issued before are still written; each step has the deadline ``limits.grace_seconds``.
        Called from a handler of this peer it only begins all that, since it cannot wait for itself.
        """
        self._end(LinkClosedError(f"the connection to {self.name!r} was closed"))
        task = asyncio.current_task()
        if not self._dispatcher.owns(task) and task is not self._reader:
            await self._finished.wait()

    async def wait_closed(self) -> LinkError:
        """Wait until the link is over and all of it is gone; return how it ended."""
        await self._finished.wait()
        assert self._ending is not None
        return copy(self._ending)

    def _is_reading(self) -> bool:
        return asyncio.current_task() is self._reader

    def _give_up(self, id: int) -> None:
        if self._ending is not None:
            return
        with suppress(LinkError):
            self._outbox.put(encode_notification(self._cancel, {"requestId": id}))

    async def _read(self) -> None:
        try:
            await self._dispatcher.run(self._stream)
        except LinkError as error:
            self._end(error)
        except Exception as error:
            log.exception("reading from %r failed", self.name)
            self._end(LinkBrokenError(f"reading from {self.name!r} failed: {error}"))
        else:
            self._end(LinkEndedError(f"{self.name!r} closed the connection"))

    async def _write(self) -> None:
        try:
            await self._outbox.run()
        except LinkError as error:
            self._outbox.fail(error)
            self._end(error)
        except Exception as error:
            log.exception("writing to %r failed", self.name)
            failure = LinkBrokenError(f"writing to {self.name!r} failed: {error}")
            self._outbox.fail(failure)
            self._end(failure)

    def _end(self, ending: LinkError) -> None:
        if self._ending is None:
            self._ending = ending
            self._pending.fail(ending)
            self._finisher = start_task(self._finish(ending), name=f"{self.name}: end")

    async def _finish(self, ending: LinkError) -> None:
        """Take the link down, in the one order in which nobody waits for nobody."""
        try:
            if isinstance(ending, LinkEndedError):
                await self._dispatcher.drain()
            running = [task for task in (self._reader, self._writer) if task is not None]
            if self._reader is not None:
                self._reader.cancel()
            await self._dispatcher.stop()
            if self._writer is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._limits.grace_seconds):
                        await self._outbox.flush()
            self._outbox.fail(ending)
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=self._limits.grace_seconds)
            await self._stream.close()
        except Exception:
            log.exception("closing the connection to %r failed", self.name)
        finally:
            self._finished.set()
