"""The sessions that an agent remembers."""

from collections.abc import Mapping
from typing import Any

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.errors import MalformedAnswer
from quarterdeck.wire.errors import RpcError

from ..child import Launch
from ..errors import Unsupported
from .plain import plain

__all__ = ["list_sessions"]

_PAGES = 50
"""An agent whose list has more is asked no further."""


async def list_sessions(
    connection: AcpConnection, launch: Launch, cwd: str
) -> tuple[Mapping[str, Any], ...]:
    """The sessions of a directory, in the agent's own words.

    Raises:
        Unsupported: it refuses.
        LinkError: it is gone.
    """
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        request = acp.ListSessionsRequest(cwd=cwd, cursor=cursor)
        try:
            page = await connection.call(acp.SESSION_LIST, request)
        except (RpcError, MalformedAnswer) as error:
            raise Unsupported(launch.agent, "acp", "list its sessions", str(error)) from error
        found += [plain(session) for session in page.sessions]
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(found)
