"""The options of ``quarterdeck run`` for our own agent: each does what it says."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import Exchange, serving

SCRIPT = Path(sys.executable).with_name("quarterdeck")


class Runner:
    def __init__(self, tmp_path: Path) -> None:
        self.project = tmp_path / "project"
        self.project.mkdir()
        self.home = tmp_path / "home"
        self.home.mkdir()
        self.variables: dict[str, str] = {}
        self.model = "scripted/default"
        self.errors = ""

    async def __call__(self, *arguments: str, code: int = 0) -> str:
        process = await asyncio.create_subprocess_exec(
            *(SCRIPT, "run", "-m", self.model, "-C", self.project, *arguments),
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "QUARTERDECK_HOME": str(self.home / "quarterdeck"),
                "LANG": "C.UTF-8",
                **self.variables,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await asyncio.wait_for(process.communicate(), 45)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        self.errors = errors.decode()
        assert process.returncode == code, self.errors
        return output.decode()

    async def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        return json.loads(await self("--format", "json", *arguments, code=code))

    def script(self, text: str) -> None:
        path = self.home / "script.toml"
        path.write_text(text)
        self.model = f"scripted/{path}"


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


async def test_resume_goes_on_with_the_session_that_is_named(run: Runner):
    first = await run.json("scene:text")
    second = await run.json("scene:text")
    assert second["session"] != first["session"]
    again = await run.json("--resume", first["session"], "scene:text")
    assert again["session"] == first["session"]


async def test_a_fork_is_another_session_and_its_origin_goes_on(run: Runner):
    first = await run.json("scene:text")
    forked = await run.json("--resume", first["session"], "--fork", "scene:text")
    assert forked["session"] != first["session"]
    again = await run.json("--resume", first["session"], "scene:text")
    assert again["session"] == first["session"]


async def test_an_allowed_call_runs_with_nobody_to_ask(run: Runner):
    await run("scene:write", code=4)
    assert not (run.project / "hello.txt").exists()
    await run("--allow", "edit(hello.txt)", "scene:write")
    assert (run.project / "hello.txt").exists()


async def test_a_denied_call_does_not_run_though_the_mode_allows_it(run: Runner):
    await run("--mode", "accept-edits", "--deny", "edit(*)", "scene:write")
    assert not (run.project / "hello.txt").exists()


async def test_only_the_tools_that_were_named_are_there(run: Runner):
    run.script(
        'default = "a"\n[[scenes.a.replies]]\n'
        'parts = [{ call = "write", arguments = { path = "x", content = "x" } }]\n'
        '[[scenes.a.replies]]\nparts = [{ text = "Done." }]\n'
    )
    lines = (await run("--format", "stream-json", "--tool", "read", "go")).splitlines()
    ends = [json.loads(line)["event"] for line in lines if "tool_call_ended" in line]
    assert "There is no tool 'write'. Tools: read." in json.dumps(ends)


async def test_time_is_a_limit(run: Runner):
    run.script('default = "a"\n[[scenes.a.replies]]\ndelay = 600\nparts = [{ text = "late" }]\n')
    await run("--max-seconds", "0.3", "go", code=7)
    assert "0.3 s" in run.errors


async def test_quiet_says_nothing_but_the_answer(run: Runner):
    loud = await run("--mode", "accept-edits", "scene:write")
    assert "hello.txt" in run.errors
    assert await run("-q", "--mode", "accept-edits", "scene:write") == loud
    assert run.errors == ""


async def test_cost_is_a_limit(run: Runner):
    async def expensive(exchange: Exchange) -> None:
        called = {"index": 0, "id": "c", "function": {"name": "ls", "arguments": "{}"}}
        usage = {"prompt_tokens": 50_000_000, "completion_tokens": 1}
        delta = {"choices": [{"index": 0, "delta": {"tool_calls": [called]}}]}
        last = {"choices": [{"index": 0, "finish_reason": "tool_calls"}], "usage": usage}
        pieces = [b"data: " + json.dumps(each).encode() + b"\n\n" for each in (delta, last)]
        await exchange.stream(*pieces, b"data: [DONE]\n\n")

    settings = run.home / "quarterdeck" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[models."deepseek/big".prices]\ninput = 1.0\noutput = 1.0\n')
    async with serving(expensive) as server:
        run.model = "deepseek/big"
        run.variables = {"DEEPSEEK_BASE_URL": server.url, "DEEPSEEK_API_KEY": "k"}
        await run("--max-cost", "60", "--max-calls", "5", "go", code=7)
        assert len(server.requests) == 2
    assert "60" in run.errors
