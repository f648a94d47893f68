"""An agent of any make in a few lines, for programs.

::

    async with quarterdeck.connect("claude", cwd="/work/project") as agent:
        async for event in agent.prompt("Why does the build fail?"):
            print(event)
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from quarterdeck.policy.gate import Answer, Gate
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.events import Event, MessageChunk, PermissionAsked, TurnEnded
from quarterdeck.wire.ids import new_session_id
from quarterdeck.wire.permissions import (
    Cancelled,
    Decider,
    PermissionOption,
    Selected,
    option_of_kind,
)
from quarterdeck.wire.record import Record

from .connecting import open_session
from .driver import Capabilities, Opening, Session
from .stream import EventStream, Gap

__all__ = ["ConnectedAgent", "Decide", "connect"]

Decide: TypeAlias = Callable[[PermissionAsked], Awaitable[str] | str]
"""Decides a permission request: an option's id, or one of its kinds such as ``allow_once``."""

_NONE = ""
"""No option has this id."""


class ConnectedAgent:
    """A session with an agent. Made by ``connect``."""

    def __init__(self, session: Session, stream: EventStream) -> None:
        self.session = session
        self._stream = stream

    @property
    def capabilities(self) -> Capabilities:
        """What this agent can do."""
        return self.session.capabilities

    async def prompt(self, prompt: str | tuple[ContentBlock, ...]) -> AsyncGenerator[Event]:
        """Run a turn and give its events; the last one is ``TurnEnded``.

        The agent is held back while nobody takes the next event. A loop that is left early, by
        ``aclosing``, interrupts the turn.

        Raises:
            Unsupported: the agent takes no such content.
            Closed, Ended, Broken: the session is over.
        """
        content = (text(prompt),) if isinstance(prompt, str) else prompt
        after = self._stream.last
        turn = asyncio.ensure_future(self.session.prompt(content))
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
        """Run a turn and give back what the agent said, joined."""
        said: list[str] = []
        async for event in self.prompt(prompt):
            match event:
                case MessageChunk(role="agent", content=TextContent(text=words)):
                    said.append(words)
                case _:
                    pass
        return "".join(said)

    def answer(self, asked: PermissionAsked, choice: str, *, feedback: str | None = None) -> bool:
        """Answer a request by an option's id or kind; False if it is no longer open.

        A choice that was not offered cancels the request.
        """
        option = _chosen(asked.options, choice)
        outcome = Selected(option_id=option) if option is not None else Cancelled()
        by = Decider(kind="person", name="program")
        answer = Answer(outcome=outcome, by=by, feedback=feedback)
        return self.session.answer(asked.request, answer)

    def events(self, after: int = 0) -> AsyncIterator[Record | Gap]:
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
    are the fields of ``Opening``: ``model``, ``mode``, ``resume``, ``environment`` and so on.

    Raises:
        UnknownAgent: there is no such agent.
        OpenFailed, Unsupported: it did not start, or cannot do what was asked.
    """
    opening = Opening(cwd=os.fspath(cwd), **options)
    opening = replace(opening, cwd=await asyncio.to_thread(_absolute, cwd))
    id_ = new_session_id()
    stream = EventStream(id_)
    session = await open_session(
        agent, opening, stream, gate=gate, session_id=id_, transport=transport
    )
    connected = ConnectedAgent(session, stream)
    deciding = asyncio.create_task(_decide(connected, decide)) if decide is not None else None
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
