"""Our codec as agent and as client against the official SDKs, over standard input and output."""

import asyncio
import importlib.util
import json
import os
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.rpc import ByteStream, RpcCounters, memory_pair, pipe_stream
from tests.interop.acp_ours import REPORT, OurAgent, OurClient
from tests.support.acp_schema import FrameJudge, needs_schema

PEERS = Path(__file__).parent / "peers"
MODULES = Path(__file__).parents[2] / "build" / "node"
NODE = shutil.which("node")

pytestmark = [pytest.mark.interop, needs_schema]
needs_python_sdk = pytest.mark.skipif(
    importlib.util.find_spec("acp") is None, reason="agent-client-protocol is not installed"
)
needs_node = pytest.mark.skipif(
    NODE is None or not (MODULES / ".done").exists(),
    reason="node or the TypeScript SDK is missing; run: make build/node/.done",
)
SDKS = [
    pytest.param("py", marks=needs_python_sdk, id="python"),
    pytest.param("mjs", marks=needs_node, id="typescript"),
]


def command_of(role: str, suffix: str, folder: Path) -> list[str]:
    program = PEERS / f"sdk_{role}.{suffix}"
    if suffix == "py":
        return [sys.executable, str(program)]
    # An ES module finds packages from where it lies, not from NODE_PATH.
    (folder / "node_modules").symlink_to(MODULES / "node_modules")
    assert NODE is not None
    return [NODE, str(shutil.copy(program, folder))]


@asynccontextmanager
async def program(command: list[str], folder: Path):
    """Run a program whose standard input and output are a stream of ours."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    errors = folder / "stderr.txt"
    try:
        with errors.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=stderr,
                env={"PATH": os.environ["PATH"], "HOME": str(folder)},
                cwd=folder,
            )
    finally:
        os.close(theirs_in)
        os.close(theirs_out)
    try:
        yield await pipe_stream(ours_in, ours_out), process
        await asyncio.wait_for(process.wait(), 5)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        sys.stderr.write(errors.read_text())


def check(judge: FrameJudge, connection: AcpConnection, *methods: str) -> None:
    """Check that every frame of ours was valid, and that these methods were among them."""
    assert judge.faults() == []
    assert {method for method, _, _ in judge.sent()} >= set(methods)
    assert connection.peer.counters == RpcCounters()


@pytest.mark.parametrize("sdk", SDKS)
async def test_our_client_drives_an_agent_of_the_sdk(sdk: str, tmp_path: Path):
    judge, client = FrameJudge(), OurClient()
    stream: ByteStream
    async with (
        program(command_of("agent", sdk, tmp_path), tmp_path) as (stream, _),
        AcpConnection(stream, client.router, observers=[judge]) as connection,
    ):
        report = await client.drive(connection)
    assert report == REPORT
    check(judge, connection, "session/prompt", "session/load", "terminal/release")


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_client_of_the_sdk_drives_our_agent(sdk: str, tmp_path: Path):
    judge, agent = FrameJudge(), OurAgent()
    written = tmp_path / "report.json"
    command = [*command_of("client", sdk, tmp_path), str(written)]
    stream: ByteStream
    async with (
        program(command, tmp_path) as (stream, process),
        AcpConnection(stream, agent.router, observers=[judge]) as connection,
    ):
        agent.connection = connection
        await process.wait()
    assert json.loads(written.read_text()) == REPORT
    check(judge, connection, "session/update", "session/load", "terminal/release")


async def test_our_client_drives_our_agent():
    near, far = memory_pair()
    judge, agent, client = FrameJudge(), OurAgent(), OurClient()
    async with (
        AcpConnection(near, agent.router, observers=[judge]) as ours,
        AcpConnection(far, client.router) as theirs,
    ):
        agent.connection = ours
        assert await client.drive(theirs) == REPORT
    check(judge, ours, "session/update", "session/request_permission")
