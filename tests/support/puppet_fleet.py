"""A fleet whose agents are puppets: a test calls the fleet's tools for them, over HTTP."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.events import Event, TurnEnded
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, events_of, fleet_of

__all__ = ["Led", "Said", "leading"]


class Said:
    """What a call of a tool gave."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.text: str = result["content"][0]["text"]
        self.is_error: bool = result["isError"]
        self.data: Any = result.get("structuredContent")


class Led:
    """A fleet of played agents with a way to their tools."""

    def __init__(self, fleet: LocalFleet, casting: Casting, folder: Path) -> None:
        self.fleet = fleet
        self.casting = casting
        self.folder = folder

    async def lead(self, name: str = "boss", **fields: Any) -> AgentInfo:
        """Start an agent that leads, and wait until it is there."""
        fields = {"agent": "claude", "cwd": str(self.folder), "lead": True} | fields
        info = await self.fleet.spawn(SpawnOptions.of(name=name, **fields))
        return await self.there(info.name)

    async def there(self, name: str) -> AgentInfo:
        """Wait until an agent has been opened."""
        async with asyncio.timeout(SOON):
            while not (info := await self.fleet.agent(name)).is_live:
                await asyncio.sleep(0.005)
        return info

    async def state(self, name: str, *states: str) -> AgentInfo:
        """Wait until an agent is in one of these states."""
        async with asyncio.timeout(SOON):
            while (info := await self.fleet.agent(name)).state not in states:
                await asyncio.sleep(0.005)
        return info

    async def finished(self, name: str) -> None:
        """Wait until an agent has ended its first turn; it is idle before that too."""
        async with asyncio.timeout(SOON):
            while not await self.events(name, TurnEnded):
                await asyncio.sleep(0.005)

    async def call(self, who: str, tool: str, **arguments: Any) -> Said:
        """Call a tool as this agent does: by HTTP, with its token."""
        url, token = await self.key(who)
        answer = await self.post(url, token, tool, arguments)
        assert "result" in answer, answer
        return Said(answer["result"])

    async def key(self, who: str) -> tuple[str, str]:
        """The address and the token that an agent was given when it started last."""
        session = (await self.there(who)).session
        link = [one for one in self.casting.links if one.start_.session == session][-1]
        (server,) = link.start_.opening.options.mcp_servers
        return server.url, server.headers["Authorization"].removeprefix("Bearer ")

    async def post(self, url: str, token: str, tool: str, arguments: Any) -> Any:
        """Send one call; the answer, or the status if it is refused."""
        port = int(url.split(":")[2].split("/")[0])
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        # Each call has an id of its own: several may run at once.
        message["id"] = f"{tool}-{id(params)}"
        body = json.dumps(message).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head.encode() + body)
            answered = await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()
        first, _, rest = answered.partition(b"\r\n\r\n")
        status = int(first.split()[1])
        return json.loads(rest) if status == 200 else status

    async def events(self, name: str, kind: type[Event]) -> list[Any]:
        """The events of a kind in the log about an agent."""
        return await events_of(self.fleet, name, lambda one: isinstance(one, kind))

    def told(self, name: str) -> list[str]:
        """The prompts that an agent was given, first blocks."""
        return [t for one in self.casting.links if one.start_.spawn.name == name for t in one.told]


@asynccontextmanager
async def leading(tmp_path: Path, **options: Any) -> AsyncGenerator[Led]:
    """A fleet of played agents whose log is in this folder."""
    casting = Casting()
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    async with fleet_of(tmp_path / "home", casting, **options) as fleet:
        yield Led(fleet, casting, folder)
