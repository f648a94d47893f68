"""A scripted model server on loopback: one script, every vendor's format; and its command.

Point an agent, a vendor's SDK or a wire of our own at it, and it plays the script::

async with ModelServer(load_script("default")) as server: client =
anthropic.AsyncAnthropic(base_url=server.url, api_key="dummy")

A path may begin with ``/agent/NAME``, so that the log says who asked. Keys are not checked. From a
shell: ``python -m quarterdeck.testing.model_server --port 0``.
"""

import asyncio
import contextlib
import itertools
import json
import re
import signal
import time
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from msgspec.structs import replace

from quarterdeck.models.script import Script, ScriptFailure, ScriptFault, load_script
from quarterdeck.models.script.performance import (
    FaultBeat,
    PauseBeat,
    Performance,
    PerformedParts,
    ScriptPlayer,
)
from quarterdeck.models.script.question import ScriptQuestion
from quarterdeck.testing.http_server import HttpExchange, HttpServer
from quarterdeck.testing.wires.anthropic import AnthropicWire
from quarterdeck.testing.wires.google import GeminiWire
from quarterdeck.testing.wires.openai_chat import CREATED, ChatWire
from quarterdeck.testing.wires.openai_responses import ResponsesWire
from quarterdeck.testing.wires.wire import ServerWire
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.usage import TokenUsage

__all__ = [
    "MODELS",
    "ModelServer",
    "RecordedRequest",
    "RequestLog",
    "list_answer",
    "model_server_command",
]

_AGENT = re.compile(r"/agent/([\w.-]+)(?=/)")
_FLUSH = 8 * 1024
"""Bytes that are gathered before they are sent, where the script has no pauses."""
_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_GARBAGE = b"\x00\xff<html>502 Bad Gateway</html>\n\n"
_BAD_JSON = b'data: {"type": "content_block_delta", "delta": {"te\n\n'
_UNKNOWN = b'event: brand_new_event\ndata: {"type": "brand_new_event", "x": 1}\n\n'
_INSERTS = {"garbage": _GARBAGE, "badjson": _BAD_JSON, "unknown": _UNKNOWN}


@dataclass(slots=True, kw_only=True)
class RecordedRequest:
    """A request that the server was sent, and its outcome."""

    number: int
    time: float
    """Seconds since 1970."""
    method: str
    path: str
    """With the query, as it was sent."""
    agent: str | None
    headers: Mapping[str, str]
    """Names in lower case; values as they were sent, keys included."""
    body: bytes = field(repr=False)
    wire: str | None = None
    """``anthropic``, ``responses``, ``chat``, ``gemini``; None: nothing for the script."""
    scene: str | None = None
    round: int | None = None
    usage: TokenUsage | None = None
    """What the answer reports; None: none was sent to its end."""
    outcome: str | None = None
    """``done``, ``http STATUS``, the kind of a fault, or ``gone`` when the client left; None:
    under way."""

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.body)


class ModelServer:
    """Serves a script on loopback for as long as it is open; the default one when none is given.

    ``log`` is a file to which every request is appended as a line of JSON, keys masked. The last
    ``keep`` requests stay in ``requests``.

    Raises:
        NotLoopbackError: at once, for a host that other machines could reach.
        ScriptError: on opening, when the script cannot be read.
    """

    def __init__(
        self,
        script: Script | str | Path = "default",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log: Path | None = None,
        keep: int = 1000,
    ) -> None:
        self._script = script
        self._http = HttpServer(self._serve, host=host, port=port)
        self._log = RequestLog(log) if log is not None else None
        self._numbers = itertools.count(1)
        self._player = ScriptPlayer(Script(scenes={}))
        self._stack = AsyncExitStack()
        anthropic, responses, chat, gemini = (
            AnthropicWire(),
            ResponsesWire(),
            ChatWire(),
            GeminiWire(),
        )
        self._wires: dict[str, ServerWire] = {
            "/messages": anthropic,
            "/responses": responses,
            "/chat/completions": chat,
            ":generateContent": gemini,
            ":streamGenerateContent": gemini,
        }
        self.requests: deque[RecordedRequest] = deque(maxlen=keep)

    async def __aenter__(self) -> "ModelServer":
        script = self._script
        if not isinstance(script, Script):
            script = await asyncio.to_thread(load_script, script)
        self._player = ScriptPlayer(script)
        if self._log is not None:
            await self._stack.enter_async_context(self._log)
        await self._stack.enter_async_context(self._http)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """Where the server is, without a path."""
        return self._http.url

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._http.port

    @property
    def failures(self) -> list[Exception]:
        """Mistakes of the server itself, each answered with 500."""
        return self._http.failures

    def url_for(self, agent: str) -> str:
        """A base address under which requests are recorded as this agent's."""
        return f"{self.url}/agent/{agent}"

    async def _serve(self, exchange: HttpExchange) -> None:
        request = exchange.request
        agent = _AGENT.match(request.target)
        record = RecordedRequest(
            number=next(self._numbers),
            time=time.time(),
            method=request.method,
            path=request.target,
            agent=agent[1] if agent else None,
            headers=request.headers,
            body=request.body,
        )
        self.requests.append(record)
        try:
            record.outcome = await self._answer(exchange, record)
        except asyncio.CancelledError:
            record.outcome = "gone"
            raise
        finally:
            if self._log is not None:
                self._log.add(record)

    async def _answer(self, exchange: HttpExchange, record: RecordedRequest) -> str:
        """Answer a request and return its outcome."""
        path = _AGENT.sub("", record.path.partition("?")[0].rstrip("/"), count=1)
        body = _object(record.body)
        if record.method == "POST" and body is not None:
            for ending, wire in self._wires.items():
                if path.endswith(ending):
                    return await self._perform(exchange, record, wire, path, body)
        status, answer = list_answer(record.method, path, len(record.body))
        await exchange.answer(status, msgspec.json.encode(answer))
        return f"http {status}"

    async def _perform(
        self,
        exchange: HttpExchange,
        record: RecordedRequest,
        wire: ServerWire,
        path: str,
        body: dict[str, Any],
    ) -> str:
        question, is_streamed = wire.read(path, body)
        question = replace(question, agent=record.agent, size=len(record.body))
        performance = self._player.play(question)
        record.wire, record.scene, record.round = wire.name, performance.scene, question.round
        if performance.delay:
            await asyncio.sleep(performance.delay)
        if performance.failure is not None:
            return await _fail(exchange, wire, performance.failure)
        if is_streamed:
            outcome = await _tell(exchange, wire, question, performance, body)
        else:
            outcome = await _tell_whole(exchange, wire, question, performance)
        record.usage = performance.usage
        return outcome


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


