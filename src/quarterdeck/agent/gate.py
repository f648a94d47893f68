"""How a tool call of our own agent is put to the gate."""

from typing import Any, cast

from quarterdeck.policy.gate import Emit, Gate, Permitted, Refused, Urge
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import ToolCallId, new_request_id

from .tools.tool import Prepared, Tool

__all__ = ["permit"]


async def permit(
    gate: Gate,
    emit: Emit,
    id_: ToolCallId,
    tool: Tool,
    prepared: Prepared,
    raw_input: Any,
    urge: Urge | None = None,
) -> Permitted | Refused:
    """Decide about a call, asking if need be; ``urge``: what a hook wishes."""
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
