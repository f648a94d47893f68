"""The scripted model server, as a program on the other end of a socket sees it."""

import asyncio
import contextlib
import gzip
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.models.script import Script, ScriptFault, ScriptReply, ScriptTextPart, load_script
from quarterdeck.testing.http_server import HttpServer, NotLoopbackError
from quarterdeck.testing.model_server import ModelServer

DEFAULT = load_script("default")


class Client:
    """A client that keeps its connection, and shows bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def head(self) -> tuple[int, dict[str, str]]:
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        return int(first.split()[1]), dict(line.split(": ", 1) for line in lines)

    async def answer(self) -> tuple[int, bytes]:
        status, headers = await self.head()
        if "content-length" in headers:
            return status, await self.reader.readexactly(int(headers["content-length"]))
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)
        return status, body

    def send(
        self, path: str, body: Any = None, *, raw: bytes | None = None, head: str = ""
    ) -> None:
        data = raw if raw is not None else json.dumps(body).encode()
        method = "GET" if body is None and raw is None else "POST"
        data = b"" if method == "GET" else data
        lines = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n{head}\r\n"
        self.writer.write(lines.encode() + data)

    async def get(self, path: str) -> tuple[int, Any]:
        self.send(path)
        status, body = await self.answer()
        return status, json.loads(body)

    async def ask(self, prompt: str, **more: Any) -> tuple[int, bytes]:
        self.send("/v1/messages", message(prompt, **more))
        return await self.answer()


def message(prompt: str, **more: Any) -> dict[str, Any]:
    asked = [{"role": "user", "content": prompt}]
    return {"model": "m", "max_tokens": 99, "messages": asked, "stream": True, **more}


def texts(stream: bytes) -> str:
    events = [line[6:] for line in stream.split(b"\n") if line.startswith(b"data: ")]
    deltas = [json.loads(e).get("delta", {}) for e in events]
    return "".join(d.get("text", "") for d in deltas)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(DEFAULT) as server:
        yield server
        assert server.failures == []


@pytest.fixture
async def client(server: ModelServer) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    yield Client(reader, writer)
    writer.close()
    await writer.wait_closed()


async def test_many_requests_share_a_connection(client: Client, server: ModelServer) -> None:
    for number in range(5):
        status, body = await client.ask(f"say {number}")
        assert (status, texts(body)) == (200, f"You said: say {number}")
    assert [r.outcome for r in server.requests] == ["done"] * 5


async def test_pipelined_requests_are_answered_in_order(client: Client) -> None:
    for number in range(3):
        client.send("/v1/messages", message(f"say {number}"))
    assert [texts((await client.answer())[1]) for _ in range(3)] == [
        f"You said: say {number}" for number in range(3)
    ]


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(1, 400), max_size=8), st.booleans())
def test_requests_arrive_in_any_pieces(cuts: list[int], chunked: bool) -> None:
    body = json.dumps(message("scene:text")).encode()
    if chunked:
        half = len(body) // 2
        sent = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (body[:half], body[half:], b""))
        head = b"Transfer-Encoding: chunked"
    else:
        sent, head = body, b"Content-Length: %d" % len(body)
    sent = b"POST /v1/messages HTTP/1.1\r\n" + head + b"\r\n\r\n" + sent

    async def run() -> None:
        async with ModelServer(DEFAULT) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            start = 0
            for cut in [*cuts, len(sent)]:
                writer.write(sent[start : start + cut])
                start += cut
                await asyncio.sleep(0)
            status, answer = await Client(reader, writer).answer()
            assert (status, texts(answer)) == (200, "Hello from the scripted model.")
            writer.close()
            await writer.wait_closed()

    asyncio.run(run())


async def test_packed_bodies_are_read(client: Client) -> None:
    raw = gzip.compress(json.dumps(message("scene:text")).encode())
    client.send("/v1/messages", raw=raw, head="Content-Encoding: gzip\r\n")
    assert texts((await client.answer())[1]) == "Hello from the scripted model."


@pytest.mark.parametrize(
    "sent",
    [
        b"HELLO\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"x" * 70_000,
    ],
)
async def test_what_is_no_http_is_refused(client: Client, sent: bytes) -> None:
    client.writer.write(sent)
    assert (await client.head())[0] == 400
    assert await client.reader.read() == b""


async def test_bodies_that_are_no_objects_find_nothing(client: Client) -> None:
    for raw in (b"", b"[]", b"{", b"\xff"):
        client.send("/v1/messages", raw=raw)
        assert (await client.answer())[0] == 404


async def test_malformed_fields_do_no_harm(client: Client, server: ModelServer) -> None:
    odd: list[Any] = [None, 3, "x", [3], [{"role": 3}], {"a": 1}]
    for path in (
        "/v1/messages",
        "/v1/responses",
        "/v1/chat/completions",
        "/models/m:generateContent",
    ):
        for value in odd:
            body = {"messages": value, "input": value, "contents": value, "tools": value}
            client.send(path, body)
            assert (await client.answer())[0] == 200


async def test_models_and_signs_of_life(client: Client) -> None:
    assert (await client.get("/v1/models"))[1]["data"][0]["id"] == "scripted-1"
    assert (await client.get("/v1beta/models"))[1]["models"][0]["name"] == "models/scripted-1"
    assert (await client.get("/api/tags"))[1]["models"][0]["name"] == "scripted-1:latest"
    assert (await client.get("/agent/x/v1/models"))[0] == 200
    assert (await client.get("/health"))[0] == 200
    assert (await client.get("/nowhere"))[0] == 404
    client.send("/v1/messages/count_tokens", message("hello"))
    status, body = await client.answer()
    assert (status, json.loads(body)) == (
        200,
        {"input_tokens": -(-len(json.dumps(message("hello"))) // 4)},
    )


async def test_requests_are_recorded_with_who_asked(client: Client, server: ModelServer) -> None:
    client.send(
        "/agent/claude/v1/messages?beta=true", message("scene:write"), head="X-Api-Key: k\r\n"
    )
    await client.answer()
    (record,) = server.requests
    assert (record.agent, record.wire, record.scene, record.round) == (
        "claude",
        "anthropic",
        "write",
        0,
    )
    assert record.headers["x-api-key"] == "k"
    assert record.json["messages"][0]["content"] == "scene:write"
    assert record.path == "/agent/claude/v1/messages?beta=true"


async def test_the_log_has_a_line_for_each_request_and_no_keys(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    async with ModelServer(DEFAULT, log=path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = Client(reader, writer)
        client.send("/v1/messages", message("scene:text"), head="Authorization: Bearer k\r\n")
        await client.answer()
        client.send("/v1/messages", raw=b"\xff")
        await client.answer()
        writer.close()
        await writer.wait_closed()
    lines = [json.loads(x) for x in (await asyncio.to_thread(path.read_text)).splitlines()]
    assert [(x["number"], x["scene"], x["outcome"]) for x in lines] == [
        (1, "text", "done"),
        (2, None, "http 404"),
    ]
    assert lines[0]["headers"]["authorization"] == "***"
    assert lines[0]["body"]["model"] == "m"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org", ""])
def test_other_hosts_are_refused(host: str) -> None:
    with pytest.raises(NotLoopbackError):
        ModelServer(DEFAULT, host=host)


async def test_a_dropped_stream_ends_without_its_end(client: Client, server: ModelServer) -> None:
    client.send("/v1/messages", message("scene:drop"))
    assert (await client.head())[0] == 200
    rest = await client.reader.read()
    assert b"drop. " in rest
    assert not rest.endswith(b"0\r\n\r\n")


async def test_a_stream_without_end_marker_ends_well_for_http(client: Client) -> None:
    _, body = await client.ask("scene:noend")
    assert b"noend. " in body
    assert b"message_stop" not in body


async def test_garbage_comes_in_the_middle_and_the_reply_goes_on(client: Client) -> None:
    for scene, rubbish in (
        ("garbage", b"502 Bad Gateway"),
        ("badjson", b'{"te\n'),
        ("unknown", b"brand_new"),
    ):
        _, body = await client.ask(f"scene:{scene}")
        assert body.index(b"Before") < body.index(rubbish) < body.index(b"After")
        assert b"message_stop" in body


async def test_a_failure_in_the_middle_is_an_event(client: Client) -> None:
    _, body = await client.ask("scene:midfail")
    assert b"event: error\n" in body
    assert b"overloaded_error" in body
    assert b"message_stop" not in body


async def test_a_hangup_is_no_answer(client: Client, server: ModelServer) -> None:
    client.send("/v1/messages", message("scene:hangup"))
    assert await client.reader.read() == b""
    assert server.requests[0].outcome == "hangup"


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_client_that_leaves_a_stall_is_noticed(is_streamed: bool) -> None:
    async with ModelServer(DEFAULT) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = Client(reader, writer)
        client.send("/v1/messages", message("scene:stall", stream=is_streamed))
        if is_streamed:
            await reader.readuntil(b"stall. ")
        else:
            while not server.requests or server.requests[0].scene is None:
                await asyncio.sleep(0.001)
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(45):
            while server.requests[0].outcome is None:
                await asyncio.sleep(0.001)
        assert server.requests[0].outcome == "gone"


async def test_closing_the_server_ends_a_stalled_stream_at_once() -> None:
    async with ModelServer(DEFAULT) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        Client(reader, writer).send("/v1/messages", message("scene:stall"))
        await reader.readuntil(b"stall. ")
    assert server.requests[0].outcome == "gone"
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_slow_reader_of_a_flood_gets_all_of_it(client: Client) -> None:
    client.send("/v1/messages", message("scene:flood"))
    await asyncio.sleep(0.05)
    _, body = await client.answer()
    assert texts(body).splitlines()[-1] == "line 20000 of a long answer"
    assert texts(body).count("\n") == 20_000


async def test_pauses_send_what_there_is() -> None:
    reply = ScriptReply(parts=(ScriptTextPart(text=("one", "two"), pause=30),))
    async with ModelServer(Script.sequence(reply)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        Client(reader, writer).send("/v1/messages", message("x"))
        got = await reader.readuntil(b'"one"')
        assert b'"two"' not in got
        writer.close()
        await writer.wait_closed()


async def test_faults_spoil_answers_that_are_not_streamed(client: Client) -> None:
    status, body = await client.ask("scene:midfail", stream=False)
    assert (status, json.loads(body)["error"]["type"]) == (529, "overloaded_error")
    for scene in ("garbage", "badjson"):
        status, body = await client.ask(f"scene:{scene}", stream=False)
        with pytest.raises(ValueError):
            json.loads(body)
    client.send("/v1/messages", message("scene:drop", stream=False))
    with pytest.raises(asyncio.IncompleteReadError):
        await client.answer()


async def test_limited_faults_are_over_after_their_times(client: Client) -> None:
    client.send("/v1/messages", message("scene:e500once"))
    assert (await client.answer())[0] == 500
    assert texts((await client.ask("scene:e500once"))[1]) == "Recovered after one 500."


async def test_retry_after_and_bodies_of_the_script_are_sent(client: Client) -> None:
    client.send("/v1/messages", message("scene:e429"))
    status, headers = await client.head()
    assert (status, headers["retry-after"]) == (429, "1")


async def test_a_mistake_of_a_handler_is_a_500_and_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(exchange: object) -> None:
        raise ValueError("oh")

    async with HttpServer(fail) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = Client(reader, writer)
        assert (await client.get("/"))[0] == 500
        assert (await client.get("/"))[0] == 500
        writer.close()
        await writer.wait_closed()
    assert [str(e) for e in server.failures] == ["oh", "oh"]
    assert "no answer to GET /" in caplog.text


async def test_five_hundred_requests_a_second_on_one_connection(client: Client) -> None:
    """Far below what it does, so that only a change of kind fails here."""
    loop = asyncio.get_running_loop()
    body = message("scene:text", system="s" * 5000)
    start = loop.time()
    for _ in range(250):
        client.send("/v1/messages", body)
        await client.answer()
    assert loop.time() - start < 5


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_the_program_says_its_port_and_ends_when_told(tmp_path: Path, how: int) -> None:
    log = tmp_path / "log.jsonl"
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "quarterdeck.testing.model_server", "--log", str(log)),
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert program.stdout is not None
    ready = json.loads(await program.stdout.readline())
    reader, writer = await asyncio.open_connection("127.0.0.1", ready["port"])
    assert texts((await Client(reader, writer).ask("hello"))[1]) == "You said: hello"
    writer.close()
    await writer.wait_closed()
    program.send_signal(how)
    assert await program.wait() == 0
    assert await program.stdout.read() == b""
    assert len((await asyncio.to_thread(log.read_text)).splitlines()) == 1


async def test_the_program_says_what_is_wrong_with_a_script(tmp_path: Path) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "quarterdeck.testing.model_server", "--script", "nothing"),
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    _, errors = await program.communicate()
    assert program.returncode == 1
    assert errors.startswith(b"Error: There is no script 'nothing'.")


async def test_stall_ends_by_itself_in_time() -> None:
    script = Script.sequence(ScriptReply(fault=ScriptFault(kind="stall", seconds=0.01)))
    async with ModelServer(script) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        Client(reader, writer).send("/v1/messages", message("x"))
        rest = await reader.read()
        assert b"message_start" in rest
        assert b"message_stop" not in rest
        writer.close()
        await writer.wait_closed()
