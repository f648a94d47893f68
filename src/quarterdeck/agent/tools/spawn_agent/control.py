"""The tool ``children``: look after the agents that this one has started."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from quarterdeck.wire.toolcalls import ToolKind

from ..describe import describe
from ..tool import Arguments, Live, Outcome, Prepared, Tool, ToolError, said
from ..workspace import Workspace

if TYPE_CHECKING:
    from ...children.children import Children

__all__ = ["ChildrenArguments", "ChildrenTool"]

_WAIT, _LONGEST = 60.0, 600.0


class ChildrenArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``children``."""

    action: Literal["list", "wait", "read", "stop"]
    id: Annotated[str | None, Meta(description="Which agent; `read` and `stop` need it.")] = None
    seconds: Annotated[
        float | None, Meta(description="With `wait`: how long at most; 60 if left out.")
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
        return describe(__package__, "children")

    async def prepare(self, arguments: ChildrenArguments, workspace: Workspace) -> Prepared:
        """Find the agents; nothing is done to them."""
        if workspace.children is None:
            raise ToolError("No agents can be started here, so there are none.")
        children, id_ = workspace.children(), arguments.id
        call = workspace.call(self.name, self.kind)
        if arguments.action == "list":
            return Prepared(title="Agents", call=call, run=partial(_list, children))
        if arguments.action == "wait":
            seconds = _WAIT if arguments.seconds is None else max(arguments.seconds, 0.0)
            run = partial(_wait, children, id_, min(seconds, _LONGEST))
            return Prepared(title="Wait for agents", call=call, run=run)
        if id_ is None:
            raise ToolError(f"{arguments.action!r} needs the id of an agent.")
        if arguments.action == "stop":
            return Prepared(title=f"Stop {id_}", call=call, run=partial(_stop, children, id_))
        most = workspace.options.output_bytes // 2
        run = partial(_read, children, id_, arguments.offset, most)
        return Prepared(title=f"Read {id_}", call=call, run=run)


async def _list(children: "Children", live: Live) -> Outcome:
    lines = [
        f"{child.id} {child.ended.how if child.ended else 'works'}: {child.progress}"
        for child in children.background
    ]
    return said("\n".join(lines) or "There are no agents in the background.")


async def _wait(children: "Children", id_: str | None, seconds: float, live: Live) -> Outcome:
    await children.wait(id_, seconds)
    return await _list(children, live)


async def _stop(children: "Children", id_: str, live: Live) -> Outcome:
    await children.stop(id_)
    return await _list(children, live)


async def _read(children: "Children", id_: str, offset: int, most: int, live: Live) -> Outcome:
    whole = await children.answer(id_)
    piece = whole[offset : offset + most]
    if (end := offset + len(piece)) < len(whole):
        piece += f"\n[{len(whole) - end} more characters; go on with offset {end}.]"
    return said(piece or "(nothing)")


if TYPE_CHECKING:
    _tool: Tool = ChildrenTool()
