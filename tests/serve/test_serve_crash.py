"""The server as a program: killed in a turn it loses nothing, ended in one it leaves nothing."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.rpc import pipe_stream
from tests.serve.editor import Editor, editor_on
from tests.support.acp_schema import FrameJudge


@asynccontextmanager
async def program(
    environment: dict[str, str],
) -> AsyncIterator[tuple[Editor, asyncio.subprocess.Process]]:
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    extra = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "quarterdeck", "acp"),
            stdin=theirs_in,
            stdout=theirs_out,
            env=environment | extra,
        )
    finally:
        os.close(theirs_in)
        os.close(theirs_out)
    try:
        stream = await pipe_stream(ours_in, ours_out)
        async with editor_on(stream, FrameJudge(unstable=True), {}) as editor:
            yield editor, process
        await asyncio.wait_for(process.wait(), 10)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("scene", ["slow", "longcmd"])
async def test_a_killed_server_leaves_a_conversation_that_goes_on(
    environment: dict[str, str], project: Path, scene: str
):
    async with program(environment) as (editor, process):
        session = await editor.new(project)
        await editor.prompt(session, "scene:write")
        turn = asyncio.create_task(editor.prompt(session, f"scene:{scene}"))
        await editor.until(lambda: "tick 3" in editor.said() or "in_progress" in last(editor))
        said = editor.said()
        process.send_signal(signal.SIGKILL)
        with pytest.raises(LinkError):
            await turn
    async with program(environment) as (editor, _):
        await editor.load(session, project)
        assert editor.said().startswith(said)
        assert editor.call_states()[-1] in ("completed", "failed")
        calls = {call.tool_call_id for call in editor.of(acp.ToolCall)}
        ended = {
            update.tool_call_id
            for update in editor.of(acp.ToolCallUpdate)
            if update.status in ("completed", "failed")
        }
        assert calls == ended
        editor.forget()
        answer = await editor.prompt(session, "scene:write")
        assert answer.stop_reason == "end_turn"
        assert editor.said().startswith("I will write a file.")


@pytest.mark.parametrize("end", ["input", "signal"])
async def test_a_server_that_ends_leaves_no_process(
    environment: dict[str, str], project: Path, tmp_path: Path, end: str
):
    script = tmp_path / "run.toml"
    script.write_text(
        'default = "run"\n[[scenes.run.replies]]\n'
        'parts = [{ call = "bash", arguments = { command = "echo $$ > pid; sleep 60" } }]\n'
    )
    environment["QUARTERDECK_MODEL"] = f"scripted/{script}"
    async with program(environment) as (editor, process):
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "go"))
        async with asyncio.timeout(45):
            while not (pid := await asyncio.to_thread(read, project / "pid")):
                await asyncio.sleep(0.05)
        if end == "input":
            await editor.connection.close()
        else:
            process.send_signal(signal.SIGTERM)
        with pytest.raises(LinkError):
            await turn
        assert await asyncio.wait_for(process.wait(), 5) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def last(editor: Editor) -> str:
    """The state of the call that was heard of last, of the second call on."""
    states = editor.call_states()
    return states[-1] if len(states) > 2 else ""
