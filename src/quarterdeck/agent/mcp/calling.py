"""Calls that are under way with one server: their time, their progress, their questions."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import msgspec

from quarterdeck.wire.events import QuestionAnswered

from .protocol import Progress

__all__ = ["Caller", "Calls"]

_MOST_FORM = 50_000
"""Bytes of a form."""
_MOST_WORDS = 4000
_LONGEST = 3600.0
"""Seconds that a call may take, whatever progress it tells."""


class Caller(Protocol):
    """Who makes a call."""

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered:
        """Ask the person."""
        ...

    def progressed(self, progress: Progress) -> None:
        """Hear how far the call has come; must be quick."""
        ...


@dataclass(slots=True)
class _Running:
    caller: Caller
    bound: asyncio.Timeout
    seconds: float
    last: float
    """The loop's time at which it ends whatever happens."""
    questions: int = 0
    asking: "set[asyncio.Future[QuestionAnswered]]" = field(
        default_factory=set["asyncio.Future[QuestionAnswered]"]
    )
    is_over: bool = False

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered | None:
        """Ask the person; None: the call ended before there was an answer."""
        asking = asyncio.ensure_future(self.caller.ask(text, form))
        self.asking.add(asking)
        try:
            await asyncio.wait([asking])
        finally:
            self.asking.discard(asking)
            await _dropped((asking,))
        return None if asking.cancelled() else asking.result()

    async def end(self) -> None:
        """Nobody waits for the call any more: take its questions back."""
        self.is_over = True
        await _dropped(tuple(self.asking))

    def pause(self) -> None:
        """Count no more until it is renewed as often."""
        self.questions += 1
        self._until(None)

    def go_on(self) -> None:
        """Take a pause back."""
        self.questions -= 1
        self.renew()

    def renew(self) -> None:
        """Begin to count anew, unless a person is being asked."""
        if not self.questions:
            now = asyncio.get_running_loop().time()
            self._until(min(now + self.seconds, self.last))

    def _until(self, when: float | None) -> None:
        if not (self.is_over or self.bound.expired()):
            self.bound.reschedule(when)


class Calls:
    """The calls under way with one server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._running: dict[str, _Running] = {}

    @asynccontextmanager
    async def timed(self, caller: Caller, token: str, seconds: float) -> AsyncGenerator[str]:
        """Bound a call by seconds without progress. Raises TimeoutError."""
        async with asyncio.timeout(seconds) as bound:
            last = asyncio.get_running_loop().time() + max(_LONGEST, seconds)
            running = self._running[token] = _Running(caller, bound, seconds, last)
            try:
                yield token
            finally:
                del self._running[token]
                await running.end()

    def progressed(self, progress: Progress) -> None:
        """Hand progress to the call that it is of; of none that runs: nothing happens."""
        running = self._running.get(str(progress.progress_token))
        if running is not None:
            running.renew()
            running.caller.progressed(progress)

    async def elicit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the person for the server; declined where no call runs that it can be about."""
        text, form = params.get("message"), params.get("requestedSchema")
        running = next(reversed(self._running.values()), None)
        if running is None or params.get("mode", "form") != "form" or not _is_form(form):
            return {"action": "decline"}
        words = f"The MCP server {self._server!r} asks: {str(text)[:_MOST_WORDS]}"
        with self._paused():
            answered = await running.ask(words, cast("dict[str, Any]", form))
        if answered is None:
            return {"action": "cancel"}
        if answered.action != "accept":
            return {"action": answered.action}
        return {"action": "accept", "content": answered.content or {}}

    @contextmanager
    def _paused(self) -> Generator[None]:
        """Stop the time of every call: which of them the question is about is not said."""
        paused = tuple(self._running.values())
        for running in paused:
            running.pause()
        try:
            yield
        finally:
            for running in paused:
                running.go_on()


async def _dropped(asking: "tuple[asyncio.Future[QuestionAnswered], ...]") -> None:
    """Cancel questions and wait until they are taken back."""
    left = [each for each in asking if not each.done()]
    for each in left:
        each.cancel()
    if left:
        await asyncio.wait(left)


def _is_form(form: Any) -> bool:
    if not isinstance(form, dict):
        return False
    properties = cast("dict[str, Any]", form).get("properties")
    return isinstance(properties, dict) and len(msgspec.json.encode(form)) <= _MOST_FORM
