"""The tools ``spawn_agent`` and ``children``: start agents, list, await, read and stop them."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from quarterdeck.wire.content import text
from quarterdeck.wire.tool_calls import ContentItem, ToolKind

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

if TYPE_CHECKING:
    from ...children.profile import Profile
    from ..live_call import ChildAgents

__all__ = ["ChildrenArguments", "ChildrenTool", "SpawnAgentArguments", "SpawnAgentTool"]

_SHOWN = 100


class SpawnAgentArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``spawn_agent``."""

    task: Annotated[
        str, Meta(description=("What the agent should do, with everything it needs to know."))
    ]
    profile: Annotated[str | None, Meta(description="Type of agent; default: `explore`.")] = None
    background: Annotated[bool, Meta(description="Do not wait for its answer.")] = False


class SpawnAgentTool:
    """Starts an agent, and waits for its answer unless it is to work in the background.

    To the policy this is not a call of its own: whatever the agent does is judged as it does it.
    """

    name = "spawn_agent"
    kind: ToolKind = "think"
    arguments = SpawnAgentArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__package__)

    async def prepare(
        self, arguments: SpawnAgentArguments, workspace: ToolWorkspace
    ) -> PreparedCall:
        """Find the profile, and whether there is room; nothing is started."""
        if (children := workspace.get_children()) is None:
            raise ToolError("Agents cannot be started here; do it yourself.")
        if not arguments.task.strip():
            raise ToolError("The task is empty; describe what the agent should do.")
        children.check_room()
        profile = await children.profile(arguments.profile)
        run = _start if arguments.background else _run
        words = " ".join(arguments.task.split())
        return PreparedCall(
            title=f"{profile.name}: {words[:_SHOWN]}{'…' * (len(words) > _SHOWN)}",
            call=workspace.call(self.name, self.kind),
            run=partial(run, children, profile, arguments.task),
            content=(ContentItem(content=text(arguments.task)),),
        )


async def _run(
    children: "ChildAgents", profile: "Profile", task: str, live: LiveCall
) -> ToolOutcome:
    ended = await children.run(profile, task, live)
    outcome = text_outcome(ended.answer, is_error=ended.how in ("failed", "cancelled"))
    shown = (ContentItem(content=text(ended.answer)),)
    return ToolOutcome(
        result=outcome.result,
        content=shown,
        raw_output={"session": ended.child, "how": ended.how},
        is_error=outcome.is_error,
    )


async def _start(
    children: "ChildAgents", profile: "Profile", task: str, live: LiveCall
) -> ToolOutcome:
    child = await children.start(profile, task, live)
    return text_outcome(
        f"The agent {profile.name} is running in the background as {child.id}. Its answer arrives "
        "as a message when it finishes; continue with something else."
    )


if TYPE_CHECKING:
    _tool: Tool = SpawnAgentTool()


_WAIT, _LONGEST = 60.0, 600.0


class ChildrenArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``children``."""

    action: Literal["list", "wait", "read", "stop"]
    id: Annotated[str | None, Meta(description="Agent id; required for `read` and `stop`.")] = None
    seconds: Annotated[
        float | None, Meta(description="With `wait`: maximum seconds; default: 60.")
    ] = None
    offset: Annotated[int, Meta(ge=0, description="With `read`: the first character to show.")] = 0


class ChildrenTool:
    """Lists, awaits, reads and stops agents; only those of the session can be reached."""

    name = "children"
    kind: ToolKind = "think"
    arguments = ChildrenArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__package__, "children")

    async def prepare(self, arguments: ChildrenArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Find the agents; nothing is done to them."""
        if (children := workspace.get_children()) is None:
            raise ToolError("Agents cannot be started here, so there are none.")
        id_ = arguments.id
        call = workspace.call(self.name, self.kind)
        if arguments.action == "list":
            return PreparedCall(title="Agents", call=call, run=partial(_list, children))
        if arguments.action == "wait":
            seconds = _WAIT if arguments.seconds is None else max(arguments.seconds, 0.0)
            run = partial(_wait, children, id_, min(seconds, _LONGEST))
            return PreparedCall(title="Wait for agents", call=call, run=run)
        if id_ is None:
            raise ToolError(f"{arguments.action!r} needs the id of an agent.")
        if arguments.action == "stop":
            return PreparedCall(title=f"Stop {id_}", call=call, run=partial(_stop, children, id_))
        most = workspace.options.output_bytes // 2
        run = partial(_read, children, id_, arguments.offset, most)
        return PreparedCall(title=f"Read {id_}", call=call, run=run)


async def _list(children: "ChildAgents", live: LiveCall) -> ToolOutcome:
    lines = [
        f"{child.id} {child.ended.how if child.ended else 'works'}: {child.progress}"
        for child in children.background
    ]
    return text_outcome("\n".join(lines) or "There are no agents in the background.")


async def _wait(
    children: "ChildAgents", id_: str | None, seconds: float, live: LiveCall
) -> ToolOutcome:
    await children.wait(id_, seconds)
    return await _list(children, live)


async def _stop(children: "ChildAgents", id_: str, live: LiveCall) -> ToolOutcome:
    await children.stop(id_)
    return await _list(children, live)


async def _read(
    children: "ChildAgents", id_: str, offset: int, most: int, live: LiveCall
) -> ToolOutcome:
    whole = await children.answer(id_)
    piece = whole[offset : offset + most]
    if (end := offset + len(piece)) < len(whole):
        piece += f"\n[{len(whole) - end} more characters; continue with offset {end}.]"
    return text_outcome(piece or "(nothing)")


if TYPE_CHECKING:
    _control_tool: Tool = ChildrenTool()
