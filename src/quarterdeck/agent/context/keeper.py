"""Decides, before each call of the model, whether the conversation still fits, and what to do.

First old results of tools are cleared, then a summary is written in the background, at the hard
mark the turn waits for it. Where no summary can be had, the oldest steps are dropped with a note.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from quarterdeck.models.model import Effort, Model
from quarterdeck.wire.events import Event, Notice, ResultsCleared, UsageReported
from quarterdeck.wire.usage import ContextUsage

from ..conversation import Conversation
from .gauge import bytes_of
from .marks import Marks, marks_of

if TYPE_CHECKING:
    from ..session import Setup
    from ..turn import Turn
    from .compaction import Compactor, Order

__all__ = ["Context"]

_PROMPTS = 0.1
"""Of what can be used: the prompts that are told whole after a compaction."""
_DEMAND_TAIL = 0.05
"""Of what can be used: what stays whole when a person asks for a compaction."""
_DEMAND_SHARE = 0.25
"""Of what there is: the same, where there is little."""
_STRIDE = 0.05
"""Of what can be used: how much a conversation grows after a failure before the next try."""


class Context:
    """Keeps one session's conversation within its model's window.

    Args:
        setup: what the session works with; its model may change.
        emit: appends an event of the session and folds it into the conversation.
    """

    def __init__(
        self,
        setup: "Setup",
        conversation: Conversation,
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._setup = setup
        self._conversation = conversation
        self._emit = emit
        self._made: Compactor | None = None
        self._in_turn = False
        self._demands: list[tuple[str, asyncio.Future[str]]] = []
        self._limits: dict[str, int] = {}
        """What a vendor refused although the model's window is said to be larger."""
        self._overhead: tuple[object, str, int] | None = None

    # -- for the loop

    async def before_call(self, turn: "Turn") -> int | None:
        """Make room where it is needed; gives the longest answer, None: as the model likes."""
        self._in_turn = True
        if self._made is not None and self._made.is_ready:
            await self._finish(turn)
        await self._serve_demands(turn.model, turn.effort)
        marks = self._marks(turn.model)
        estimate = self._estimate(turn.model)
        if self._setup.context.enabled and estimate >= marks.clear:
            await self._relieve(turn, marks)
            estimate = self._estimate(turn.model)
        self._count_spending(turn)
        # By the stated window: this goes into the request, and must be the same after a resume.
        stated = marks_of(turn.model.info, self._setup.context)
        return stated.answer_room(estimate, turn.model.info.max_output)

    async def overflowed(self, turn: "Turn") -> bool:
        """Make room because the vendor says that there is none; False if that is not possible."""
        if not self._setup.context.enabled:
            return False
        name, before = turn.model.info.name, self._conversation.size
        self._limits[name] = min(self._estimate(turn.model), self._marks(turn.model).window)
        marks = self._marks(turn.model)
        if self._compactor.is_running:
            await self._finish(turn)
        if self._estimate(turn.model) >= marks.clear:
            order = self._order(turn.model, turn.effort, marks, marks.tail)
            await self._clear(marks, turn.model, least=1)
            await self._summarise_and_wait(turn, marks, order)
        self._count_spending(turn)
        return self._conversation.size < before

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
            await self._made.close()

    # -- for people

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

        return report(self._setup, self._conversation, self._marks(self._setup.model))

    async def pin(self, text: str = "") -> str:
        """Keep a text, or what was said last, whole through every compaction; says what.

        Raises:
            QuarterdeckError: there is nothing to pin, or too much is pinned.
        """
        from .pins import pinned

        most = self._bytes(self._marks(self._setup.model).usable * _PROMPTS)
        event = pinned(self._conversation.memory, text, most)
        await self._emit(event)
        return f"Pinned as {list(self._conversation.memory.pins).index(event.message) + 1}."

    async def unpin(self, number: int | None = None) -> str:
        """Let the pin with that number go, or all; says how many.

        Raises:
            QuarterdeckError: there is no such pin.
        """
        from .pins import unpinned

        events = unpinned(self._conversation.memory, number)
        for event in events:
            await self._emit(event)
        return f"Unpinned {len(events)}."

    # -- measuring

    def _marks(self, model: Model) -> Marks:
        info = model.info
        if (limit := self._limits.get(info.name)) is not None and limit < info.window:
            info = structs.replace(info, window=max(limit, 1))
        return marks_of(info, self._setup.context)

    def _estimate(self, model: Model) -> int:
        conversation = self._conversation
        return conversation.gauge.tokens(conversation.size, self.overhead(), model.info.name)

    def _bytes(self, tokens: float) -> int:
        return round(tokens / self._conversation.gauge.scale(self.overhead()))

    def overhead(self) -> int:
        """Bytes of system prompt and tools."""
        specs, system = self._setup.toolbox.specs, self._setup.system_prompt
        known = self._overhead
        if known is None or known[0] is not specs or known[1] is not system:
            known = (specs, system, bytes_of(system) + len(msgspec.json.encode(specs)))
            self._overhead = known
        return known[2]

    # -- the stages

    async def _relieve(self, turn: "Turn", marks: Marks) -> None:
        await self._clear(marks, turn.model, least=marks.gain)
        if self._estimate(turn.model) >= marks.summarise:
            await self._begin(turn, marks)
        if self._estimate(turn.model) < marks.wait:
            return
        if self._compactor.is_running:
            await self._finish(turn)
        if self._estimate(turn.model) >= marks.wait:
            await self._clear(marks, turn.model, least=1)
        if self._estimate(turn.model) >= marks.wait:
            await self._drop(turn, marks)

    async def _clear(self, marks: Marks, model: Model, *, least: int) -> None:
        """Clear old results if that frees ``least`` tokens; rarely, as it costs the cache."""
        from .cutting import cut_before_tail, savings_below

        conversation = self._conversation
        keep = self._setup.context.keep_turns
        cut = cut_before_tail(conversation, keep, self._tail(marks, marks.tail))
        if cut > conversation.cleared and savings_below(conversation, cut) >= self._bytes(least):
            await self._emit(ResultsCleared(through=cut))
            await self._tell_usage(model)

    def _tail(self, marks: Marks, tokens: float) -> int:
        """Bytes of the newest messages that may stay, where tools and instructions take a lot."""
        free = self._bytes(marks.usable) - self.overhead()
        return max(1, min(self._bytes(tokens), round(free * 0.4)))

    async def _begin(self, turn: "Turn", marks: Marks) -> None:
        """Begin a summary in the background, unless the last one failed a moment ago."""
        if self._compactor.is_running or self._is_too_early(marks):
            return
        order = self._order(turn.model, turn.effort, marks, marks.tail)
        if self._worth(order) >= self._bytes(marks.gain):
            await self._compactor.start(order)

    def _is_too_early(self, marks: Marks) -> bool:
        """Whether the conversation is hardly larger than when the last summary failed."""
        conversation = self._conversation
        if not conversation.failures:
            return False
        stride = marks.usable * _STRIDE * 2 ** min(conversation.failures - 1, 8)
        return conversation.size < conversation.failed_at + self._bytes(stride)

    async def _finish(self, turn: "Turn") -> bool:
        was_done = await self._compactor.finish()
        if was_done:
            await self._tell_usage(turn.model)
        return was_done

    async def _summarise_and_wait(self, turn: "Turn", marks: Marks, order: "Order") -> None:
        if self._worth(order) > 0:
            await self._compactor.start(order)
            if await self._finish(turn):
                return
        await self._drop(turn, marks)

    async def _drop(self, turn: "Turn", marks: Marks) -> None:
        """The last resort: forget the oldest steps by rule."""
        order = self._order(turn.model, turn.effort, marks, marks.tail)
        if not await self._compactor.drop(order):
            return
        await self._emit(
            Notice(
                title="Earlier steps were dropped to make room",
                severity="warning",
                description="No summary could be had; the log has everything.",
            )
        )
        await self._tell_usage(turn.model)

    def _order(
        self, model: Model, effort: Effort, marks: Marks, tail: float, focus: str = ""
    ) -> "Order":
        from .compaction import Order
        from .cutting import cut_before_tail
        from .kept import kept_parts, running_commands
        from .summary import Asking

        setup = self._setup
        keep = 1 if tail < marks.tail else setup.context.keep_turns
        through = cut_before_tail(self._conversation, keep, self._tail(marks, tail))
        most = min(self._bytes(marks.usable * _PROMPTS), self._tail(marks, marks.tail))
        name = setup.context.summary_model

        return Order(
            asking=Asking(
                model=model,
                effort=effort,
                system=setup.system_prompt,
                tools=setup.toolbox.specs,
                pace=setup.pace,
            ),
            through=through,
            kept=lambda: kept_parts(
                self._conversation.memory,
                through,
                most=most,
                commands=running_commands(setup.workspace),
            ),
            focus=focus,
            max_output=marks.reserve,
            writer=None if name is None else partial(setup.make_model, name),
        )

    def _worth(self, order: "Order") -> int:
        """Bytes of what would be replaced for the first time."""
        conversation = self._conversation
        return sum(conversation.sizes[: order.through - conversation.first])

    async def _serve_demands(self, model: Model, effort: Effort) -> None:
        while self._demands:
            focus, future = self._demands.pop(0)
            try:
                said = await self._compact_now(model, effort, focus)
            except BaseException as error:
                _settle(future, error)
                raise
            if not future.done():
                future.set_result(said)

    async def _compact_now(self, model: Model, effort: Effort, focus: str) -> str:
        compactor, marks = self._compactor, self._marks(model)
        if compactor.is_running:
            await compactor.finish()
        before = self._estimate(model)
        tail = min(marks.usable * _DEMAND_TAIL, before * _DEMAND_SHARE)
        order = self._order(model, effort, marks, tail, focus)
        if self._worth(order) == 0:
            return "There is nothing to compact yet."
        await compactor.start(order)
        if not await compactor.finish():
            return f"The conversation stays as it is: {compactor.error}."
        await self._tell_usage(model)
        return f"Compacted from about {before:,} to about {self._estimate(model):,} tokens."

    async def _tell_usage(self, model: Model) -> None:
        used = self._estimate(model)
        await self._emit(UsageReported(context=ContextUsage(used=used, size=model.info.window)))

    def _count_spending(self, turn: "Turn") -> None:
        if self._made is None:
            return
        for usage, cost in self._made.spent:
            turn.spending.add(usage, cost)
        self._made.spent.clear()

    @property
    def _compactor(self) -> "Compactor":
        if self._made is None:
            from .compaction import Compactor

            self._made = Compactor(self._conversation, self._emit, lambda: not self._in_turn)
        return self._made


def _settle(future: "asyncio.Future[str]", error: BaseException) -> None:
    """Tell who waits for a compaction that it did not come to its end."""
    if future.done():
        return
    if isinstance(error, asyncio.CancelledError):
        future.set_result("The turn was cancelled before the conversation was compacted.")
    else:
        future.set_exception(error)
