"""The turn: ask the model, run what it calls, until it is done or a limit is reached.

``run_prompt`` decides whether a prompt is a slash command or a turn of the model; ``run_turn`` is
the loop. Every announced tool call ends, the turn ends with exactly one ``TurnEnded``, and no
completed step is lost: its events are in the log before the next step begins.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from quarterdeck.models.errors import ModelError
from quarterdeck.models.model import ReplyFinished
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import TextPart, ToolResultPart, ToolUsePart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    EMPTY_TURN,
    MessageChunk,
    NoticePosted,
    Prompted,
    TurnEnd,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import new_message_id
from quarterdeck.wire.tasks import run_beside

from .commands import AnsweredCommand
from .limits import Repetition, TurnStoppedError, fingerprint, out_of_time
from .model_call import ask_model
from .ports import Turn, run_prompt_hooks, run_stop_hooks
from .tool_calls import run_calls

if TYPE_CHECKING:
    from .commands import CommandCall, CommandSession

__all__ = ["run_prompt", "run_turn"]

_log = logging.getLogger(__name__)
_RECENT = 4
"""Messages in which the results of a step are looked for: notes may follow them."""
_SHORTEST_LOOK = 0.05
"""Seconds between two looks at the time, while a person is waited for."""


async def run_turn(turn: Turn, prompted: Prompted) -> TurnEnded:
    """Run one turn for a prompt; returns how it ended.

    The prompt is safe from a crash before the model is asked. Cancelling the task ends the turn
    as ``cancelled``: the event is emitted, then the cancellation goes on its way. An error that
    was not expected ends it as ``failed``.

    Raises:
        JournalError: the log takes no more events, not even the turn's end.
    """
    # Neither of these is a place to be cancelled at, so the log has both or none.
    await turn.emit(prompted)
    await turn.emit(TurnStarted(prompt=prompted.message))
    try:
        await turn.durable()
        await _steps_in_time(turn)
    except TurnStoppedError as stopped:
        return await _end(turn, stopped.stop, stopped.reason)
    except ModelError as error:
        return await _end(turn, "failed", str(error))
    except asyncio.CancelledError:
        await _end(turn, "cancelled", None)
        raise
    except Exception as error:
        _log.exception("the turn failed")
        return await _end(turn, "failed", _reason(error))
    return await _end(turn, "end_turn", None)


async def _steps_in_time(turn: Turn) -> None:
    """Run the steps, and stop them wherever they are when the turn's time is over."""
    seconds = turn.limits.seconds
    if seconds is None:
        await _steps(turn)
        return
    bound = asyncio.timeout(None)
    try:
        async with bound, run_beside(_watch(turn, seconds, bound), name="turn: time limit"):
            await _steps(turn)
    except TimeoutError as error:
        if bound.expired():
            raise out_of_time(seconds) from error
        raise


async def _watch(turn: Turn, seconds: float, bound: asyncio.Timeout) -> None:
    while (left := seconds - turn.elapsed()) > 0:  # noqa: ASYNC110 - only the clock can tell
        await asyncio.sleep(max(left, _SHORTEST_LOOK))
    bound.reschedule(asyncio.get_running_loop().time())


async def _steps(turn: Turn) -> None:
    continued, is_empty = 0, True
    repetition = Repetition(turn.limits.repeats)
    while True:
        turn.spending.check(turn.elapsed())
        turn.spending.calls += 1
        await turn.servers.settle(turn.toolbox, turn.emit)
        finished = await ask_model(turn)
        uses = tuple(part for part in finished.reply.parts if isinstance(part, ToolUsePart))
        if uses and await _run_step(turn, uses, repetition, finished.stop == "max_tokens"):
            turn.spending.progress += 1
        is_empty = is_empty and not uses and not _has_text(finished)
        steered = turn.steering()
        if not uses and not steered:
            _conclude(finished)
            again = await run_stop_hooks(turn, continued)
            steered = turn.steering()  # meanwhile
            if again is None and not steered:
                if is_empty:
                    await turn.emit(EMPTY_TURN)
                return
            if again is not None:
                continued += 1
                await turn.emit(again)
        for prompted in steered:
            await _steer(turn, prompted)


async def _run_step(
    turn: Turn, uses: tuple[ToolUsePart, ...], repetition: Repetition, cut_short: bool
) -> bool:
    """Run the calls of a step; whether that was progress. Raises TurnStoppedError for a loop."""
    begun = turn.pace.clock()
    worked = await run_calls(turn, uses, cut_short=cut_short)
    results = {
        part.id: part.content
        for message in turn.conversation.recent_messages[-_RECENT:]
        for part in message.parts
        if isinstance(part, ToolResultPart)
    }
    calls = ((use.name, _canonical(use.arguments), results.get(use.id)) for use in uses)
    return repetition.note(fingerprint(calls), turn.pace.clock() - begun) and worked


