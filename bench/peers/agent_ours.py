"""A minimal agent on our peer."""

import asyncio

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection, Router
from quarterdeck.wire.rpc import stdio_stream


async def initialize(request: acp.InitializeRequest) -> acp.InitializeResponse:
    return acp.InitializeResponse(protocol_version=1)


async def new(request: acp.NewSessionRequest) -> acp.NewSessionResponse:
    return acp.NewSessionResponse(session_id="s1")


async def main() -> None:
    router = Router("agent")
    router.on(acp.INITIALIZE, initialize)
    router.on(acp.SESSION_NEW, new)
    async with AcpConnection(await stdio_stream(), router) as connection:
        await connection.wait_closed()


asyncio.run(main())
