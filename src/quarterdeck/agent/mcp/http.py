"""MCP over streamable HTTP: each message of ours is a POST, answers come as JSON or as a stream.

To the client it is a stream of lines like any other. What belongs to HTTP stays here: the session
id and its end, the stream for messages of the server, resuming a broken stream, and the advice for
a status that is no answer.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any, cast

import msgspec
from msgspec import UNSET

from quarterdeck.models.errors import CallError, ModelSetupError, VendorUnreachableError
from quarterdeck.models.http_client import (
    HttpClient,
    HttpResponse,
    HttpTimeouts,
    VendorEventDecoder,
    read_all,
)
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import LinkBrokenError, LinkError, QuarterdeckError
from quarterdeck.wire.rpc.frames import MALFORMED, Frame, LineSplitter, decode_frame, encode_error
from quarterdeck.wire.rpc.stream import memory_pair
from quarterdeck.wire.tasks import cancel_tasks, start_task

from .protocol import CANCELLED, INITIALIZED, Mirror
from .tool_list import header_value

__all__ = ["HttpTransport", "McpStatusError", "old_transport", "refusal_of"]

_SHOWN = 200
_ADVICE = {
    401: (
        'it requires authentication. Set a token, such as headers.Authorization = "Bearer '
        '${NAME}"; OAuth login is not supported'
    ),
    403: "access denied; check the token in its headers",
}
"""For errors that no later request fixes."""


class McpStatusError(QuarterdeckError):
    """An answer that is no answer to the message."""

    def __init__(self, code: int, text: str, *, is_final: bool) -> None:
        super().__init__(text)
        self.code = code
        self.is_final = is_final
        """Whether every other message would fare the same."""


def old_transport(url: str) -> str:
    """What to say of a server of the transport that there was at first."""
    return (
        f"{url!r} uses the old HTTP+SSE transport, which is not supported; use the server's "
        "address for streamable HTTP, which often ends in /mcp"
    )


def refusal_of(answer: HttpResponse, body: bytes) -> McpStatusError:
    """Put a refusal into words."""
    code = answer.status
    if advice := _ADVICE.get(code):
        return McpStatusError(code, f"HTTP {code}: {advice}", is_final=True)
    if 300 <= code < 400:
        there = answer.headers.get("location", "elsewhere")
        text = f"HTTP {code}: it has moved to {there!r}; update its address in the settings"
        return McpStatusError(code, text, is_final=True)
    return McpStatusError(code, f"HTTP {code}: {_words(body)}", is_final=False)


def _words(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    with suppress(msgspec.DecodeError, KeyError, TypeError, RecursionError):
        text = str(msgspec.json.decode(body)["error"]["message"])
    return " ".join(text.split())[:_SHOWN] or "no reason was given"


_log = logging.getLogger(__name__)

_LONGEST = 32 * 1024 * 1024
"""Bytes of a message."""
_MOST_SILENCE = 24 * 3600.0
"""A call's own time limit ends it, not a silence in its stream."""
_NOTE_SECONDS = 10.0
"""Within which a notification must have been taken."""
_LAST_SECONDS = 2.0
"""For the goodbye."""
_MOST_RESUMED = 5
_LONGEST_PAUSE = 30.0
_FAILED = -32000
_ACCEPT = "application/json, text/event-stream"