async def _fail(exchange: HttpExchange, wire: ServerWire, failure: ScriptFailure) -> str:
    if failure.kind == "hangup":
        exchange.cut()
        return "hangup"
    body = failure.body if failure.body is not None else wire.failure(failure)
    raw = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    await exchange.answer(failure.status, raw, failure.headers)
    return f"http {failure.status}"


async def _tell(
    exchange: HttpExchange,
    wire: ServerWire,
    question: ScriptQuestion,
    performance: Performance,
    body: dict[str, Any],
) -> str:
    """Stream a reply, event by event; what has no pause in between goes out together."""
    encoder = wire.encoder(question, body)
    exchange.begin(_STREAM)
    outcome = "done"
    buffer = bytearray(encoder.begin(_input_of(performance)))
    for beat in performance.beats():
        if isinstance(beat, PauseBeat):
            await _flush(exchange, buffer)
            await asyncio.sleep(beat.seconds)
        elif isinstance(beat, FaultBeat):
            outcome = beat.fault.kind
            if outcome == "error":
                buffer += encoder.fail(beat.fault)
            if await _break(exchange, beat.fault, buffer):
                return outcome
        else:
            buffer += encoder.beat(beat)
            if len(buffer) >= _FLUSH:
                await _flush(exchange, buffer)
    buffer += encoder.end(performance.usage, performance.stop)
    await exchange.finish(bytes(buffer))
    return outcome


def _input_of(performance: Performance) -> TokenUsage:
    usage = performance.usage
    return TokenUsage(input=usage.input, cached=usage.cached, cache_written=usage.cache_written)


async def _flush(exchange: HttpExchange, buffer: bytearray) -> None:
    await exchange.send(bytes(buffer))
    buffer.clear()


async def _break(exchange: HttpExchange, fault: ScriptFault, buffer: bytearray) -> bool:
    """Make the stream go wrong here; says whether that was the end of it."""
    if not fault.ends:
        buffer += _INSERTS[fault.kind]
        return False
    await _flush(exchange, buffer)
    if fault.kind in ("noend", "error"):
        await exchange.finish()
        return True
    if fault.kind == "stall":
        await asyncio.sleep(fault.seconds)
    exchange.cut()
    return True


