"""The tool ``plan``: the steps of the work, for the person to watch."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from quarterdeck.wire.events import PlanChanged
from quarterdeck.wire.settings import PlanEntry, PlanPriority, PlanStatus
from quarterdeck.wire.tool_calls import ToolKind

from ..tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    Tool,
    ToolError,
    ToolOutcome,
    read_description,
    text_outcome,
)
from ..workspace import ToolWorkspace

__all__ = ["PlanArguments", "PlanStep", "PlanTool"]

_MOST = 100


class PlanStep(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step as the model writes it."""

    content: Annotated[str, Meta(description="What to do.")]
    status: PlanStatus = "pending"
    priority: PlanPriority = "medium"


class PlanArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``plan``."""

    entries: Annotated[tuple[PlanStep, ...], Meta(description="All steps, in order.")]


class PlanTool:
    """Replaces the plan."""

    name = "plan"
    kind: ToolKind = "think"
    arguments = PlanArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__package__)

    async def prepare(self, arguments: PlanArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Check the steps; the plan stays as it is."""
        if len(arguments.entries) > _MOST:
            raise ToolError(
                f"A plan of {len(arguments.entries)} steps is too long; give at most {_MOST}."
            )
        if not all(step.content.strip() for step in arguments.entries):
            raise ToolError("A step of the plan is empty; say what to do.")
        return PreparedCall(
            title="Update the plan",
            call=workspace.call(self.name, self.kind),
            run=partial(_replace, arguments.entries),
        )


async def _replace(steps: tuple[PlanStep, ...], live: LiveCall) -> ToolOutcome:
    entries = tuple(
        PlanEntry(content=step.content.strip(), priority=step.priority, status=step.status)
        for step in steps
    )
    await live.emit(PlanChanged(entries=entries))
    if not entries:
        return text_outcome("The plan is empty now.")
    done = sum(entry.status == "completed" for entry in entries)
    active = [entry.content for entry in entries if entry.status == "in_progress"]
    text = f"The plan is shown: {done} of {len(entries)} steps are completed."
    if len(active) > 1:
        text += f" {len(active)} steps are in progress; prefer one at a time."
    return text_outcome(text)


if TYPE_CHECKING:
    _tool: Tool = PlanTool()