class HttpTransport:
    """Talks to one address. ``environment`` names the proxy, if there is one."""

    def __init__(
        self, url: str, headers: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        self._url = url
        self._own = dict(headers)
        self._client = HttpClient(HttpTimeouts(idle=_MOST_SILENCE), environment)
        self._near, self._far = memory_pair()
        self._failure: LinkBrokenError | None = None
        self._version: str | None = None
        self._is_modern = True
        self._session: str | None = None
        self._mirror: Mirror | None = None
        self._posts: dict[Any, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._run(self._carry())

    # ---- what the one who talks sees

    async def receive(self) -> bytes:
        """See ``ByteStream``."""
        chunk = await self._near.receive()
        if not chunk and self._failure is not None:
            raise self._failure
        return chunk

    async def send(self, data: bytes) -> None:
        """See ``ByteStream``."""
        await self._near.send(data)

    async def close(self) -> None:
        """Take no more messages; answers under way are given up."""
        await self._near.close()
        await self._stop()

    def agreed(self, version: str, *, is_modern: bool) -> None:
        """Say the version from now on."""
        self._version, self._is_modern = version, is_modern

    def mirror(self, headers_of: Mirror) -> None:
        """Add these headers to calls of tools."""
        self._mirror = headers_of

    async def end(self) -> str:
        """Say goodbye where there is a session, and close every connection."""
        await self._stop()
        if self._session is not None:
            with suppress(CallError, TimeoutError):
                async with (
                    asyncio.timeout(_LAST_SECONDS),
                    self._client.send("DELETE", self._url, self._headers(), b"") as answer,
                ):
                    await read_all(answer)
        await self._client.close()
        return "" if self._failure is None else self._failure.reason

    # ---- from us to the server

    async def _carry(self) -> None:
        """Post every line that is sent."""
        splitter = LineSplitter(_LONGEST)
        with suppress(LinkError):
            while chunk := await self._far.receive():
                for line in splitter.feed(chunk).splitlines():
                    await self._post_line(bytes(line))

    async def _post_line(self, line: bytes) -> None:
        frame = decode_frame(line)
        if frame.method == CANCELLED:
            self._give_up(frame)
            if self._is_modern:
                return  # closing the stream has cancelled it
        if frame.method is not None and frame.id is not UNSET:
            self._posts[frame.id] = self._run(self._ask(frame, line))
            return
        # In order: until a server knows that initialization is complete it refuses requests.
        with suppress(TimeoutError):
            async with asyncio.timeout(_NOTE_SECONDS):
                await self._post(frame, line)
        if frame.method == INITIALIZED:
            self._run(self._listen())

    def _give_up(self, frame: Frame) -> None:
        given = msgspec.json.decode(frame.params)
        post = self._posts.pop(given.get("requestId"), None)
        if post is not None:
            post.cancel()

    async def _ask(self, frame: Frame, line: bytes) -> None:
        try:
            await self._post(frame, line)
        finally:
            self._posts.pop(frame.id, None)

    async def _post(self, frame: Frame, line: bytes) -> None:
        """Post a message; whatever happens, a request is answered or the link is over."""
        exchange = _Exchange(self, frame)
        try:
            headers = {**self._headers(), **self._headers_of(frame)}
            async with self._client.send("POST", self._url, headers, line) as answer:
                await exchange.take(answer)
            if exchange.is_open and not self._is_modern:
                await self._resume(exchange)
            await exchange.settle("its stream ended without an answer")
        except (VendorUnreachableError, ModelSetupError) as error:
            await self.fail(str(error))
        except CallError as error:
            if exchange.is_open and not self._is_modern:
                await self._resume(exchange)
            await exchange.settle(str(error))
        except McpStatusError as status:
            await self._refused(exchange, status)

    async def _refused(self, exchange: "_Exchange", status: McpStatusError) -> None:
        if status.code == 404 and self._session is not None:
            self._session = None
            await self.fail("it no longer knows our session")
            return
        if status.is_final:
            await self.fail(str(status))
            return
        if exchange.frame.method == "initialize" and status.code in (400, 404, 405):
            with suppress(CallError, TimeoutError):
                async with asyncio.timeout(_NOTE_SECONDS):
                    await self._look_for_old()
        await exchange.settle(str(status))

    async def _look_for_old(self) -> None:
        """Find out whether this is a server of the transport that there was at first."""
        headers = {**self._headers(), "Accept": "text/event-stream"}
        async with self._client.send("GET", self._url, headers) as answer:
            if answer.status == 200 and _is_stream(answer):
                await self.fail(old_transport(self._url))

    # ---- from the server to us

    async def _resume(self, exchange: "_Exchange") -> None:
        """Take a broken stream up where it broke, a few times."""
        for _ in range(_MOST_RESUMED):
            if not (exchange.is_open and exchange.last_id):
                return
            await asyncio.sleep(exchange.pause)
            headers = {**self._headers(), "Accept": "text/event-stream"}
            headers["Last-Event-ID"] = exchange.last_id
            with suppress(CallError):
                async with self._client.send("GET", self._url, headers) as answer:
                    if answer.status != 200 or not _is_stream(answer):
                        return
                    await exchange.take(answer)

    async def _listen(self) -> None:
        """Receive what a server of the older era sends by itself, if it does."""
        exchange = _Exchange(self, None)
        failures = 0
        while failures < _MOST_RESUMED:
            headers = {**self._headers(), "Accept": "text/event-stream"}
            if exchange.last_id:
                headers["Last-Event-ID"] = exchange.last_id
            try:
                async with self._client.send("GET", self._url, headers) as answer:
                    if answer.status != 200 or not _is_stream(answer):
                        return  # it has nothing to say by itself
                    failures = 0
                    await exchange.take(answer)
            except CallError as error:
                _log.debug("the stream of %r broke: %s", self._url, error)
            failures += 1
            await asyncio.sleep(min(exchange.pause * failures, _LONGEST_PAUSE))

    async def deliver(self, line: bytes) -> None:
        """Give a message to the one who talks; waits while they are behind."""
        with suppress(LinkError):
            await self._far.send(line.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")

    async def fail(self, reason: str) -> None:
        """End the link for a reason."""
        if self._failure is None:
            self._failure = LinkBrokenError(reason)
        await self._far.close()

    def opened(self, answer: HttpResponse) -> None:
        """Take note of the session that a server of the older era opens."""
        if session := answer.headers.get("mcp-session-id"):
            self._session = session

    # ---- inside

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": _ACCEPT, **self._own, "Content-Type": "application/json"}
        if self._session is not None:
            headers["Mcp-Session-Id"] = self._session
        if self._version is not None:
            headers["MCP-Protocol-Version"] = self._version
        return headers

    def _headers_of(self, frame: Frame) -> dict[str, str]:
        """What a modern request shows of itself outside of the message."""
        if frame.method is None or not self._is_modern or frame.method == "initialize":
            return {}
        headers = {"Mcp-Method": frame.method}
        if frame.method == "tools/call":
            params = cast("dict[str, Any]", msgspec.json.decode(frame.params))
            name = str(params.get("name"))
            headers["Mcp-Name"] = header_value(name)
            if self._mirror is not None:
                headers.update(self._mirror(name, params.get("arguments") or {}))
        if self._version is None:
            meta = cast("dict[str, Any]", msgspec.json.decode(frame.params)).get("_meta", {})
            headers["MCP-Protocol-Version"] = meta.get("io.modelcontextprotocol/protocolVersion")
        return headers

    def _run(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = start_task(work, name="MCP over HTTP")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("internal error while talking to %r", self._url, exc_info=error)
            self._failure = self._failure or LinkBrokenError(f"internal error: {error!r}")
            self._run(self._far.close())

    async def _stop(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        await cancel_tasks(tasks)
        await self._far.close()


class _Exchange:
    """A message and what comes back for it; ``frame`` is None for what the server says alone."""

    def __init__(self, transport: HttpTransport, frame: Frame | None) -> None:
        self._transport = transport
        self._frame = frame
        self.is_open = frame is not None and frame.method is not None and frame.id is not UNSET
        """Whether an answer is still to come."""
        self.last_id = ""
        self.pause = 1.0
        """Seconds before a broken stream is taken up again."""

    @property
    def frame(self) -> Frame:
        """The message."""
        assert self._frame is not None
        return self._frame

    async def take(self, answer: HttpResponse) -> None:
        """Deliver what an answer holds. Raises McpStatusError, CallError."""
        if not 200 <= answer.status < 300:
            body = await read_all(answer)
            if await self._take_error(body):
                return
            raise refusal_of(answer, body)
        if self._frame is not None and self._frame.method == "initialize":
            self._transport.opened(answer)
        if _is_stream(answer):
            await self._take_stream(answer)
            return
        body = await read_all(answer, _LONGEST + 1)
        if len(body) > _LONGEST:
            await self.settle(f"its answer is longer than {_LONGEST} bytes")
        elif body.strip():
            await self._take_body(body)

    async def settle(self, reason: str) -> None:
        """Answer a request that the server leaves unanswered."""
        if self.is_open and self._frame is not None and self._frame.id is not UNSET:
            self.is_open = False
            await self._transport.deliver(encode_error(self._frame.id, _FAILED, reason))

    async def _take_stream(self, answer: HttpResponse) -> None:
        decoder = VendorEventDecoder(_LONGEST)
        async with aclosing(answer.pieces()) as pieces:
            async for piece in pieces:
                for event in decoder.feed(piece):
                    self.last_id = event.id or self.last_id
                    if event.retry is not None:
                        self.pause = min(event.retry / 1000, _LONGEST_PAUSE)
                    if event.data and event.name in ("", "message"):
                        await self._take_message(event.data.encode("utf-8", "replace"))

    async def _take_body(self, body: bytes) -> None:
        if body.lstrip()[:1] != b"[":
            await self._take_message(body)
            return
        try:
            batch = decode_json(body, list[msgspec.Raw])
        except MALFORMED:
            return
        for message in batch:
            await self._take_message(bytes(message))

    async def _take_message(self, message: bytes) -> None:
        if self.is_open and self._frame is not None:
            with suppress(*MALFORMED):
                frame = decode_frame(message)
                self.is_open = frame.method is not None or frame.id != self._frame.id
        await self._transport.deliver(message)

    async def _take_error(self, body: bytes) -> bool:
        """Deliver the error that a refusal holds, if it holds one for this request."""
        if not self.is_open or self._frame is None or self._frame.id is UNSET:
            return False
        try:
            frame = decode_frame(body)
            error = msgspec.json.decode(frame.error)
            code, text = int(error["code"]), str(error["message"])
        except (*MALFORMED, KeyError, TypeError, ValueError):
            return False
        if code > -32000 or code == _FAILED:
            return False  # a gateway's own words; the status says more
        self.is_open = False
        message = encode_error(self._frame.id, code, text, error.get("data"))
        await self._transport.deliver(message)
        return True


def _is_stream(answer: HttpResponse) -> bool:
    kind = answer.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"
