"""A fake of ``codex app-server``: JSON-RPC without the member ``jsonrpc``, a message a line.

Over standard input and output it has one client; where it listens, over WebSocket, it has any
number, and the events of a thread go to all that have opened it.
"""

import asyncio
import base64
import hashlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from quarterdeck.testing.session_memory import SessionMemory

from .codex_thread import CodexThread, FakeCodexClient

__all__ = [
    "CLOSE",
    "PING",
    "PONG",
    "TEXT",
    "FakeCodex",
    "WebSocketServerConnection",
    "handshake_accept",
    "listen_websocket",
    "serve_codex",
    "server_frame",
]

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
"""Kinds of WebSocket frames."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LIMIT = 64 * 1024 * 1024


def handshake_accept(key: bytes) -> str:
    """The answer of a WebSocket server to a client's key, in base64 as it was sent."""
    digest = hashlib.sha1(key + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


class WebSocketServerConnection:
    """One client. ``left`` are the bytes after which it is cut; None: it is not."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._left = left
        self.headers: dict[str, str] = {}

    async def greet(self, token: str) -> bool:
        """Agree on the protocol; False: the client does not know the token."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        pairs = (line.partition(":") for line in head.split("\r\n")[1:] if line)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        if token and self.headers.get("authorization") != f"Bearer {token}":
            self._writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
            return False
        key = self.headers["sec-websocket-key"].encode()
        answer = [
            "HTTP/1.1 101 Switching Protocols",
            "connection: upgrade",
            "upgrade: websocket",
            f"sec-websocket-accept: {handshake_accept(key)}",
        ]
        self._writer.write(("\r\n".join(answer) + "\r\n\r\n").encode())
        return True

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """What the client says until it leaves."""
        while True:
            try:
                kind, data = await self._frame()
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            if kind == TEXT:
                yield data
            elif kind == PING:
                self.write(server_frame(PONG, data))
            elif kind == CLOSE:
                return

    async def _frame(self) -> tuple[int, bytes]:
        first, second = await self._reader.readexactly(2)
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8))
        mask = await self._reader.readexactly(4)
        data = await self._reader.readexactly(size)
        key = (mask * (size // 4 + 1))[:size]
        return first & 0xF, (int.from_bytes(data) ^ int.from_bytes(key)).to_bytes(size)

    def send(self, text: bytes) -> None:
        """Send a message, or as much of it as may be sent."""
        self.write(server_frame(TEXT, text))

    def write(self, data: bytes) -> None:
        """Send bytes, or as many of them as may be sent."""
        if self._left is not None and self._left <= len(data):
            self._writer.write(data[: self._left])
            self.cut()
        elif not self._writer.is_closing():
            self._left = self._left - len(data) if self._left is not None else None
            self._writer.write(data)

    def cut(self) -> None:
        """Hang up without a word; what was sent arrives."""
        self._left = 0
        self._writer.close()

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        await self._writer.drain()


def server_frame(kind: int, data: bytes) -> bytes:
    """One frame of a server."""
    size = len(data)
    if size < 126:
        return bytes((0x80 | kind, size)) + data
    if size < 1 << 16:
        return bytes((0x80 | kind, 126)) + size.to_bytes(2) + data
    return bytes((0x80 | kind, 127)) + size.to_bytes(8) + data


_Serve: TypeAlias = Callable[
    [asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]
]


@asynccontextmanager
async def listen_websocket(url: str, serve: _Serve) -> AsyncGenerator[str]:
    """Listen at ``unix://PATH`` or ``ws://127.0.0.1:PORT``; gives the address that it has."""
    tasks: set[asyncio.Task[Any]] = set()

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the server is over
        finally:
            tasks.discard(task)
            writer.close()

    if url.startswith("unix://"):
        path = url.removeprefix("unix://")
        server = await asyncio.start_unix_server(begin, path, limit=_LIMIT)
        address = url
    else:
        path = ""
        port = int(url.rpartition(":")[2])
        server = await asyncio.start_server(begin, "127.0.0.1", port, limit=_LIMIT)
        address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield address
    finally:
        server.close()
        waiting = list(tasks)
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)
        if path:
            await asyncio.to_thread(Path(path).unlink, missing_ok=True)


class _RefusedError(Exception):
    """A request that codex refuses."""


class FakeCodex:
    """The server; an async context manager that listens.

    Args:
        url: where, as ``--listen`` takes it; nowhere if empty.
        token: the token that it expects; empty: none.
        cuts: of each connection, one after another, how many bytes are sent before it is cut;
            connections beyond these are not cut.
        like: a server that is over, and whose threads this one has, at rest.
    """

    def __init__(
        self,
        url: str = "",
        *,
        token: str = "",
        cuts: Sequence[int] = (),
        like: "FakeCodex | None" = None,
    ) -> None:
        self.url = url
        self._token = token
        self._stack = AsyncExitStack()
        self._threads: dict[str, CodexThread] = {}
        for id_, thread in like._threads.items() if like is not None else ():
            self._threads[id_] = thread.moved(self)
        self._asked = 0
        self._connections: list[WebSocketServerConnection] = []
        self.open: dict[int, tuple[CodexThread, dict[str, Any], asyncio.Future[Any]]] = {}
        """What was asked and is not answered."""
        self.cuts = list(cuts)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        """Method and params of each request."""
        self.is_deaf = False
        """Whether requests are taken and never answered."""

    async def __aenter__(self) -> "FakeCodex":
        """Begin to listen."""
        self.url = await self._stack.enter_async_context(listen_websocket(self.url, self._serve))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hang up and stop every turn."""
        for thread in self._threads.values():
            thread.clients.clear()
            await thread.stop()
        await self._stack.aclose()

    def cut_all(self) -> None:
        """Hang up on every client."""
        for connection in self._connections:
            connection.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = WebSocketServerConnection(
            reader, writer, self.cuts.pop(0) if self.cuts else None
        )
        if not await connection.greet(self._token):
            return
        self._connections.append(connection)
        client = FakeCodexClient(
            lambda data: connection.send(data.decode("utf-8", "replace").encode())
        )
        try:
            async for message in connection.messages():
                await self.take(client, json.loads(message))
                await connection.drain()
        except ConnectionError:
            pass  # it is gone
        finally:
            self._connections.remove(connection)
            for thread in self._threads.values():
                thread.clients.discard(client)

    async def take(self, client: FakeCodexClient, message: dict[str, Any]) -> None:
        """Take one message of a client."""
        if "method" not in message:
            self._answered(message)
            return
        if "id" not in message:
            return
        method: str = message["method"]
        params: dict[str, Any] = message.get("params") or {}
        self.requests.append((method, params))
        if self.is_deaf:
            return
        try:
            result = await self._answer(client, method, params)
        except _RefusedError as error:
            data = {"code": -32600, "message": str(error)}
            client.put({"error": data, "id": message["id"]})
            return
        client.put({"id": message["id"], "result": result})
        self._after(client, method, params)

    def _after(self, client: FakeCodexClient, method: str, params: dict[str, Any]) -> None:
        if method == "turn/start":
            self._threads[params["threadId"]].go()
        elif method == "thread/resume":
            for id_, (thread, asked, _) in self.open.items():
                if thread.id == params["threadId"]:
                    client.put({**asked, "id": id_})

    def _answered(self, message: dict[str, Any]) -> None:
        thread, _, waiting = self.open.pop(message.get("id", -1), (None, None, None))
        if thread is None or waiting is None:
            return
        thread.tell("serverRequest/resolved", requestId=message["id"])
        if not waiting.done():
            waiting.set_result(message.get("result") or {})

    async def ask(self, thread: CodexThread, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask all clients of a thread something; the first answer counts."""
        id_, self._asked = self._asked, self._asked + 1
        asked = {"method": method, "params": params}
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.open[id_] = (thread, asked, waiting)
        try:
            thread.put({**asked, "id": id_})
            return await waiting
        finally:
            self.open.pop(id_, None)

    async def _answer(
        self, client: FakeCodexClient, method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        match method:
            case "initialize":
                name = params["clientInfo"]["name"]
                return {"userAgent": f"{name}/0.0.0-fake (fake)", "platformOs": "linux"}
            case "account/read":
                return {"account": None, "requiresOpenaiAuth": False}
            case "thread/start" | "thread/resume" | "thread/fork":
                return self._open(client, method, params)
            case "thread/list":
                return {"data": [{"id": id_} for id_ in self._threads], "nextCursor": None}
            case _:
                return await self._answer_in(self._thread(params), method, params)

    async def _answer_in(
        self, thread: CodexThread, method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        match method:
            case "thread/items/list":
                return thread.items(params)
            case "thread/turns/list":
                return {"data": thread.turns[::-1], "nextCursor": None}
            case "turn/start":
                return thread.begin(params)
            case "turn/steer":
                if not thread.steer(params):
                    raise _RefusedError("no active turn to steer")
                return {"turnId": params["expectedTurnId"]}
            case "turn/interrupt":
                if not await thread.interrupt():
                    raise _RefusedError("no active turn to interrupt")
                return {}
            case "thread/name/set" | "thread/backgroundTerminals/clean":
                return {}
            case _:
                raise _RefusedError(f"Invalid request: unknown variant `{method}`")

    def _thread(self, params: dict[str, Any]) -> CodexThread:
        thread = self._threads.get(params.get("threadId", ""))
        if thread is None:
            raise _RefusedError(f"thread not found: {params.get('threadId')}")
        return thread

    def _open(self, client: FakeCodexClient, method: str, params: dict[str, Any]) -> dict[str, Any]:
        thread = self._threads.get(params.get("threadId", ""))
        if thread is None or method == "thread/fork":
            memory = SessionMemory("codex", params.get("threadId"), fork=method == "thread/fork")
            if not memory.is_known:
                raise _RefusedError(f"no rollout found for thread id {params['threadId']}")
            while memory.id in self._threads:  # without FAKE_STATE nothing tells them apart
                memory.id = f"{memory.id}-{len(self._threads) + 1}"
            parent, thread = thread, CodexThread(self, memory)
            self._threads[memory.id] = thread
            if method == "thread/fork" and params.get("lastTurnId") is not None:
                thread.become_copy(parent, params["lastTurnId"])
        thread.clients.add(client)
        thread.approval = params.get("approvalPolicy") or thread.approval
        if method == "thread/resume":
            thread.tell_usage(client)
        data: dict[str, Any] = {"id": thread.id, "cwd": params.get("cwd"), "turns": []}
        opened = {"thread": {**data, "status": thread.status()}}
        if "initialTurnsPage" in params:
            opened["initialTurnsPage"] = {"data": thread.turns[::-1], "nextCursor": None}
        return {**opened, "model": params.get("model") or "fake-1"}


async def serve_codex(words: Sequence[str] = ()) -> None:
    """Serve until standard input ends, or where ``--listen`` says until the process is ended."""
    if "--listen" in words:
        url = list(words)[list(words).index("--listen") + 1]
        async with FakeCodex(url, token=os.environ.get("FAKE_TOKEN", "")) as fake:
            sys.stderr.write(f"listening on: {fake.url}\n")
            sys.stderr.flush()
            await asyncio.get_running_loop().create_future()
    reader = asyncio.StreamReader(limit=_LIMIT)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    server, client = FakeCodex(), FakeCodexClient(_print)
    while line := await reader.readline():
        with suppress(ValueError):
            await server.take(client, json.loads(line))


def _print(data: bytes) -> None:
    data += b"\n"
    while data:
        data = data[os.write(1, data) :]
