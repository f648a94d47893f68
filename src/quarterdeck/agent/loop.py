"""The turn: ask the model, run what it calls, until it is done or a limit is reached.

Whatever happens, every announced tool call ends, the turn ends with exactly one ``TurnEnded``,
and no completed step is lost: its events are in the log before the next step begins.
"""

import asyncio

from quarterdeck.models.errors import ModelError
from quarterdeck.models.model import Finished
from quarterdeck.wire.conversation import ToolUsePart
from quarterdeck.wire.events import TurnEnd, TurnEnded, TurnStarted
from quarterdeck.wire.ids import MessageId

from .ask import ask_model
from .calls import run_calls
from .limits import TurnStopped
from .turn import Turn

__all__ = ["run_turn"]


async def run_turn(turn: Turn, prompt: MessageId) -> TurnEnded:
    """Run one turn for a prompt that is already in the log; returns how it ended.

    Cancelling the task ends the turn as ``cancelled``: the event is emitted, then the
    cancellation goes on its way.
    """
    await turn.emit(TurnStarted(prompt=prompt))
    try:
        await _steps(turn)
    except TurnStopped as stopped:
        return await _end(turn, stopped.stop, stopped.reason)
    except ModelError as error:
        return await _end(turn, "failed", str(error))
    except asyncio.CancelledError:
        await _end(turn, "cancelled", None)
        raise
    return await _end(turn, "end_turn", None)


async def _steps(turn: Turn) -> None:
    while True:
        turn.spending.check(turn.clock())
        turn.spending.calls += 1
        finished = await ask_model(turn)
        uses = tuple(part for part in finished.reply.parts if isinstance(part, ToolUsePart))
        if uses and await run_calls(turn, uses):
            turn.spending.progress += 1
        steered = turn.steering()
        if not uses and not steered:
            return _conclude(finished)
        for prompted in steered:
            await turn.emit(prompted)


def _conclude(finished: Finished) -> None:
    match finished.stop:
        case "max_tokens":
            raise TurnStopped("max_tokens", "the model's limit for one answer")
        case "refusal":
            raise TurnStopped("refusal", "the model declined")
        case _:
            return


async def _end(turn: Turn, stop: TurnEnd, reason: str | None) -> TurnEnded:
    spending = turn.spending
    ended = TurnEnded(stop=stop, reason=reason, usage=spending.usage, cost=spending.total_cost)
    await turn.emit(ended)
    return ended
