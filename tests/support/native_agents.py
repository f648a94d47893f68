"""The native agent on directories of its own, with a model that plays a script."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from msgspec import structs

from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.agent.ports import SessionClock
from quarterdeck.agent.replay.check import ReplayChanges
from quarterdeck.agent.session import Session
from quarterdeck.agent.tools.tool import Tool
from quarterdeck.config.places import Places
from quarterdeck.models.model import ModelRequest
from quarterdeck.models.script import Script, ScriptCallPart, ScriptReply
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.policy.gate import PermissionAnswer
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import Message, TextPart, ToolResultPart, ToolUsePart
from quarterdeck.wire.events import Event, PermissionAsked, TurnEnded
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.record import Record

__all__ = [
    "PERSON",
    "Deck",
    "assert_valid",
    "call",
    "deck",
    "results",
    "says",
    "told",
    "types",
]

E = TypeVar("E", bound=Event)
PERSON = Decider(kind="person", name="ada")


def call(tool: str, /, **arguments: Any) -> ScriptCallPart:
    return ScriptCallPart(call=tool, arguments=arguments)


def says(*parts: Any, **rest: Any) -> ScriptReply:
    """A reply of texts and calls; ``rest`` are fields of ``ScriptReply``."""
    return structs.replace(ScriptReply.of(*parts), **rest)


@dataclass(frozen=True, slots=True)
class ClosedSession:
    """Where a session was recorded, and what has to be the same for a replay."""

    log: Path
    session: SessionId
    places: Places
    home: str
    changes: ReplayChanges


CLOSED: list[ClosedSession] | None = None
"""Sessions that ``deck`` opened and closed; None: they are not collected."""


@dataclass(slots=True)
class Deck:
    """An agent, a session of it, its model, and what its log says."""

    agent: NativeAgent
    session: Session
    model: ScriptedModel
    options: NativeSessionOptions
    cwd: Path
    places: Places
    slept: list[float] = field(default_factory=list[float])
    """The waits before retries."""

    async def prompt(self, words: str = "go") -> TurnEnded:
        return await self.session.prompt((text(words),))

    def start(self, words: str = "go") -> "asyncio.Task[TurnEnded]":
        return asyncio.ensure_future(self.prompt(words))

    async def records(self) -> list[Record]:
        journal = self.session.journal
        await journal.durable(self.session.last_seq)
        return [record async for record in journal.history(session=self.session.id)]

    async def events(self, *kinds: type[E]) -> list[E]:
        found = [record.event for record in await self.records()]
        return [event for event in found if not kinds or isinstance(event, kinds)]

    async def only(self, kind: type[E]) -> E:
        (event,) = await self.events(kind)
        return event

    async def seen(self, kind: type[E], count: int = 1) -> list[E]:
        """Wait until the log has so many events of a kind."""
        found: list[E] = []
        async for record in self.session.journal.follow(session=self.session.id):
            if isinstance(record.event, kind):
                found.append(record.event)
            if len(found) >= count:
                return found
        raise AssertionError(f"the log closed with {len(found)} of {count} {kind.__name__}")

    async def asked(self, count: int = 1) -> list[PermissionAsked]:
        return await self.seen(PermissionAsked, count)

    def answer(self, asked: PermissionAsked, option: str, feedback: str | None = None) -> bool:
        outcome = Selected(option_id=option)
        answer = PermissionAnswer(outcome=outcome, by=PERSON, feedback=feedback)
        return self.session.gate.answer(asked.request, answer)

    @property
    def requests(self) -> list[ModelRequest]:
        return list(self.model.requests)

    async def reload(self, options: NativeSessionOptions | None = None) -> Session:
        """Close the session and load it again, from its log alone."""
        id_ = self.session.id
        await self.agent.close(id_)
        self.session = await self.agent.load(id_, options=options or self.options)
        return self.session


@asynccontextmanager
async def deck(
    tmp_path: Path,
    *replies: ScriptReply | str | Script,
    tools: Iterable[Tool] | None = None,
    limits: dict[str, Any] | None = None,
    sleep: Callable[[float], Any] | None = None,
    **options: Any,
) -> AsyncIterator[Deck]:
    """Open an agent with a session; the replies are played one after the other."""
    script = replies[0] if replies and isinstance(replies[0], Script) else Script.sequence(*replies)
    model = ScriptedModel(script, name="test")
    slept: list[float] = []

    async def no_wait(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    cwd = tmp_path / "work"
    cwd.mkdir(exist_ok=True)
    if tools is not None:
        kept = tuple(tools)
        options["make_tools"] = lambda: kept
    if limits is not None:
        options["flags"] = {"limits": limits}
    usual: dict[str, Any] = {
        "model": "scripted/test",
        "make_model": lambda _: model,
        "pace": SessionClock(sleep=sleep or no_wait, draw=Random(1).random),
    }
    wanted = NativeSessionOptions.of(**(usual | options))
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    async with NativeAgent(places, {"HOME": str(tmp_path)}) as agent:
        session = await agent.new(wanted.at(str(cwd)))
        ship = Deck(agent, session, model, wanted, cwd, places, slept)
        yield ship
    if CLOSED is not None:
        changes = ReplayChanges(
            tools=tuple(wanted.make_tools()) if tools is not None else None,
            settings=dict(wanted.flags),
        )
        log = places.state / "sessions" / f"{session.id}.db"
        CLOSED.append(ClosedSession(log, session.id, places, str(tmp_path), changes))


def types(events: Iterable[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def results(message: Message) -> list[ToolResultPart]:
    return [part for part in message.parts if isinstance(part, ToolResultPart)]


def told(result: ToolResultPart) -> str:
    return "".join(part.text for part in result.content if isinstance(part, TextPart))


def assert_valid(messages: Iterable[Message]) -> None:
    """Check that every call has exactly one result, in the message that follows it."""
    listed = list(messages)
    ids: list[str] = []
    for index, message in enumerate(listed):
        uses = [part.id for part in message.parts if isinstance(part, ToolUsePart)]
        ids += uses
        if not uses:
            continue
        assert index + 1 < len(listed), f"calls {uses} have no results"
        assert [result.id for result in results(listed[index + 1])] == uses
    assert len(ids) == len(set(ids)), f"ids are used twice: {ids}"
    given = [result.id for message in listed for result in results(message)]
    assert given == ids
