"""A minimal agent on asyncio and msgspec alone."""

import asyncio
import sys

from msgspec import Raw, Struct
from msgspec.json import Decoder, encode


class Request(Struct):
    method: str
    id: int
    params: Raw


class Initialize(Struct):
    protocolVersion: int


class New(Struct):
    cwd: str


TYPES = {"initialize": Decoder(Initialize), "session/new": Decoder(New)}
RESULTS = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s1"}}


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    decode = Decoder(Request).decode
    while line := await reader.readline():
        request = decode(line)
        TYPES[request.method].decode(request.params)
        answer = {"jsonrpc": "2.0", "id": request.id, "result": RESULTS[request.method]}
        writer.write(encode(answer) + b"\n")


asyncio.run(main())
