"""A tool call's way: prepare → permit → execute → finish.

Calls of one step are prepared in the model's order, then run side by side. A call that touches
what an earlier call of the step changes, or that cannot be prepared yet, waits for the earlier
ones. Each call ends with exactly one ``ToolCallEnded``; results keep the model's order.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, field

from quarterdeck.policy.call import Call
from quarterdeck.policy.gate import Emit, Gate, HookAdvice, PermissionGranted, PermissionRefused
from quarterdeck.policy.modes import Containment
from quarterdeck.wire.conversation import ResultPart, TextPart, ToolResultPart, ToolUsePart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    Event,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
)
from quarterdeck.wire.ids import ToolCallId, new_request_id
from quarterdeck.wire.tool_calls import ToolCallEnd, ToolKind

from .ports import Turn
from .tools.tool import (
    EVERYTHING,
    Arguments,
    Footprint,
    PreparedCall,
    Tool,
    ToolOutcome,
    footprint_of,
    text_outcome,
)
from .tools.truncation import keep_ends

__all__ = ["make_bare_title", "permit", "run_calls"]

_OBJECTS = ("path", "command", "pattern", "url", "name")
"""Arguments that say what a call works on."""
_LONGEST_TITLE = 200


async def permit(
    gate: Gate,
    emit: Emit,
    id_: ToolCallId,
    tool: Tool,
    prepared: PreparedCall,
    raw_input: Any,
    urge: HookAdvice | None = None,
) -> PermissionGranted | PermissionRefused:
    """Decide about a call, asking if need be; ``urge``: the advice of a hook."""
    question = PermissionAsked(
        request=new_request_id(),
        call=id_,
        title=prepared.title,
        options=(),
        kind=tool.kind,
        name=tool.name,
        content=prepared.content,
        locations=prepared.locations,
        raw_input=_shown(raw_input, prepared.shows),
    )
    return await gate.permit(emit, question, prepared.call, urge)


def _shown(arguments: Any, facts: dict[str, Any]) -> Any:
    """The whole input as the model wrote it, with what else a person should know."""
    if not isinstance(arguments, dict):
        return arguments
    return {**facts, **cast("dict[str, Any]", arguments)}


_log = logging.getLogger(__name__)
_SLACK = 5
"""How far a text may go beyond what tools are to keep to: they count characters, and add notes."""
_CUT_SHORT = (
    "The answer reached the model's output limit before this call was complete; nothing was run. "
    "Send the call again, in smaller pieces if it is long."
)


class _Understood(Struct, frozen=True):
    """A call of a tool that there is, with arguments that fit."""

    use: ToolUsePart
    tool: Tool
    arguments: Arguments
    raw: Any
    """The arguments as people see them."""


class _Ready(Struct, frozen=True):
    """A call that has been announced and may request permission."""

    use: ToolUsePart
    tool: Tool
    prepared: PreparedCall
    arguments: Any
    refused: PermissionRefused | None = None
    """Why a hook will not have it."""
    urge: HookAdvice | None = None
    """The advice of a hook."""
    notes: tuple[str, ...] = ()
    """What hooks send to the model with the result."""


class _Place(Struct, frozen=True, kw_only=True):
    """A call's place in its step."""

    call: _Understood
    ready: _Ready | None
    """None: it is prepared when those in ``after`` have ended."""
    footprint: Footprint
    after: tuple["_Place", ...] = ()
    ended: asyncio.Event = field(default_factory=asyncio.Event)


async def run_calls(turn: Turn, uses: tuple[ToolUsePart, ...], *, cut_short: bool = False) -> bool:
    """Run the calls of one step; True if at least one of them did its work.

    ``cut_short``: the model ran out of room, so that the last call may be a half. However this
    ends, by cancellation too, each call has been announced and has ended.
    """
    room = asyncio.Semaphore(turn.limits.max_concurrent_tools)
    announced: set[str] = set()
    try:
        places: list[_Place] = []
        for use in uses:
            if cut_short and use is uses[-1] and not use.arguments.strip():
                await _refuse(turn, use, announced, _CUT_SHORT)
            elif (call := await _understand(turn, use, announced)) is not None:
                place = await _place(turn, call, announced, places)
                places += [place] if place is not None else []
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_run_in_turn(turn, place, announced, room)) for place in places
            ]
    except BaseException:
        await _end_the_rest(turn, uses, announced)
        raise
    return any(task.result() for task in tasks)


async def _end_the_rest(turn: Turn, uses: tuple[ToolUsePart, ...], announced: set[str]) -> None:
    """End the calls that have not even begun, so that the conversation stays whole."""
    left = turn.conversation.unanswered
    try:
        for use in uses:
            if use.id not in left:
                continue
            if use.id not in announced:
                await _announce(turn, use, announced, _decoded(use.arguments))
            outcome = text_outcome("The call was cancelled before it started.", is_error=True)
            await _finish(turn, use, "cancelled", outcome, "cancelled")
    except QuarterdeckError:
        _log.exception("could not log the ends of the calls")


