"""Clients that we did not write drive ``quarterdeck acp``, each as a program of its own."""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.test_acp_sdks import MODULES, NODE, PEERS, SDKS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

AGENT = [sys.executable, "-m", "quarterdeck", "acp"]
ACPX = MODULES / "node_modules" / ".bin" / "acpx"
needs_acpx = pytest.mark.skipif(
    NODE is None or not ACPX.exists(), reason="acpx is missing; run: make build/node/.done"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("A project.\n")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    variables = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "QUARTERDECK_HOME": str(tmp_path / "home" / "quarterdeck"),
        "QUARTERDECK_MODEL": "scripted/default",
    }
    (tmp_path / "home").mkdir()
    if "PYTHONPATH" in os.environ:
        variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return variables


def client_command(suffix: str, folder: Path) -> list[str]:
    program = PEERS / f"serve_client.{suffix}"
    if suffix == "py":
        return [sys.executable, str(program)]
    # An ES module finds packages from where it lies, not from NODE_PATH.
    (folder / "node_modules").symlink_to(MODULES / "node_modules")
    assert NODE is not None
    return [NODE, str(shutil.copy(program, folder))]


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_client_of_the_sdk_drives_the_agent(
    sdk: str, tmp_path: Path, project: Path, environment: dict[str, str]
):
    script = tmp_path / "other.toml"
    script.write_text('default = "a"\n[scenes]\na = ["I am the other model."]\n')
    report = tmp_path / "report.json"
    command = [
        *client_command(sdk, tmp_path),
        *(str(report), str(project), f"scripted/{script}"),
        *AGENT,
    ]
    process = await asyncio.create_subprocess_exec(*command, env=environment, cwd=tmp_path)
    try:
        assert await asyncio.wait_for(process.wait(), 50) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert json.loads(report.read_text()) == {
        "version": 1,
        "name": "quarterdeck",
        "mode": "ask",
        "text": ["end_turn", "Hello from the scripted model."],
        "rejected": ["end_turn", ["failed"], False],
        "allowed": ["end_turn", ["in_progress", "completed"], True],
        "asked": ["edit", "edit"],
        "written": [str(project / "hello.txt")],
        "cancel_stream": ["cancelled", True],
        "cancel_tool": ["cancelled", True],
        "cancel_permission": ["cancelled", True],
        "set_mode": "plan",
        "set_model": True,
        "other_model": "I am the other model.",
        "two": [
            "end_turn",
            "end_turn",
            "Hello from the scripted model.",
            "Thought and answered.",
        ],
        "replay": ["scene:text", "Hello from the scripted model."],
        "listed": 3,
        "unknown": -32002,
    }


async def acpx(
    environment: dict[str, str], project: Path, *words: str, stop_at: str | None = None
) -> list[dict[str, Any]]:
    """Run acpx with the agent and return the messages that it saw."""
    assert NODE is not None
    process = await asyncio.create_subprocess_exec(
        *(NODE, str(ACPX), "--format", "json", "--cwd", str(project), "--agent", " ".join(AGENT)),
        *words,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    found: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(50):
            async for line in process.stdout:
                found.append(json.loads(line))
                if stop_at is not None and stop_at in line.decode():
                    process.send_signal(signal.SIGINT)
                    stop_at = None
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return found


def stops(messages: list[dict[str, Any]]) -> list[str]:
    results = [message.get("result") for message in messages]
    return [each["stopReason"] for each in results if each and "stopReason" in each]


@needs_acpx
async def test_acpx_runs_a_turn(project: Path, environment: dict[str, str]):
    messages = await acpx(environment, project, "exec", "scene:text")
    assert stops(messages) == ["end_turn"]
    assert "scripted " in json.dumps(messages)


@needs_acpx
async def test_acpx_lets_a_command_run_in_its_terminal(project: Path, environment: dict[str, str]):
    messages = await acpx(environment, project, "--approve-all", "exec", "scene:shell")
    assert stops(messages) == ["end_turn"]
    assert (project / "made-by-shell.txt").exists()
    assert "terminal" in json.dumps(messages)


@needs_acpx
async def test_acpx_writes_the_file_or_not(project: Path, environment: dict[str, str]):
    denied = await acpx(environment, project, "--deny-all", "exec", "scene:write")
    assert stops(denied) == ["end_turn"]
    assert not (project / "hello.txt").exists()
    allowed = await acpx(environment, project, "--approve-all", "exec", "scene:write")
    assert stops(allowed) == ["end_turn"]
    assert (project / "hello.txt").read_text() == "hello from script\n"


@needs_acpx
async def test_acpx_cancels_a_turn(project: Path, environment: dict[str, str]):
    messages = await acpx(environment, project, "exec", "scene:slow", stop_at="tick 2")
    assert stops(messages) in (["cancelled"], [])
    assert "tick 2" in json.dumps(messages)
    assert "tick 30" not in json.dumps(messages)
