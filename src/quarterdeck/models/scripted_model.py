"""A model that plays a script, in process: for tests, the demo and work without a network.

``scripted/NAME`` plays a script that comes with the package, ``scripted/path/to/file.toml`` any
other. Nothing is asked of any vendor, nothing is random, and time is an argument.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, assert_never

import msgspec

from quarterdeck.models.errors import (
    CallError,
    ContextOverflowError,
    ModelError,
    OverloadedError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    StreamBrokenError,
    UnauthorizedError,
)
from quarterdeck.models.model import (
    Delta,
    Model,
    ModelInfo,
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
    ToolUseDelta,
    ToolUseStarted,
)
from quarterdeck.models.script import Script, ScriptFailure, ScriptFault, load_script
from quarterdeck.models.script.performance import (
    VENDOR,
    FaultBeat,
    PauseBeat,
    PerformedParts,
    ScriptPlayer,
    TextBeat,
    ThinkingBeat,
    ToolInputBeat,
    ToolStartBeat,
)
from quarterdeck.models.script.question import ScriptConversation, ScriptQuestion
from quarterdeck.models.script.tools import OfferedTool
from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    TextPart,
    ToolResultPart,
    ToolUsePart,
)
from quarterdeck.wire.tasks import race_tasks

__all__ = ["ScriptedModel"]

_BURST = 32
"""Deltas that may pass before the loop is given a turn, as a network's packets would."""

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class ScriptedModel:
    """A model of the port that plays a script."""

    def __init__(
        self,
        script: Script,
        *,
        name: str = "default",
        sleep: Sleep = asyncio.sleep,
        window: int = 200_000,
        max_output: int = 32_000,
    ) -> None:
        self._player = ScriptPlayer(script)
        self._sleep = sleep
        self._closed = asyncio.Event()
        self._info = ModelInfo(
            vendor=VENDOR, id=name, window=window, max_output=max_output, thinking=True
        )
        self.requests: deque[ModelRequest] = deque(maxlen=1000)
        """The last requests, in order, for tests to look at."""

    @classmethod
    def load(cls, name: str, *, sleep: Sleep = asyncio.sleep) -> "ScriptedModel":
        """The model of a script that is shipped, or of a file; reads it, so use a thread.

        Raises:
            ScriptError: there is no such script, or it is not valid.
        """
        return cls(load_script(name), name=name, sleep=sleep)

    @property
    def info(self) -> ModelInfo:
        """What is known of the model: nothing costs anything."""
        return self._info

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Play the reply that this request is due; see the port for what is guaranteed.

        Usage is what the script says, or bytes divided by four, rounded up: of the system text,
        the messages and the tools for the input, of text, thinking and calls for the output.

        Raises:
            CallError: as the script wants it, with what had been sent as ``partial``.
            ModelError: the model is closed.
        """
        self.requests.append(request)
        performance = self._player.play(_question(request, self._info))
        await self._rest(performance.delay)
        if performance.failure is not None:
            raise _call_error(performance.failure)
        performed = PerformedParts()
        for count, beat in enumerate(performance.beats(), 1):
            if isinstance(beat, PauseBeat):
                await self._rest(beat.seconds)
            elif isinstance(beat, FaultBeat):
                await self._break(beat.fault, performed)
            else:
                performed.add(beat)
                yield _delta(beat)
                if count % _BURST == 0:
                    await self._rest(0)
        yield ReplyFinished(
            reply=performed.message(),
            stop=performance.stop,
            usage=performance.usage,
            raw_stop=performance.stop,
        )

    async def close(self) -> None:
        """End every call under way with ``ModelError``, and refuse new ones."""
        self._closed.set()

    async def _rest(self, seconds: float) -> None:
        """Wait, unless the model is closed."""
        if self._closed.is_set():
            raise ModelError(f"The model {self._info.name!r} was closed; open it again to ask it.")
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await race_tasks(self._sleep(seconds), self._closed.wait())
        await self._rest(0)

    async def _break(self, fault: ScriptFault, performed: PerformedParts) -> None:
        """Go wrong as a vendor's wire would report it; an unknown event is passed over."""
        if fault.kind == "unknown":
            return
        partial = performed.message() if performed.parts() else None
        if fault.kind == "error":
            failure = ScriptFailure(status=fault.status, message=fault.message)
            raise _call_error(failure, partial=partial)
        if fault.kind == "stall":
            await self._rest(fault.seconds)
        raise StreamBrokenError(_BROKEN[fault.kind], partial=partial)


_BROKEN = {
    "garbage": "The stream has bytes that are not an event.",
    "badjson": "The stream has an event that is not JSON.",
    "drop": "The connection was lost in the middle of the reply.",
    "noend": "The stream ended before the reply was complete.",
    "stall": "The rest of the reply did not arrive.",
}


def _delta(beat: TextBeat | ThinkingBeat | ToolStartBeat | ToolInputBeat) -> Delta:
    match beat:
        case TextBeat(text):
            return TextDelta(text)
        case ThinkingBeat(text):
            return ThinkingDelta(text)
        case ToolStartBeat(id, name):
            return ToolUseStarted(f"call_{id}", name)
        case ToolInputBeat(id, text):
            return ToolUseDelta(f"call_{id}", text)
        case _:
            assert_never(beat)


def _question(request: ModelRequest, info: ModelInfo) -> ScriptQuestion:
    history = ScriptConversation()
    for message in request.messages:
        _read(message, history)
    return history.question(
        system=request.system,
        tools=tuple(OfferedTool(name=t.name, parameters=t.parameters) for t in request.tools),
        max_output=request.max_output,
        size=_size(request),
        model=info.id,
        source=[request.system, *(_texts(m) for m in request.messages)],
    )


def _read(message: Message, history: ScriptConversation) -> None:
    if message.role == "assistant":
        history.add_answer(calls=any(isinstance(p, ToolUsePart) for p in message.parts))
        return
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            text = "".join(p.text for p in part.content if isinstance(p, TextPart))
            history.add_result(part.id, text)
    images = [p.mime_type for p in message.parts if isinstance(p, ImagePart)]
    history.add_prompt(_texts(message), images)


def _texts(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, TextPart)]


def _size(request: ModelRequest) -> int:
    """Bytes of all that is sent to the model, in our own form."""
    items = [p for m in request.messages for p in m.parts]
    tools = [(t.name, t.description, t.parameters) for t in request.tools]
    return len(request.system.encode()) + sum(
        len(msgspec.json.encode(value)) for value in (*items, *tools)
    )


def _call_error(failure: ScriptFailure, *, partial: Message | None = None) -> CallError:
    """The error that a vendor's wire raises for this answer."""
    status = failure.status
    message = failure.message or f"The script answers with status {status}."
    retry_after = next(
        (float(v) for k, v in failure.headers.items() if k.lower() == "retry-after"), None
    )
    if failure.kind == "hangup":
        return StreamBrokenError("The connection was closed without an answer.", partial=partial)
    kind = _kind_of(failure)
    return kind(message, status=status, retry_after=retry_after, partial=partial)


def _kind_of(failure: ScriptFailure) -> type[CallError]:
    if failure.kind is not None:
        return ContextOverflowError if failure.kind == "overflow" else QuotaExceededError
    if failure.status >= 500:
        return OverloadedError
    return _BY_STATUS.get(failure.status, RequestRejectedError)


_BY_STATUS: dict[int, type[CallError]] = {
    401: UnauthorizedError,
    402: QuotaExceededError,
    403: UnauthorizedError,
    429: RateLimitedError,
}


if TYPE_CHECKING:
    _: Model = ScriptedModel(Script(scenes={}))
