"""One end of a JSON-RPC link: requests, notifications and answers, all at once."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from copy import copy
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import UNSET, Raw, Struct

from quarterdeck.wire.errors import (
    LinkBrokenError,
    LinkBusyError,
    LinkClosedError,
    LinkEndedError,
    LinkError,
    RpcError,
)
from quarterdeck.wire.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    FrameTooLargeError,
    MethodNotFoundError,
)
from quarterdeck.wire.rpc.frames import (
    MALFORMED,
    Frame,
    LineSplitter,
    Outbox,
    PendingRequests,
    decode_frame,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    identify,
    is_utf8,
    replace_surrogates,
)
from quarterdeck.wire.rpc.handler import (
    Observers,
    RequestContext,
    RequestId,
    RpcCounters,
    RpcLimits,
)
from quarterdeck.wire.tasks import start_task

from ..decoders import json_decoder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator

    from quarterdeck.wire.rpc.handler import Handler, Observer, RequestPeer
    from quarterdeck.wire.rpc.stream import ByteStream

__all__ = ["CANCEL_REQUEST", "Dispatcher", "Peer"]

log = logging.getLogger(__name__)

CANCEL_REQUEST = "$/cancel_request"

_STRIDE = 16
_TURN_SECONDS = 0.005
_SHOWN_TEXT = 200
_NULL = Raw(b"null")


class _CancelParams(Struct):
    requestId: int | float | str | None


_decode_cancel = json_decoder(_CancelParams).decode


class Dispatcher:
    """Reads a stream and hands each message to where it belongs.

    Holds the tasks that run the peer's requests. Everything but those tasks runs in the task
    that calls ``run``.
    """

    def __init__(
        self,
        peer: RequestPeer,
        handler: Handler,
        *,
        outbox: Outbox,
        pending: PendingRequests,
        limits: RpcLimits,
        observers: Observers,
        counters: RpcCounters,
        answer_malformed: bool,
        cancel: str = CANCEL_REQUEST,
    ) -> None:
        self._peer = peer
        self._on_request = handler.on_request
        self._on_notification = handler.on_notification
        self._outbox = outbox
        self._pending = pending
        self._limits = limits
        self._observers = observers
        self._counters = counters
        self._answer_malformed = answer_malformed
        self._cancel = cancel
        self._in_flight: dict[RequestId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._turn_began = monotonic()

    def owns(self, task: asyncio.Task[object] | None) -> bool:
        """Whether the task runs a request of the peer."""
        return task in self._tasks

    async def run(self, stream: ByteStream) -> None:
        """Read and handle until the stream ends.

        Raises:
            LinkError: the stream failed, or the peer broke a limit.
        """
        splitter = LineSplitter(self._limits.max_frame_bytes)
        while chunk := await stream.receive():
            block = splitter.feed(chunk)
            if block:
                await self._handle(block)
            if splitter.is_over:
                self._give_up_on_frame()
        rest = splitter.rest()
        if rest:
            await self._handle(rest)

    async def drain(self) -> None:
        """Let the peer's requests finish, within the grace."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._limits.grace_seconds)

    async def stop(self) -> None:
        """Cancel the peer's requests and wait for them, within the grace."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        await self.drain()
        for task in self._tasks:
            log.warning("%s ignored its cancellation and is abandoned", task.get_name())

    async def _handle(self, block: bytes) -> None:
        is_clean = is_utf8(block)
        lines = block.split(b"\n")
        for start in range(0, len(lines), _STRIDE):
            part = iter(lines[start : start + _STRIDE])
            if self._observers or not is_clean:
                part = self._screen(part)
            while (step := self._advance(part)) is not None:
                await step
            if monotonic() - self._turn_began > _TURN_SECONDS:
                await asyncio.sleep(0)
                self._turn_began = monotonic()

    def _screen(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Show each line to the observers and take out those that are no text."""
        for line in lines:
            if line:
                self._observers.saw("in", line)
                if is_utf8(line):
                    yield line
                else:
                    self._reject_text()

    def _advance(self, lines: Iterator[bytes]) -> Awaitable[None] | None:
        """Handle frames until one has to be awaited, and return that; None when all are done.

        This is the hot path: one call for many frames, nothing else for a plain notification.
        """
        on_notification, cancel = self._on_notification, self._cancel
        for line in lines:
            try:
                frame = decode_frame(line)
            except MALFORMED as error:
                step = self._reject(line, error)
            else:
                method = frame.method
                if method is None or frame.id is not UNSET or method == cancel:
                    step = self._accept(frame)
                else:
                    try:
                        params = frame.params
                        given = params if len(params) > 4 else _given(params)
                        step = on_notification(method, given)
                    except (Exception, asyncio.CancelledError) as error:
                        # Nothing was awaited, so a cancellation that comes out is not ours.
                        self._notification_failed(method, error)
                        continue
                    if step is not None:
                        step = self._finish_notification(method, step)
            if step is not None:
                return step
        return None

    def _accept(self, frame: Frame) -> Awaitable[None] | None:
        """Handle what is no plain notification."""
        if frame.method is None:
            return self._accept_response(frame)
        if frame.id is not UNSET:
            return self._start_request(frame.id, frame.method, _given(frame.params))
        self._cancel_request(frame.params)
        return None

    async def _finish_notification(self, method: str, waiting: Awaitable[None]) -> None:
        try:
            await waiting
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Something inside the handler was cancelled, not we: the link must not stop reading.
            self._notification_failed(method, error)
        except Exception as error:
            self._notification_failed(method, error)

    def _notification_failed(self, method: str, error: BaseException) -> None:
        if isinstance(error, MethodNotFoundError):
            self._counters.ignored += 1
            return
        self._counters.failed += 1
        log.error("handler of notification %r failed", method[:_SHOWN_TEXT], exc_info=error)

    def _start_request(
        self, id: RequestId, method: str, params: Raw | None
    ) -> Awaitable[None] | None:
        if id in self._in_flight:
            # The id is null: an error with this id would end the request that runs.
            problem = f"request id {id!r} is already in flight"
            self._outbox.put_from_reader(encode_error(None, INVALID_REQUEST, problem))
            return None
        if len(self._tasks) >= self._limits.max_in_flight:
            problem = f"too many requests: {self._limits.max_in_flight} are already in flight"
            self._outbox.put_from_reader(encode_error(id, INTERNAL_ERROR, problem))
            return None
        task = start_task(self._serve(id, method, params), name=f"request {method[:100]}")
        self._in_flight[id] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One turn of the loop, so that the handler has begun before the next message: a
        # notification that cancels a turn must find the turn.
        return asyncio.sleep(0)

    async def _serve(self, id: RequestId, method: str, params: Raw | None) -> None:
        context = RequestContext(id=id, method=method, peer=self._peer)
        try:
            line = encode_result(id, await self._on_request(method, params, context))
            if len(line) > self._limits.max_frame_bytes:
                raise FrameTooLargeError(len(line), self._limits.max_frame_bytes)
        except asyncio.CancelledError:
            if self._is_stopping:
                raise
            line = encode_error(id, REQUEST_CANCELLED, "the request was cancelled")
        except Exception as error:
            line = _error_answer(id, method, error)
        self._in_flight.pop(id, None)
        with suppress(LinkError):
            self._outbox.put(line)
            await self._outbox.room()

    def _cancel_request(self, params: Raw) -> None:
        try:
            id = _decode_cancel(params)
        except MALFORMED:
            self._counters.malformed += 1
            return
        task = self._in_flight.get(id.requestId)
        if task is not None:
            task.cancel()

    def _accept_response(self, frame: Frame) -> Awaitable[None] | None:
        if self._pending.resolve(frame):
            # One turn of the loop, so that the one who asked goes on before the next message:
            # who opened a session must know it before its first update.
            return asyncio.sleep(0)
        if not frame.result and not frame.error:
            self._counters.malformed += 1
            id = None if frame.id is UNSET else frame.id
            self._answer_error(id, INVALID_REQUEST, "the message has no method and no result")
        return None

    def _reject(self, line: bytes, error: Exception) -> Awaitable[None] | None:
        if not line.strip():
            return None
        mended = replace_surrogates(line)
        if mended is not None:
            return self._advance(iter((mended,)))
        self._counters.malformed += 1
        try:
            id, is_response = identify(line)
        except MALFORMED as problem:
            self._answer_error(None, PARSE_ERROR, f"invalid JSON: {problem}")
            return None
        if not is_response:
            self._answer_error(id, INVALID_REQUEST, f"invalid message: {error}")
        return None

    def _reject_text(self) -> None:
        self._counters.malformed += 1
        self._answer_error(None, PARSE_ERROR, "the frame is not UTF-8")

    def _answer_error(self, id: RequestId, code: int, message: str) -> None:
        log.debug("bad frame: %s", message)
        if self._answer_malformed:
            self._outbox.put_from_reader(encode_error(id, code, message[:_SHOWN_TEXT]))

    def _give_up_on_frame(self) -> None:
        problem = (
            f"a frame of the peer is longer than the limit of {self._limits.max_frame_bytes} "
            f"bytes (Limits.max_frame_bytes)"
        )
        self._counters.malformed += 1
        self._answer_error(None, INVALID_REQUEST, problem)
        raise LinkBrokenError(problem)


