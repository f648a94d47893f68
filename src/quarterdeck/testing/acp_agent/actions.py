"""What the fake agent does to files and with commands: with permission, without, or in secret."""

import asyncio
from collections.abc import Awaitable, Callable

from quarterdeck.testing.disk_actions import DiskAction, parse_action, parse_sneak
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.permissions import PermissionOption, Selected
from quarterdeck.wire.tool_calls import Diff, ToolCallContent, ToolCallLocation, ToolKind

from .prompt_run import PromptRun

__all__ = ["ACTIONS", "request_permission"]

_OPTIONS = (
    PermissionOption(option_id="yes", name="Allow once", kind="allow_once"),
    PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    PermissionOption(option_id="never", name="Always reject", kind="reject_always"),
)
_KINDS: dict[str, ToolKind] = {"read": "read", "edit": "edit", "run": "execute"}


async def request_permission(work: PromptRun, call: acp.ToolCall) -> str:
    """Announce a call and ask for permission; returns the chosen option or ``cancelled``."""
    await work.update(call)
    details = acp.ToolCallDetails(
        tool_call_id=call.tool_call_id,
        title=call.title,
        kind=call.kind,
        content=call.content or None,
        locations=call.locations or None,
        raw_input=call.raw_input,
    )
    answer = await work.connection.call(
        acp.SESSION_REQUEST_PERMISSION,
        acp.RequestPermissionRequest(
            session_id=work.session.id, tool_call=details, options=_OPTIONS
        ),
    )
    return answer.outcome.option_id if isinstance(answer.outcome, Selected) else "cancelled"


def _call(work: PromptRun, action: DiskAction) -> acp.ToolCall:
    """How it tells of a action."""
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    if action.kind == "edit":
        content = (Diff(path=action.path, new_text=action.content),)
    if action.kind != "run":
        locations = (ToolCallLocation(path=action.path),)
    return acp.ToolCall(
        tool_call_id=work.call_id(),
        title=action.title,
        kind=_KINDS[action.kind],
        content=content,
        locations=locations,
        raw_input={"command": action.target} if action.kind == "run" else {"path": action.path},
    )


async def _do(work: PromptRun, rest: str) -> None:
    """Does it with permission; reads without."""
    action = parse_action(rest)
    call = _call(work, action)
    if action.kind != "read":
        if await request_permission(work, call) not in ("yes", "always"):
            refused = acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status="failed")
            await work.update(refused)
            await work.say("denied\n")
            return
    else:
        await work.update(call)
    output = await asyncio.to_thread(action.carry_out)
    await work.update(acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status="completed"))
    await work.say(f"{output}\n")


async def _unasked(work: PromptRun, action: DiskAction) -> None:
    call = _call(work, action)
    await work.update(call)
    await asyncio.to_thread(action.carry_out)
    await work.update(acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status="completed"))


async def _hide(work: PromptRun, rest: str) -> None:
    await asyncio.to_thread(parse_sneak("hide", rest).carry_out)


ACTIONS: dict[str, Callable[[PromptRun, str], Awaitable[None]]] = {
    "do": _do,
    "sneak": lambda work, rest: _unasked(work, parse_sneak("sneak", rest)),
    "sneak-run": lambda work, rest: _unasked(work, parse_sneak("sneak-run", rest)),
    "hide": _hide,
}
