"""Our own requests that wait for an answer."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from quarterdeck.wire.errors import Busy, LinkError, RpcError
from quarterdeck.wire.rpc.codes import INTERNAL_ERROR
from quarterdeck.wire.rpc.frames import ErrorBody, Frame

if TYPE_CHECKING:
    from quarterdeck.wire.rpc.handler import Counters

__all__ = ["PendingRequests"]

_NULL = Raw(b"null")
_decode_error = msgspec.json.Decoder(ErrorBody).decode


class PendingRequests:
    """Ids of ours, each with the future of its answer.

    A future always gets a value (the response, or how the link ended): an exception set on a
    future whose waiter was cancelled in the same moment would be reported as lost.
    """

    def __init__(self, limit: int, counters: Counters) -> None:
        self._limit = limit
        self._counters = counters
        self._last = 0
        self._futures: dict[object, asyncio.Future[Frame | LinkError]] = {}

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._futures)

    def open(self) -> tuple[int, asyncio.Future[Frame | LinkError]]:
        """Take the next id.

        Raises:
            Busy: as many requests as the limit allows already wait.
        """
        if len(self._futures) >= self._limit:
            raise Busy(
                f"{self._limit} requests already wait for an answer (Limits.max_pending); "
                f"wait for some of them"
            )
        self._last += 1
        future: asyncio.Future[Frame | LinkError] = asyncio.get_running_loop().create_future()
        self._futures[self._last] = future
        return self._last, future

    def forget(self, id: int) -> None:
        """Give an id up; its answer will be late."""
        self._futures.pop(id, None)

    def resolve(self, frame: Frame) -> bool:
        """Deliver a response; False, and counted, if nobody waits for it."""
        future = self._futures.pop(frame.id, None)
        if future is not None and not future.done():
            future.set_result(frame)
            return True
        if isinstance(frame.id, int) and 0 < frame.id <= self._last:
            self._counters.late += 1
        else:
            self._counters.unasked += 1
        return False

    def fail(self, ending: LinkError) -> None:
        """Let every waiting request raise this."""
        futures, self._futures = self._futures, {}
        for future in futures.values():
            if not future.done():
                future.set_result(ending)

    @staticmethod
    def unwrap(outcome: Frame | LinkError) -> Raw:
        """Return the result in an answer, or raise what it stands for."""
        if isinstance(outcome, LinkError):
            raise copy(outcome)
        error = outcome.error
        if not error or error == _NULL:
            # No member at all is what JavaScript makes of a result that is undefined.
            return outcome.result or _NULL
        try:
            body = _decode_error(error)
        except (msgspec.DecodeError, RecursionError) as problem:
            raise RpcError(
                INTERNAL_ERROR, f"the peer answered with an error that cannot be read: {problem}"
            ) from None
        data = None if body.data is msgspec.UNSET else body.data
        raise RpcError(body.code, body.message, data)
