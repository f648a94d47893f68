"""Clients that we did not write drive ``quarterdeck acp``, each as a program of its own."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.test_acp_sdks import MODULES, NODE, PEERS, SDKS
from tests.support.recordings import Recording

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]

CANCELS = 3
"""In the stream, in a tool, in the wait for leave."""
TRIES = 3
"""A slow machine may need another; a slow agent needs more."""


def client_command(suffix: str, folder: Path) -> list[str]:
    program = PEERS / f"serve_client.{suffix}"
    if suffix == "py":
        return [sys.executable, str(program)]
    # An ES module finds packages from where it lies, not from NODE_PATH.
    folder.mkdir(exist_ok=True)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(MODULES / "node_modules")
    assert NODE is not None
    return [NODE, str(shutil.copy(program, folder))]


async def drive(command: list[str], environment: dict[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    try:
        assert await asyncio.wait_for(process.wait(), 50) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def expected(project: Path) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "quarterdeck",
        "mode": "ask",
        "text": ["end_turn", "Hello from the scripted model."],
        "rejected": ["end_turn", ["failed"], False],
        "allowed": ["end_turn", ["in_progress", "completed"], True],
        "asked": ["edit", "edit"],
        "written": [str(project / "hello.txt")],
        "cancel_stream": "cancelled",
        "cancel_tool": "cancelled",
        "cancel_permission": "cancelled",
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


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_client_of_the_sdk_drives_the_agent(
    sdk: str,
    tmp_path: Path,
    project: Path,
    environment: dict[str, str],
    agent: list[str],
    recording: Recording,
):
    script = tmp_path / "other.toml"
    script.write_text('default = "a"\n[scenes]\na = ["I am the other model."]\n')
    report = tmp_path / "report.json"
    words = (str(report), str(project), f"scripted/{script}")
    await drive([*client_command(sdk, tmp_path / "client"), *words, *agent], environment)
    assert json.loads(report.read_text()) == expected(project)
    assert recording.faults() == []
    assert len(recording.cancel_times()) == CANCELS


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_cancel_is_answered_within_a_second(
    sdk: str,
    tmp_path: Path,
    project: Path,
    environment: dict[str, str],
    agent: list[str],
    recording: Recording,
):
    """Measured on the wire, from the cancel to the prompt's answer."""
    slowest: list[float] = []
    for _ in range(TRIES):
        report = tmp_path / "report.json"
        words = (str(report), str(project), "cancels")
        await drive([*client_command(sdk, tmp_path / "client"), *words, *agent], environment)
        assert set(json.loads(report.read_text()).values()) == {"cancelled"}
        times = recording.cancel_times()
        assert len(times) == CANCELS
        slowest.append(max(times))
        if slowest[-1] < 1:
            return
        for file in recording.folder.iterdir():
            file.unlink()
    raise AssertionError(f"cancels took {slowest} seconds")
