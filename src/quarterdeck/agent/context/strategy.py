"""What is done when the window fills up: clear, summarise in the background, wait, drop.

The functions that find where a conversation may be cut are pure; a cut never stands between a call
and its result.

The user's prompts (all of them as far as there is room, then at least their demands), pinned
messages, the plan, the files that were looked at last, the commands that still run.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from quarterdeck.models.model import Effort, Model
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolResultPart,
    ToolUsePart,
)
from quarterdeck.wire.events import Event, NoticePosted, ResultsCleared, UsageReported

from ..content_parts import parts_of
from ..conversation import Conversation
from ..tools.workspace import ToolWorkspace
from .compaction import CompactionOrder, Compactor, ModelCallSettings
from .memory import ConversationMemory, RememberedPrompt, shorten
from .token_estimate import bytes_of
from .token_meter import Thresholds, TokenMeter

if TYPE_CHECKING:
    from ..ports import Turn
    from ..session_setup import SessionSetup

__all__ = [
    "PROMPT_SHARE",
    "CompactionStrategy",
    "carryover_parts",
    "cut_before_tail",
    "find_demands",
    "is_cut",
    "running_commands",
    "savings_below",
]

_FILES = 10
_DEMAND = re.compile(
    r"\b(never|always|must(n't)?|don'?t|do not|not|only|remember|avoid|without|keep|prefer|"
    r"should|shall|instead|no|make sure|important|required?)\b",
    re.IGNORECASE,
)
"""Words by which a sentence of an old prompt is recognised as a demand that may still hold."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_LONGEST_DEMAND = 400


def carryover_parts(
    memory: ConversationMemory, through: int, *, most: int, commands: Sequence[str] = ()
) -> tuple[Part, ...]:
    """What to send beside a summary of the messages below ``through``.

    ``most``: bytes for the prompts that are replaced; the newest may have as much again. Pinned
    messages are whole whatever they are.
    """
    sections = [
        _section(
            "The user's messages, word for word, oldest first", _prompts(memory, through, most)
        ),
        _section("Plan", [f"- [{entry.status}] {entry.content}" for entry in memory.plan]),
        _section(
            "Files read last (read a file again before relying on it or changing it)",
            [f"- {path}" for path in list(memory.files)[-_FILES:]],
        ),
        _section("Commands running in the background", [f"- {line}" for line in commands]),
    ]
    text = "\n\n".join(filter(None, sections))
    parts: list[Part] = [TextPart(text=text)] if text else []
    parts += [TextPart(text=each) for each in reversed(_added(memory, most))]
    for content in memory.pins.values():
        parts += _pinned(content)
    if _newest_is_replaced(memory, through):
        parts += [part for part in memory.newest if isinstance(part, ImagePart)]
    return tuple(parts)


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"# {title}", *lines]) if lines else ""


def _pinned(content: tuple[ContentBlock, ...]) -> Iterable[Part]:
    yield TextPart(text="# Pinned by the user: applies to the whole conversation")
    yield from parts_of(content)


def _added(memory: ConversationMemory, most: int) -> list[str]:
    """Instructions and words of hooks, the newest first as long as there is room."""
    found: list[str] = []
    for text in reversed(memory.added.values()):
        most -= bytes_of(text)
        if most >= 0:
            found.append(text)
    return found


def _newest_is_replaced(memory: ConversationMemory, through: int) -> bool:
    at = next((prompt.at for prompt in reversed(memory.prompts) if prompt.starts_turn), None)
    return at is not None and at < through


