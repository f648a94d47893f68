"""The API for programs: a session with an agent of any vendor in a few lines.

::

async with quarterdeck.connect("claude", cwd="/work/project") as agent: async for event in
agent.prompt("Why does the build fail?"): print(event)

``EventStream`` gives the events of one session to any number of listeners, without a log.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from quarterdeck.policy.gate import Gate, PermissionAnswer
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.events import Event, MessageChunk, PermissionAsked, SessionEnded, TurnEnded
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId, new_session_id
from quarterdeck.wire.permissions import (
    Cancelled,
    Decider,
    PermissionOption,
    Selected,
    option_of_kind,
)
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import start_task

from .driver import Capabilities, DriverSession, DriverSessionOptions
from .open_session import open_session

__all__ = ["ConnectedAgent", "Decide", "EventStream", "StreamGap", "connect"]

E = TypeVar("E", bound=Event)

_AHEAD = 1000
"""Events that a session may be ahead of a listener that holds it back."""


@dataclass(frozen=True, slots=True)
class StreamGap:
    """Records that are no longer kept."""

    count: int
    """How many."""


class EventStream:
    """A sink that numbers events and lets listeners follow them."""

    def __init__(self, session: SessionId, *, capacity: int = 10_000) -> None:
        self._session = session
        self._kept: deque[Record] = deque(maxlen=capacity)
        self._changed = asyncio.Event()
        self._moved = asyncio.Event()
        self._holding: dict[object, int] = {}
        """Where each listener is that holds the session back."""
        self.last = 0
        """The sequence number of the newest record."""
        self.is_over = False
        """The session's last event is here."""

    async def __call__(
        self, event: Event, *, turn: TurnId | None = None, parent: ToolCallId | None = None
    ) -> None:
        """Take one event, in its place."""
        while self._holding and min(self._holding.values()) <= self.last - _AHEAD:
            await self._moved.wait()
        self.last += 1
        record = Record(
            seq=self.last,
            time=read_wall_clock(),
            session=self._session,
            turn=turn,
            parent=parent,
            event=event,
        )
        self._kept.append(record)
        self.is_over = isinstance(event, SessionEnded)
        self.wake()

    def last_of(self, kind: type[E]) -> E | None:
        """The newest event of a kind that is still kept."""
        found = (one.event for one in reversed(self._kept) if isinstance(one.event, kind))
        return next(found, None)

    def wake(self) -> None:
        """Let every listener look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(
        self, after: int = 0, *, until: "asyncio.Future[Any] | None" = None, holds: bool = False
    ) -> AsyncGenerator[Record | StreamGap]:
        """Every record after ``after``, until the session is over; a gap where some are missing.

        ``until``: or until this is done and all is read; ``wake`` must be called then. ``holds``:
        the session waits for this listener when it is far behind; close the generator.
        """
        me = object()
        try:
            while True:
                if holds:
                    self._holding[me] = after
                    self._moved.set()
                    self._moved = asyncio.Event()
                changed = self._changed
                first = self.last - len(self._kept) + 1
                if after + 1 < first:
                    missing, after = first - after - 1, first - 1
                    yield StreamGap(missing)
                elif after < self.last:
                    record = self._kept[after - self.last]
                    after = record.seq
                    yield record
                elif self.is_over or (until is not None and until.done()):
                    return
                else:
                    await changed.wait()
        finally:
            self._holding.pop(me, None)
            self._moved.set()
            self._moved = asyncio.Event()


Decide: TypeAlias = Callable[[PermissionAsked], Awaitable[str] | str]
"""Decides a permission request: an option's id, or one of its kinds such as ``allow_once``."""

_NONE = ""
"""No option has this id."""


