"""Our client: the ACP connection over a child's pipes, every update decoded to its type."""

import asyncio
import json
import os
import subprocess
import sys
import time

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection, Router
from quarterdeck.wire.content import text
from quarterdeck.wire.rpc import pipe_stream

received = 0


def count(note: acp.SessionNotification) -> None:
    global received
    received += len(note.update.content.text) > 0


async def main(agent: subprocess.Popen[bytes]) -> None:
    assert agent.stdin is not None
    assert agent.stdout is not None
    stream = await pipe_stream(os.dup(agent.stdout.fileno()), os.dup(agent.stdin.fileno()))
    agent.stdin.close()
    agent.stdout.close()
    router = Router("client")
    router.on(acp.SESSION_UPDATE, count)
    async with AcpConnection(stream, router) as connection:
        await connection.call(acp.INITIALIZE, acp.InitializeRequest(protocol_version=1))
        await connection.call(acp.SESSION_NEW, acp.NewSessionRequest(cwd="/", mcp_servers=()))
        prompt = acp.PromptRequest(session_id="s1", prompt=(text("x"),))
        cpu, wall = time.process_time(), time.perf_counter()
        await connection.call(acp.SESSION_PROMPT, prompt)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu, "wall": wall, "received": received}))


child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
asyncio.run(main(child))
child.wait()