def _canonical(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError):
        return arguments


async def _steer(turn: Turn, prompted: Prompted) -> None:
    admitted = await run_prompt_hooks(turn.hooks, turn.emit, prompted)
    if isinstance(admitted, str):
        await turn.emit(replace(prompted, model_content=()))
        await turn.emit(NoticePosted(title="A message was not delivered", description=admitted))
    else:
        await turn.emit(admitted)


def _has_text(finished: ReplyFinished) -> bool:
    return any(part.text.strip() for part in finished.reply.parts if isinstance(part, TextPart))


def _conclude(finished: ReplyFinished) -> None:
    match finished.stop:
        case "max_tokens":
            raise TurnStoppedError("max_tokens", "the model's limit for one answer")
        case "refusal":
            raise TurnStoppedError("refusal", "the model declined")
        case _:
            return


async def _end(turn: Turn, stop: TurnEnd, reason: str | None) -> TurnEnded:
    spending = turn.spending
    spending.take_beside()
    ended = TurnEnded(stop=stop, reason=reason, usage=spending.usage, cost=spending.total_cost)
    try:
        await turn.watch.finish(turn, hurried=stop == "cancelled")
    except asyncio.CancelledError:
        await turn.emit(replace(ended, stop="cancelled", reason=None))
        raise
    await turn.emit(ended)
    return ended


def _reason(error: Exception) -> str:
    """What went wrong, in one line; of a group the first."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    if isinstance(error, QuarterdeckError):
        return str(error)
    return f"internal error: {type(error).__name__}: {error}"


async def run_prompt(
    session: "CommandSession", call: "CommandCall | None", turn: "Turn", prompted: Prompted
) -> TurnEnded:
    """Run the turn that a prompt asks for; returns how it ended.

    ``call`` is the command that the prompt is; None: it is for the model.

    Raises:
        JournalError: the log takes no more events.
    """
    if call is None:
        return await _run_model_turn(turn, prompted)
    if isinstance(call.command, AnsweredCommand):
        return await _answer(session, turn, prompted, call)
    try:
        content = await call.command.expand(session, call.words)
    except QuarterdeckError as error:
        return await _say(turn, prompted, f"Failed: {error}")
    return await _run_model_turn(
        turn, replace(prompted, model_content=(*content, *prompted.content[1:]))
    )


async def _run_model_turn(turn: "Turn", prompted: Prompted) -> TurnEnded:
    """Run a turn of the model, unless a hook refuses the prompt."""
    admitted = await run_prompt_hooks(turn.hooks, turn.emit, prompted)
    if isinstance(admitted, Prompted):
        return await run_turn(turn, admitted)
    await _begin(turn, prompted)
    return await _end_answer(turn, TurnEnded(stop="refusal", reason=admitted))


async def _answer(
    session: "CommandSession", turn: "Turn", prompted: Prompted, call: "CommandCall"
) -> TurnEnded:
    assert isinstance(call.command, AnsweredCommand)
    await _begin(turn, prompted)
    try:
        answer = await call.command.answer(session, call.words)
    except QuarterdeckError as error:
        answer = f"Failed: {error}"
    except asyncio.CancelledError:
        await turn.emit(TurnEnded(stop="cancelled"))
        raise
    except Exception as error:
        _log.exception("command /%s failed", call.command.name)
        reason = f"internal error: {type(error).__name__}: {error}"
        return await _end_answer(turn, TurnEnded(stop="failed", reason=reason))
    return await _tell(turn, answer)


async def _say(turn: "Turn", prompted: Prompted, text: str) -> TurnEnded:
    await _begin(turn, prompted)
    return await _tell(turn, text)


async def _begin(turn: "Turn", prompted: Prompted) -> None:
    await turn.emit(replace(prompted, model_content=()))
    await turn.emit(TurnStarted(prompt=prompted.message))


async def _tell(turn: "Turn", content: str) -> TurnEnded:
    await turn.emit(MessageChunk(content=text(content), message=new_message_id()))
    return await _end_answer(turn, TurnEnded(stop="end_turn"))


async def _end_answer(turn: "Turn", ended: TurnEnded) -> TurnEnded:
    await turn.emit(ended)
    return ended
