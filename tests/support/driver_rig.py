"""Driving a session of any agent in a test: the rig says which, ``drive`` opens it and listens."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.link import AgentLink
from quarterdeck.drivers.open_session import start_session
from quarterdeck.drivers.session import LinkSession
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate, PermissionAnswer
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import Event, MessageChunk, PermissionAsked, TurnEnded
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId, new_session_id
from quarterdeck.wire.permissions import Decider, Selected
from tests.support.deadlines import SOON

__all__ = ["Driven", "Heard", "Rig", "drive"]

E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """One agent over one transport, for the conformance suite: a fake that speaks its language.

    Prompts are the fake's commands, the same for all: ``docs/fake-agent.md``.
    """

    name: str
    make: Callable[[], AgentLink]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Heard:
    """An event in its place."""

    event: Event
    turn: TurnId | None
    parent: ToolCallId | None


class Driven:
    """A session with everything it said."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.session: LinkSession
        self._changed = asyncio.Event()
        self._answered: set[str] = set()
        self.hold: asyncio.Event | None = None
        """When set: the sink takes nothing until this event is set."""
        self.fault: Exception | None = None
        """When set: what the sink raises, as a log does that cannot be written."""

    async def sink(
        self, event: Event, *, turn: TurnId | None = None, parent: ToolCallId | None = None
    ) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if self.fault is not None:
            raise self.fault
        self.heard.append(Heard(event, turn, parent))
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def events(self) -> list[Event]:
        return [one.event for one in self.heard]

    def all(self, kind: type[E]) -> list[E]:
        """Every event of a kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    async def seen(
        self, kind: type[E], test: Callable[[E], bool] = lambda _: True, *, within: float = SOON
    ) -> E:
        """Wait for an event of a kind."""
        async with asyncio.timeout(within):
            while True:
                changed = self._changed
                for event in self.all(kind):
                    if test(event):
                        return event
                await changed.wait()

    async def say(self, prompt: str, *, within: float = SOON) -> TurnEnded:
        """Run a turn."""
        async with asyncio.timeout(within):
            return await self.session.prompt((text(prompt),))

    @property
    def text(self) -> str:
        """All that the agent said, joined."""
        return "".join(
            event.content.text
            for event in self.all(MessageChunk)
            if event.role == "agent" and isinstance(event.content, TextContent)
        )

    async def answer(
        self, kind: str, *, feedback: str | None = None, within: float = SOON
    ) -> PermissionAsked:
        """Wait for a permission request and choose its first option of a kind."""
        asked = await self.seen(
            PermissionAsked, lambda one: one.request not in self._answered, within=within
        )
        self._answered.add(asked.request)
        option = next(one.option_id for one in asked.options if one.kind == kind)
        by = Decider(kind="person", name="test")
        chosen = PermissionAnswer(outcome=Selected(option_id=option), by=by, feedback=feedback)
        assert self.session.answer(asked.request, chosen)
        return asked


@asynccontextmanager
async def drive(
    rig: Rig,
    cwd: Path,
    *,
    gate: Gate | None = None,
    session: SessionId | None = None,
    is_known: bool = False,
    around: CallContext | None = None,
    **options: Any,
) -> AsyncGenerator[Driven]:
    """Open a session of this rig and close it in the end."""
    driven = Driven()
    environment = {**rig.environment, **options.pop("environment", {})}
    opening = DriverSessionOptions.of(cwd=str(cwd), environment=environment, **options)
    id_ = session or new_session_id()
    around = around or CallContext(
        cwd=str(cwd), roots=(str(cwd), *opening.options.roots), agent=rig.name, session=id_
    )
    driven.session = LinkSession(
        id_,
        rig.name,
        opening,
        driven.sink,
        gate or Gate(mode=opening.mode),
        around,
    )
    await start_session(driven.session, [rig.make], is_known=is_known)
    try:
        yield driven
    finally:
        await driven.session.close()