async def _understand(turn: Turn, use: ToolUsePart, announced: set[str]) -> _Understood | None:
    """Find the tool and read the arguments; waiting could not fix what is wrong with them."""
    tool = turn.toolbox.find(use.name)
    if tool is None:
        known = ", ".join(turn.toolbox.names)
        reason = f"There is no tool {use.name!r}. Tools: {known}."
        return await _refuse(turn, use, announced, reason)
    try:
        arguments = turn.toolbox.decode(tool, use.arguments)
    except QuarterdeckError as error:
        return await _refuse(turn, use, announced, str(error), tool)
    return _Understood(use, tool, arguments, _decoded(use.arguments))


async def _place(
    turn: Turn, call: _Understood, announced: set[str], earlier: list[_Place]
) -> _Place | None:
    """Announce a call that can run beside the earlier ones; let one wait that cannot."""
    prepared = await _prepared(turn, call)
    if isinstance(prepared, str):
        if not earlier:
            return await _refuse(turn, call.use, announced, prepared, call.tool)
        return _Place(call=call, ready=None, footprint=EVERYTHING, after=tuple(earlier))
    footprint = footprint_of(prepared.call)
    after = tuple(place for place in earlier if footprint.meets(place.footprint))
    ready = None if after else await _begin(turn, call, announced, prepared)
    return _Place(call=call, ready=ready, footprint=footprint, after=after)


async def _prepared(turn: Turn, call: _Understood) -> PreparedCall | str:
    """What the call would do, or why it cannot."""
    try:
        return await call.tool.prepare(call.arguments, turn.workspace)
    except QuarterdeckError as error:
        return str(error)
    except Exception as error:
        _log.exception("tool %s failed while preparing", call.tool.name)
        return f"The tool failed: {error!r}."


async def _begin(
    turn: Turn, call: _Understood, announced: set[str], prepared: PreparedCall
) -> _Ready:
    announced.add(call.use.id)
    await turn.emit(
        ToolCallStarted(
            call=ToolCallId(call.use.id),
            title=prepared.title,
            name=call.tool.name,
            kind=call.tool.kind,
            content=prepared.content,
            locations=prepared.locations,
            raw_input=call.raw,
        )
    )
    return _Ready(call.use, call.tool, prepared, call.raw)


async def _announce(
    turn: Turn, use: ToolUsePart, announced: set[str], raw: Any, kind: ToolKind = "other"
) -> None:
    """Announce a call of which no more is known than what the model wrote."""
    announced.add(use.id)
    call = ToolCallId(use.id)
    title = make_bare_title(use.name, raw)
    await turn.emit(
        ToolCallStarted(call=call, title=title, name=use.name, kind=kind, raw_input=raw)
    )


def make_bare_title(name: str, raw: Any) -> str:
    """The name of a tool, and what it was to work on where the model wrote that plainly."""
    if not isinstance(raw, Mapping):
        return name
    arguments = cast("Mapping[str, Any]", raw)
    for key in _OBJECTS:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            return f"{name} {value.strip()[:_LONGEST_TITLE]}"
    return name


async def _refuse(
    turn: Turn, use: ToolUsePart, announced: set[str], reason: str, tool: Tool | None = None
) -> None:
    kind = tool.kind if tool else "other"
    await _announce(turn, use, announced, _decoded(use.arguments), kind)
    await _finish(turn, use, "failed", text_outcome(reason, is_error=True), reason)


async def _run_in_turn(
    turn: Turn, place: _Place, announced: set[str], room: asyncio.Semaphore
) -> bool:
    """Run a call when those that it waits for have ended; True if it did its work."""
    try:
        for earlier in place.after:
            await earlier.ended.wait()
        ready = place.ready
        if ready is None:
            prepared = await _prepared(turn, place.call)
            if isinstance(prepared, str):
                await _refuse(turn, place.call.use, announced, prepared, place.call.tool)
                return False
            ready = await _begin(turn, place.call, announced, prepared)
        return await _run(turn, ready, room)
    finally:
        place.ended.set()


