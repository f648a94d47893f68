"""The official Python SDK as a client."""

import asyncio
import json
import sys
import time
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block

received = 0


class Client:
    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        global received
        received += len(update.content.text) > 0

    def on_connect(self, conn: Any) -> None:
        pass


async def main() -> None:
    async with spawn_agent_process(Client(), *sys.argv[1:]) as (connection, _process):
        await connection.initialize(protocol_version=PROTOCOL_VERSION)
        session = await connection.new_session(cwd="/", mcp_servers=[])
        cpu, wall = time.process_time(), time.perf_counter()
        await connection.prompt(session_id=session.session_id, prompt=[text_block("x")])
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu, "wall": wall, "received": received}))


asyncio.run(main())
