"""The server over streamable HTTP on loopback; its address is the first line of its output."""

import json
import os
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from .responder import McpResponder, table

__all__ = ["serve"]

Message = dict[str, Any]


class _State:
    """What is shared between requests."""

    def __init__(self, responder: McpResponder) -> None:
        self.responder = responder
        self.sessions: set[str] = set()
        self.answers: dict[str, Message] = {}
        self.arrived = threading.Condition()
        self.late: dict[str, Message] = {}
        """Answers whose stream was dropped, by the id of the last event before."""


def serve(responder: McpResponder) -> None:
    """Listen until the program is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Requests)
    server.daemon_threads = True
    server.state = _State(responder)  # type: ignore[attr-defined]
    address = cast("tuple[str, int]", server.server_address)
    sys.stdout.write(f"http://127.0.0.1:{address[1]}/mcp\n")
    sys.stdout.flush()
    server.serve_forever()


class _Requests(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    @property
    def state(self) -> _State:
        return cast("_State", self.server.state)  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        quirks = self.state.responder.quirks
        if quirks.old:
            self._plain(405, b"")
            return
        if quirks.token and self.headers.get("Authorization") != f"Bearer {quirks.token}":
            self._plain(401, b'{"error": "who are you?"}')
            return
        message = json.loads(body)
        if (problem := self._problem(message)) is not None:
            self._plain(*problem)
            return
        if "method" not in message:
            with self.state.arrived:
                self.state.answers[message["id"]] = message
                self.state.arrived.notify_all()
            self._plain(202, b"")
            return
        channel = _Stream(self, message)
        self.state.responder.handle(message, channel)
        channel.finish()

    def do_GET(self) -> None:
        quirks = self.state.responder.quirks
        if quirks.old:
            self._begin_stream()
            self.wfile.write(b"event: endpoint\ndata: /messages?id=1\n\n")
            return
        if quirks.era == "modern":
            self._plain(405, b"")
            return
        self._begin_stream()
        if last := self.headers.get("Last-Event-ID"):
            quirks.seen.append("resumed")
            if (late := self.state.late.pop(last, None)) is not None:
                self.wfile.write(f"id: {last}b\ndata: {json.dumps(late)}\n\n".encode())
            return
        self._tell_changes()

    def do_DELETE(self) -> None:
        self.state.sessions.discard(self.headers.get("Mcp-Session-Id") or "")
        self.state.responder.quirks.seen.append("deleted")
        self._plain(200, b"")

    def _tell_changes(self) -> None:
        responder = self.state.responder
        seen = responder.changes
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        try:
            while True:
                with responder.changed:
                    responder.changed.wait(0.2)
                self.wfile.write(b": still here\n\n")
                self.wfile.flush()
                if responder.changes != seen:
                    seen = responder.changes
                    self.wfile.write(f"data: {note}\n\n".encode())
                    self.wfile.flush()
        except OSError:
            return

    def _problem(self, message: Message) -> tuple[int, bytes] | None:
        """What is wrong with a request, as strict servers see it."""
        method = message.get("method")
        meta = table(table(message, "params"), "_meta")
        if "io.modelcontextprotocol/protocolVersion" in meta:
            if self.state.responder.quirks.era == "legacy":
                return (
                    400,
                    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}',
                )
            wanted = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
            if method == "tools/call":
                wanted["Mcp-Name"] = message["params"]["name"]
            for name, value in wanted.items():
                if self.headers.get(name) != value:
                    error = {
                        "code": -32020,
                        "message": f"header {name} is {self.headers.get(name)}",
                    }
                    data = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
                    return 400, json.dumps(data).encode()
            return None
        if method != "initialize" and self.headers.get("Mcp-Session-Id") not in self.state.sessions:
            return 404, b"no such session"
        return None

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def _plain(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, message: Message, session: str | None) -> None:
        """Answer with one message."""
        body = json.dumps(message).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.wfile.write(body)

    def accept(self) -> None:
        """Take a notification."""
        self._plain(202, b"")

    def stream(self) -> None:
        """Answer with a stream."""
        self._begin_stream()

    def write(self, data: bytes) -> None:
        """Write to the stream."""
        self.wfile.write(data)
        self.wfile.flush()


class _Stream:
    """The answers to one POST: one message as JSON, or a stream once there are others."""

    def __init__(self, request: _Requests, message: Message) -> None:
        self._request = request
        self._message = message
        self._state = request.state
        self._streaming = False
        self._is_over = False

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self._request.headers.items()}

    def send(self, message: Message) -> None:
        is_answer = "method" not in message and message.get("id") == self._message.get("id")
        if is_answer and not self._streaming:
            self._is_over = True
            self._request.answer(message, self._session())
            self._forget()
            return
        if is_answer and self._drops(message):
            return
        self.send_bytes(f"event: message\ndata: {json.dumps(message)}\n\n".encode())
        self._is_over = self._is_over or is_answer

    def send_bytes(self, data: bytes) -> None:
        if not self._streaming:
            self._streaming = True
            self._request.stream()
        try:
            self._request.write(data)
        except OSError:
            self._state.responder.cancelled.add(self._message.get("id"))
            self._state.responder.quirks.seen.append("left")

    def ask(self, method: str, params: Message) -> Message:
        id_ = uuid.uuid4().hex
        self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        with self._state.arrived:
            self._state.arrived.wait_for(lambda: id_ in self._state.answers)
            answer = self._state.answers[id_]
        return {key: answer[key] for key in ("result", "error") if key in answer}

    def die(self) -> None:
        os._exit(7)

    def finish(self) -> None:
        if not self._streaming and not self._is_over:
            self._request.accept()

    def _session(self) -> str | None:
        if self._message.get("method") != "initialize":
            return None
        session = uuid.uuid4().hex
        self._state.sessions.add(session)
        return session

    def _forget(self) -> None:
        if self._state.responder.quirks.forgets and self._message.get("method") == "tools/call":
            self._state.responder.quirks.forgets = False
            self._state.sessions.clear()

    def _drops(self, message: Message) -> bool:
        """Drop the stream before the answer, where the call wants that; it can be resumed."""
        if not table(table(self._message, "params"), "arguments").get("drop"):
            return False
        last = uuid.uuid4().hex
        self.send_bytes(f"id: {last}\nretry: 20\ndata:\n\n".encode())
        self._state.late[last] = message
        self._is_over = True
        return True
