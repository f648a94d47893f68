"""Keeps a session's conversation within its model's window: compaction, pins, the report.

First old tool results are cleared, then a summary is written in the background; at the last
threshold the turn waits for it. Without a summary the oldest steps are dropped with a note.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from quarterdeck.models.model import Effort, Model
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import Event, MessagePinned, MessageUnpinned
from quarterdeck.wire.ids import new_message_id

from ..conversation import Conversation
from .memory import ConversationMemory
from .token_estimate import bytes_of
from .token_meter import TokenMeter

if TYPE_CHECKING:
    from ..ports import Turn
    from ..session_setup import SessionSetup
    from .strategy import CompactionStrategy

__all__ = ["PinError", "SessionContext", "make_pin", "make_unpins"]


class PinError(QuarterdeckError):
    """A pin cannot be set or taken away; the message says why."""


def make_pin(memory: ConversationMemory, words: str, most: int) -> MessagePinned:
    """The event that pins a text, or the last message if there is none.

    ``most``: bytes that all pins together may have.

    Raises:
        PinError: there is no message yet, or the pins would be too large.
    """
    content = (text(words),) if words.strip() else memory.last
    if not content:
        raise PinError("there is no message to pin yet; give a text: /pin TEXT")
    if sum(map(_size, (*memory.pins.values(), content))) > most:
        raise PinError(f"pins may have {most} bytes in total; unpin some, or pin less")
    return MessagePinned(message=new_message_id(), content=content, new=bool(words.strip()))


def _size(content: tuple[ContentBlock, ...]) -> int:
    return sum(bytes_of(block.text) for block in content if isinstance(block, TextContent))


def make_unpins(memory: ConversationMemory, number: int | None) -> tuple[MessageUnpinned, ...]:
    """The events that let pins go: the one with that number, counted from 1, or all.

    Raises:
        PinError: there is no such pin.
    """
    ids = list(memory.pins)
    if number is not None and not 1 <= number <= len(ids):
        raise PinError(f"there is no pin {number}; there are {len(ids)} pins")
    chosen = ids if number is None else ids[number - 1 : number]
    return tuple(MessageUnpinned(message=id_) for id_ in chosen)


class SessionContext:
    """The window of one session.

    Args:
        setup: what the session works with; its model may change.
        emit: appends an event of the session and folds it into the conversation.
    """

    def __init__(
        self,
        setup: "SessionSetup",
        conversation: Conversation,
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._setup = setup
        self._conversation = conversation
        self._emit = emit
        self._meter = TokenMeter(setup, conversation)
        self._made: CompactionStrategy | None = None
        self._in_turn = False
        self._demands: list[tuple[str, asyncio.Future[str]]] = []

    async def before_call(self, turn: "Turn") -> int | None:
        """Make room where it is needed; gives the longest answer, None: as the model likes."""
        self._in_turn = True
        if self._made is not None and self._made.compactor.is_ready:
            await self._made.finish(turn.model)
        await self._serve_demands(turn.model, turn.effort)
        is_full = self._meter.estimate(turn.model) >= self._meter.marks(turn.model).clear
        if is_full and self._setup.context.enabled:
            await self._stages.relieve(turn)
        self._count_spending(turn)
        return self._meter.answer_room(turn.model)

    async def overflowed(self, turn: "Turn") -> bool:
        """Make room because the vendor says that there is none; False if that is not possible."""
        if not self._setup.context.enabled:
            return False
        made = await self._stages.make_room(turn)
        self._count_spending(turn)
        return made

    @property
    def is_summary_running(self) -> bool:
        """Whether a summary is being written, or waits to take effect."""
        return self._made is not None and self._made.compactor.is_running

    @property
    def is_summary_ready(self) -> bool:
        """Whether a summary only has to take effect."""
        return self._made is not None and self._made.compactor.is_ready

    async def turn_ended(self) -> None:
        """The turn is over: what was asked for and not done yet is done now."""
        self._in_turn = False
        await self._serve_demands(self._setup.model, self._setup.effort)

    async def close(self) -> None:
        """End what runs in the background."""
        for _, future in self._demands:
            future.cancel()
        self._demands.clear()
        if self._made is not None:
            await self._made.compactor.close()

    async def compact(self, focus: str = "") -> str:
        """Summarise now, or at the next step of the turn that runs; says what came of it.

        ``focus``: what is to be kept above all.
        """
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._demands.append((focus, future))
        if not self._in_turn:
            await self._serve_demands(self._setup.model, self._setup.effort)
        return await future

    def report(self) -> str:
        """What fills the window, by source, as text."""
        from .report import report

        return report(self._setup, self._conversation, self._meter.marks(self._setup.model))

    async def pin(self, text: str = "") -> str:
        """Keep a text, or the last message, whole through every compaction; returns an answer.

        Raises:
            QuarterdeckError: there is nothing to pin, or too much is pinned.
        """
        from .strategy import PROMPT_SHARE

        most = self._meter.bytes(self._meter.marks(self._setup.model).usable * PROMPT_SHARE)
        event = make_pin(self._conversation.memory, text, most)
        await self._emit(event)
        return f"Pinned as {list(self._conversation.memory.pins).index(event.message) + 1}."

    async def unpin(self, number: int | None = None) -> str:
        """Let the pin with that number go, or all; says how many.

        Raises:
            QuarterdeckError: there is no such pin.
        """
        events = make_unpins(self._conversation.memory, number)
        for event in events:
            await self._emit(event)
        return f"Unpinned {len(events)}."

    @property
    def _stages(self) -> "CompactionStrategy":
        if self._made is None:
            from .strategy import CompactionStrategy  # most sessions never get that far

            self._made = CompactionStrategy(
                self._setup, self._conversation, self._meter, self._emit, lambda: not self._in_turn
            )
        return self._made

    async def _serve_demands(self, model: Model, effort: Effort) -> None:
        while self._demands:
            focus, future = self._demands.pop(0)
            try:
                outcome = await self._stages.compact(model, effort, focus)
            except BaseException as error:
                _settle(future, error)
                raise
            if not future.done():
                future.set_result(outcome)

    def _count_spending(self, turn: "Turn") -> None:
        if self._made is None:
            return
        for usage, cost in self._made.compactor.spent:
            turn.spending.add(usage, cost)
        self._made.compactor.spent.clear()


def _settle(future: "asyncio.Future[str]", error: BaseException) -> None:
    """Report to the waiters for a compaction that it did not complete."""
    if future.done():
        return
    if isinstance(error, asyncio.CancelledError):
        future.set_result("The turn was cancelled before the conversation was compacted.")
    else:
        future.set_exception(error)
        future.exception()  # who serves the demand may be who made it, and sees the error anyway
