"""The fleet's tools for our own agent, in process: the same, with no protocol in between."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from quarterdeck.agent.tools.tool import Arguments, Live, Outcome, Prepared, Tool, said
from quarterdeck.agent.tools.workspace import Workspace
from quarterdeck.policy.call import McpTool
from quarterdeck.wire.content import text
from quarterdeck.wire.toolcalls import ContentItem, ToolKind

from .tool import FleetTool, Toolset
from .words import cut

__all__ = ["NativeTool", "native_tools"]

_SHOWN = 200


class NativeTool:
    """One of the fleet's tools as our own agent calls it."""

    kind: ToolKind = "other"
    for_children = False
    """An agent that ours starts by itself is not known to the fleet."""

    def __init__(self, toolset: Toolset[Any], tool: FleetTool[Any], server: str) -> None:
        self.name = tool.name
        self.arguments: type[Arguments] = tool.arguments
        self._toolset = toolset
        self._tool = tool
        self._server = server

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return self._tool.description

    async def prepare(self, arguments: Arguments, workspace: Workspace) -> Prepared:
        """Say what will be done; rules see it as they see the same tool over MCP."""
        call = workspace.call(self.name, self.kind)
        shown = msgspec.json.encode(arguments).decode()
        first = next((_words(one) for one in msgspec.structs.astuple(arguments) if one), "")

        async def run(live: Live) -> Outcome:
            answered = await self._toolset.run(self._tool, arguments)
            return said(answered.text, is_error=answered.is_error)

        return Prepared(
            title=f"{self.name}: {cut(first, _SHOWN)}" if first else self.name,
            call=replace(call, mcp=McpTool(server=self._server, tool=self.name)),
            run=run,
            content=(ContentItem(content=text(shown)),),
        )


def _words(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(one) for one in cast("tuple[object, ...]", value))
    return str(value)


def native_tools(
    toolset: Toolset[Any], server: str, *, without: Iterable[str] = ()
) -> tuple[Tool, ...]:
    """The tools of a set; those that our agent has itself are left out."""
    left_out = frozenset(without)
    return tuple(
        NativeTool(toolset, tool, server)
        for tool in toolset.tools.values()
        if tool.name not in left_out
    )


if TYPE_CHECKING:
    _tool: Tool = cast("NativeTool", None)
