"""The scripted model in a process of its own; remembers when it was asked.

Arguments: numbers of steps. For each N there are the scenes ``read-N`` and ``shell-N``; ``text`` is
always there. A line on standard input gets a line of JSON: one ``[scene, seconds, bytes]`` for each
request for an answer since the line before, and the CPU seconds that the server took for them.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from quarterdeck.testing.model_server import ModelServer

# Nothing that the model says takes time.
SCRIPT = """
version = 1
default = "text"

[scenes]
text = ["Hello from the scripted model."]
"""
STEPS = """
[[scenes.{kind}-{count}.replies]]
repeat = {count}
parts = [{{ tool = "{kind}", arguments = {{ {arguments} }} }}]
[[scenes.{kind}-{count}.replies]]
parts = ["Did them all."]
"""
ARGUMENTS = {"read": 'path = "file{{n}}.txt"', "shell": 'command = "true {{n}}"'}


def write_script(counts: list[str]) -> str:
    scenes = (
        STEPS.format(kind=kind, count=count, arguments=arguments)
        for count in counts
        for kind, arguments in ARGUMENTS.items()
    )
    return SCRIPT + "".join(scenes)


async def main(script: Path) -> None:
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


with tempfile.TemporaryDirectory() as place:
    path = Path(place) / "model.toml"
    path.write_text(write_script(sys.argv[1:]))
    asyncio.run(main(path))
