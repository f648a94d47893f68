"""``mcp``: the fleet's tools for an agent that takes tool servers as commands."""

import os

import click

__all__ = ["mcp"]


@click.command()
def mcp() -> None:
    """Give an agent the fleet's tools over standard input and output.

    The host gives this tool server to agents that cannot reach it over HTTP. It uses
    QUARTERDECK_MCP_URL and QUARTERDECK_TOKEN, which the host sets.
    """
    import asyncio

    from quarterdeck.fleet.mcp.stdio import BridgeSetupError
    from quarterdeck.fleet.mcp.tokens import TOKEN_VARIABLE, URL_VARIABLE

    url, token = os.environ.get(URL_VARIABLE, ""), os.environ.pop(TOKEN_VARIABLE, "")
    if not url or not token:
        raise BridgeSetupError(
            f"{URL_VARIABLE} and {TOKEN_VARIABLE} are not set: the host runs this command for its "
            "agents; start a lead agent with `quarterdeck lead`"
        )
    asyncio.run(_bridge(url, token))


async def _bridge(url: str, token: str) -> None:
    from quarterdeck.fleet.mcp.stdio import run_bridge
    from quarterdeck.wire.rpc.stream import stdio_stream

    stream = await stdio_stream()
    try:
        await run_bridge(stream, url, token)
    finally:
        await stream.close()
