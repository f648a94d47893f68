"""Hooks around a tool call: before it may be asked for, and after it has run."""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from quarterdeck.policy.gate import Urge
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import Notice, ToolCallUpdated
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.permissions import Decider

from ..tools.tool import Outcome, Prepared, Tool
from ..turn import Turn
from .seam import Verdict

__all__ = ["Overseen", "after_tool", "before_tool"]

_MOST_OUTPUT = 100_000
"""Characters of a tool's output that hooks are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overseen:
    """A call as hooks leave it."""

    prepared: Prepared
    raw: Any
    """The arguments, as people see them."""
    refused: str | None = None
    urge: Urge | None = None
    notes: tuple[str, ...] = ()
    """What the model is told with the result."""


async def before_tool(
    turn: Turn, id_: ToolCallId, tool: Tool, prepared: Prepared, raw: Any
) -> Overseen:
    """Let hooks look at a call before anybody is asked for leave.

    Where one changes the input, the call is prepared anew, and people are shown what will run.
    """
    facts = {"tool": tool.name, "kind": tool.kind, "title": prepared.title, "input": raw}
    facts["call"] = id_
    verdict = await turn.hooks.run("before_tool", facts, turn.emit, prepared.call)
    overseen = Overseen(
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
    turn: Turn, id_: ToolCallId, tool: Tool, overseen: Overseen, given: dict[str, Any]
) -> Overseen:
    from dataclasses import replace as with_changes

    try:
        text = msgspec.json.encode(given).decode()
        arguments = turn.toolbox.decode(tool, text)
        prepared = await tool.prepare(arguments, turn.workspace)
    except QuarterdeckError as error:
        refused = f"a hook changed the input so that the call cannot be made: {error}"
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
    await turn.emit(Notice(title=f"A hook changed the input of {tool.name}", description=text))
    note = f"[A hook changed the input of this call to {text}]"
    return with_changes(overseen, prepared=prepared, raw=given, notes=(note, *overseen.notes))


def _refused(verdict: Verdict) -> str | None:
    if verdict.refused is None:
        return None
    return f"hook {verdict.by} refused it: {verdict.refused}"


def _urge(verdict: Verdict) -> Urge | None:
    if verdict.wish is None:
        return None
    by = Decider(kind="hook", name=verdict.by)
    said = f": {verdict.reason}" if verdict.reason else ""
    return Urge(effect=verdict.wish, by=by, reason=f"hook {verdict.by} wants it{said}")


async def after_tool(
    turn: Turn,
    id_: ToolCallId,
    tool: Tool,
    prepared: Prepared,
    raw: Any,
    notes: tuple[str, ...],
    outcome: Outcome,
) -> Outcome:
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
