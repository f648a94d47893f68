"""The least a client can be: an asyncio protocol and typed msgspec decoding, nothing else."""

import asyncio
import json
import sys
import time
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder


class Text(Struct, tag_field="type", tag="text"):
    text: str


class Image(Struct, tag_field="type", tag="image"):
    data: str


class Chunk(Struct, tag_field="sessionUpdate", tag="agent_message_chunk"):
    content: Text | Image
    messageId: str | None = None


class Thought(Struct, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    content: Text | Image
    messageId: str | None = None


class Params(Struct):
    sessionId: str
    update: Chunk | Thought


class Frame(Struct):
    method: str | None = None
    id: int | None = None
    params: Params | None = None
    result: Any = None


class Client(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.decode = Decoder(Frame).decode
        self.rest = b""
        self.received = 0
        self.answers: asyncio.Queue[Any] = asyncio.Queue()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            frame = self.decode(line)
            if frame.params is not None:
                self.received += len(frame.params.update.content.text) > 0
            else:
                self.answers.put_nowait(frame.result)


async def main() -> None:
    loop = asyncio.get_running_loop()
    transport, client = await loop.subprocess_exec(Client, *sys.argv[1:], stderr=None)
    stdin = transport.get_pipe_transport(0)

    async def ask(id_: int, method: str, params: dict[str, Any]) -> None:
        frame = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        stdin.write(json.dumps(frame).encode() + b"\n")
        await client.answers.get()

    await ask(1, "initialize", {"protocolVersion": 1})
    await ask(2, "session/new", {"cwd": "/", "mcpServers": []})
    cpu, wall = time.process_time(), time.perf_counter()
    await ask(3, "session/prompt", {"sessionId": "s1", "prompt": [{"type": "text", "text": "x"}]})
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu, "wall": wall, "received": client.received}))
    stdin.close()
    transport.close()


asyncio.run(main())
