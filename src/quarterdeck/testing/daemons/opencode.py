"""A fake of ``opencode serve``: HTTP on the loopback interface, and a stream of events."""

import asyncio
import base64
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from quarterdeck.testing.http_server import HttpExchange, HttpServer
from quarterdeck.testing.session_memory import SessionMemory

from .opencode_session import OpencodeSession

__all__ = ["FakeOpencode", "serve_opencode"]

_SESSION = re.compile(r"/session/([^/]+)(/.*)?")
_REPLY = re.compile(r"/permission/([^/]+)/reply")


class FakeOpencode:
    """The server; an async context manager.

    Args:
        password: what it wants to be told; empty: nothing.
        port: where it listens; 0: anywhere.
        cuts: of each stream of events, one after another, how many bytes are sent before the
            connection is cut; streams beyond these are not cut.
        like: a server that is over, and whose sessions this one has.
    """

    def __init__(
        self,
        password: str = "",
        *,
        port: int = 0,
        cuts: Sequence[int] = (),
        like: "FakeOpencode | None" = None,
    ) -> None:
        self._password = password
        self._server = HttpServer(self._handle, port=port)
        self._sessions: dict[str, OpencodeSession] = {}
        for session in like.sessions if like is not None else ():
            self._sessions[session.id] = session.moved(self)
        self._hold = 0.0
        self._listeners: list[asyncio.Queue[bytes]] = []
        self._open: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._count = 0
        self.cuts = list(cuts)
        self.requests: list[tuple[str, str, Any]] = []
        """Method, path and body of each request that was let in."""

    async def __aenter__(self) -> "FakeOpencode":
        """Begin to listen."""
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every turn and connection."""
        for session in self._sessions.values():
            await session.abort()
        await self._server.__aexit__()

    @property
    def sessions(self) -> list[OpencodeSession]:
        """The sessions that it has."""
        return list(self._sessions.values())

    def cut_all(self, *, hold: float = 0.0) -> None:
        """Cut every stream of events; let none begin anew for ``hold`` seconds."""
        self._hold = hold
        self.publish_raw(b"")

    @property
    def url(self) -> str:
        """Where it is."""
        return self._server.url

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.port

    # What sessions tell

    def publish(self, kind: str, told: dict[str, Any]) -> None:
        """Tell every listener."""
        self._count += 1
        event = {"id": f"evt_{self._count}", "type": kind, "properties": told}
        self.publish_raw(_frame(event))

    def publish_raw(self, frame: bytes) -> None:
        """Tell every listener these bytes."""
        for listener in self._listeners:
            listener.put_nowait(frame)

    async def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Ask for leave and wait for the answer."""
        self._count += 1
        id_ = f"per_{self._count}"
        waiting = asyncio.get_running_loop().create_future()
        self._open[id_] = ({**asked, "id": id_}, waiting)
        self.publish("permission.asked", {**asked, "id": id_})
        return await waiting

    def forget(self, session: str) -> None:
        """A turn is over, and what it asked with it."""
        gone = [id_ for id_, (asked, _) in self._open.items() if asked["sessionID"] == session]
        for id_ in gone:
            del self._open[id_]

    # Serving

    async def _handle(self, exchange: HttpExchange) -> None:
        request = exchange.request
        path = unquote(urlsplit(request.target).path)
        login = base64.b64encode(f"opencode:{self._password}".encode()).decode()
        if self._password and request.headers.get("authorization") != f"Basic {login}":
            await exchange.answer(401, b"")
            return
        body = json.loads(request.body) if request.body else None
        self.requests.append((request.method, path, body))
        if path == "/event":
            await self._stream(exchange)
            return
        status, answer = await self._answer(request.method, path, body or {})
        await exchange.answer(status, b"" if answer is None else json.dumps(answer).encode())

    async def _stream(self, exchange: HttpExchange) -> None:
        """The events from now on, until the connection is cut or the client goes."""
        hold, self._hold = self._hold, 0.0
        await asyncio.sleep(hold)
        left = self.cuts.pop(0) if self.cuts else None
        listener: asyncio.Queue[bytes] = asyncio.Queue()
        listener.put_nowait(_frame({"type": "server.connected", "properties": {}}))
        self._listeners.append(listener)
        exchange.begin({"content-type": "text/event-stream"})
        try:
            while True:
                frame = await listener.get()
                if not frame or (left is not None and left <= len(frame)):
                    await exchange.send(frame[:left])
                    exchange.cut()
                    return
                left = left - len(frame) if left is not None else None
                await exchange.send(frame)
        finally:
            self._listeners.remove(listener)

    async def _answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if (found := _REPLY.fullmatch(path)) is not None:
            return self._reply(found[1], body)
        if (found := _SESSION.fullmatch(path)) is not None and found[1] != "status":
            return await self._in_session(method, found[1], found[2] or "", body)
        match method, path:
            case "GET", "/global/health":
                return 200, {"healthy": True, "version": "0.0.0-fake"}
            case "POST", "/session":
                return 200, self._new(SessionMemory("opencode", None), body).info()
            case "GET", "/session":
                return 200, [session.info() for session in self._sessions.values()]
            case "GET", "/session/status":
                busy = [session.id for session in self._sessions.values() if session.is_busy]
                return 200, {id_: {"type": "busy"} for id_ in busy}
            case "GET", "/permission":
                return 200, [asked for asked, _ in self._open.values()]
            case "GET", "/question":
                return 200, []
            case "POST", "/mcp":
                return 200, {body["name"]: {"status": "connected"}}
            case _:
                return 404, {"name": "NotFoundError"}

    async def _in_session(
        self, method: str, id_: str, rest: str, body: dict[str, Any]
    ) -> tuple[int, Any]:
        session = self._sessions.get(id_)
        if session is None:
            memory = SessionMemory("opencode", id_)
            if not memory.is_known or not os.environ.get("FAKE_STATE"):
                return 404, {"name": "NotFoundError", "data": {"message": f"no session {id_}"}}
            session = self._new(memory, {})
        match method, rest:
            case "PATCH", "":
                session.title = body.get("title") or session.title
                session.rules = body.get("permission") or session.rules
                return 200, session.info()
            case "POST", "/fork":
                return 200, self._new(SessionMemory("opencode", id_, fork=True), {}).info()
            case "GET", "/message":
                return 200, session.messages
            case "GET", _ if rest.startswith("/message/"):
                found = [one for one in session.messages if one["info"]["id"] == rest[9:]]
                return (200, found[0]) if found else (404, {"name": "NotFoundError"})
            case "POST", "/prompt_async":
                session.begin(body)
                return 204, None
            case "POST", "/abort":
                await session.abort()
                return 200, True
            case _:
                return 404, {"name": "NotFoundError"}

    def _new(self, memory: SessionMemory, body: dict[str, Any]) -> OpencodeSession:
        if memory.id in self._sessions:  # without FAKE_STATE nothing tells them apart
            memory.id = f"{memory.id}-{len(self._sessions) + 1}"
        session = self._sessions[memory.id] = OpencodeSession(self, memory)
        session.title = body.get("title") or ""
        session.rules = body.get("permission") or []
        return session

    def _reply(self, id_: str, body: dict[str, Any]) -> tuple[int, Any]:
        if id_ not in self._open:
            return 404, {"name": "NotFoundError"}
        asked, waiting = self._open.pop(id_)
        told = {"sessionID": asked["sessionID"], "requestID": id_, "reply": body.get("reply")}
        self.publish("permission.replied", told)
        if not waiting.done():
            waiting.set_result(body)
        return 200, True


def _frame(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


async def serve_opencode(words: Sequence[str]) -> None:
    """Serve until the process is ended; ``--port`` says where."""
    port = 0
    if "--port" in words:
        port = int(words[list(words).index("--port") + 1])
    try:
        async with FakeOpencode(os.environ.get("OPENCODE_SERVER_PASSWORD", ""), port=port) as fake:
            sys.stdout.write(f"opencode server listening on {fake.url}\n")
            sys.stdout.flush()
            with suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()
    except OSError as error:
        sys.exit(f"Error: Failed to start server on port {port}: {error}")
