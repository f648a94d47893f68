"""A script performed: which reply answers a question, and the reply beat by beat.

The player knows no vendor. A ``ScriptQuestion`` is what a request asks, whatever its form; the
answer is a ``Performance``.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar, assert_never, cast

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.models.model import ModelStop
from quarterdeck.models.script.format import (
    REQUEST,
    TEMPLATE,
    Script,
    ScriptCallPart,
    ScriptFailure,
    ScriptFault,
    ScriptReply,
    ScriptScene,
    ScriptSleepPart,
    ScriptTextPart,
    ScriptThinkingPart,
    ScriptToolPart,
)
from quarterdeck.models.script.question import ScriptQuestion
from quarterdeck.models.script.tools import ResolvedCall, resolve_tool, sample_of
from quarterdeck.wire.conversation import Message, Part, TextPart, ThinkingPart, ToolUsePart
from quarterdeck.wire.usage import TokenUsage

__all__ = [
    "SIGNATURE",
    "VENDOR",
    "Beat",
    "FaultBeat",
    "PauseBeat",
    "Performance",
    "PerformedParts",
    "ScriptPlayer",
    "TextBeat",
    "ThinkingBeat",
    "ToolInputBeat",
    "ToolStartBeat",
    "play_reply",
]


class TextBeat(Struct, frozen=True):
    """A chunk of text."""

    text: str


class ThinkingBeat(Struct, frozen=True):
    """A chunk of reasoning."""

    text: str


class ToolStartBeat(Struct, frozen=True):
    """A tool call begins; ``free`` ones take plain text in place of JSON."""

    id: str
    name: str
    free: bool = False


class ToolInputBeat(Struct, frozen=True):
    """A piece of the arguments of the call that began last."""

    id: str
    text: str


class PauseBeat(Struct, frozen=True):
    """Silence, in seconds."""

    seconds: float


class FaultBeat(Struct, frozen=True):
    """Here the stream goes wrong; the last beat if ``fault.ends``."""

    fault: ScriptFault


Beat: TypeAlias = TextBeat | ThinkingBeat | ToolStartBeat | ToolInputBeat | PauseBeat | FaultBeat


class Performance:
    """One reply as it is played; ``usage`` and ``stop`` are right once the beats are through."""

    def __init__(
        self,
        *,
        scene: str,
        reply: ScriptReply,
        failure: ScriptFailure | None,
        fault: ScriptFault | None,
        beats: Iterator[Beat],
        input_bytes: int,
    ) -> None:
        self.scene = scene
        self.delay = reply.delay
        self.failure = failure
        """Set: the call fails with this and no beat is played."""
        self.fault = fault
        """Set: the beats have a ``FaultBeat`` with this."""
        self._reply = reply
        self._beats = beats
        self._input = input_bytes
        self._output = 0
        self._thought = 0
        self._calls = 0

    def beats(self) -> Iterator[Beat]:
        """The beats of the reply, once, counted as they pass."""
        fault = self.fault
        left = fault.after if fault else None
        for beat in self._beats:
            is_chunk = not isinstance(beat, PauseBeat)
            if fault and left == 0 and is_chunk:
                yield FaultBeat(fault)
                if fault.ends:
                    return
                left, fault = None, None
            if left is not None and is_chunk:
                left -= 1
            self._count(beat)
            yield beat
        if fault:
            yield FaultBeat(fault)

    def _count(self, beat: Beat) -> None:
        match beat:
            case TextBeat(text) | ToolInputBeat(_, text):
                self._output += len(text.encode())
            case ThinkingBeat(text):
                self._thought += len(text.encode())
            case ToolStartBeat(_, name):
                self._calls += 1
                self._output += len(name.encode())
            case PauseBeat() | FaultBeat():
                pass
            case _:
                assert_never(beat)

    @property
    def usage(self) -> TokenUsage:
        """What the script says, or bytes divided by four, rounded up."""
        if self._reply.usage is not None:
            return self._reply.usage
        thought = _tokens(self._thought)
        return TokenUsage(
            input=_tokens(self._input), output=_tokens(self._output) + thought, thought=thought
        )

    @property
    def stop(self) -> ModelStop:
        """Why the reply ends."""
        return self._reply.stop or ("tool_use" if self._calls else "end_turn")


def _tokens(size: int) -> int:
    return -(-size // 4)


class _Substitution(Struct, frozen=True, kw_only=True):
    """What the parts of one reply are filled with."""

    question: ScriptQuestion
    scene: str
    number: int
    new_id: Callable[[], str]

    def value(self, name: str, number: int) -> str:
        question = self.question
        match name:
            case "prompt":
                return question.prompt
            case "args":
                return question.prompt.split(f"scene:{self.scene}", 1)[-1].strip()
            case "last_tool_result":
                return question.result
            case "request":
                found = REQUEST.search(question.result) or REQUEST.search(question.prompt)
                return found[0] if found else "no request"
            case "n":
                return str(number)
            case "call":
                return str(question.round + 1)
            case "images":
                return ", ".join(question.images) or "no image"
            case "cwd":
                return question.cwd or "."
            case "scene":
                return self.scene
            case _:
                return str(getattr(question, name) or "")

    def fill(self, value: Any, number: int) -> Any:
        """The value with every template in it filled."""
        if isinstance(value, str):
            if "{{" not in value:
                return value
            return TEMPLATE.sub(lambda found: self.value(found[1], number), value)
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            return {key: self.fill(item, number) for key, item in table.items()}
        if isinstance(value, list):
            return [self.fill(item, number) for item in cast("list[Any]", value)]
        return value


def play_reply(
    reply: ScriptReply,
    question: ScriptQuestion,
    *,
    scene: str,
    number: int,
    new_id: Callable[[], str],
) -> Iterator[Beat]:
    """The beats of a reply; ``number`` says which repetition of it this is."""
    telling = _Substitution(question=question, scene=scene, number=number, new_id=new_id)
    for part in reply.parts:
        if isinstance(part, ScriptSleepPart):
            yield PauseBeat(part.sleep)
            continue
        pause = reply.pause if part.pause is None else part.pause
        for repetition in range(1, part.repeat + 1):
            for beat in _play_part(part, telling, repetition if part.repeat > 1 else number):
                yield beat
                if pause and not isinstance(beat, ToolStartBeat):
                    yield PauseBeat(pause)


def _play_part(
    part: ScriptTextPart | ScriptThinkingPart | ScriptToolPart | ScriptCallPart,
    telling: _Substitution,
    number: int,
) -> Iterator[Beat]:
    match part:
        case ScriptTextPart():
            for chunk in _chunks(part.text, part.chunks, telling, number):
                yield TextBeat(chunk)
        case ScriptThinkingPart():
            for chunk in _chunks(part.thinking, part.chunks, telling, number):
                yield ThinkingBeat(chunk)
        case ScriptCallPart():
            text = json.dumps(telling.fill(part.arguments, number))
            text = text if part.raw is None else part.raw
            yield from _call(ResolvedCall(name=part.call, text=text), part.chunks, telling)
        case ScriptToolPart():
            yield from _abstract(part, telling, number)
        case _:
            assert_never(part)


def _abstract(part: ScriptToolPart, telling: _Substitution, number: int) -> Iterator[Beat]:
    question = telling.question
    cwd = question.cwd if "path" in part.arguments else None
    arguments = telling.fill(part.arguments, number)
    call = resolve_tool(part.tool, arguments, question.tools, cwd)
    if call is None:
        offered = ", ".join(t.name for t in question.tools) or "none"
        yield TextBeat(f"[no tool for {part.tool!r} with these arguments; offered: {offered}]")
        return
    if part.raw is not None:
        call = replace(call, text=part.raw)
    yield from _call(call, part.chunks, telling)


def _call(call: ResolvedCall, chunks: int, telling: _Substitution) -> Iterator[Beat]:
    id = telling.new_id()
    yield ToolStartBeat(id, call.name, call.free)
    for piece in _split(call.text, chunks):
        yield ToolInputBeat(id, piece)


def _chunks(
    text: str | tuple[str, ...], chunks: int | None, telling: _Substitution, number: int
) -> Iterator[str]:
    if isinstance(text, tuple):
        for piece in text:
            yield telling.fill(piece, number)
        return
    yield from _split(telling.fill(text, number), chunks or 1)


def _split(text: str, chunks: int) -> Iterator[str]:
    """The text in as many pieces of nearly the same length; none of them is empty."""
    size = max(1, -(-len(text) // chunks))
    for start in range(0, len(text), size):
        yield text[start : start + size]


SIGNATURE = "c2NyaXB0ZWQ="
"""The seal on every scripted thought."""
VENDOR = "scripted"

_Kind: TypeAlias = ToolStartBeat | type[TextBeat] | type[ThinkingBeat]


class PerformedParts:
    """Puts beats together to the parts of a reply."""

    def __init__(self) -> None:
        self._blocks: list[tuple[_Kind, list[str]]] = []

    def add(self, beat: Beat) -> None:
        """Append a beat; rests and breaks say nothing."""
        match beat:
            case TextBeat(text) | ThinkingBeat(text):
                kind = type(beat)
                if not self._blocks or self._blocks[-1][0] is not kind:
                    self._blocks.append((kind, []))
                self._blocks[-1][1].append(text)
            case ToolStartBeat():
                self._blocks.append((beat, []))
            case ToolInputBeat(_, text):
                self._blocks[-1][1].append(text)
            case PauseBeat() | FaultBeat():
                pass
            case _:
                assert_never(beat)

    def parts(self) -> tuple[Part, ...]:
        """What has been sent so far."""
        return tuple(_part(kind, "".join(pieces)) for kind, pieces in self._blocks)

    def message(self) -> Message:
        """What has been sent so far, as the model's entry of the conversation."""
        return Message(role="assistant", parts=self.parts())


