"""Trying a server once, for a person who wants to know whether it works."""

import asyncio
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from ..tool_servers import ServerDefinition
from .client import McpClient
from .protocol import McpError, ProbeRefusedError
from .server import open_server
from .tool_list import ToolList, read_tool_list

__all__ = ["ServerTrial", "TrialTool", "try_server"]

_BYTES_OF_TOKEN = 4


class TrialTool(Struct, frozen=True, kw_only=True):
    """A tool, and what it costs to show it to a model."""

    name: str
    """As its server has it."""
    shown_as: str
    """As the model sees it."""
    tokens: int
    """About so many, in every request."""


class ServerTrial(Struct, frozen=True, kw_only=True):
    """How it went."""

    server: str
    works: bool
    reason: str | None = None
    """Why it does not work, with the last words of its program."""
    version: str | None = None
    """The version of the protocol that was agreed on."""
    program: str | None = None
    """What the server calls itself."""
    start_seconds: float | None = None
    """Until its tools were known."""
    tools: tuple[TrialTool, ...] = ()
    problems: tuple[str, ...] = ()
    """Why tools were left out."""

    @property
    def tokens(self) -> int:
        """What all of its tools cost in every request, about."""
        return sum(tool.tokens for tool in self.tools)


async def try_server(
    definition: ServerDefinition, *, roots: tuple[str, ...], environment: Mapping[str, str]
) -> ServerTrial:
    """Start a server, list its tools, end it. Never raises for what the server does."""
    began = asyncio.get_running_loop().time()
    limit = definition.start_timeout
    try:
        async with asyncio.timeout(limit):
            return await _tried(definition, roots, environment, began)
    except McpError as error:
        return ServerTrial(server=definition.name, works=False, reason=str(error))
    except TimeoutError as error:
        known = "; ".join(getattr(error.__cause__, "__notes__", ()))
        reason = f"it did not list its tools within {limit:g} s"
        return ServerTrial(
            server=definition.name, works=False, reason=f"{reason} ({known})" if known else reason
        )


async def _tried(
    definition: ServerDefinition,
    roots: tuple[str, ...],
    environment: Mapping[str, str],
    began: float,
) -> ServerTrial:
    try:
        async with open_server(definition, roots=roots, environment=environment) as client:
            return await _listed(definition, client, began)
    except ProbeRefusedError:
        async with open_server(
            definition, roots=roots, environment=environment, may_probe=False
        ) as client:
            return await _listed(definition, client, began)


async def _listed(definition: ServerDefinition, client: McpClient, began: float) -> ServerTrial:
    listing = read_tool_list(definition, await client.tools())
    return ServerTrial(
        server=definition.name,
        works=True,
        version=client.agreement.version,
        program=client.agreement.server or None,
        start_seconds=round(asyncio.get_running_loop().time() - began, 3),
        tools=_tools(listing),
        problems=listing.problems,
    )


def _tools(listing: ToolList) -> tuple[TrialTool, ...]:
    return tuple(
        TrialTool(
            name=tool.tool,
            shown_as=tool.spec.name,
            tokens=-(-len(msgspec.json.encode(tool.spec)) // _BYTES_OF_TOKEN),
        )
        for tool in listing.tools
    )
