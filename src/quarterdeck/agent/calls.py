"""A tool call's way: prepare → permit → execute → finish.

Calls of one step are prepared in the model's order, then run side by side; each ends with
exactly one ``ToolCallEnded`` that carries what the model is told, whatever went wrong. Their
results go back in the model's order because the conversation sorts them, not because of when
they end.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from quarterdeck.wire.conversation import TextPart, ToolResultPart, ToolUsePart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    Event,
    QuestionAnswered,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.toolcalls import ToolCallEnd

from .gate import Refused
from .tools.tool import Outcome, Prepared, Tool, said
from .turn import Turn

__all__ = ["run_calls"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call that has been announced and may ask for leave."""

    use: ToolUsePart
    tool: Tool
    prepared: Prepared
    arguments: Any


async def run_calls(turn: Turn, uses: tuple[ToolUsePart, ...]) -> bool:
    """Run the calls of one step; True if at least one of them did its work."""
    ready = [await _prepare(turn, use) for use in uses]
    room = asyncio.Semaphore(turn.limits.max_concurrent_tools)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_run(turn, call, room)) for call in ready if call is not None]
    return any(task.result() for task in tasks)


async def _prepare(turn: Turn, use: ToolUsePart) -> _Ready | None:
    """Understand and announce a call; one that cannot run ends here, told to the model."""
    raw = _decoded(use.arguments)
    tool = turn.toolbox.find(use.name)
    if tool is None:
        known = ", ".join(turn.toolbox.names)
        return await _refuse(turn, use, raw, f"There is no tool {use.name!r}. Tools: {known}.")
    try:
        arguments = turn.toolbox.decode(tool, use.arguments)
        prepared = await tool.prepare(arguments, turn.workspace)
    except QuarterdeckError as error:
        return await _refuse(turn, use, raw, str(error), tool)
    except Exception as error:
        _log.exception("tool %s failed while preparing", use.name)
        return await _refuse(turn, use, raw, f"The tool failed: {error!r}.", tool)
    await turn.emit(
        ToolCallStarted(
            call=ToolCallId(use.id),
            title=prepared.title,
            name=tool.name,
            kind=tool.kind,
            content=prepared.content,
            locations=prepared.locations,
            raw_input=raw,
        )
    )
    return _Ready(use, tool, prepared, raw)


async def _refuse(
    turn: Turn, use: ToolUsePart, raw: Any, reason: str, tool: Tool | None = None
) -> None:
    call = ToolCallId(use.id)
    kind = tool.kind if tool else "other"
    await turn.emit(
        ToolCallStarted(call=call, title=use.name, name=use.name, kind=kind, raw_input=raw)
    )
    await _finish(turn, use, "failed", said(reason, is_error=True), reason)


async def _run(turn: Turn, ready: _Ready, room: asyncio.Semaphore) -> bool:
    """Permit, execute and finish one call; True if it did its work."""
    use = ready.use
    try:
        refused = await turn.gate.permit(
            turn.emit, ToolCallId(use.id), ready.tool, ready.prepared, ready.arguments
        )
        if isinstance(refused, Refused):
            await _finish(turn, use, "failed", said(refused.told, is_error=True), refused.reason)
            return False
        async with room:
            await turn.emit(ToolCallUpdated(call=ToolCallId(use.id), status="in_progress"))
            outcome = await _execute(turn, ready)
    except asyncio.CancelledError:
        told = said("The call was cancelled before it finished.", is_error=True)
        await _finish(turn, use, "cancelled", told, "cancelled")
        raise
    await _finish(turn, use, "failed" if outcome.is_error else "completed", outcome)
    return not outcome.is_error


async def _execute(turn: Turn, ready: _Ready) -> Outcome:
    live = _Live(turn, ToolCallId(ready.use.id))
    try:
        async with asyncio.timeout(ready.prepared.timeout):
            return await ready.prepared.run(live)
    except TimeoutError:
        return said(f"The tool did not finish within {ready.prepared.timeout:g} s.", is_error=True)
    except QuarterdeckError as error:
        return said(str(error), is_error=True)
    except Exception as error:
        _log.exception("tool %s failed", ready.tool.name)
        return said(f"The tool failed: {error!r}.", is_error=True)


async def _finish(
    turn: Turn, use: ToolUsePart, status: ToolCallEnd, outcome: Outcome, reason: str | None = None
) -> None:
    result = outcome.result or (TextPart(text="(no output)"),)
    if reason is None and outcome.is_error:
        reason = next((part.text for part in result if isinstance(part, TextPart)), None)
    await turn.emit(
        ToolCallEnded(
            call=ToolCallId(use.id),
            status=status,
            reason=reason,
            content=UNSET if outcome.content is None else outcome.content,
            locations=UNSET if outcome.locations is None else outcome.locations,
            raw_output=UNSET if outcome.raw_output is None else outcome.raw_output,
            result=ToolResultPart(id=use.id, content=result, is_error=outcome.is_error),
        )
    )


def _decoded(arguments: str) -> Any:
    """The arguments as a value for people to look at; the bare text when it is no JSON."""
    try:
        return msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return arguments


class _Live:
    """What a running call can do towards the session."""

    def __init__(self, turn: Turn, call: ToolCallId) -> None:
        self._turn = turn
        self.call = call

    async def emit(self, event: Event) -> None:
        await self._turn.emit(event)

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered:
        return await self._turn.gate.ask(self._turn.emit, text, form, self.call)