async def _run(turn: Turn, ready: _Ready, room: asyncio.Semaphore) -> bool:
    """Permit, execute and finish one call; True if it did its work."""
    use = ready.use
    try:
        ready = await _oversee(turn, ready)
        verdict = ready.refused or await _permit(turn, ready)
        if isinstance(verdict, PermissionRefused):
            await _finish(
                turn,
                use,
                "failed",
                text_outcome(verdict.model_reason, is_error=True),
                verdict.reason,
            )
            return False
        async with room:
            await turn.emit(ToolCallUpdated(call=ToolCallId(use.id), status="in_progress"))
            await turn.watch.before_call(turn, ready.prepared.call)
            outcome = await _execute(turn, ready, verdict.containment)
    except asyncio.CancelledError:
        cancelled = text_outcome("The call was cancelled before it finished.", is_error=True)
        await _finish(turn, use, "cancelled", cancelled, "cancelled")
        raise
    try:
        outcome = await _reviewed(turn, ready, outcome)
    finally:  # the result is recorded even if a review of it fails
        await _finish(turn, use, "failed" if outcome.is_error else "completed", outcome)
    if turn.instructions is not None:
        paths = [use.resolved for use in ready.prepared.call.paths]
        await turn.instructions.touched(paths, turn.conversation, turn.emit)
    return not outcome.is_error


async def _oversee(turn: Turn, ready: _Ready) -> _Ready:
    """Let hooks look at a call: they may refuse it, change it, or say whether to ask."""
    if not turn.hooks.has("before_tool"):
        return ready
    from .hooks.runner import run_before_tool_hooks

    id_ = ToolCallId(ready.use.id)
    seen = await run_before_tool_hooks(turn, id_, ready.tool, ready.prepared, ready.arguments)
    refused = None
    if seen.refused is not None:
        refused = PermissionRefused(seen.refused, f"This was not run: {seen.refused}")
    return msgspec.structs.replace(
        ready,
        prepared=seen.prepared,
        arguments=seen.raw,
        refused=refused,
        urge=seen.urge,
        notes=seen.notes,
    )


async def _reviewed(turn: Turn, ready: _Ready, outcome: ToolOutcome) -> ToolOutcome:
    """The outcome with what hooks say about it."""
    if not ready.notes and not turn.hooks.has("after_tool"):
        return outcome
    from .hooks.runner import run_after_tool_hooks

    id_ = ToolCallId(ready.use.id)
    return await run_after_tool_hooks(
        turn, id_, ready.tool, ready.prepared, ready.arguments, ready.notes, outcome
    )


async def _permit(turn: Turn, ready: _Ready) -> PermissionGranted | PermissionRefused:
    """Ask the gate; what cannot be decided is refused."""
    try:
        id_ = ToolCallId(ready.use.id)
        return await permit(
            turn.gate, turn.emit, id_, ready.tool, ready.prepared, ready.arguments, ready.urge
        )
    except Exception as error:
        _log.exception("failed to decide about a call of %s", ready.tool.name)
        reason = f"the permission check failed: {error!r}"
        return PermissionRefused(reason, f"This was not run: {reason}.")


async def _execute(turn: Turn, ready: _Ready, containment: Containment) -> ToolOutcome:
    live = _Live(turn, ToolCallId(ready.use.id), containment)
    bound = asyncio.timeout(ready.prepared.timeout)
    try:
        async with bound:
            return await ready.prepared.run(live)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        return text_outcome("The tool failed: it cancelled its own work.", is_error=True)
    except QuarterdeckError as error:
        return text_outcome(str(error), is_error=True)
    except Exception as error:
        if isinstance(error, TimeoutError) and bound.expired():
            seconds = f"{ready.prepared.timeout:g} s"
            return text_outcome(f"The tool did not finish within {seconds}.", is_error=True)
        _log.exception("tool %s failed", ready.tool.name)
        return text_outcome(f"The tool failed: {error!r}.", is_error=True)


async def _finish(
    turn: Turn,
    use: ToolUsePart,
    status: ToolCallEnd,
    outcome: ToolOutcome,
    reason: str | None = None,
) -> None:
    most = turn.workspace.options.output_bytes * _SLACK
    parts = tuple(_bounded(part, most) for part in outcome.result)
    result = parts or (TextPart(text="(no output)"),)
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


def _bounded(part: ResultPart, most: int) -> ResultPart:
    """Cut a text of a tool that keeps to no limit: it would fill the model's window."""
    if not isinstance(part, TextPart) or len(part.text) * 4 <= most:
        return part
    return msgspec.structs.replace(part, text=keep_ends(part.text, most).text)


def _decoded(arguments: str) -> Any:
    """The arguments as a value for people to look at; the bare text when it is no JSON."""
    try:
        return msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return arguments


class _Live:
    """What a running call can do towards the session."""

    def __init__(self, turn: Turn, call: ToolCallId, containment: Containment) -> None:
        self._turn = turn
        self.call = call
        self.containment: Containment = containment
        self.spending = turn.spending

    async def emit(self, event: Event) -> None:
        await self._turn.emit(event)

    async def before_change(self, call: Call) -> None:
        await self._turn.watch.before_call(self._turn, call)

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered:
        question = QuestionAsked(request=new_request_id(), text=text, form=form, call=self.call)
        return await self._turn.gate.ask(self._turn.emit, question)
