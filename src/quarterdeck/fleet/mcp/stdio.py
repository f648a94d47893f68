"""The bridge for agents that take tool servers over standard input and output alone.

Every line from the agent is a message that is posted to the host; what the host answers is a line
to the agent. Messages travel side by side, so that a long call holds up nothing.
"""

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.rpc.stream import ByteStream
from quarterdeck.wire.tasks import BackgroundTasks

__all__ = ["BridgeSetupError", "run_bridge"]

_LONGEST = 4 * 1024 * 1024
"""Bytes of a line; the host takes no longer messages."""
_MOST = 64
"""Messages under way; the agent is held back beyond."""
_LAST_SECONDS = 1.0
"""How long what runs may take when the agent's side has ended."""
_FAILED = -32000


class BridgeSetupError(QuarterdeckError):
    """The bridge was not given an address."""


async def run_bridge(stream: ByteStream, url: str, token: str) -> None:
    """Carry messages until the agent's side ends; calls that run then are cancelled.

    Raises:
        BridgeSetupError: the address is none of this machine's, so it gets no token.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname != "127.0.0.1" or parts.port is None:
        raise BridgeSetupError(f"{url!r} is not the address of a host on this machine")
    post = _Post(parts.port, parts.path, token)
    tasks = BackgroundTasks()
    writing, room = asyncio.Lock(), asyncio.Semaphore(_MOST)
    try:
        async for line in _Lines(stream):
            await room.acquire()
            task = tasks.start(_carry(post, line, stream, writing), name="carry a message")
            task.add_done_callback(lambda _: room.release())
    except LinkError:
        pass  # the agent is gone
    finally:
        await tasks.close(_LAST_SECONDS)


class _Lines:
    """The lines of a stream, without those that are empty; one that is too long is cut off."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._rest = bytearray()

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> bytes:
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                if line.strip():
                    return bytes(line)
                continue
            if len(self._rest) > _LONGEST:
                raise BridgeSetupError(f"a message is longer than {_LONGEST} bytes")
            data = await self._stream.receive()
            if not data:
                raise StopAsyncIteration
            self._rest += data


async def _carry(post: "_Post", line: bytes, stream: ByteStream, writing: asyncio.Lock) -> None:
    try:
        answer = await post.send(line)
    except (OSError, asyncio.IncompleteReadError) as error:
        answer = _refusal(line, f"the host cannot be reached: {error}")
    if not answer.strip():
        return
    async with writing:
        try:
            await stream.send(answer.replace(b"\n", b" ").strip() + b"\n")
        except LinkError:
            return  # the agent is gone, which the reading side notices


class _Post:
    """Sends messages to the host."""

    def __init__(self, port: int, path: str, token: str) -> None:
        self._port = port
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nAccept: application/json\r\n"
        )

    async def send(self, line: bytes) -> bytes:
        """The host's answer to a message; empty where there is none.

        Raises:
            OSError, asyncio.IncompleteReadError: there is no host any more.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(f"{self._head}Content-Length: {len(line)}\r\n\r\n".encode() + line)
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.read()
        finally:
            writer.close()
        status = int(head.split(b" ", 2)[1])
        if status in (200, 202):
            return body
        return _refusal(line, f"the host refuses ({status}): {_reason(body)}")


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        return "no reason was given"


def _refusal(line: bytes, text: str) -> bytes:
    """An error answer to a request; nothing where it was no request."""
    try:
        message: Any = json.loads(line)
        id_ = message.get("id")
    except (ValueError, AttributeError, RecursionError):
        id_ = None
    if id_ is None:
        return b""
    error = {"code": _FAILED, "message": text}
    return json.dumps({"jsonrpc": "2.0", "id": id_, "error": error}).encode()