class ConnectedAgent:
    """A session with an agent. Made by ``connect``."""

    def __init__(self, session: DriverSession, stream: EventStream) -> None:
        self.session = session
        self._stream = stream

    @property
    def capabilities(self) -> Capabilities:
        """What this agent can do."""
        return self.session.capabilities

    async def prompt(self, prompt: str | tuple[ContentBlock, ...]) -> AsyncGenerator[Event]:
        """Run a turn and give its events; the last one is ``TurnEnded``.

        The agent is held back until the next event is taken. A loop that is left early, by
        ``aclosing``, interrupts the turn.

        Raises:
            UnsupportedError: the agent takes no such content.
            LinkClosedError, LinkEndedError, LinkBrokenError: the session is over.
        """
        content = (text(prompt),) if isinstance(prompt, str) else prompt
        after = self._stream.last
        turn = start_task(self.session.prompt(content), name="turn")
        turn.add_done_callback(lambda _: self._stream.wake())
        try:
            records = self._stream.follow(after, until=turn, holds=True)
            async with aclosing(records):
                async for record in records:
                    if isinstance(record, Record) and record.turn is not None:
                        yield record.event
            await turn
        finally:
            if not turn.done():
                turn.cancel()
                with suppress(asyncio.CancelledError):
                    await turn

    async def ask(self, prompt: str) -> str:
        """Run a turn and return the agent's messages, joined."""
        texts: list[str] = []
        async for event in self.prompt(prompt):
            match event:
                case MessageChunk(role="agent", content=TextContent(text=words)):
                    texts.append(words)
                case _:
                    pass
        return "".join(texts)

    def answer(self, asked: PermissionAsked, choice: str, *, feedback: str | None = None) -> bool:
        """Answer a request by an option's id or kind; False if it is no longer open.

        A choice that was not offered cancels the request.
        """
        option = _chosen(asked.options, choice)
        outcome = Selected(option_id=option) if option is not None else Cancelled()
        by = Decider(kind="person", name="program")
        answer = PermissionAnswer(outcome=outcome, by=by, feedback=feedback)
        return self.session.answer(asked.request, answer)

    def events(self, after: int = 0) -> AsyncIterator[Record | StreamGap]:
        """Everything from the session's start on, in its place, until the session is over."""
        return self._stream.follow(after)

    async def interrupt(self) -> None:
        """End the running turn."""
        await self.session.interrupt()

    @property
    def last_turn(self) -> TurnEnded | None:
        """How the last turn ended, as far as it is still kept."""
        return self._stream.last_of(TurnEnded)


@asynccontextmanager
async def connect(
    agent: str,
    *,
    cwd: str | os.PathLike[str] = ".",
    transport: str | None = None,
    decide: Decide | None = None,
    gate: Gate | None = None,
    **options: Any,
) -> AsyncGenerator[ConnectedAgent]:
    """Open a session with an agent; leaving ends it and every process of it.

    ``decide`` answers permission requests that no rule decides. Without it they come as
    ``PermissionAsked`` events, to be answered with ``ConnectedAgent.answer``. Further ``options``
    are the fields of ``SessionOptions`` and ``DriverSessionOptions``: ``model``, ``mode``,
    ``resume``, ``environment`` and so on.

    Raises:
        UnknownAgentError: there is no such agent.
        OpenFailedError, UnsupportedError: it did not start, or cannot do what was asked.
    """
    opening = DriverSessionOptions.of(
        agent=agent, cwd=await asyncio.to_thread(_absolute, cwd), transport=transport, **options
    )
    id_ = new_session_id()
    stream = EventStream(id_)
    session = await open_session(
        agent, opening, stream, gate=gate, session_id=id_, transport=transport
    )
    connected = ConnectedAgent(session, stream)
    deciding = None
    if decide is not None:
        deciding = start_task(_decide(connected, decide), name="decide permission requests")
    try:
        yield connected
    finally:
        await session.close()
        if deciding is not None:
            await deciding


async def _decide(agent: ConnectedAgent, decide: Decide) -> None:
    """Answer each request as it comes, until the session is over.

    A decision that raises refuses its own call and no other; what it raised is raised in the end.
    """
    failures: list[Exception] = []

    async def decide_one(asked: PermissionAsked) -> None:
        try:
            chosen = decide(asked)
            choice = chosen if isinstance(chosen, str) else await chosen
        except Exception as error:
            failures.append(error)
            choice = _NONE
        agent.answer(asked, choice)

    async with asyncio.TaskGroup() as group:
        async for record in agent.events():
            if isinstance(record, Record) and isinstance(record.event, PermissionAsked):
                group.create_task(decide_one(record.event))
    if failures:
        raise failures[0]


def _chosen(options: tuple[PermissionOption, ...], choice: str) -> str | None:
    by_id = (option.option_id for option in options if option.option_id == choice)
    return next(by_id, None) or option_of_kind(options, choice)


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())