async def _tell_whole(
    exchange: HttpExchange, wire: ServerWire, question: ScriptQuestion, performance: Performance
) -> str:
    """Answer without a stream; a fault spoils the one body there is."""
    performed = PerformedParts()
    fault: ScriptFault | None = None
    for beat in performance.beats():
        if isinstance(beat, PauseBeat):
            await asyncio.sleep(beat.seconds)
        elif isinstance(beat, FaultBeat):
            fault = beat.fault
        else:
            performed.add(beat)
    if fault is not None and fault.kind == "error":
        return await _fail(
            exchange, wire, ScriptFailure(status=fault.status, message=fault.message)
        )
    answer = wire.whole(question, performed.parts(), performance.usage, performance.stop)
    raw = msgspec.json.encode(answer)
    if fault is None or fault.kind == "unknown":
        await exchange.answer(200, raw)
        return "done"
    if fault.kind in ("garbage", "badjson"):
        await exchange.answer(200, _GARBAGE if fault.kind == "garbage" else raw[: len(raw) // 2])
        return fault.kind
    if fault.kind == "stall":
        await asyncio.sleep(fault.seconds)
    await exchange.answer(200, raw[: len(raw) // 2], {"content-length": str(len(raw))})
    exchange.cut()
    return fault.kind


_SECRET = frozenset(["authorization", "x-api-key", "x-goog-api-key", "cookie", "api-key"])


class RequestLog:
    """Appends requests to a file, in a thread, while it is open; keys are masked.

    Lines are written soon, in the order of ``add``; all of them are in the file after closing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._added = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._is_closing = False

    async def __aenter__(self) -> "RequestLog":
        # A file that cannot be written fails here and not in the middle of a run.
        await asyncio.to_thread(_append, self._path, b"")
        self._writer = start_task(self._write(), name="log of requests")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._writer is not None
        self._is_closing = True
        self._added.set()
        await self._writer

    def add(self, record: "RecordedRequest") -> None:
        """Append a request that has been answered."""
        self._lines.append(msgspec.json.encode(_line(record)) + b"\n")
        self._added.set()

    async def _write(self) -> None:
        while self._lines or not self._is_closing:
            await self._added.wait()
            self._added.clear()
            lines, self._lines = self._lines, []
            await asyncio.to_thread(_append, self._path, b"".join(lines))


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _line(record: "RecordedRequest") -> dict[str, Any]:
    try:
        body: Any = record.json
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = record.body.decode("utf-8", "replace")
    return {
        "number": record.number,
        "time": round(record.time, 3),
        "method": record.method,
        "path": record.path,
        "agent": record.agent,
        "wire": record.wire,
        "scene": record.scene,
        "round": record.round,
        "outcome": record.outcome,
        "headers": {k: "***" if k in _SECRET else v for k, v in record.headers.items()},
        "body": body,
    }


@click.command("model-server")
@click.option("--port", default=0, show_default="a free one", help="The port to listen on.")
@click.option("--script", default="default", show_default=True, help="A shipped script, or a file.")
@click.option(
    "--log", type=click.Path(dir_okay=False, path_type=Path), help="Append each request here."
)
def model_server_command(port: int, script: str, log: Path | None) -> None:
    """Serve a scripted model on loopback, in every vendor's form.

    Prints one line of JSON with the port when it is ready, and runs until it is interrupted.
    """
    try:
        asyncio.run(_serve_until_interrupted(port, script, log))
    except (QuarterdeckError, OSError) as error:
        raise click.ClickException(str(error)) from error


async def _serve_until_interrupted(port: int, script: str, log: Path | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    async with ModelServer(script, port=port, log=log, keep=0) as server:
        click.echo(json.dumps({"port": server.port, "url": server.url}))
        await stopped.wait()


MODELS = ("scripted-1", "scripted-2")
"""The models that the server says it has; it answers to every other name too."""


def list_answer(method: str, path: str, size: int) -> tuple[int, dict[str, Any]]:
    """Status and body for a request that no script answers; ``size`` is that of its body."""
    if path.endswith("/count_tokens"):
        return 200, {"input_tokens": -(-size // 4)}
    if path.endswith(":countTokens"):
        return 200, {"totalTokens": -(-size // 4)}
    if path.endswith("/models"):
        return 200, _gemini_models() if "/v1beta" in path else _models()
    if path.endswith("/api/tags"):
        return 200, {"models": [{"name": f"{m}:latest", "model": f"{m}:latest"} for m in MODELS]}
    if path.endswith("/api/version"):
        return 200, {"version": "0.0.0-scripted"}
    if path in ("", "/health") or method == "HEAD":
        return 200, {"status": "ok"}
    if any(f"/models/{model}" in path for model in MODELS):
        return 200, _model(path.rpartition("/")[2])
    message = f"nothing is at {method} {path}"
    return 404, {"type": "error", "error": {"type": "not_found_error", "message": message}}


def _models() -> dict[str, Any]:
    """OpenAI's and Anthropic's list in one; ``models`` is what Codex looks for."""
    return {
        "object": "list",
        "data": [_model(name) for name in MODELS],
        "models": [],
        "has_more": False,
        "first_id": MODELS[0],
        "last_id": MODELS[-1],
    }


def _model(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "type": "model",
        "object": "model",
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "created": CREATED,
        "owned_by": "quarterdeck",
    }


def _gemini_models() -> dict[str, Any]:
    methods = ["generateContent", "countTokens"]
    return {
        "models": [
            {
                "name": f"models/{name}",
                "displayName": name,
                "inputTokenLimit": 200_000,
                "outputTokenLimit": 32_000,
                "supportedGenerationMethods": methods,
            }
            for name in MODELS
        ]
    }


if __name__ == "__main__":
    model_server_command()
