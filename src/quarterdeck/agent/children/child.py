"""One child: its session, how far it has got, and what it comes to."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from quarterdeck.policy.call import Call
from quarterdeck.policy.gate import Emit
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    ChildEnd,
    ChildEnded,
    ChildStarted,
    Event,
    ModelCallFinished,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnd,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.tool_calls import ContentItem

from ..ports import NO_TURN_WATCH, Turn, TurnWatch
from ..session import Session
from ..tools.tool import LiveCall
from ..tools.truncation import keep_ends
from .profile import Profile

__all__ = ["ChildAgent", "ChildSession", "ParentWatch", "answer_in"]

_EVERY = 0.25
"""Seconds between two updates of the call that waits."""
_ENDS: dict[TurnEnd, ChildEnd] = {
    "end_turn": "completed",
    "max_tokens": "limit",
    "max_turn_requests": "limit",
    "refusal": "failed",
    "failed": "failed",
    "cancelled": "cancelled",
}


async def _unwatched(_: Event) -> None:
    pass


class ChildSession(Session):
    """A session that whoever started it looks at."""

    watch: Callable[[Event], Awaitable[None]] = staticmethod(_unwatched)

    files: TurnWatch = NO_TURN_WATCH
    """Keeps what files were, for the turn of whoever waits."""

    def _turn(self, turn: TurnId) -> Turn:
        return replace(super()._turn(turn), watch=self.files)

    async def _emit(self, event: Event, turn: TurnId | None) -> None:
        await super()._emit(event, turn)
        await self.watch(event)


class ParentWatch:
    """The watch of the turn that waits for a child, over the child's own calls."""

    def __init__(self, live: LiveCall) -> None:
        self._live = live

    async def before_call(self, turn: Turn, call: Call) -> None:
        """Keep what the call may change, with what else that turn changes."""
        await self._live.before_change(call)

    async def finish(self, turn: Turn, *, hurried: bool = False) -> None:
        """Nothing: the turn that waits writes it down."""


def answer_in(event: Event) -> str | None:
    """What the agent said with an event that ends a call of the model; None for any other."""
    if not isinstance(event, ModelCallFinished) or event.reply is None:
        return None
    words = [part.text for part in event.reply.parts if isinstance(part, TextPart)]
    return "\n".join(words).strip()


@dataclass(slots=True, kw_only=True)
class ChildAgent:
    """A child from its start to its end; ``run`` once."""

    session: ChildSession
    profile: Profile
    started: ChildStarted
    answer_bytes: int
    answer: str = ""
    """What it said last."""
    doing: str = "begins"
    steps: int = 0
    tokens: int = 0
    ended: ChildEnded | None = None
    _told: float = field(default=0.0)

    @property
    def id(self) -> SessionId:
        """Its session."""
        return self.started.child

    @property
    def progress(self) -> str:
        """How far it has got, in one line."""
        steps = f"{self.steps} step{'s' * (self.steps != 1)}"
        return f"{self.profile.name}: {self.doing} ({steps}, {self.tokens} tokens)"

    async def run(self, parent: SessionId, emit: Emit) -> ChildEnded:
        """Let it do its task; its end is told before this returns or is cancelled.

        ``emit`` appends to the parent's log. What is not in the background shows its progress.
        """
        self.session.watch = lambda event: self._watch(event, emit)
        turn: TurnEnded | None = None
        try:
            content = (text(self.started.task),)
            turn = await self.session.prompt(content, origin="agent", sender=parent)
        except QuarterdeckError as error:
            turn = TurnEnded(stop="failed", reason=str(error))
        finally:
            await self._end(turn or TurnEnded(stop="cancelled"), emit)
        assert self.ended is not None
        return self.ended

    async def _end(self, turn: TurnEnded, emit: Emit) -> None:
        how = _ENDS[turn.stop]
        if how == "cancelled":
            await self.session.close("killed", "stopped by the agent that started it")
        else:
            await self.session.close()
        self.ended = ChildEnded(
            child=self.id,
            call=self.started.call,
            how=how,
            answer=self._answer(how, turn.reason),
            usage=turn.usage,
            cost=turn.cost,
        )
        await emit(self.ended)

    def _answer(self, how: ChildEnd, reason: str | None) -> str:
        kept = keep_ends(self.answer or "(no answer)", self.answer_bytes)
        told = kept.text
        if not kept.is_whole:
            told += f"\n[Full answer: `children` with action `read` and id {self.id}.]"
        match how:
            case "completed":
                return told
            case "limit":
                return f"The agent was stopped at a limit ({reason}). Its last message:\n{told}"
            case "failed":
                return f"The agent failed: {reason or 'no reason is known'}."
            case "cancelled":
                return "The agent was stopped before it had finished."

    async def _watch(self, event: Event, emit: Emit) -> None:
        match event:
            case ToolCallStarted(title=title):
                self.steps += 1
                self.doing = " ".join(title.split())[:100]
            case ModelCallFinished(usage=usage):
                self.tokens += usage.total if usage else 0
                self.answer = answer_in(event) or self.answer
            case _:
                return
        if not self.started.background and time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            shown = ContentItem(content=text(self.progress))
            await emit(ToolCallUpdated(call=self.started.call, content=(shown,)))
