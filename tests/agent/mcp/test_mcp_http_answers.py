"""Addresses that answer anything but MCP: each ends with a reason, none hangs or raises."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.agent.mcp.server import try_server
from quarterdeck.agent.tool_servers import ServerDefinition
from tests.support.deadlines import SOON


@asynccontextmanager
async def answering(data: bytes) -> AsyncIterator[ServerDefinition]:
    """Answer every request with the same bytes, and close."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            writer.write(data)
            await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield ServerDefinition(name="odd", url=f"http://127.0.0.1:{port}/mcp", start_timeout=5)
    finally:
        server.close()
        await asyncio.sleep(0)


def http(status: str, body: bytes = b"", kind: str = "application/json", *more: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more)
    return "\r\n".join((*lines, "", "")).encode() + body


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (http("500 No", b"boom"), "HTTP 500: boom"),
        (http("500 No", b'{"error": {"code": 1, "message": "inner"}}'), "HTTP 500: inner"),
        (http("403 No"), "HTTP 403: access denied"),
        (http("307 Moved", b"", "text/plain", "Location: http://x/"), "moved to 'http://x/'"),
        (http("200 OK", b"<html>", "text/html"), "without an answer"),
        (http("200 OK", b"[1, 2]"), "without an answer"),
        (http("200 OK", b"data: {\n\n", "text/event-stream"), "without an answer"),
        (http("200 OK", b'data: {"id": 99, "result": 1}\n\n', "text/event-stream"), "without an a"),
        (http("202 Accepted"), "without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "in the middle of its answer"),
        (b"SSH-2.0-nonsense\r\n\r\n", "does not speak HTTP"),
        (b"", "closed the connection before it answered"),
    ],
)
async def test_what_is_no_server_says_why(data: bytes, reason: str):
    async with answering(data) as definition, asyncio.timeout(SOON):
        trial = await try_server(definition, roots=("/",), environment={})
    assert not trial.works
    assert reason in (trial.reason or "")


@given(st.binary(max_size=60), st.sampled_from(["application/json", "text/event-stream", "x"]))
@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_is_answered_there_is_a_reason(body: bytes, kind: str):
    async def run() -> None:
        async with answering(http("200 OK", body, kind)) as definition, asyncio.timeout(SOON):
            trial = await try_server(definition, roots=("/",), environment={})
        assert not trial.works and trial.reason

    asyncio.run(run())
