"""A prompt becomes a turn: of the model, or of the command that the prompt is."""

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import MessageChunk, Prompted, TurnEnded, TurnStarted
from quarterdeck.wire.ids import new_message_id

from ..hooks.seam import admit
from ..loop import run_turn
from .command import Answered

if TYPE_CHECKING:
    from ..session import Session
    from ..turn import Turn
    from .book import Call

__all__ = ["run_prompt"]

_log = logging.getLogger(__name__)


async def run_prompt(session: "Session", turn: "Turn", prompted: Prompted) -> TurnEnded:
    """Run the turn that a prompt asks for; returns how it ended.

    Raises:
        JournalError: the log takes no more events.
    """
    call = session.commands.find(prompted)
    if call is None:
        return await _run(turn, prompted)
    if isinstance(call.command, Answered):
        return await _answer(session, turn, prompted, call)
    try:
        content = await call.command.expand(session, call.words)
    except QuarterdeckError as error:
        return await _say(turn, prompted, f"Not done: {error}")
    return await _run(turn, replace(prompted, told=(*content, *prompted.content[1:])))


async def _run(turn: "Turn", prompted: Prompted) -> TurnEnded:
    """Run a turn of the model, unless a hook refuses the prompt."""
    admitted = await admit(turn.hooks, turn.emit, prompted)
    if isinstance(admitted, Prompted):
        return await run_turn(turn, admitted)
    await _begin(turn, prompted)
    return await _end(turn, TurnEnded(stop="refusal", reason=admitted))


async def _answer(session: "Session", turn: "Turn", prompted: Prompted, call: "Call") -> TurnEnded:
    assert isinstance(call.command, Answered)
    await _begin(turn, prompted)
    try:
        said = await call.command.answer(session, call.words)
    except QuarterdeckError as error:
        said = f"Not done: {error}"
    except asyncio.CancelledError:
        await turn.emit(TurnEnded(stop="cancelled"))
        raise
    except Exception as error:
        _log.exception("command /%s failed", call.command.name)
        reason = f"an error in the program: {type(error).__name__}: {error}"
        return await _end(turn, TurnEnded(stop="failed", reason=reason))
    return await _tell(turn, said)


async def _say(turn: "Turn", prompted: Prompted, said: str) -> TurnEnded:
    await _begin(turn, prompted)
    return await _tell(turn, said)


async def _begin(turn: "Turn", prompted: Prompted) -> None:
    await turn.emit(replace(prompted, told=()))
    await turn.emit(TurnStarted(prompt=prompted.message))


async def _tell(turn: "Turn", said: str) -> TurnEnded:
    await turn.emit(MessageChunk(content=text(said), message=new_message_id()))
    return await _end(turn, TurnEnded(stop="end_turn"))


async def _end(turn: "Turn", ended: TurnEnded) -> TurnEnded:
    await turn.emit(ended)
    return ended
