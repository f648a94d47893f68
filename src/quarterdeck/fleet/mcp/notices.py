"""Telling an agent that leads when one of its own is done, if it wanted that and does not wait.

A notice is a prompt: it wakes a lead that rests, and waits for one that works. It is never told
what it knows: a result that ``wait_for`` has given, or an end that it has brought about itself.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quarterdeck.journal import JournalClosed
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import SessionId

from ..entry import Entry
from ..errors import NoSuchAgent
from .telling import line
from .transcript import last_words
from .words import NOT_A_PERSON, from_agent

if TYPE_CHECKING:
    from .seat import Seat

__all__ = ["Notices", "is_done", "is_notice"]

log = logging.getLogger(__name__)

_LAST_WORDS = 2_000
_FRAME = re.compile(r'^<message-from-agent name="[^"]*" kind="done">$', re.MULTILINE)


def is_done(entry: Entry) -> bool:
    """Whether an agent has come to the end of what it was given."""
    if not entry.is_started:
        return True
    return entry.state in ("idle", "interrupted", "failed") and not entry.queue


def is_notice(words: str) -> bool:
    """Whether a prompt is one of ours; no agent can write such a frame itself."""
    return _FRAME.search(words) is not None


class Notices:
    """Who is watched for whom; ``close`` it."""

    def __init__(self) -> None:
        self._watching: dict[SessionId, asyncio.Task[None]] = {}
        self._awaited: Counter[SessionId] = Counter()
        self._known: dict[SessionId, int] = {}
        """The record up to which a lead knows how its agent stands."""

    def watch(self, seat: "Seat", child: SessionId) -> None:
        """Tell the agent of this seat whenever the child is done, until the child has ended."""
        task = asyncio.create_task(self._watch(seat, child), name=f"notices of {child}")
        self._watching[child] = task
        task.add_done_callback(lambda _: self._forget(child))

    @contextmanager
    def awaited(self, children: Iterable[SessionId]) -> Generator[None]:
        """No notices of these: what becomes of them is the result of a call."""
        ids = tuple(children)
        self._awaited.update(ids)
        try:
            yield
        finally:
            self._awaited.subtract(ids)

    def known(self, entry: Entry) -> None:
        """The lead has been told how this agent stands now."""
        if entry.session in self._watching:
            self._known[entry.session] = entry.last_seq

    async def close(self) -> None:
        """Watch nobody any more."""
        tasks = tuple(self._watching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, seat: "Seat", child: SessionId) -> None:
        current = seat.bridge.current
        try:
            while True:
                await current.until(lambda: is_done(current.get(child)), child)
                await self._tell(seat, current.get(child))
                if not current.get(child).is_started:
                    return
                await current.until(lambda: not is_done(current.get(child)), child)
        except (NoSuchAgent, JournalClosed):
            return  # deleted, or the fleet ends
        except QuarterdeckError as error:
            log.info("%s is not told about %s any more: %s", seat.session, child, error)

    async def _tell(self, seat: "Seat", entry: Entry) -> None:
        child = entry.session
        if self._awaited[child] or self._known.get(child) == entry.last_seq:
            return
        info = await seat.fleet.agent(child)
        words = await last_words(seat.fleet, child, _LAST_WORDS)
        told = from_agent(info.name, "done", "\n".join(filter(None, (line(info, None), words))))
        if self._awaited[child] or self._known.get(child) == entry.last_seq:
            return  # meanwhile
        content = (text(f"{NOT_A_PERSON}\n\n{told}"),)
        await seat.fleet.send(seat.session, content, origin="agent", sender=child)

    def _forget(self, child: SessionId) -> None:
        self._watching.pop(child, None)
        self._known.pop(child, None)
        self._awaited.pop(child, None)
