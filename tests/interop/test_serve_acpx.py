"""acpx, a command line client that we did not write, drives ``quarterdeck acp``.

It keeps one session for each agent process, so two sessions at once are two agents. It loads a
session when its agent is gone. It shows no replay: that it comes is seen on the wire. It has no
command for the model but sets any option. It asks a person only from a terminal and only in
``exec``; when the turn is cancelled it does not take its own question back, so it is ended there.
"""

import asyncio
import json
import os
import pty
import shlex
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.interop.test_acp_sdks import MODULES, NODE
from tests.support.recordings import Recording

ACPX = MODULES / "node_modules" / ".bin" / "acpx"
pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(150),
    pytest.mark.skipif(
        NODE is None or not ACPX.exists(), reason="acpx is missing; run: make build/node/.done"
    ),
]
TRIES = 3
REFUSED = 5
"""Its exit code when it refused something."""


class Acpx:
    """acpx with the agent, in the project."""

    def __init__(self, command: list[str], environment: dict[str, str], recording: Recording):
        self._command = command
        self._environment = environment
        self.recording = recording

    async def start(self, *words: str, **streams: Any) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            *words,
            env=self._environment,
            **{"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE, **streams},
        )

    async def __call__(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """Run a command to its end; returns the messages that it showed."""
        process = await self.start(*words)
        try:
            output, _ = await asyncio.wait_for(process.communicate(), 45)
        finally:
            await end(process)
        assert process.returncode == code, output.decode()
        return [json.loads(line) for line in output.splitlines()]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the recording has something."""
        async with asyncio.timeout(45):
            while not await asyncio.to_thread(holds):
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def session(self, name: str) -> AsyncIterator[str]:
        (made,) = await self("sessions", "new", "--name", name)
        try:
            yield made["acpxSessionId"]
        finally:
            await self("sessions", "close", name)  # and the process that it left in the background

    def kill_agents(self) -> None:
        """Kill what it talks with, as a crash would; the agents then see their input end."""
        for path in self.recording.folder.glob("*.jsonl"):
            with suppress(ProcessLookupError):
                os.kill(int(path.stem), signal.SIGKILL)

    def said(self) -> str:
        chunks = self.recording.updates("agent_message_chunk")
        return "".join(chunk["content"]["text"] for chunk in chunks)

    def states(self) -> list[str]:
        updates = self.recording.updates("tool_call_update")
        return [update["status"] for update in updates if update.get("status")]


async def end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.fixture
def acpx(
    project: Path, environment: dict[str, str], agent: list[str], recording: Recording
) -> Acpx:
    words = ["--format", "json", "--ttl", "30", "--cwd", str(project), "--agent", shlex.join(agent)]
    return Acpx([str(NODE), str(ACPX), *words], environment, recording)


def stops(messages: list[dict[str, Any]]) -> list[str]:
    results = [message.get("result") for message in messages]
    return [each["stopReason"] for each in results if each and "stopReason" in each]


async def test_a_turn(acpx: Acpx):
    assert stops(await acpx("exec", "scene:text")) == ["end_turn"]
    assert acpx.said() == "Hello from the scripted model."
    assert acpx.recording.faults() == []


async def test_a_command_runs_in_its_terminal(acpx: Acpx, project: Path):
    assert stops(await acpx("--approve-all", "exec", "scene:shell")) == ["end_turn"]
    assert (project / "made-by-shell.txt").exists()
    assert "terminal/create" in acpx.recording.methods("out")
    assert acpx.recording.faults() == []


async def test_the_file_is_written_or_not(acpx: Acpx, project: Path):
    denied = await acpx("--deny-all", "exec", "scene:write", code=REFUSED)
    assert stops(denied) == ["end_turn"]
    assert acpx.states() == ["failed"]
    assert not (project / "hello.txt").exists()
    allowed = await acpx("--approve-all", "exec", "scene:write")
    assert stops(allowed) == ["end_turn"]
    assert (project / "hello.txt").read_text() == "hello from script\n"
    assert acpx.recording.methods("out").count("session/request_permission") == 2
    assert acpx.recording.faults() == []


async def test_a_session_goes_on_with_what_was_said_and_set(acpx: Acpx, tmp_path: Path):
    script = tmp_path / "other.toml"
    script.write_text('default = "a"\n[scenes]\na = ["I am the other model."]\n')
    async with acpx.session("one") as id_:
        assert stops(await acpx("prompt", "-s", "one", "scene:text")) == ["end_turn"]
        (mode,) = await acpx("set-mode", "-s", "one", "plan")
        (model,) = await acpx("set", "-s", "one", "model", f"scripted/{script}")
        acpx.kill_agents()
        assert stops(await acpx("prompt", "-s", "one", "hello")) == ["end_turn"]
    assert mode["modeId"] == "plan"
    options = {each["id"]: each["currentValue"] for each in model["configOptions"]}
    assert (options["mode"], options["model"]) == ("plan", f"scripted/{script}")
    last = max(acpx.recording.agents(), key=lambda frames: frames[0].time)
    updates = [frame.params["update"] for frame in last if frame.method == "session/update"]
    words = [each for each in updates if each["sessionUpdate"].endswith("message_chunk")]
    assert "".join(each["content"]["text"] for each in words) == (
        "scene:textHello from the scripted model.I am the other model."
    )
    loads = [frame for frame in last if frame.method == "session/load"]
    assert [frame.params["sessionId"] for frame in loads] == [id_]
    answers = (each.message for each in last if each.way == "out")
    loaded = next(each for each in answers if each.get("id") == loads[0].message["id"])
    assert loaded["result"]["modes"]["currentModeId"] == "plan"
    assert acpx.recording.faults() == []


async def test_two_sessions_at_once(acpx: Acpx):
    async with acpx.session("one") as one, acpx.session("two") as two:
        answers = await asyncio.gather(
            acpx("prompt", "-s", "one", "scene:text"), acpx("prompt", "-s", "two", "scene:think")
        )
    assert [stops(each) for each in answers] == [["end_turn"], ["end_turn"]]
    assert one != two
    assert one in json.dumps(answers[0])
    assert one not in json.dumps(answers[1])
    assert acpx.recording.faults() == []


async def cancel_in(acpx: Acpx, name: str, scene: str, holds: Callable[[], bool]) -> list[str]:
    running = await acpx.start("--approve-all", "prompt", "-s", name, scene)
    try:
        await acpx.until(holds)
        (told,) = await acpx("cancel", "-s", name)
        assert told["cancelled"]
        output, _ = await asyncio.wait_for(running.communicate(), 45)
    finally:
        await end(running)
    return stops([json.loads(line) for line in output.splitlines()])


@pytest.mark.parametrize("where", ["stream", "tool"])
async def test_a_turn_is_cancelled_within_a_second(acpx: Acpx, where: str):
    times: list[float] = []
    async with acpx.session("one"):
        for number in range(1, TRIES + 1):
            reached = {
                "stream": lambda: acpx.said().count("tick 2 ") >= number,  # noqa: B023
                "tool": lambda: acpx.states().count("in_progress") >= number,  # noqa: B023
            }
            scene = {"stream": "scene:slow", "tool": "scene:longcmd"}[where]
            assert await cancel_in(acpx, "one", scene, reached[where]) == ["cancelled"]
            times = acpx.recording.cancel_times()
            if times[-1] < 1:
                break
            for file in acpx.recording.folder.iterdir():
                file.unlink()
        # The session is as good as before.
        assert stops(await acpx("prompt", "-s", "one", "scene:text")) == ["end_turn"]
    assert times[-1] < 1
    assert acpx.recording.faults() == []


async def test_a_turn_that_waits_for_leave_is_cancelled_within_a_second(acpx: Acpx, project: Path):
    times: list[float] = []
    for _ in range(TRIES):
        keyboard, terminal = pty.openpty()
        process = await acpx.start(
            "exec",
            "scene:shell",
            stdin=terminal,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=terminal,
        )
        try:
            await acpx.until(lambda: "session/request_permission" in acpx.recording.methods("out"))
            # Once it has asked, a signal is a wish to cancel.
            process.send_signal(signal.SIGINT)
            await acpx.until(lambda: acpx.recording.stops() == ["cancelled"])
        finally:
            await end(process)
            os.close(terminal)
            os.close(keyboard)
        times = acpx.recording.cancel_times()
        assert acpx.recording.faults() == []
        if times[-1] < 1:
            break
        for file in acpx.recording.folder.iterdir():
            file.unlink()
    assert times[-1] < 1
    assert not (project / "made-by-shell.txt").exists()
