"""What a tool of the fleet is: the same for an agent over MCP and for our own in process."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from quarterdeck.agent.tools.tool import Arguments, read_description
from quarterdeck.agent.tools.toolbox import schema_of
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["FleetTool", "FleetToolResult", "Toolset", "failed_result"]

S = TypeVar("S")
_TEXTS = f"{__package__}.texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetToolResult:
    """What a call came to."""

    text: str
    """For the model."""
    data: Mapping[str, Any] | None = None
    """The same for programs."""
    is_error: bool = False


def failed_result(text: str) -> FleetToolResult:
    """A call that came to nothing; the text says why and what to do instead."""
    return FleetToolResult(text=text, is_error=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTool(Generic[S]):
    """A tool. ``S`` is what it works with: whose call it is, and the fleet."""

    name: str
    arguments: type[Arguments]
    run: Callable[[S, Any], Awaitable[FleetToolResult]]
    """May raise ``QuarterdeckError``: the model gets its message. Cancelling takes a second."""

    @property
    def description(self) -> str:
        """The text that the model reads. Touches the disk at first use."""
        return read_description(_TEXTS, self.name)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return schema_of(self.arguments)


class Toolset(Generic[S]):
    """The tools that one agent may call."""

    def __init__(self, seat: S, tools: Iterable[FleetTool[S]], instructions: str = "") -> None:
        self.seat = seat
        self.tools = {tool.name: tool for tool in tools}
        self.instructions = instructions
        """What the model is sent about all of them together."""

    async def call(self, name: str, arguments: Any) -> FleetToolResult:
        """Call a tool; whatever is wrong is an answer that says so.

        Raises:
            KeyError: there is no such tool.
        """
        tool = self.tools[name]
        try:
            given = convert(arguments, tool.arguments, strict=False)
        except msgspec.ValidationError as error:
            return failed_result(
                f"The arguments of {name!r} do not match its schema: {error}. Correct them."
            )
        return await self.run(tool, given)

    async def run(self, tool: FleetTool[S], arguments: Arguments) -> FleetToolResult:
        """Call a tool with arguments that fit it."""
        try:
            return await tool.run(self.seat, arguments)
        except (QuarterdeckError, ValueError) as error:
            return failed_result(f"{str(error)[:1].upper()}{str(error)[1:]}.")
