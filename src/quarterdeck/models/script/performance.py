"""A scripted reply, beat by beat, and the parts of the conversation that it adds up to."""

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, assert_never, cast

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.models.model import ModelStop
from quarterdeck.models.script.format import (
    REQUEST,
    TEMPLATE,
    ScriptCallPart,
    ScriptFailure,
    ScriptFault,
    ScriptReply,
    ScriptSleepPart,
    ScriptTextPart,
    ScriptThinkingPart,
    ScriptToolPart,
)
from quarterdeck.models.script.question import ScriptQuestion
from quarterdeck.models.script.tools import ResolvedCall, resolve_tool
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
        self._said = 0
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
                self._said += len(text.encode())
            case ThinkingBeat(text):
                self._thought += len(text.encode())
            case ToolStartBeat(_, name):
                self._calls += 1
                self._said += len(name.encode())
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
            input=_tokens(self._input), output=_tokens(self._said) + thought, thought=thought
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
        """What has been told so far."""
        return tuple(_part(kind, "".join(pieces)) for kind, pieces in self._blocks)

    def message(self) -> Message:
        """What has been told so far, as the model's entry of the conversation."""
        return Message(role="assistant", parts=self.parts())


def _part(kind: _Kind, text: str) -> Part:
    if isinstance(kind, ToolStartBeat):
        return ToolUsePart(id=f"call_{kind.id}", name=kind.name, arguments=text)
    if kind is ThinkingBeat:
        return ThinkingPart(text=text, vendor=VENDOR, signature=SIGNATURE)
    return TextPart(text=text)
