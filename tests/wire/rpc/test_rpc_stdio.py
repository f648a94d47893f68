"""Our own standard streams and those of a child, with real processes."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.wire.errors import LinkBrokenError, LinkEndedError
from quarterdeck.wire.rpc import Peer, pipe_stream

AGENT = """
import asyncio, subprocess, sys
from quarterdeck.wire.rpc import MethodNotFoundError, Peer, stdio_stream

print("printed before")

class Agent:
    async def on_request(self, method, params, context):
        if method == "echo":
            print("printed by a library")
            subprocess.run(["sh", "-c", "echo printed by a child; cat"], check=True)
            return params
        if method == "flood":
            for n in range(5000):
                await context.peer.notify("update", {"n": n, "text": "x" * 200})
            return n
        raise MethodNotFoundError(method)

    def on_notification(self, method, params):
        pass

async def main():
    async with Peer(await stdio_stream(), Agent()) as peer:
        ending = await peer.wait_closed()
    print(type(ending).__name__, file=sys.stderr)

asyncio.run(main())
"""


class Nothing:
    """A client that only counts."""

    def __init__(self) -> None:
        self.count = 0

    async def on_request(self, method: str, params: Any, context: Any) -> None:
        return None

    def on_notification(self, method: str, params: Any) -> None:
        self.count += 1


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}


@asynccontextmanager
async def child(code: str, client: Nothing) -> AsyncIterator[tuple[Peer, Any]]:
    """Run Python code as a child and open a peer on its standard streams."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            code,
            stdin=their_in,
            stdout=their_out,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
        )
    finally:
        os.close(their_in)
        os.close(their_out)
    try:
        async with Peer(await pipe_stream(our_in, our_out), client, name="child") as peer:
            yield peer, process
    finally:
        if process.returncode is None:
            try:
                async with asyncio.timeout(45):
                    await process.wait()
            except TimeoutError:
                process.kill()
        await process.communicate()


async def test_child_answers_and_nothing_else_reaches_its_output() -> None:
    async with child(AGENT, Nothing()) as (peer, process):
        assert bytes(await peer.request("echo", {"a": 1}, timeout=15)) == b'{"a":1}'
        assert peer.counters.malformed == 0
        await peer.close()
        printed = (await process.communicate())[1].decode()
    assert "printed by a library" in printed
    assert "printed by a child" in printed
    assert "printed before" in printed
    assert "LinkEndedError" in printed
    assert process.returncode == 0


async def test_flood_of_a_child_arrives_whole() -> None:
    client = Nothing()
    async with child(AGENT, client) as (peer, _):
        assert bytes(await peer.request("flood", timeout=15)) == b"4999"
        assert client.count == 5000


async def test_child_that_exits_ends_the_link() -> None:
    async with child("import sys; sys.stdin.readline()", Nothing()) as (peer, _):
        with pytest.raises((LinkEndedError, LinkBrokenError)):
            await peer.request("x", timeout=15)


async def test_child_that_closed_its_input_breaks_requests_in_time() -> None:
    code = 'import os, time; os.close(0); os.write(1, b\'{"method":"deaf"}\\n\'); time.sleep(60)'
    told = asyncio.Event()

    class Client(Nothing):
        def on_notification(self, method: str, params: Any) -> None:
            told.set()

    async with child(code, Client()) as (peer, process):
        await told.wait()
        for _ in range(2):
            with pytest.raises(LinkBrokenError, match="no more bytes"):
                await peer.request("x", timeout=10)
        process.kill()


async def run_agent(**streams: Any) -> "subprocess.CompletedProcess[bytes]":
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", AGENT],
        env=environment(),
        timeout=50,
        stderr=subprocess.PIPE,
        **streams,
    )


async def test_files_as_standard_streams(tmp_path: Path) -> None:
    questions, answers = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    questions.write_bytes(b'{"id":1,"method":"nope"}\n{"id":2,"method":"echo","params":[2]}')
    with questions.open("rb") as stdin, answers.open("wb") as stdout:
        done = await run_agent(stdin=stdin, stdout=stdout)
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in answers.read_bytes().splitlines()]
    assert {line["id"] for line in lines} == {1, 2}
    assert lines[-1]["result"] == [2]


async def test_nothing_as_standard_streams() -> None:
    done = await run_agent(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Ended" in done.stderr


async def test_closed_standard_input_is_named() -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        ["sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, AGENT],
        env=environment(),
        timeout=50,
        capture_output=True,
    )
    assert b"standard input is not open" in done.stderr


async def test_descriptors_are_closed_when_one_cannot_be_used() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(LinkBrokenError):
        await pipe_stream(reading, writing)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writing)
