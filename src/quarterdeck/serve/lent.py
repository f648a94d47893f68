"""MCP servers that a client names for a session, in our agent's words."""

from quarterdeck.agent.servers import ServerDefinition
from quarterdeck.wire.acp.schema import McpServer

from .refusals import invalid

__all__ = ["servers_of"]


def servers_of(servers: tuple[McpServer, ...]) -> tuple[ServerDefinition, ...]:
    """The servers as the agent takes them.

    Raises:
        RpcError: one is of a transport that we did not offer.
    """
    return tuple(_definition(server) for server in servers)


def _definition(server: McpServer) -> ServerDefinition:
    if server.type not in (None, "stdio", "http"):
        raise invalid(
            f"MCP server {server.name!r} is of the transport {server.type!r}; this agent offers "
            "'stdio' and 'http'"
        )
    if server.command is not None:
        return ServerDefinition(
            name=server.name,
            command=(server.command, *(server.args or ())),
            env={variable.name: variable.value for variable in server.env or ()},
            source="the client",
        )
    return ServerDefinition(
        name=server.name,
        url=server.url,
        headers={header.name: header.value for header in server.headers or ()},
        source="the client",
    )
