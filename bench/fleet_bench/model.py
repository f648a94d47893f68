"""The model that agents ask: on loopback, answers at once, says what its scenes say.

``scene:text`` says one sentence, ``scene:stream`` many numbered words in as many pieces,
``scene:ask`` runs a command, for which most agents need permission. The first line of output is
JSON with the ``url``. Ends when its input ends.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from quarterdeck.testing.model_server import ModelServer

from .numbers import write_numbers

_SCRIPT = """
version = 1
default = "text"
[scenes]
text = ["Hello from the scripted model."]
[[scenes.stream.replies]]
parts = [{{ text = "{words}", chunks = {count} }}]
[[scenes.ask.replies]]
parts = [{{ tool = "shell", arguments = {{ command = "touch asked.txt" }} }}]
[[scenes.ask.replies]]
parts = ["Done."]
"""


async def _serve(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "model.toml"
        script.write_text(_SCRIPT.format(count=count, words=write_numbers(count)))
        async with ModelServer(script, keep=10) as server:
            print(json.dumps({"url": server.url}), flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