def _given(params: Raw) -> Raw | None:
    """Return None for params that are absent or null."""
    return params if params and params != _NULL else None


def _error_answer(id: RequestId, method: str, error: Exception) -> bytes:
    if isinstance(error, RpcError):
        return encode_error(id, error.code, error.message, error.data)
    if isinstance(error, msgspec.DecodeError):
        return encode_error(id, INVALID_PARAMS, f"invalid params: {error}")
    log.error("handler of request %r failed", method[:_SHOWN_TEXT], exc_info=error)
    shown = f"{type(error).__name__}: {error}".splitlines()[0][:_SHOWN_TEXT]
    return encode_error(id, INTERNAL_ERROR, f"internal error: {shown}")


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
        peer gets the ``cancel`` notification and its answer will be ignored.

        Raises:
            RpcError: the peer answered with an error.
            TimeoutError: no answer in time.
            LinkClosedError, LinkEndedError, LinkBrokenError: the link is over, or was before the
                answer came.
            LinkBusyError: too many requests wait, or this is called from a notification handler of
                the same peer, where the answer could never be read.
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
        """Send the peer a notification.

        Returns at once while the peer keeps up, and otherwise waits until it has read. Cancelled
        while it waits, the notification is sent all the same.

        Raises:
            LinkClosedError, LinkEndedError, LinkBrokenError: the link is over.
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
        """Take the link down, in the one order in which no part waits for another."""
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
