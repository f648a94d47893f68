"""Hooks around a tool call: before it may be asked for, and after it has run."""

from dataclasses import dataclass
from dataclasses import replace as with_changes
from typing import Any

import msgspec
from msgspec.structs import replace

from quarterdeck.policy.gate import HookAdvice
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import NoticePosted, ToolCallUpdated
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.permissions import Decider

from ..ports import HookVerdict, Turn
from ..tools.tool import PreparedCall, Tool, ToolOutcome

__all__ = ["HookedCall", "run_after_tool_hooks", "run_before_tool_hooks"]

_MOST_OUTPUT = 100_000
"""Characters of a tool's output that hooks are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedCall:
    """A call as hooks leave it."""

    prepared: PreparedCall
    raw: Any
    """The arguments, as people see them."""
    refused: str | None = None
    urge: HookAdvice | None = None
    notes: tuple[str, ...] = ()
    """What the model is told with the result."""


async def run_before_tool_hooks(
    turn: Turn, id_: ToolCallId, tool: Tool, prepared: PreparedCall, raw: Any
) -> HookedCall:
    """Let hooks look at a call before anybody is asked for leave.

    Where one changes the input, the call is prepared anew, and people are shown what will run.
    """
    facts = {"tool": tool.name, "kind": tool.kind, "title": prepared.title, "input": raw}
    facts["call"] = id_
    verdict = await turn.hooks.run("before_tool", facts, turn.emit, prepared.call)
    overseen = HookedCall(
        prepared=prepared,
        raw=raw,
        refused=_refused(verdict),
        urge=_urge(verdict),
        notes=verdict.context,
    )
    if verdict.input is None or verdict.refused is not None or verdict.input == raw:
        return overseen
    return await _changed(turn, id_, tool, overseen, verdict.input)


async def _changed(
    turn: Turn, id_: ToolCallId, tool: Tool, overseen: HookedCall, given: dict[str, Any]
) -> HookedCall:
    try:
        text = msgspec.json.encode(given).decode()
        arguments = turn.toolbox.decode(tool, text)
        prepared = await tool.prepare(arguments, turn.workspace)
    except QuarterdeckError as error:
        refused = f"a hook changed the input and made the call invalid: {error}"
        return with_changes(overseen, refused=refused)
    await turn.emit(
        ToolCallUpdated(
            call=id_,
            title=prepared.title,
            content=prepared.content,
            locations=prepared.locations,
            raw_input=given,
        )
    )
    await turn.emit(
        NoticePosted(title=f"A hook changed the input of {tool.name}", description=text)
    )
    note = f"[A hook changed the input of this call to {text}]"
    return with_changes(overseen, prepared=prepared, raw=given, notes=(note, *overseen.notes))


def _refused(verdict: HookVerdict) -> str | None:
    if verdict.refused is None:
        return None
    return f"hook {verdict.by} refused it: {verdict.refused}"


def _urge(verdict: HookVerdict) -> HookAdvice | None:
    if verdict.wish is None:
        return None
    by = Decider(kind="hook", name=verdict.by)
    text = f": {verdict.reason}" if verdict.reason else ""
    return HookAdvice(effect=verdict.wish, by=by, reason=f"hook {verdict.by} asks for it{text}")


async def run_after_tool_hooks(
    turn: Turn,
    id_: ToolCallId,
    tool: Tool,
    prepared: PreparedCall,
    raw: Any,
    notes: tuple[str, ...],
    outcome: ToolOutcome,
) -> ToolOutcome:
    """The outcome, with what hooks have to say about it; ``notes``: what they said before."""
    if turn.hooks.has("after_tool"):
        output = "\n".join(part.text for part in outcome.result if isinstance(part, TextPart))
        facts = {
            "tool": tool.name,
            "kind": tool.kind,
            "title": prepared.title,
            "input": raw,
            "call": id_,
            "output": output[:_MOST_OUTPUT],
            "is_error": outcome.is_error,
        }
        verdict = await turn.hooks.run("after_tool", facts, turn.emit, prepared.call)
        notes = (*notes, *verdict.context)
        if verdict.refused is not None:
            notes = (*notes, f"[Hook {verdict.by} objects to this: {verdict.refused}]")
    if not notes:
        return outcome
    return replace(outcome, result=(*outcome.result, *(TextPart(text=note) for note in notes)))
