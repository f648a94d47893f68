"""The tool ``goal_done``: the model says that the session's goal is reached."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

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

__all__ = ["GOAL_DONE", "GoalDoneArguments", "GoalDoneTool"]

GOAL_DONE = "goal_done"


class GoalDoneArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``goal_done``."""

    summary: Annotated[str, Meta(description="What was reached.")]
    evidence: Annotated[str, Meta(description="How you know.")]


class GoalDoneTool:
    """Ends the pursuit of a goal; what it says is in the log as the call's arguments.

    One for each goal: a second report of the same goal is no progress.
    """

    name = GOAL_DONE
    kind: ToolKind = "think"
    arguments = GoalDoneArguments
    for_children = False
    """The goal is the session's own."""

    def __init__(self) -> None:
        self._was_declared = False

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__package__)

    async def prepare(self, arguments: GoalDoneArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Make sure that the report is not empty."""
        for name, value in (("summary", arguments.summary), ("evidence", arguments.evidence)):
            if not value.strip():
                raise ToolError(f"{name!r} is empty; state what was reached and how you know.")
        if self._was_declared:
            raise ToolError(
                "The goal is already marked as reached; tell the person what matters, and stop."
            )
        words = " ".join(arguments.summary.split())
        return PreparedCall(
            title=f"The goal is reached: {words[:100]}",
            call=workspace.call(self.name, self.kind),
            run=self._done,
        )

    async def _done(self, live: LiveCall) -> ToolOutcome:
        self._was_declared = True
        return text_outcome("The goal is marked as reached. Tell the person briefly what matters.")


if TYPE_CHECKING:
    _tool: Tool = GoalDoneTool()
