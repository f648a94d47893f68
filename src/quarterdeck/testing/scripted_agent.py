"""Our own agent in a directory of its own, with a model that plays a script: for tests."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.agent.ports import SessionClock
from quarterdeck.agent.session import Session
from quarterdeck.config.places import Places
from quarterdeck.models.script import Script, ScriptCallPart, ScriptReply
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.policy.gate import PermissionAnswer
from quarterdeck.wire.content import text
from quarterdeck.wire.events import Event, PermissionAsked, TurnEnded
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.record import Record

if TYPE_CHECKING:
    from quarterdeck.agent.replay.check import ReplayReport

__all__ = ["ScriptedAgent", "call", "make_model", "open_agent", "replay_records", "reply"]

E = TypeVar("E", bound=Event)
_PERSON = Decider(kind="person", name="test")


def call(tool: str, /, **arguments: Any) -> ScriptCallPart:
    """A tool call in a scripted reply."""
    return ScriptCallPart(call=tool, arguments=arguments)


def reply(*parts: ScriptCallPart | str) -> ScriptReply:
    """A scripted reply of texts and tool calls."""
    return ScriptReply.of(*parts)


def make_model(*replies: ScriptReply | str | Script) -> ScriptedModel:
    """A model that gives these replies, one a call; or plays a script."""
    if len(replies) == 1 and isinstance(replies[0], Script):
        return ScriptedModel(replies[0], name="test")
    played = [one for one in replies if not isinstance(one, Script)]
    return ScriptedModel(Script.sequence(*played), name="test")


class ScriptedAgent:
    """A session with a scripted model, and what its log says."""

    def __init__(self, session: Session, model: ScriptedModel, cwd: Path, places: Places) -> None:
        self.session = session
        self.model = model
        """Its ``requests`` are what the model was sent."""
        self.cwd = cwd
        self._places = places

    async def prompt(self, words: str) -> TurnEnded:
        """Run a turn; returns how it ended."""
        return await self.session.prompt((text(words),))

    async def records(self) -> list[Record]:
        """Everything that the session has recorded."""
        journal = self.session.journal
        await journal.durable(self.session.last_seq)
        return [record async for record in journal.history(session=self.session.id)]

    async def events(self, *kinds: type[E]) -> list[E]:
        """The events so far, of these classes or all."""
        found: list[Any] = [record.event for record in await self.records()]
        return [event for event in found if not kinds or isinstance(event, kinds)]

    async def wait_for_permission(self, count: int = 1) -> PermissionAsked:
        """Wait for the permission request of that number, from 1."""
        async for record in self.session.journal.follow(session=self.session.id):
            if isinstance(record.event, PermissionAsked):
                count -= 1
                if count == 0:
                    return record.event
        raise AssertionError("the session ended without that permission request")

    def answer(self, asked: PermissionAsked, kind: str, feedback: str | None = None) -> None:
        """Answer a permission request with its first option of a kind, such as ``allow_once``."""
        options = [option.option_id for option in asked.options if option.kind == kind]
        assert options, f"no option of kind {kind!r}; there are {[o.kind for o in asked.options]}"
        outcome = Selected(option_id=options[0])
        answer = PermissionAnswer(outcome=outcome, by=_PERSON, feedback=feedback)
        assert self.session.gate.answer(asked.request, answer), "the request is not open"

    async def replay(self, **changes: Any) -> "ReplayReport":
        """Run the session so far again; ``changes`` are fields of ``ReplayChanges``."""
        return await replay_records(await self.records(), self._places, **changes)


@asynccontextmanager
async def open_agent(
    root: Path, *replies: ScriptReply | str | Script, **options: Any
) -> AsyncGenerator[ScriptedAgent]:
    """Open a session below a directory.

    It works in ``work`` and keeps its log in ``home``. ``options`` are those of a session: fields
    of ``SessionOptions`` and ``NativeSessionOptions``, such as ``mode``, ``allow``, ``make_tools``.
    """
    cwd, model = root / "work", make_model(*replies)
    await asyncio.to_thread(cwd.mkdir, exist_ok=True)

    def give(_: str) -> ScriptedModel:
        return model

    usual: dict[str, Any] = {
        "cwd": str(cwd),
        "model": model.info.name,
        "make_model": give,
        "pace": SessionClock(sleep=_skip_wait),
    }
    places = Places.find({"QUARTERDECK_HOME": str(root / "home")})
    async with NativeAgent(places, {"HOME": str(root)}) as agent:
        session = await agent.new(NativeSessionOptions.of(**{**usual, **options}))
        yield ScriptedAgent(session, model, cwd, places)


async def _skip_wait(_: float) -> None:
    await asyncio.sleep(0)


async def replay_records(
    records: Iterable[Record], places: Places, **changes: Any
) -> "ReplayReport":
    """Run a recorded session again.

    Raises:
        ReplayError: it cannot be replayed; the message says why.
    """
    from quarterdeck.agent.replay.check import ReplayChanges, check_session
    from quarterdeck.wire.events import SessionOpened

    kept = list(records)
    roots = [
        record.session
        for record in kept
        if isinstance(record.event, SessionOpened) and record.event.parent_session is None
    ]
    assert roots, "these records have no beginning of a session"
    home = {"HOME": str(places.config.parent)}
    return await check_session(
        roots[0], kept, places=places, environment=home, changes=ReplayChanges(**changes)
    )
