"""A headless run of another agent: its session over a driver, kept in a log like our own."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace as copy
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from quarterdeck.agent.recovery import closing_events
from quarterdeck.agent.session_store import SessionStore
from quarterdeck.config.places import Places
from quarterdeck.drivers.agent_description import Agent
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.driver import DriverSession, DriverSessionOptions
from quarterdeck.drivers.open_session import open_session
from quarterdeck.fleet.permissions.session_gate import make_gate
from quarterdeck.journal import Journal
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.event_text import describe_content
from quarterdeck.wire.events import (
    Event,
    PermissionViolated,
    SessionChanged,
    SessionOpened,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId, new_session_id
from quarterdeck.wire.session_options import SessionOptions

from .past_session import find_past

if TYPE_CHECKING:
    from quarterdeck.fleet.cassette.tape import CassetteTape

__all__ = ["ForeignSession", "open_foreign"]


class ForeignSession:
    """A session of another agent with its log. Made by ``open_foreign``."""

    def __init__(
        self, id_: SessionId, journal: Journal, gate: Gate, tape: "CassetteTape | None" = None
    ) -> None:
        self.id = id_
        self.journal = journal
        self.gate = gate
        self.last_seq = 0
        self.model: str | None = None
        self.violations = 0
        self._tape = tape
        self._session: DriverSession

    async def sink(
        self, event: Event, *, turn: TurnId | None = None, parent: ToolCallId | None = None
    ) -> None:
        """Write an event down."""
        match event:
            case SessionOpened(model=str(model)):
                self.model = model
            case SessionChanged(model=model) if model is not UNSET:
                self.model = model if isinstance(model, str) else None
            case PermissionViolated():
                self.violations += 1
            case _:
                pass
        record = await self.journal.append(self.id, event, turn=turn, parent=parent)
        self.last_seq = record.seq

    def use(self, session: DriverSession) -> None:
        """Talk with this one."""
        self._session = session

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnEnded:
        """Run a turn."""
        if self._tape is not None:
            await self._tape.add_prompt("\n".join(map(describe_content, content)))
        ended = await self._session.prompt(content)
        await self.journal.durable(self.last_seq)
        return ended

    async def cancel(self) -> None:
        """End the running turn."""
        await self._session.interrupt()


@asynccontextmanager
async def open_foreign(
    options: SessionOptions, tape: "CassetteTape | None" = None
) -> AsyncGenerator[ForeignSession]:
    """Open a session with another agent, new or gone on with; leaving ends it.

    ``tape``: its model calls are recorded, or answered from a recording.

    Raises:
        CassetteError: the agent cannot be led to the tape, or the tape cannot be written.
        UnknownAgentError, OpenFailedError, UnsupportedError: why it cannot be.
        NoSuchSessionError, SessionInFleetError: there is none to go on with, or the host has it.
    """
    places, environment = Places.find(), dict(os.environ)
    agent = await asyncio.to_thread(find_agent, options.agent, places)
    store = SessionStore(places.state / "sessions")
    async with AsyncExitStack() as stack:
        known = theirs = None
        if options.resume is not None:
            past = await find_past(places, environment, options, agent.name)
            known, theirs = past.id, past.agent_session
        is_going_on = known is not None and not options.fork
        id_ = known if known is not None and not options.fork else new_session_id()
        log = await store.open(id_) if is_going_on else store.create(id_)
        journal = await stack.enter_async_context(log)
        if is_going_on:
            await _close_what_was_open(journal, id_)
        gate, around = await make_gate(
            places,
            environment,
            options.cwd,
            mode=parse_mode(options.mode) if options.mode is not None else None,
            allow=options.allow,
            deny=options.deny,
            roots=options.roots,
            session=id_,
            agent=agent.name,
            attended=False,
        )
        session = ForeignSession(id_, journal, gate, tape)
        theirs_is_copied = options.fork and theirs is not None
        opening = DriverSessionOptions(
            options=replace(options, mode=gate.mode, resume=theirs, fork=theirs_is_copied)
        )
        if tape is not None:
            opening = await _lead_to(tape, session, agent, options, opening, environment, stack)
        opened = await open_session(
            agent,
            opening,
            session.sink,
            gate=gate,
            around=around,
            session_id=id_,
            is_known=is_going_on,
            transport=options.transport,
        )
        session.use(opened)
        stack.push_async_callback(opened.close)
        yield session
        if tape is not None:
            await tape.settle()


async def _lead_to(
    tape: "CassetteTape",
    session: ForeignSession,
    agent: Agent,
    options: SessionOptions,
    opening: DriverSessionOptions,
    environment: Mapping[str, str],
    stack: AsyncExitStack,
) -> DriverSessionOptions:
    """Point the agent at a tape, and finish the tape once the agent has ended in order."""

    async def finish(
        kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is None:
            records = [record async for record in session.journal.history(session=session.id)]
            await tape.finish(session.id, records)

    route = await stack.enter_async_context(tape.lead(agent, options, environment))
    stack.push_async_exit(finish)
    variables = {**opening.options.variables, **route.environment}
    opening = opening.with_options(environment=variables)
    return copy(opening, arguments=(*opening.arguments, *route.arguments))


async def _close_what_was_open(journal: Journal, id_: SessionId) -> None:
    """Write the ends that a killed process left out."""
    records = [record async for record in journal.history(session=id_)]
    for turn, event in closing_events(records):
        await journal.append(id_, event, turn=turn)
    with suppress(IndexError):
        await journal.durable(journal.last)
