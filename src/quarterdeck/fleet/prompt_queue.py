"""The prompts that wait, of every agent: in the log, in order, editable until they are taken.

The queue itself is in the log and in ``LiveIndex``; here is who may change it when. A prompt that
has been taken can no longer be changed, and one that is being changed is not taken meanwhile.
"""

import asyncio
from collections import defaultdict

from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.events import Event, PromptDropped, PromptQueued
from quarterdeck.wire.ids import MessageId, SessionId, new_message_id

from .api import QueuedPrompt
from .errors import FleetLimitError
from .live_index import LiveIndex, LogWriter

__all__ = ["PromptQueues", "make_queued_event"]


class PromptQueues:
    """The queues of a fleet."""

    def __init__(self, current: LiveIndex, notes: LogWriter, *, most: int) -> None:
        self._current = current
        self._notes = notes
        self._most = most
        self._locks: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._taken: dict[SessionId, MessageId] = {}

    async def add(self, session: SessionId, queued: QueuedPrompt) -> None:
        """Put a prompt behind the others; durable when this returns. Raises FleetLimitError."""
        if len(self._current.get(session).queue) >= self._most:
            name = self._current.get(session).name
            raise FleetLimitError(
                f"{self._most} prompts are already queued for {name!r}; drop some first"
            )
        await self._notes.note(session, make_queued_event(queued))

    async def edit(
        self, session: SessionId, message: MessageId, content: tuple[ContentBlock, ...] | None
    ) -> bool:
        """Change the words of a prompt that waits, or drop it; False if it waits no more."""
        async with self._locks[session]:
            if message not in self._waiting(session):
                return False
            event: Event = PromptDropped(message=message)
            if content is not None:
                was = self._current.words(message)
                event = PromptQueued(
                    message=message, content=content, origin=was.origin, sender=was.sender
                )
            await self._notes.note(session, event)
            return True

    async def drop(self, session: SessionId, reason: str) -> None:
        """Drop every prompt that waits."""
        async with self._locks[session]:
            waiting = self._waiting(session)
            if waiting:
                gone = (PromptDropped(message=one, reason=reason) for one in waiting)
                await self._notes.note(session, *gone)

    async def wait(self, session: SessionId) -> None:
        """Wait until there is a prompt to take."""
        await self._current.until(lambda: bool(self._waiting(session)), session)

    async def take(self, session: SessionId) -> QueuedPrompt:
        """Wait for the next prompt; until ``release`` it is no one else's."""
        while True:
            await self._current.until(lambda: bool(self._waiting(session)), session)
            async with self._locks[session]:
                if waiting := self._waiting(session):
                    self._taken[session] = waiting[0]
                    return self._current.words(waiting[0])

    async def release(self, session: SessionId, reason: str | None) -> None:
        """Be done with the prompt that was taken.

        ``reason``: why it was not sent, if it was not; it is dropped. None: it may be sent later.
        """
        message = self._taken[session]
        try:
            if reason is not None:
                await self._notes.settled()
                entry = self._current.get(session)
                left = entry.accepted == message or any(q.message == message for q in entry.queue)
                if left:
                    await self._notes.note(session, PromptDropped(message=message, reason=reason))
        finally:
            del self._taken[session]

    def _waiting(self, session: SessionId) -> list[MessageId]:
        taken = self._taken.get(session)
        queue = self._current.get(session).queue
        return [one.message for one in queue if one.message != taken]


def make_queued_event(queued: QueuedPrompt) -> PromptQueued:
    """The event that puts a prompt into the queue."""
    return PromptQueued(
        message=queued.message or new_message_id(),
        content=queued.content,
        origin=queued.origin,
        sender=queued.sender,
    )
