"""The first words with a server: which era it is of, and which version both sides speak."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct

from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.tasks import start_task

from .protocol import (
    LEGACY,
    MODERN,
    MODERN_ERRORS,
    UNSUPPORTED_VERSION,
    DiscoverAnswer,
    InitializeAnswer,
    McpError,
    SupportedVersions,
    UnusableServerError,
    initialize_params,
    modern_meta,
)

__all__ = ["Ask", "McpAgreement", "shake_hands"]

_SILENCE = 3.0
"""Seconds after which a server that does not say what it speaks is greeted in the older way too."""

Ask: TypeAlias = Callable[[str, Any], Awaitable[Raw]]
"""Sends a request and gives its result; raises RpcError and LinkError."""


class McpAgreement(Struct, frozen=True, kw_only=True):
    """What both sides speak, and what the server offers."""

    version: str
    is_modern: bool
    capabilities: dict[str, Any]
    server: str
    """What the server calls itself, for people."""

    @property
    def has_tools(self) -> bool:
        """Whether it has tools to list."""
        return "tools" in self.capabilities

    @property
    def tells_changes(self) -> bool:
        """Whether it says when its tools have changed."""
        tools = self.capabilities.get("tools")
        return isinstance(tools, dict) and bool(cast("dict[str, Any]", tools).get("listChanged"))


async def shake_hands(ask: Ask, *, may_probe: bool, silence: float = _SILENCE) -> McpAgreement:
    """Agree on a version; a modern one where the server can.

    A server that is slow to start is not taken for one of the older era: after ``silence``
    seconds it is greeted in both ways, and whichever it answers counts.

    Raises:
        McpError: it answers, but not in words that we know.
        RpcError, LinkError: it refuses, or is gone.
    """
    if not may_probe:
        return await _initialize(ask)
    probing = start_task(_discover(ask), name="MCP: discover")
    tasks: set[asyncio.Future[Any]] = {probing}
    try:
        await asyncio.wait(tasks, timeout=silence)
        if probing.done():
            return probing.result() or await _initialize(ask)
        older = start_task(_initialize(ask), name="MCP: initialize")
        tasks.add(older)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if probing.done() and (agreed := probing.result()) is not None:
            return agreed
        if older.done() and older.exception() is not None:
            agreed = await probing  # what refuses the older greeting may be modern, and slow
            return agreed or older.result()
        return await older
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _discover(ask: Ask) -> McpAgreement | None:
    """What a modern server says; None: it is of the older era."""
    try:
        raw = await ask("server/discover", {"_meta": modern_meta()})
        found = msgspec.json.decode(raw, type=DiscoverAnswer)
    except RpcError as error:
        if error.code not in MODERN_ERRORS:
            return None
        if error.code == UNSUPPORTED_VERSION and set(_supported(error)) & set(LEGACY):
            return None
        raise UnusableServerError(
            f"it supports none of our versions ({_spoken()}): {error.message}"
        ) from error
    except msgspec.DecodeError:
        return None  # it answers anything at all, as the laxest of the older ones do
    if MODERN not in found.supported_versions:
        if set(found.supported_versions) & set(LEGACY):
            return None
        versions = ", ".join(found.supported_versions)
        raise UnusableServerError(f"it supports {versions}; we support {_spoken()}")
    return McpAgreement(
        version=MODERN,
        is_modern=True,
        capabilities=found.capabilities,
        server=_name(found.info),
    )


async def _initialize(ask: Ask) -> McpAgreement:
    raw = await ask("initialize", initialize_params())
    try:
        found = msgspec.json.decode(raw, type=InitializeAnswer)
    except msgspec.DecodeError as error:
        raise McpError(f"its answer to 'initialize' cannot be read: {error}") from error
    if found.protocol_version not in LEGACY:
        raise UnusableServerError(f"it supports {found.protocol_version!r}; we support {_spoken()}")
    return McpAgreement(
        version=found.protocol_version,
        is_modern=False,
        capabilities=found.capabilities,
        server=_name(found.server_info),
    )


def _supported(error: RpcError) -> list[str]:
    try:
        return msgspec.convert(error.data, SupportedVersions).supported
    except msgspec.ValidationError:
        return []


def _spoken() -> str:
    return ", ".join((MODERN, *LEGACY))


def _name(info: Any) -> str:
    if not isinstance(info, dict):
        return ""
    fields = cast("dict[str, Any]", info)
    words = (fields.get("title") or fields.get("name"), fields.get("version"))
    return " ".join(word for word in words if isinstance(word, str))[:100]
