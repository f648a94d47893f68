"""The lines that Claude Code prints: messages in pieces and whole, tool calls, requests."""

import json
import sys
import threading
from collections import deque
from typing import Any
from uuid import uuid4

from .flags import FakeClaudeFlags

__all__ = ["FakeClaudeOutput", "TurnAbortedError"]

_USAGE = {
    "input_tokens": 11,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 1,
}


class TurnAbortedError(Exception):
    """The turn was interrupted."""


class FakeClaudeOutput:
    """Prints lines; one message is open at a time. ``interrupted`` ends what it waits for."""

    def __init__(self, flags: FakeClaudeFlags, session: str, model: str) -> None:
        self._flags = flags
        self.session = session
        self.model = model
        self.mode = flags.values.get("permission_mode", "default")
        self.interrupted = threading.Event()
        self.parent: str | None = None
        self.calls = 0
        self.texts: list[str] = []
        """The text of the last message."""
        self.entries: list[str] = []
        """The ids of what this turn added to the conversation."""
        self._lock = threading.Lock()
        self._heard = threading.Condition()
        self._answers: dict[str, dict[str, Any]] = {}
        self._numbers: deque[int] = deque([0])
        self._message: str | None = None
        self._block: list[str] | None = None
        self._index = 0

    def number(self) -> int:
        """A number that was not used yet."""
        self._numbers[0] += 1
        return self._numbers[0]

    def line(self, line: dict[str, Any]) -> None:
        """Print an object; what is part of the conversation has an id."""
        if line["type"] in ("assistant", "user"):
            line = {"uuid": str(uuid4()), **line}
            if line.get("parent_tool_use_id") is None:
                self.entries.append(line["uuid"])
        self.raw(json.dumps({**line, "session_id": self.session}).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        """Print bytes."""
        with self._lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    # Speaking

    def say(self, text: str) -> None:
        """A piece of text."""
        self._open("text")
        assert self._block is not None
        self._block.append(text)
        self.texts.append(text)
        self._event("content_block_delta", delta={"type": "text_delta", "text": text})

    def think(self, text: str) -> None:
        """A block of thought."""
        self._open_message()
        self._close_block()
        self._event("content_block_start", content_block={"type": "thinking", "thinking": ""})
        self._event("content_block_delta", delta={"type": "thinking_delta", "thinking": text})
        self._whole({"type": "thinking", "thinking": text, "signature": "c2lnbmVk"})

    def call(self, name: str, given: dict[str, Any]) -> str:
        """A tool call, which ends the message; returns its id."""
        self.calls += 1
        call = f"toolu_{self.session[:8]}_{self.number()}"
        self._open_message()
        self._close_block()
        block: dict[str, Any] = {"type": "tool_use", "id": call, "name": name, "input": {}}
        self._event("content_block_start", content_block=block)
        written = json.dumps(given)
        half = len(written) // 2
        for part in (written[:half], written[half:]):
            delta = {"type": "input_json_delta", "partial_json": part}
            self._event("content_block_delta", delta=delta)
        self._whole({**block, "input": given})
        self.end_message("tool_use")
        return call

    def result(
        self, call: str, content: Any, *, failed: bool = False, tool_data: Any = None
    ) -> None:
        """What a tool call gave."""
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        if failed:
            block["is_error"] = True
        message = {"role": "user", "content": [block]}
        line: dict[str, Any] = {"type": "user", "message": message}
        if tool_data is not None:
            line["tool_use_result"] = tool_data
        self.line({**line, "parent_tool_use_id": self.parent})

    def end_message(self, stop: str | None = "end_turn") -> None:
        """The message is complete; without ``stop`` it broke off."""
        if self._message is None:
            return
        if stop is not None:
            self._close_block()
            usage = {"output_tokens": 7}
            delta = {"stop_reason": stop, "stop_sequence": None}
            self._event("message_delta", delta=delta, usage=usage)
        self._event("message_stop")
        self._message = self._block = None

    def _open(self, kind: str) -> None:
        self._open_message()
        if self._block is None:
            self._block = []
            self._event("content_block_start", content_block={"type": kind, "text": ""})

    def _open_message(self) -> None:
        if self._message is not None:
            return
        self._message = f"msg_{self.session[:8]}_{self.number()}"
        self._index = 0
        self.texts = []
        self._event("message_start", message=self._body([]))

    def _close_block(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            self._whole({"type": "text", "text": "".join(block)})

    def _whole(self, block: dict[str, Any]) -> None:
        """The block once more, complete; the program prints it before the block's stop."""
        body = self._body([block])
        self.line({"type": "assistant", "message": body, "parent_tool_use_id": self.parent})
        self._event("content_block_stop")
        self._index += 1

    def _body(self, content: list[Any]) -> dict[str, Any]:
        return {
            "id": self._message,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": None,
            "usage": _USAGE,
        }

    def _event(self, kind: str, **fields: Any) -> None:
        if "partials" not in self._flags.switches:
            return
        event = {"type": kind, **fields}
        if kind.startswith("content_block"):
            event["index"] = self._index
        self.line({"type": "stream_event", "event": event, "parent_tool_use_id": self.parent})

    # Asking and waiting

    def ask(self, subtype: str, **fields: Any) -> dict[str, Any]:
        """Send a request and wait for its answer. Raises TurnAbortedError."""
        request = f"req-{self.session[:8]}-{self.number()}"
        asked = {"subtype": subtype, **fields}
        self.line({"type": "control_request", "request_id": request, "request": asked})
        with self._heard:
            self._heard.wait_for(lambda: request in self._answers or self.interrupted.is_set())
        if request not in self._answers:
            self.line({"type": "control_cancel_request", "request_id": request})
            raise TurnAbortedError
        return self._answers.pop(request)

    def hear(self, response: dict[str, Any]) -> None:
        """An answer to a request came; it is repeated, as the program does."""
        with self._heard:
            self._answers[str(response.get("request_id"))] = response
            self._heard.notify_all()
        if "replay" in self._flags.switches:
            self.line({"type": "control_response", "response": response})

    def interrupt(self) -> None:
        """End whatever the turn waits for."""
        with self._heard:
            self.interrupted.set()
            self._heard.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait. Raises TurnAbortedError."""
        if self.interrupted.wait(seconds):
            raise TurnAbortedError
