"""Calls by the key that the caller gave them: the same key again is the same call.

A phone that lost its network asks again and gets the first answer, also from the server after a
restart: what is begun is noted in a private file before it is done, and its answer after. A call
that was begun by a server that then ended is never made again; its caller learns that it is not
known what became of it.
"""

import asyncio
import hashlib
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from starlette.responses import Response

from quarterdeck.config.errors import UnusablePlaceError
from quarterdeck.config.places import Places, make_private
from quarterdeck.wire.clock import WallClock, read_wall_clock
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.private_files import open_private, write_private
from quarterdeck.wire.tasks import BackgroundTasks
from quarterdeck.wire.values import Value

from .errors import CallKeyError, UnknownOutcomeError

__all__ = ["CallFile", "NotedCall", "RememberedCalls"]

_KEPT = 3_600 * 1_000_000
"""Microseconds for which a key counts."""
_MOST = 2_000
_LONGEST_ANSWER = 100_000
_MOST_BYTES = 8_000_000
"""The file is written anew when it is longer: without what is too old, and no longer than half."""
_MOST_KEYS = 10_000
"""That the file keeps when it is written anew; the newest."""

log = logging.getLogger(__name__)


class NotedCall(Value, frozen=True, kw_only=True):
    """A line of the file. Of one key, the later line counts."""

    device: str
    key: str
    digest: str
    """Of what was sent."""
    time: int
    """When it was begun; microseconds since the epoch."""
    status: int = 0
    """Of the answer; 0: there is none yet."""
    answer: str | None = None
    """None: it was too long to be kept."""


class CallFile:
    """The file of noted calls. Every method blocks on files: call it in a thread."""

    def __init__(self, path: Path, clock: WallClock = read_wall_clock) -> None:
        self._path = path
        self._clock = clock
        self._size = 0

    @classmethod
    def of(cls, places: Places) -> "CallFile":
        """That of a home."""
        return cls(places.state / "web" / "calls.jsonl")

    def load(self) -> dict[tuple[str, str], NotedCall]:
        """What still counts; the file is left with that alone. A line that is no call is dropped:
        the last may be cut.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        found: dict[tuple[str, str], NotedCall] = {}
        oldest = self._clock() - _KEPT
        for line in data.splitlines():
            try:
                call = decode_json(line, NotedCall)
            except msgspec.DecodeError:
                continue
            if call.time >= oldest:
                found[call.device, call.key] = call
        found = dict(list(found.items())[-_MOST_KEYS:])
        text = _write_lines(found.values())
        if len(text) > _MOST_BYTES // 2:  # what was done is still not done again
            answerless = (msgspec.structs.replace(one, answer=None) for one in found.values())
            text = _write_lines(answerless)
        write_private(self._path, text)
        self._size = len(text)
        return found

    def note(self, call: NotedCall) -> None:
        """Add a line. Raises OSError, UnusablePlaceError."""
        line = msgspec.json.encode(call) + b"\n"
        if self._size + len(line) > _MOST_BYTES:
            self.load()
        make_private(self._path.parent)
        file = open_private(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line)
        finally:
            os.close(file)
        self._size += len(line)


class RememberedCalls:
    """Makes each call once. A call goes on when its caller is gone."""

    def __init__(self, file: CallFile, clock: WallClock = read_wall_clock) -> None:
        self._file = file
        self._clock = clock
        self._tasks = BackgroundTasks()
        self._calls: OrderedDict[tuple[str, str], tuple[str, asyncio.Task[Response]]]
        self._calls = OrderedDict()
        self._earlier: dict[tuple[str, str], NotedCall] | None = None
        """Of servers before this one; None: not read yet."""
        self._lock = asyncio.Lock()

    async def run(
        self, device: str, key: str, body: bytes, call: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The answer to a call that is made at most once for each key.

        Raises:
            CallKeyError: the key was used for something else.
            UnknownOutcomeError: a server before this one began it, and ended.
        """
        digest = hashlib.sha256(body).hexdigest()
        async with self._lock:
            if self._earlier is None:
                self._earlier = await self._load()
        earlier = self._earlier.get((device, key))
        if earlier is not None and self._clock() - earlier.time < _KEPT:
            return _answer_again(earlier, digest)
        known, task = self._calls.get((device, key), (digest, None))
        if known != digest:
            raise CallKeyError
        if task is None:
            noted = NotedCall(device=device, key=key, digest=digest, time=self._clock())
            task = self._tasks.start(self._make(noted, call), name="web: call")
            self._calls[device, key] = digest, task
            while len(self._calls) > _MOST:
                self._calls.popitem(last=False)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End what runs."""
        await self._tasks.close(grace=2.0)

    async def _make(self, noted: NotedCall, call: Callable[[], Awaitable[Response]]) -> Response:
        await self._note(noted)
        response = await call()
        body = bytes(response.body)
        answer = body.decode() if len(body) <= _LONGEST_ANSWER else None
        status = response.status_code
        await self._note(msgspec.structs.replace(noted, status=status, answer=answer))
        return response

    async def _load(self) -> dict[tuple[str, str], NotedCall]:
        try:
            return await asyncio.to_thread(self._file.load)
        except OSError as error:
            log.warning("keys of earlier calls cannot be read: %s", error)
            return {}

    async def _note(self, call: NotedCall) -> None:
        """Note it; on a full disk keys count for this server alone."""
        try:
            async with self._lock:
                await asyncio.to_thread(self._file.note, call)
        except (OSError, UnusablePlaceError) as error:
            log.warning("the key of a call cannot be noted: %s", error)


def _write_lines(calls: Iterable[NotedCall]) -> str:
    return "".join(msgspec.json.encode(one).decode() + "\n" for one in calls)


def _answer_again(call: NotedCall, digest: str) -> Response:
    if call.digest != digest:
        raise CallKeyError
    if call.status == 0 or call.answer is None:
        raise UnknownOutcomeError(is_done=call.status != 0)
    headers: Any = {"cache-control": "no-store"}
    return Response(call.answer, call.status, headers=headers, media_type="application/json")
