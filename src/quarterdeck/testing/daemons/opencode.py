"""A fake of ``opencode serve``: HTTP on the loopback interface, and a stream of events."""

import asyncio
import base64
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote, urlsplit

from quarterdeck.testing.disk_actions import DiskAction, DiskActionKind
from quarterdeck.testing.http_server import HttpExchange, HttpServer
from quarterdeck.testing.session_memory import SessionMemory
from quarterdeck.wire.tasks import start_task

from .commands import FakeServerFailedError, run_prompt

__all__ = ["FakeOpencode", "OpencodeSession", "serve_opencode"]

_SESSION = re.compile(r"/session/([^/]+)(/.*)?")
_REPLY = re.compile(r"/permission/([^/]+)/reply")
_INPUT, _OUTPUT = 11, 7
"""Tokens of a turn, as every fake counts them."""
_ANSWER = "~"
"""Sorts after every letter: an answer's id must be greater than the prompt's."""
_TOOLS: dict[DiskActionKind, tuple[str, str, str]] = {
    "read": ("read", "read", "filePath"),
    "edit": ("write", "edit", "filePath"),
    "run": ("bash", "bash", "command"),
}
"""For each action the tool's name, the permission that it needs, the field of its input."""


class OpencodeSession:
    """A session. What grows is sent in pieces and kept whole only when it is complete."""

    def __init__(self, server: "FakeOpencode", memory: SessionMemory) -> None:
        self._server = server
        self._memory = memory
        self.id = memory.id
        self.title = ""
        self.rules: list[dict[str, str]] = []
        """What is allowed, asked about or denied; the last that fits counts, else it is allowed."""
        self.messages: list[dict[str, Any]] = []
        self.is_busy = False
        self._task: asyncio.Task[None] | None = None
        self._steering: list[dict[str, Any]] = []
        self._answer: dict[str, Any] = {}
        self._growing: dict[str, Any] | None = None
        self._count = 0

    @property
    def prompts(self) -> list[str]:
        """Those of the session, this turn's last."""
        return self._memory.prompts

    def moved(self, server: "FakeOpencode") -> "OpencodeSession":
        """The same session on another server, at rest."""
        session = OpencodeSession(server, self._memory)
        session.title, session.messages, session.rules = self.title, self.messages, self.rules
        return session

    def info(self) -> dict[str, Any]:
        """What the server says of a session."""
        return {"id": self.id, "title": self.title, "version": "0.0.0-fake"}

    def begin(self, body: dict[str, Any]) -> None:
        """Take a prompt; the turn runs by itself. During one it is read at the next step."""
        if self.is_busy:
            self._steering.append(body)
            return
        self._task = start_task(self._run(body), name=f"turn of {self.id}")

    def take_steering(self) -> list[str]:
        """The lines of messages that came during the turn, each once; an answer follows them."""
        taken, self._steering = self._steering, []
        lines: list[str] = []
        for body in taken:
            prompt = "\n".join(one["text"] for one in body["parts"] if one["type"] == "text")
            lines += prompt.split("\n")
            user = body["messageID"]
            self._end_part()
            self._finish("tool-calls")
            self._message({"id": user, "role": "user"})
            self._part({"id": self._id("prt"), "messageID": user, "type": "text", "text": prompt})
            self._answer = {"id": f"{user}{_ANSWER}1", "role": "assistant", "parentID": user}
            self._message(self._answer)
            self._part({**self._new("step-start")})
        return lines

    async def abort(self) -> None:
        """End the turn that runs, if one does."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, body: dict[str, Any]) -> None:
        prompt = "\n".join(one["text"] for one in body["parts"] if one["type"] == "text")
        self._memory.keep(prompt)
        user = body["messageID"]
        self._message({"id": user, "role": "user"})
        self._part({"id": self._id("prt"), "messageID": user, "type": "text", "text": prompt})
        self.is_busy = True
        self._tell("session.status", status={"type": "busy"})
        self._answer = {"id": f"{user}{_ANSWER}1", "role": "assistant", "parentID": user}
        self._message(self._answer)
        self._part({**self._new("step-start")})
        try:
            await run_prompt(self, prompt)
            self._end_part()
            self._finish()
        except FakeServerFailedError as failure:
            self._end_part()
            self._fail({"name": "APIError", "data": {"message": str(failure)}})
        except asyncio.CancelledError:
            self._end_part()
            self._fail({"name": "MessageAbortedError", "data": {"message": "Aborted"}})
        self.is_busy = False
        self._server.forget(self.id)
        self._tell("session.status", status={"type": "idle"})
        self._tell("session.idle")

    def _finish(self, reason: str = "stop") -> None:
        cache = {"read": 0, "write": 0}
        tokens = {"input": _INPUT, "output": _OUTPUT, "reasoning": 0, "cache": cache}
        self._part({**self._new("step-finish"), "reason": reason, "tokens": tokens, "cost": 0})
        self._answer = {**self._answer, "finish": reason, "tokens": tokens}
        self._message(self._answer)

    def _fail(self, error: dict[str, Any]) -> None:
        self._answer = {**self._answer, "error": error}
        self._message(self._answer)
        self._tell("session.error", error=error)

    # Sending and keeping

    def _tell(self, kind: str, **data: Any) -> None:
        self._server.publish(kind, {"sessionID": self.id, **data})

    def _message(self, info: dict[str, Any]) -> None:
        info = {**info, "sessionID": self.id}
        for kept in self.messages:
            if kept["info"]["id"] == info["id"]:
                kept["info"] = info
                break
        else:
            self.messages.append({"info": info, "parts": []})
        self._tell("message.updated", info=info)

    def _part(self, part: dict[str, Any]) -> None:
        part = {**part, "sessionID": self.id}
        message = next(m for m in self.messages if m["info"]["id"] == part["messageID"])
        parts = message["parts"]
        for index, kept in enumerate(parts):
            if kept["id"] == part["id"]:
                parts[index] = part
                break
        else:
            parts.append(part)
        self._tell("message.part.updated", part=part)

    def _new(self, kind: str) -> dict[str, Any]:
        return {"id": self._id("prt"), "messageID": self._answer["id"], "type": kind}

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self.id}_{self._memory.turns}_{self._count}"

    # Saying things

    async def _grow(self, kind: str, delta: str) -> None:
        await asyncio.sleep(0)  # so that an interruption comes through
        if self._growing is None or self._growing["type"] != kind:
            self._end_part()
            self._growing = {**self._new(kind), "text": "", "time": {"start": 1}}
            self._part(self._growing)
        part = self._growing
        part["text"] += delta
        where = {"messageID": part["messageID"], "partID": part["id"], "field": "text"}
        self._tell("message.part.delta", **where, delta=delta)

    def _end_part(self) -> None:
        if self._growing is not None:
            self._part({**self._growing, "time": {"start": 1, "end": 2}})
            self._growing = None

    async def say(self, text: str) -> None:
        """Say a piece of a message."""
        await self._grow("text", text)

    async def think(self, text: str) -> None:
        """Think a piece of a thought."""
        await self._grow("reasoning", text)

    async def tool(self, title: str) -> None:
        """Run a tool to its good end."""
        part = self._call(title)
        self._part({**part, "state": _state("completed", title, output="done\n", title=title)})

    async def ask(self, title: str) -> bool:
        """Run a shell command that needs permission."""
        part = self._call(title)
        if await self._leave(part, "bash", title, {"command": title}):
            self._part({**part, "state": _state("completed", title, output="done\n")})
            return True
        self._part({**part, "state": _state("error", title, error="The user rejected it.")})
        return False

    async def _leave(
        self, part: dict[str, Any], permission: str, pattern: str, data: dict[str, Any]
    ) -> bool:
        asked = {
            "sessionID": self.id,
            "permission": permission,
            "patterns": [pattern],
            "metadata": data,
            "always": ["*"],
            "tool": {"messageID": part["messageID"], "callID": part["callID"]},
        }
        answer = await self._server.ask(asked)
        return answer.get("reply") in ("once", "always")

    async def act(self, action: DiskAction, *, asks: bool = True) -> str | None:
        """Do something, with permission where its rules ask for it; None: it was refused."""
        tool, permission, field = _TOOLS[action.kind]
        target = action.target if action.kind == "run" else action.path
        given = {field: target} | ({"content": action.content} if action.kind == "edit" else {})
        self._end_part()
        part = {**self._new("tool"), "tool": tool, "callID": self._id("call")}
        state = {"input": given, "time": {"start": 1}}
        self._part({**part, "state": {**state, "status": "running"}})
        effect = self._effect(permission, target) if asks else "allow"
        data = {"filepath": target} if action.kind != "run" else {"command": target}
        if effect == "deny" or (
            effect == "ask" and not await self._leave(part, permission, target, data)
        ):
            self._part({**part, "state": {**state, "status": "error", "error": "rejected"}})
            return None
        output = await asyncio.to_thread(action.carry_out)
        self._part({**part, "state": {**state, "status": "completed", "output": output}})
        return output

    def _effect(self, permission: str, target: str) -> str:
        found = "allow"
        for rule in self.rules:
            if fnmatchcase(permission, rule["permission"]) and fnmatchcase(target, rule["pattern"]):
                found = rule["action"]
        return found

    def _call(self, title: str) -> dict[str, Any]:
        self._end_part()
        part = {**self._new("tool"), "tool": "bash", "callID": self._id("call")}
        self._part({**part, "state": {"status": "pending", "input": {}, "raw": ""}})
        self._part({**part, "state": _state("running", title)})
        return part

    async def plan(self, steps: list[str]) -> None:
        """Send a plan."""
        todos = [{"content": one, "status": "pending", "priority": "high"} for one in steps]
        self._tell("todo.updated", todos=todos)

    async def unknown(self, text: str) -> None:
        """Send an event of an unknown kind."""
        self._tell("session.mystery", text=text)

    async def garbage(self, count: int) -> None:
        """Send what is no event."""
        for number in range(count):
            self._server.publish_raw(b"data: garbage %d \xff\xfe {]\n\n" % number)
        self._server.publish_raw(b": a comment\n\ndata: [1, 2]\n\nnonsense\n\ndata:\n\n")


def _state(status: str, command: str, **more: Any) -> dict[str, Any]:
    return {"status": status, "input": {"command": command}, "time": {"start": 1}, **more}


class FakeOpencode:
    """The server; an async context manager.

    Args:
        password: the password that it expects; empty: none.
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

    # What sessions send

    def publish(self, kind: str, properties: dict[str, Any]) -> None:
        """Tell every listener."""
        self._count += 1
        event = {"id": f"evt_{self._count}", "type": kind, "properties": properties}
        self.publish_raw(_frame(event))

    def publish_raw(self, frame: bytes) -> None:
        """Send these bytes to every listener."""
        for listener in self._listeners:
            listener.put_nowait(frame)

    async def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Request permission and wait for the answer."""
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
        data = {"sessionID": asked["sessionID"], "requestID": id_, "reply": body.get("reply")}
        self.publish("permission.replied", data)
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
