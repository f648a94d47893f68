"""Only the stable protocol is on the wire, unless the other side shows that it knows more."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.acp.link import AcpLink
from quarterdeck.drivers.agent_process import Launch
from quarterdeck.testing.acp_agent.program import FakeAgent, options
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.rpc import ByteStream, memory_pair
from tests.support.acp_schema import FrameJudge, judge, needs_schema
from tests.support.driver_rig import Rig, drive

UNSTABLE = {"quarterdeck": {"unstable": True}}


@needs_schema
@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("PromptResponse", {"stopReason": "end_turn", "_meta": {"any": 1}}, None),
        ("PromptResponse", {"stopReason": "end_turn", "usage": {}}, "usage"),
        ("SessionCapabilities", {"list": {}, "fork": {}}, "fork"),
        ("InitializeResponse", {"protocolVersion": 1, "agentCapabilities": {"x": 1}}, "x"),
        ("AuthMethod", {"id": "a", "name": "A", "env": {}}, "env"),
        ("AuthMethod", {"id": "a", "name": "A", "type": "terminal", "env": {}}, None),
    ],
)
def test_the_judge_finds_fields_that_are_not_stable(name: str, value: Any, fault: str | None):
    found = judge(name, value, closed=True)
    assert (found is None) if fault is None else (found is not None and fault in found)


def hello(editor: Any) -> dict[str, Any]:
    (answer,) = (
        m["result"]
        for way, m in editor.judge.frames
        if way == "out" and "protocolVersion" in m.get("result", {})
    )
    return answer


async def test_a_client_that_says_nothing_gets_the_stable_protocol(connected, project: Path):
    """``connected`` judges every frame of the server's by the stable schema, closed."""
    able: dict[str, Any] = {"auth": {"terminal": True}, "elicitation": {"form": {}}}
    async with connected(**able, session={"notices": {}, "compaction": {}}) as editor:
        greeting = hello(editor)
        assert all("env" not in method for method in greeting["authMethods"])
        can = greeting["agentCapabilities"]["sessionCapabilities"]
        assert "fork" not in can and "title" not in can
        assert can["_meta"]["quarterdeck"] == {"fork": {}, "title": {}}
        session = await editor.new(project)
        for scene in ("text", "think", "write", "shell", "many", "cut", "refuse", "bad-arguments"):
            await editor.prompt(session, f"scene:{scene}")
        await editor.prompt(session, "/compact")
        await editor.connection.call(acp.SESSION_LIST, acp.ListSessionsRequest())
        await editor.load(session, project)


async def test_a_client_that_shows_it_gets_more(connected, project: Path):
    async with connected(_meta=UNSTABLE) as editor:
        can = hello(editor)["agentCapabilities"]["sessionCapabilities"]
        assert can["fork"] == can["title"] == {}
        answer = await editor.prompt(await editor.new(project), "scene:text")
        assert answer.usage is not None and answer.usage.total_tokens > 0


class Tapped:
    """A stream whose lines are seen by a judge."""

    def __init__(self, stream: ByteStream, seen: FrameJudge) -> None:
        self._stream = stream
        self._seen = seen
        self._rest = {"in": b"", "out": b""}
        self.close = stream.close

    async def send(self, data: bytes) -> None:
        self._see("out", data)
        await self._stream.send(data)

    async def receive(self) -> bytes:
        data = await self._stream.receive()
        self._see("in", data)
        return data

    def _see(self, way: str, data: bytes) -> None:
        *lines, self._rest[way] = (self._rest[way] + bytes(data)).split(b"\n")
        for line in lines:
            self._seen(way, line)


@pytest.fixture
def settings() -> argparse.Namespace:
    return options().parse_args([])


@needs_schema
async def test_as_a_client_we_send_the_stable_protocol_alone(
    tmp_path: Path, settings: argparse.Namespace
):
    seen = FrameJudge(closed=True)
    ours, theirs = memory_pair()
    fake = asyncio.create_task(FakeAgent(settings).serve(theirs))
    launch = Launch(agent="fake", command=("none",))
    rig = Rig(name="acp", make=lambda: AcpLink(launch, stream=Tapped(ours, seen)))
    (tmp_path / "file").write_text("text\n")
    async with drive(rig, tmp_path) as driven:
        for line in (
            f"read {tmp_path}/file",
            "elicit",
            "tool look",
            "foreign-session",
            "request nothing/known",
        ):
            turn = asyncio.create_task(driven.say(line))
            while not turn.done():
                driven.session.gate.cancel_open()
                await asyncio.sleep(0.01)
            await turn
        await driven.session.set_mode("plan")
        await driven.session.set_model("fake-2")
        await driven.session.list_sessions()
    await fake
    assert {method for method, _, _ in seen.sent()} >= {
        "initialize",
        "session/new",
        "session/prompt",
        "session/set_mode",
        "session/list",
        "fs/read_text_file",
        "elicitation/create",
    }
    assert seen.faults() == []
