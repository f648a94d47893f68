"""The Model Context Protocol's server side, as little of it as tools need.

Pure: messages in, messages out. ``McpEndpoint`` is one agent's; how its messages travel is not
    known here.
"""

import asyncio
import logging
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from quarterdeck import __version__
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
)
from quarterdeck.wire.tasks import start_task

from .tool import Toolset

__all__ = ["NEWEST", "VERSIONS", "McpEndpoint", "Message", "error_message"]

_log = logging.getLogger(__name__)

NEWEST = "2025-11-25"
VERSIONS = (NEWEST, "2025-06-18", "2025-03-26", "2024-11-05")
"""The versions of the protocol that are spoken."""
_SHOWN_AT_ONCE = {"anthropic/alwaysLoad": True}
"""Claude Code hides tools behind a search; a lead that must search for its tools does not lead."""
_MOST_RUNNING = 64
_MOST_BATCHED = 32

Message: TypeAlias = dict[str, Any]
Id: TypeAlias = str | int


class _Initialize(Struct, frozen=True, rename="camel"):
    protocol_version: str


class _Call(Struct, frozen=True):
    name: str
    arguments: dict[str, Any] | None = None


class _Cancelled(Struct, frozen=True, rename="camel"):
    request_id: Id


class _RefusedError(Exception):
    """An error answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class McpEndpoint:
    """Answers one agent's messages with the tools of its set."""

    def __init__(self, toolset: Toolset[Any]) -> None:
        self.toolset = toolset
        self._running: dict[Id, asyncio.Task[Any]] = {}

    async def handle(self, message: Any) -> Message | list[Message] | None:
        """Answer a message, or several at once; None where nothing is to be answered.

        Never raises for what the message says. Cancelling cancels the call.
        """
        if not isinstance(message, list):
            return await self._handle(message)
        messages = cast("list[Any]", message)
        if not 1 <= len(messages) <= _MOST_BATCHED:
            text = f"a batch must have 1 to {_MOST_BATCHED} messages"
            return error_message(None, INVALID_REQUEST, text)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._handle(one)) for one in messages]
        answers = [answer for task in tasks if (answer := task.result()) is not None]
        return answers or None

    def cancel_all(self) -> None:
        """Cancel every call that runs: its agent is gone."""
        for task in tuple(self._running.values()):
            task.cancel()

    async def _handle(self, message: Any) -> Message | None:
        if not isinstance(message, dict):
            return error_message(None, INVALID_REQUEST, "a message must be an object")
        fields = cast("Message", message)
        method, id_ = fields.get("method"), fields.get("id")
        if fields.get("jsonrpc") != "2.0" or not isinstance(method, str):
            if "result" in fields or "error" in fields:
                return None  # we ask nothing, so this answers nothing
            return error_message(_id(id_), INVALID_REQUEST, "this is not a JSON-RPC 2.0 message")
        if "id" not in fields:
            self._notified(method, fields.get("params"))
            return None
        if (known := _id(id_)) is None:
            return error_message(None, INVALID_REQUEST, "an id must be a string or an integer")
        return await self._answer(known, method, fields.get("params"))

    def _notified(self, method: str, params: Any) -> None:
        if method != "notifications/cancelled":
            return
        try:
            cancelled = convert(params, _Cancelled)
        except msgspec.ValidationError:
            return  # no one waits for an answer to a notification
        if (task := self._running.get(cancelled.request_id)) is not None:
            task.cancel()

    async def _answer(self, id_: Id, method: str, params: Any) -> Message | None:
        if id_ in self._running:
            return error_message(id_, INVALID_REQUEST, f"request {id_!r} is already running")
        if len(self._running) >= _MOST_RUNNING:
            text = f"{_MOST_RUNNING} requests are already running; wait for some of them"
            return error_message(id_, INVALID_REQUEST, text)
        task = self._running[id_] = start_task(self._result(method, params), name=f"MCP: {method}")
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            del self._running[id_]
        if task.cancelled():
            return None  # who cancels a request gets no answer to it
        error = task.exception()
        if error is None:
            return {"jsonrpc": "2.0", "id": id_, "result": task.result()}
        if isinstance(error, _RefusedError):
            return error_message(id_, error.code, str(error))
        if isinstance(error, msgspec.ValidationError):
            return error_message(id_, INVALID_PARAMS, f"the parameters of {method!r}: {error}")
        _log.error("internal error in a request of an agent", exc_info=error)
        return error_message(id_, INTERNAL_ERROR, "internal error; see the host's log")

    async def _result(self, method: str, params: Any) -> Message:
        match method:
            case "initialize":
                return self._initialize(convert(params, _Initialize))
            case "ping":
                return {}
            case "tools/list":
                return {"tools": await asyncio.to_thread(self._list)}
            case "tools/call":
                return await self._call(convert(params, _Call))
            case _:
                raise _RefusedError(METHOD_NOT_FOUND, f"there is no method {method!r}")

    def _initialize(self, asked: _Initialize) -> Message:
        version = asked.protocol_version
        answer: Message = {
            "protocolVersion": version if version in VERSIONS else NEWEST,
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "quarterdeck", "title": "Quarterdeck", "version": __version__},
        }
        if self.toolset.instructions:
            answer["instructions"] = self.toolset.instructions
        return answer

    def _list(self) -> list[Message]:
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.schema,
                "_meta": _SHOWN_AT_ONCE,
            }
            for tool in self.toolset.tools.values()
        ]

    async def _call(self, call: _Call) -> Message:
        if call.name not in self.toolset.tools:
            known = ", ".join(self.toolset.tools)
            raise _RefusedError(
                INVALID_PARAMS, f"there is no tool {call.name!r}; available: {known}"
            )
        answered = await self.toolset.call(call.name, call.arguments or {})
        result: Message = {
            "content": [{"type": "text", "text": answered.text}],
            "isError": answered.is_error,
        }
        if answered.data is not None:
            result["structuredContent"] = answered.data
        return result


def _id(value: object) -> Id | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return value


def error_message(id_: Id | None, code: int, text: str) -> Message:
    """An error answer; ``id_`` is None where the message had none that could be read."""
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text}}
