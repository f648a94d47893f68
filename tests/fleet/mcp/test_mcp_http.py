"""MCP over HTTP: who is let in, what is refused, how a long call is kept alive."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quarterdeck.fleet.mcp.http import McpHttpServer, serve_http
from quarterdeck.fleet.mcp.protocol import McpEndpoint
from quarterdeck.fleet.mcp.tokens import AgentTokens
from quarterdeck.fleet.mcp.tool import FleetTool, Toolset
from quarterdeck.wire.ids import SessionId
from tests.fleet.mcp.test_mcp_protocol import EchoArguments, Seat, echo
from tests.support.deadlines import SOON

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Rig:
    def __init__(self) -> None:
        self.tokens = AgentTokens()
        self.seats = {name: Seat() for name in ("a", "b")}
        tool: FleetTool[Seat] = FleetTool(name="answer", arguments=EchoArguments, run=echo)
        self.endpoints = {
            name: McpEndpoint(Toolset(seat, [tool], f"You are {name}."))
            for name, seat in self.seats.items()
        }
        self.token = self.tokens.issue(SessionId("a"))
        self.http: McpHttpServer

    def endpoint_of(self, token: str) -> McpEndpoint | None:
        holder = self.tokens.holder(token)
        return self.endpoints[holder] if holder is not None else None

    async def send(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(SOON):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.http.port)
            try:
                writer.write(data)
                await writer.drain()
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.read()
            finally:
                writer.close()
                await writer.wait_closed()
        first, *lines = head.decode().strip().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        return int(first.split()[1]), {name.lower(): value for name, value in pairs}, body

    def request(
        self, message: Any = PING, method: str = "POST", path: str = "/mcp", **changes: Any
    ) -> bytes:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers: dict[str, Any] = {
            "Host": f"127.0.0.1:{self.http.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": len(body),
        }
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        head = "\r\n".join((f"{method} {path} HTTP/1.1", *lines))
        return head.encode() + b"\r\n\r\n" + body


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    async with serve_http(rig.endpoint_of, quiet_seconds=0.05) as rig.http:
        yield rig


async def test_a_message_is_answered_as_json(rig: Rig):
    status, headers, body = await rig.send(rig.request())
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert rig.http.url.startswith("http://127.0.0.1:")


async def test_a_notification_is_accepted_without_a_word(rig: Rig):
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await rig.send(rig.request(message)))[::2] == (202, b"")


async def test_a_token_opens_one_agents_tools_until_it_gets_another(rig: Rig):
    start = {**PING, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    other = rig.tokens.issue(SessionId("b"))
    for token, name in ((rig.token, "a"), (other, "b")):
        _, _, body = await rig.send(rig.request(start, Authorization=f"Bearer {token}"))
        assert json.loads(body)["result"]["instructions"] == f"You are {name}."
    assert rig.tokens.issue(SessionId("b")) != other
    assert (await rig.send(rig.request(Authorization=f"Bearer {other}")))[0] == 401
    rig.tokens.revoke(SessionId("a"))
    assert (await rig.send(rig.request()))[0] == 401


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        (401, {"Authorization": None}),
        (401, {"Authorization": "Bearer wrong"}),
        (401, {"Authorization": "Bearer "}),
        (401, {"Authorization": "Basic abc"}),
        (403, {"Host": "evil.example"}),
        (403, {"Host": "evil.example:80"}),
        (400, {"Host": None}),
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
        (404, {"path": "/"}),
        (405, {"method": "GET"}),
        (405, {"method": "PUT"}),
        (400, {"Mcp_Protocol_Version": "1999-01-01"}),
        (400, {"message": b"{not json"}),
        (400, {"message": b"\xff\xfe"}),
        (400, {"message": b"[" * 100_000}),
        (400, {"Content_Length": "-5"}),
        (400, {"Content_Length": "9" * 30}),
        (411, {"Transfer_Encoding": "chunked"}),
        (501, {"Transfer_Encoding": "gzip"}),
        (413, {"Content_Length": 5_000_000}),
        (415, {"Content_Type": "text/plain"}),
        (431, {"X_Long": "x" * 40_000}),
        (431, {"X_Long": "x" * 400_000}),
    ],
)
async def test_who_and_what_is_refused(rig: Rig, status: int, changes: dict[str, Any]):
    got, _, body = await rig.send(rig.request(**changes))
    assert got == status
    assert json.loads(body)["error"]["message"] and rig.token not in body.decode()
    assert (await rig.send(rig.request()))[0] == 200, "others are served all the same"


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"POST /mcp HTTP/2\r\n\r\n",
        b"POST /mcp HTTP/2.0\r\nHost: a\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost : x\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: b\r\nAuthorization: c\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nX: a\nAuthorization: b\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_told_so(rig: Rig, data: bytes):
    assert (await rig.send(data))[0] == 400


async def test_a_refusal_repeats_no_header(rig: Rig):
    status, _, body = await rig.send(rig.request(Authorization=f"Bearer {rig.token}\0"))
    assert status == 400 and b"illegal header line" in body
    assert rig.token.encode() not in body


async def test_a_body_that_ends_early_is_refused(rig: Rig):
    async with asyncio.timeout(SOON):
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.http.port)
        writer.write(rig.request(Content_Length=1_000))
        writer.write_eof()
        assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        writer.close()
        await writer.wait_closed()


async def test_a_client_that_waits_with_its_body_is_asked_for_it(rig: Rig):
    head, _, body = rig.request(Expect="100-continue").partition(b"\r\n\r\n")
    async with asyncio.timeout(SOON):
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.http.port)
        writer.write(head + b"\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(body)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
        await writer.wait_closed()


async def test_the_end_of_a_session_and_its_own_origin_are_fine(rig: Rig):
    assert (await rig.send(rig.request(method="DELETE", message=b"")))[0] == 200
    own = f"http://localhost:{rig.http.port}"
    assert (await rig.send(rig.request(Origin=own)))[0] == 200


def waiting(**params: Any) -> dict[str, Any]:
    call = {"name": "answer", "arguments": {"words": "wait"}, **params}
    return {**PING, "method": "tools/call", "params": call}


async def test_a_long_call_shows_that_it_lives_and_can_be_cancelled(rig: Rig):
    message = waiting(_meta={"progressToken": 7})
    running = asyncio.create_task(rig.send(rig.request(message)))
    await asyncio.wait_for(rig.seats["a"].waiting.wait(), SOON)
    await asyncio.sleep(0.2)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert (await rig.send(rig.request(cancelled)))[0] == 202
    status, headers, body = await running
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert headers["transfer-encoding"] == "chunked" and body.endswith(b"\r\n0\r\n\r\n")
    assert b'"progressToken":7' in body and b"notifications/progress" in body


async def test_another_agents_message_cancels_nothing(rig: Rig):
    other = rig.tokens.issue(SessionId("b"))
    running = asyncio.create_task(rig.send(rig.request(waiting(), Accept="application/json")))
    await asyncio.wait_for(rig.seats["a"].waiting.wait(), SOON)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert (await rig.send(rig.request(cancelled, Authorization=f"Bearer {other}")))[0] == 202
    assert not rig.seats["a"].cancelled.is_set()
    assert (await rig.send(rig.request(cancelled)))[0] == 202
    assert (await running)[0] == 202


async def test_a_client_that_leaves_cancels_its_call(rig: Rig):
    _, writer = await asyncio.open_connection("127.0.0.1", rig.http.port)
    writer.write(rig.request(waiting()))
    await asyncio.wait_for(rig.seats["a"].waiting.wait(), SOON)
    writer.close()
    await writer.wait_closed()
    await asyncio.wait_for(rig.seats["a"].cancelled.wait(), SOON)


async def test_the_server_ends_while_a_call_runs():
    rig = Rig()
    async with serve_http(rig.endpoint_of) as rig.http:
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.http.port)
        writer.write(rig.request(waiting()))
        await asyncio.wait_for(rig.seats["a"].waiting.wait(), SOON)
    assert rig.seats["a"].cancelled.is_set()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


def test_hosts_without_leads_and_own_servers_load_no_protocol_library():
    code = (
        "import sys, quarterdeck.fleet.local, quarterdeck.drivers.daemon.codex.link\n"
        "print(*({'h11', 'websockets'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
