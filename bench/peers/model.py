"""The scripted model in a process of its own; remembers when it was asked.

A line on standard input gets a line of JSON: one ``[scene, seconds, bytes]`` for each
request for an answer since the line before, and the CPU seconds that the server took for them.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from quarterdeck.testing.model_server import ModelServer


async def main() -> None:
    script = Path(__file__).with_name("model.toml")
    async with ModelServer(script, keep=5000) as server:
        print(json.dumps({"url": server.url}), flush=True)
        before = time.process_time()
        while await asyncio.to_thread(sys.stdin.readline):
            asked = [
                [request.scene, request.time, len(request.body)]
                for request in server.requests
                if request.scene is not None
            ]
            server.requests.clear()
            now = time.process_time()
            print(json.dumps({"asked": asked, "cpu": now - before}), flush=True)
            before = now


asyncio.run(main())
