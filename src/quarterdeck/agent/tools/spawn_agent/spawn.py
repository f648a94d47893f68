"""The tool ``spawn_agent``."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from quarterdeck.wire.content import text
from quarterdeck.wire.toolcalls import ContentItem, ToolKind

from ..describe import describe
from ..tool import Arguments, Live, Outcome, Prepared, Tool, ToolError, said
from ..workspace import Workspace

if TYPE_CHECKING:
    from ...children.children import Children
    from ...children.profile import Profile

__all__ = ["SpawnAgentArguments", "SpawnAgentTool"]

_SHOWN = 100


class SpawnAgentArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``spawn_agent``."""

    task: Annotated[str, Meta(description="What the agent shall do, with all it needs to know.")]
    profile: Annotated[
        str | None, Meta(description="What sort of agent; `explore` if left out.")
    ] = None
    background: Annotated[bool, Meta(description="Do not wait for its answer.")] = False


class SpawnAgentTool:
    """Starts an agent, and waits for its answer unless it shall work in the background.

    To the policy this is no deed of its own: whatever the agent does is judged as it does it.
    """

    name = "spawn_agent"
    kind: ToolKind = "think"
    arguments = SpawnAgentArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return describe(__package__)

    async def prepare(self, arguments: SpawnAgentArguments, workspace: Workspace) -> Prepared:
        """Find the profile, and whether there is room; nothing is started."""
        if workspace.children is None:
            raise ToolError("No agents can be started here; do it yourself.")
        if not arguments.task.strip():
            raise ToolError("The task is empty; say what the agent shall do.")
        children = workspace.children()
        children.check_room()
        profile = await children.profile(arguments.profile)
        run = _start if arguments.background else _run
        words = " ".join(arguments.task.split())
        return Prepared(
            title=f"{profile.name}: {words[:_SHOWN]}{'…' * (len(words) > _SHOWN)}",
            call=workspace.call(self.name, self.kind),
            run=partial(run, children, profile, arguments.task),
            content=(ContentItem(content=text(arguments.task)),),
        )


async def _run(children: "Children", profile: "Profile", task: str, live: Live) -> Outcome:
    ended = await children.run(profile, task, live)
    outcome = said(ended.answer, is_error=ended.how in ("failed", "cancelled"))
    shown = (ContentItem(content=text(ended.answer)),)
    return Outcome(
        result=outcome.result,
        content=shown,
        raw_output={"session": ended.child, "how": ended.how},
        is_error=outcome.is_error,
    )


async def _start(children: "Children", profile: "Profile", task: str, live: Live) -> Outcome:
    child = await children.start(profile, task, live)
    return said(
        f"The agent {profile.name} works in the background as {child.id}. Its answer comes as a "
        "message when it has finished; go on with something else."
    )


if TYPE_CHECKING:
    _tool: Tool = SpawnAgentTool()
