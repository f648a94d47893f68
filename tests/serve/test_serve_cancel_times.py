"""A cancel is answered within a second, wherever the turn is."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quarterdeck.wire.acp import schema as acp
from tests.serve.editor import Editor
from tests.support.deadlines import quick_once

SCRIPT = """
default = "late"
[[scenes.late.replies]]
delay = 600
parts = [{ text = "never" }]
[[scenes.stream.replies]]
parts = [{ text = ["Once ", "upon "], pause = 600 }]
[[scenes.retry.replies]]
error = { status = 429, headers = { retry-after = "600" } }
[[scenes.tool.replies]]
parts = [{ call = "bash", arguments = { command = "trap '' TERM; echo begun; sleep 600" } }]
[[scenes.leave.replies]]
parts = [{ call = "write", arguments = { path = "a.txt", content = "a" } }]
"""


def in_tool(editor: Editor) -> bool:
    return any("begun" in str(each.content) for each in editor.of(acp.ToolCallUpdate))


WHERE: dict[str, Callable[[Editor], bool]] = {
    "late": lambda editor: bool(editor.of(acp.SessionInfoUpdate)),
    "stream": lambda editor: editor.said() != "",
    "retry": lambda editor: any("Retrying" in each.title for each in editor.of(acp.Notice)),
    "tool": in_tool,
    "leave": lambda editor: bool(editor.asked),
}


@pytest.mark.parametrize("where", WHERE)
async def test_a_cancel_is_answered_within_a_second(
    connected, environment: dict[str, str], project: Path, tmp_path: Path, where: str
):
    script = tmp_path / "slow.toml"
    script.write_text(SCRIPT)
    environment["QUARTERDECK_MODEL"] = f"scripted/{script}"
    async with connected(session={"notices": {}}) as editor:
        editor.leave = None if where == "leave" else "allow_once"

        async def measure() -> float:
            editor.forget()
            editor.asked.clear()
            session = await editor.new(project)
            turn = asyncio.create_task(editor.prompt(session, f"scene:{where}"))
            await editor.until(lambda: WHERE[where](editor))
            began = time.monotonic()
            await editor.cancel(session)
            assert (await turn).stop_reason == "cancelled"
            return time.monotonic() - began

        await quick_once(measure, 1.0)