def _part(kind: _Kind, text: str) -> Part:
    if isinstance(kind, ToolStartBeat):
        return ToolUsePart(id=f"call_{kind.id}", name=kind.name, arguments=text)
    if kind is ThinkingBeat:
        return ThinkingPart(text=text, vendor=VENDOR, signature=SIGNATURE)
    return TextPart(text=text)


_NAMED = re.compile(r"\bscene:([\w.-]*\w)")
_ECHO = ScriptScene(replies=(ScriptReply.of("You said: {{prompt}}"),))
_Key: TypeAlias = tuple[str | int | None, ...]
_Trouble = TypeVar("_Trouble", ScriptFailure, ScriptFault)


class ScriptPlayer:
    """Plays one script for any number of conversations.

    The question alone decides which reply comes, so that a process that resumes a conversation
    goes on where it stood. Only three things are remembered: how often a limited error or fault
    has happened for a prompt, how far a script in ``sequence`` is, and which call ids are taken.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._line = [
            (name, reply, number)
            for name, scene in script.scenes.items()
            for reply in scene.replies
            for number in range(1, reply.repeat + 1)
        ] if script.play == "sequence" else []  # fmt: skip
        self._next = 0
        self._happened: Counter[_Key] = Counter()
        self._ids = itertools.count(1)

    def play(self, question: ScriptQuestion) -> Performance:
        """The answer to this question. Its beats may be left unplayed."""
        if (aside := _answer_aside(question)) is not None:
            return self._perform(question, "(aside)", ScriptReply.of(aside), 1)
        if self._script.play == "sequence":
            return self._play_next(question)
        name, scene = self._choose(question)
        reply, number = _reply_at(scene, question.round)
        return self._perform(question, name, reply, number)

    def _play_next(self, question: ScriptQuestion) -> Performance:
        if self._next >= len(self._line):
            message = f"The script is over: it has {len(self._line)} replies."
            over = ScriptReply(error=ScriptFailure(status=400, message=message))
            return self._perform(question, "(over)", over, 1)
        name, reply, number = self._line[self._next]
        performance = self._perform(question, name, reply, number, place=self._next)
        # A limited error or fault is asked for again, and then the reply itself is due.
        trouble = performance.failure or performance.fault
        if trouble is None or trouble.times is None:
            self._next += 1
        return performance

    def _choose(self, question: ScriptQuestion) -> tuple[str, ScriptScene]:
        scenes = self._script.scenes
        for name, scene in scenes.items():
            if scene.when is not None and question.fulfils(scene.when):
                return name, scene
        if (named := _NAMED.search(question.prompt)) is not None:
            name = named[1]
            if name in scenes:
                return name, scenes[name]
            text = f"There is no scene {name!r}; this script has: {', '.join(scenes)}."
            return name, ScriptScene(replies=(ScriptReply.of(text),))
        if self._script.default is not None:
            return self._script.default, scenes[self._script.default]
        return "echo", _ECHO

    def _perform(
        self,
        question: ScriptQuestion,
        scene: str,
        reply: ScriptReply,
        number: int,
        place: int | None = None,
    ) -> Performance:
        key: _Key = (place,)
        if place is None:
            key = (question.agent, scene, question.prompt, question.turn, question.round)
        failure = self._due(reply.error, (*key, "error"))
        return Performance(
            scene=scene,
            reply=reply,
            failure=failure,
            fault=None if failure else self._due(reply.fault, (*key, "fault")),
            beats=play_reply(
                reply,
                question,
                scene=scene,
                number=number,
                # The round is read again from the id, see ``History.add_result``.
                new_id=lambda: f"r{question.round}x{question.length}x{next(self._ids)}",
            ),
            input_bytes=question.size,
        )

    def _due(self, trouble: _Trouble | None, key: _Key) -> _Trouble | None:
        """The trouble, unless it has happened as often as it should."""
        if trouble is None or trouble.times is None:
            return trouble
        if self._happened[key] >= trouble.times:
            return None
        self._happened[key] += 1
        return trouble


def _answer_aside(question: ScriptQuestion) -> str | None:
    """The text for a request that agents make besides the conversation, past the script."""
    if question.schema is not None:
        return json.dumps(sample_of(question.schema))
    if question.max_output == 1:
        return "1"
    if question.wants_title:
        return "A scripted title"
    return None


def _reply_at(scene: ScriptScene, place: int) -> tuple[ScriptReply, int]:
    """The reply for this round, and which repetition of it that is; the last one repeats."""
    for reply in scene.replies:
        if place < reply.repeat:
            return reply, place + 1
        place -= reply.repeat
    return scene.replies[-1], scene.replies[-1].repeat + place + 1
