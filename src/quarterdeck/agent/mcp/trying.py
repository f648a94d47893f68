"""Trying a server once, for a person who wants to know whether it works."""

import asyncio
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from ..servers import ServerDefinition
from .client import Client
from .errors import McpError, ProbeRefused
from .listing import Listing, read_listing
from .server import opened

__all__ = ["Trial", "TriedTool", "try_server"]

_BYTES_OF_TOKEN = 4


class TriedTool(Struct, frozen=True, kw_only=True):
    """A tool, and what it costs to show it to a model."""

    name: str
    """As its server has it."""
    shown_as: str
    """As the model sees it."""
    tokens: int
    """About so many, in every request."""


class Trial(Struct, frozen=True, kw_only=True):
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
    tools: tuple[TriedTool, ...] = ()
    problems: tuple[str, ...] = ()
    """Why tools were left out."""

    @property
    def tokens(self) -> int:
        """What all of its tools cost in every request, about."""
        return sum(tool.tokens for tool in self.tools)


async def try_server(
    definition: ServerDefinition, *, roots: tuple[str, ...], environment: Mapping[str, str]
) -> Trial:
    """Start a server, list its tools, end it. Never raises for what the server does."""
    began = asyncio.get_running_loop().time()
    limit = definition.start_timeout
    try:
        async with asyncio.timeout(limit):
            return await _tried(definition, roots, environment, began)
    except McpError as error:
        return Trial(server=definition.name, works=False, reason=str(error))
    except TimeoutError as error:
        known = "; ".join(getattr(error.__cause__, "__notes__", ()))
        reason = f"it did not tell its tools within {limit:g} s"
        return Trial(
            server=definition.name, works=False, reason=f"{reason} ({known})" if known else reason
        )


async def _tried(
    definition: ServerDefinition,
    roots: tuple[str, ...],
    environment: Mapping[str, str],
    began: float,
) -> Trial:
    try:
        async with opened(definition, roots=roots, environment=environment) as client:
            return await _listed(definition, client, began)
    except ProbeRefused:
        async with opened(
            definition, roots=roots, environment=environment, may_probe=False
        ) as client:
            return await _listed(definition, client, began)


async def _listed(definition: ServerDefinition, client: Client, began: float) -> Trial:
    listing = read_listing(definition, await client.tools())
    return Trial(
        server=definition.name,
        works=True,
        version=client.agreement.version,
        program=client.agreement.server or None,
        start_seconds=round(asyncio.get_running_loop().time() - began, 3),
        tools=_tools(listing),
        problems=listing.problems,
    )


def _tools(listing: Listing) -> tuple[TriedTool, ...]:
    return tuple(
        TriedTool(
            name=tool.tool,
            shown_as=tool.spec.name,
            tokens=-(-len(msgspec.json.encode(tool.spec)) // _BYTES_OF_TOKEN),
        )
        for tool in listing.tools
    )