def _prompts(memory: ConversationMemory, through: int, most: int) -> list[str]:
    """The replaced prompts, newest first as long as there is room; of the rest the demands."""
    replaced = [prompt for prompt in memory.prompts if prompt.at < through]
    newest: list[str] = []
    if _newest_is_replaced(memory, through):
        whole = "\n".join(part.text for part in memory.newest if isinstance(part, TextPart))
        last = max(i for i, prompt in enumerate(replaced) if prompt.starts_turn)
        newest = [f"- {shorten(whole, max(most, 1_000))}"]
        newest += [f"- {prompt.text}" for prompt in replaced[last + 1 :]]
        replaced = replaced[:last]
    lines: list[str] = []
    left = most
    while replaced and (size := bytes_of(replaced[-1].text) + 3) <= left:
        lines.append(f"- {replaced.pop().text}")
        left -= size
    older = _demands(replaced, max(left, most // 2))
    return [*older, *reversed(lines), *newest]


def _demands(prompts: Sequence[RememberedPrompt], most: int) -> list[str]:
    """The sentences of old prompts that demand something, newest first as long as there is room."""
    if not prompts:
        return []
    found: dict[str, None] = {}
    for prompt in reversed(prompts):
        for sentence in find_demands(prompt.text):
            size = bytes_of(sentence) + 7
            if sentence not in found and size <= most:
                found[sentence] = None
                most -= size
    left_out = f"- [{len(prompts)} earlier messages are omitted; what they required:]"
    return [left_out, *(f"  - {sentence}" for sentence in reversed(found))]


def find_demands(text: str) -> list[str]:
    """The sentences of a prompt that demand something which may still hold."""
    sentences = map(str.strip, _SENTENCE.split(text))
    return [one for one in sentences if len(one) <= _LONGEST_DEMAND and _DEMAND.search(one)]


def running_commands(workspace: ToolWorkspace) -> list[str]:
    """The commands that run in the background, each as one line."""
    from ..tools.bash.background import BackgroundCommands

    commands = workspace.find_kept(BackgroundCommands)
    return [
        f"{command.id}: {' '.join(command.line.split())[:200]}"
        for command in (commands.all if commands is not None else ())
        if command.exit is None
    ]


def is_cut(messages: Sequence[Message], index: int) -> bool:
    """Whether no call below the index has its result, or is still without one, from there on."""
    if index < len(messages) and _has(messages[index], ToolResultPart):
        return False
    return index == 0 or index > len(messages) or not _has(messages[index - 1], ToolUsePart)


def _has(message: Message, kind: type[ToolResultPart] | type[ToolUsePart]) -> bool:
    return any(isinstance(part, kind) for part in message.parts)


def cut_before_tail(conversation: Conversation, turns: int, most: int) -> int:
    """The number of the first message of the tail that stays whole.

    The tail is the newest turns, as many of ``turns`` as fit into ``most`` bytes; where not even
    the newest does, its newest steps. The last step always stays.
    """
    messages, sizes, first = conversation.recent_messages, conversation.sizes, conversation.first
    if not messages:
        return first
    starts = _turn_starts(conversation, turns)
    last = step = _last_step(messages)
    turn: int | None = None
    total = sum(sizes[last:])
    for place in range(last, -1, -1):  # from the end: what is old costs nothing
        total += sizes[place] if place < last else 0
        if total > most:
            break
        if is_cut(messages, place):
            step = place
            turn = place if place in starts else turn
        if place == min(starts, default=0):
            break
    return first + (step if turn is None else turn)


def _turn_starts(conversation: Conversation, turns: int) -> set[int]:
    """The places, among the messages that are sent, of the newest prompts that started a turn."""
    starts: set[int] = set()
    for prompt in reversed(conversation.memory.prompts):
        if prompt.at < conversation.first or len(starts) == turns:
            break
        if prompt.starts_turn:
            starts.add(prompt.at - conversation.first)
    return starts


def _last_step(messages: Sequence[Message]) -> int:
    """The last place where a cut leaves at least one message."""
    index = len(messages) - 1
    while index > 0 and not is_cut(messages, index):
        index -= 1
    return index


def savings_below(conversation: Conversation, cut: int) -> int:
    """Bytes that clearing the results below a cut would free, about."""
    begin = max(0, conversation.cleared - conversation.first)
    return sum(conversation.savings[begin : cut - conversation.first])


PROMPT_SHARE = 0.1
"""Of what can be used: the prompts that are sent whole after a compaction."""
_DEMAND_TAIL = 0.05
"""Of what can be used: what stays whole when a person asks for a compaction."""
_DEMAND_SHARE = 0.25
"""Of what there is: the same, where there is little."""
_LEAST_RESULT = 200
"""Characters that are left of a result at least."""
_STRIDE = 0.05
"""Of what can be used: how much a conversation grows after a failure before the next try."""


class CompactionStrategy:
    """Makes room in one conversation; what is decided follows from its events and the settings."""

    def __init__(
        self,
        setup: "SessionSetup",
        conversation: Conversation,
        meter: TokenMeter,
        emit: Callable[[Event], Awaitable[None]],
        is_idle: Callable[[], bool],
    ) -> None:
        self._setup = setup
        self._conversation = conversation
        self._meter = meter
        self._emit = emit
        self.compactor = Compactor(conversation, emit, is_idle, setup.hooks)

    async def relieve(self, turn: "Turn") -> None:
        """Do what the marks say."""
        model, meter = turn.model, self._meter
        marks = meter.marks(model)
        await self._clear(marks, model, least=marks.gain)
        if meter.estimate(model) >= marks.summarise:
            await self._begin(turn, marks)
        if meter.estimate(model) < marks.wait:
            return
        if self.compactor.is_running:
            await self.finish(model)
        if meter.estimate(model) >= marks.wait:
            await self._clear(marks, model, least=1)
        if meter.estimate(model) >= marks.wait:
            await self._drop(turn, marks)
        if meter.estimate(model) >= marks.wait:
            await self._cut(marks, model)

    async def make_room(self, turn: "Turn") -> bool:
        """Do what can be done, because the vendor refused the request; False if that is nothing."""
        model, before = turn.model, self._conversation.size
        self._meter.refused(model)
        marks = self._meter.marks(model)
        while self.compactor.is_running:
            await self.finish(model)
        if self._meter.estimate(model) >= marks.clear:
            order = self._order(model, turn.effort, marks, marks.tail)
            await self._clear(marks, model, least=1)
            if not await self._summarise(model, order):
                await self._drop(turn, marks)
        if self._meter.estimate(model) >= marks.wait:
            await self._cut(marks, model)
        return self._conversation.size < before

    async def compact(self, model: Model, effort: Effort, focus: str) -> str:
        """Summarise because a person wants it; says what came of it."""
        while self.compactor.is_running:
            await self.finish(model)
        marks, before = self._meter.marks(model), self._meter.estimate(model)
        tail = min(marks.usable * _DEMAND_TAIL, before * _DEMAND_SHARE)
        order = self._order(model, effort, marks, tail, focus)
        if self._worth(order) == 0:
            return "There is nothing to compact yet."
        if not await self._summarise(model, order):
            return f"The conversation is unchanged: {self.compactor.error}."
        after = self._meter.estimate(model)
        return f"Compacted from about {before:,} to about {after:,} tokens."

    async def finish(self, model: Model) -> bool:
        """Wait for the summary under way and put it into effect; False if it failed."""
        was_done = await self.compactor.finish()
        if was_done:
            await self._tell_usage(model)
        return was_done

    async def _clear(self, marks: Thresholds, model: Model, *, least: int) -> None:
        """Clear old results if that frees ``least`` tokens; rarely, as it costs the cache."""
        conversation, meter = self._conversation, self._meter
        keep = self._setup.context.keep_turns
        cut = cut_before_tail(conversation, keep, meter.tail(marks, marks.tail))
        if cut > conversation.cleared and savings_below(conversation, cut) >= meter.bytes(least):
            await self._emit(ResultsCleared(through=cut))
            await self._tell_usage(model)

    async def _cut(self, marks: Thresholds, model: Model) -> None:
        """Leave the middle out of results of the newest steps that alone fill the window."""
        conversation = self._conversation
        messages = conversation.recent_messages[max(0, conversation.cleared - conversation.first) :]
        results = [p for each in messages for p in each.parts if isinstance(p, ToolResultPart)]
        longest = max(_LEAST_RESULT, self._meter.tail(marks, marks.tail) // max(1, len(results)))
        texts = (
            part.text for each in results for part in each.content if isinstance(part, TextPart)
        )
        if any(len(text) > longest + _LEAST_RESULT for text in texts):
            await self._emit(ResultsCleared(through=conversation.count, longest=longest))
            await self._tell_usage(model)

    async def _begin(self, turn: "Turn", marks: Thresholds) -> None:
        """Begin a summary in the background, unless the last one failed a moment ago."""
        if self.compactor.is_running or self._is_too_early(marks):
            return
        order = self._order(turn.model, turn.effort, marks, marks.tail)
        if self._worth(order) >= self._meter.bytes(marks.gain):
            self.compactor.start(order)

    def _is_too_early(self, marks: Thresholds) -> bool:
        """Whether the conversation is hardly larger than when the last summary failed."""
        conversation = self._conversation
        if not conversation.failures:
            return False
        stride = marks.usable * _STRIDE * 2 ** min(conversation.failures - 1, 8)
        return conversation.size < conversation.failed_at + self._meter.bytes(stride)

    async def _summarise(self, model: Model, order: CompactionOrder) -> bool:
        if self._worth(order) == 0:
            return False
        while self.compactor.is_running:  # of another who asks at the same time
            await self.finish(model)
        if self._worth(order) <= 0:
            return True
        self.compactor.start(order)
        return await self.finish(model)

    async def _drop(self, turn: "Turn", marks: Thresholds) -> None:
        """The last resort: forget the oldest steps by rule."""
        order = self._order(turn.model, turn.effort, marks, marks.tail)
        if not await self.compactor.drop(order):
            return
        await self._emit(
            NoticePosted(
                title="Earlier steps were dropped to make room",
                severity="warning",
                description="No summary could be written; the log has everything.",
            )
        )
        await self._tell_usage(turn.model)

    def _order(
        self, model: Model, effort: Effort, marks: Thresholds, tail: float, focus: str = ""
    ) -> CompactionOrder:
        setup, meter = self._setup, self._meter
        keep = 1 if tail < marks.tail else setup.context.keep_turns
        through = cut_before_tail(self._conversation, keep, meter.tail(marks, tail))
        most = min(meter.bytes(marks.usable * PROMPT_SHARE), meter.tail(marks, marks.tail))
        name = setup.context.summary_model
        return CompactionOrder(
            asking=ModelCallSettings(
                model=model,
                effort=effort,
                system=setup.system_prompt,
                tools=setup.toolbox.specs,
                pace=setup.pace,
                budget=setup.budget,
            ),
            through=through,
            kept=lambda: carryover_parts(
                self._conversation.memory,
                through,
                most=most,
                commands=running_commands(setup.workspace),
            ),
            focus=focus,
            max_output=marks.reserve,
            writer=None if name is None else partial(setup.make_model, name),
        )

    def _worth(self, order: CompactionOrder) -> int:
        """Bytes of what would be replaced for the first time."""
        conversation = self._conversation
        return sum(conversation.sizes[: max(0, order.through - conversation.first)])

    async def _tell_usage(self, model: Model) -> None:
        await self._emit(UsageReported(context=self._meter.usage(model)))
