"""An MCP server whose tools do what a test wants, and which misbehaves on request.

Plain threads and the standard library, so that it starts fast and shares no code with our client.
"""

import json
import os
import sys
import threading
from typing import Any

from .responder import TOOLS, McpResponder, quirks_of

__all__ = ["main"]


def main(words: tuple[str, ...]) -> None:
    """Serve until the client leaves."""
    is_http = "--http" in words
    quirks = quirks_of(tuple(word for word in words if word != "--http"))
    if quirks.broken:
        sys.stderr.write("cannot start: API_TOKEN=secret-value-1234 was refused\n")
        raise SystemExit(3)
    responder = McpResponder(quirks, TOOLS)
    if is_http:
        from .http import serve

        serve(responder)
    else:
        _Pipe(responder).serve()


class _Pipe:
    """Standard input and output; each request in a thread of its own."""

    headers: dict[str, str] = {}  # noqa: RUF012 - never changed

    def __init__(self, responder: McpResponder) -> None:
        self._responder = responder
        self._lock = threading.Lock()
        self._answers: dict[str, Any] = {}
        self._arrived = threading.Condition()
        self._asked = 0

    def serve(self) -> None:
        if self._responder.quirks.garbage:
            self.send_bytes(b"Welcome to the server!\n\n{\n")
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if "method" in message:
                work = threading.Thread(
                    target=self._responder.handle, args=(message, self), daemon=True
                )
                work.start()
                if (
                    message["method"] != "tools/call"
                    and message["method"] != "subscriptions/listen"
                ):
                    work.join()
            else:
                with self._arrived:
                    self._answers[message["id"]] = message
                    self._arrived.notify_all()
        os._exit(0)

    def send(self, message: dict[str, Any]) -> None:
        if self._responder.quirks.garbage:
            self.send_bytes(b"debug: sending\n")
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._asked += 1
            id_ = f"ask-{self._asked}"
        self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        with self._arrived:
            self._arrived.wait_for(lambda: id_ in self._answers)
            answer = self._answers[id_]
        return {key: answer[key] for key in ("result", "error") if key in answer}

    def die(self) -> None:
        sys.stderr.write("fatal: the server was told to die, token=abc API_KEY=hunter2hunter2\n")
        sys.stderr.flush()
        os._exit(7)
