"""The tool of a lead that proposes a plan: a person sees it drawn, and only then it runs."""

import asyncio
from pathlib import Path
from typing import Annotated

from msgspec import Meta, field

from quarterdeck.agent.tools.tool import Arguments
from quarterdeck.system.paths import Roots
from quarterdeck.wire.content import text
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import new_request_id, new_tool_call_id
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.terminal_text import count_noun
from quarterdeck.wire.tool_calls import ContentItem

from .tool import FleetTool, FleetToolResult, failed_result
from .tool_context import FleetToolContext

__all__ = ["PLAN_TOOLS", "ProposePlanArguments"]

_PATIENCE = 3_600.0
_OPTIONS = (
    PermissionOption(option_id="allow", name="Run it", kind="allow_once"),
    PermissionOption(option_id="deny", name="Deny", kind="reject_once"),
)


class ProposePlanArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``propose_plan``."""

    file: Annotated[
        str,
        Meta(min_length=1, max_length=4_000, description="The plan, a TOML file that you wrote."),
    ]
    inputs: Annotated[
        dict[str, str], Meta(description="Inputs of the plan that have no default.")
    ] = field(default_factory=dict[str, str])


async def _propose_plan(seat: FleetToolContext, a: ProposePlanArguments) -> FleetToolResult:
    starter = seat.bridge.plans
    if starter is None:
        return failed_result("Plans cannot be run here.")
    entry = seat.entry
    own = entry.worktree
    directory = Path(own.path if own is not None else entry.spawn.options.cwd)
    file = await asyncio.to_thread(_find_file, directory, a.file)
    draft = await asyncio.to_thread(starter.draft, file, a.inputs)
    request = PermissionAsked(
        request=new_request_id(),
        call=new_tool_call_id(),
        title=f"Run the plan {draft.name}: {count_noun(draft.tasks, 'task')}",
        options=_OPTIONS,
        reason=f"{entry.name} proposes it; it starts agents and runs commands",
        content=(ContentItem(content=text(draft.text)),),
    )
    timeout = seat.seconds(None, _PATIENCE)
    if not await seat.bridge.asking.permit(seat.session, request, timeout=timeout):
        return failed_result(
            "A person did not permit to run the plan. Change it if you know why, or go on without."
        )
    name = await asyncio.to_thread(starter.start, draft, request.request)
    return FleetToolResult(
        text=f"The plan runs as {name}. `quarterdeck plan status {name}` shows how far it is.",
        data={"run": name},
    )


def _find_file(directory: Path, file: str) -> Path:
    """A file of the agent's own directory: problems are said to it with words of the file."""
    with Roots([directory]).place(file) as place:
        return Path(place.path)


PLAN_TOOLS: tuple[FleetTool[FleetToolContext], ...] = (
    FleetTool(name="propose_plan", arguments=ProposePlanArguments, run=_propose_plan),
)
