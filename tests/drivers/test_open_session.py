"""Opening a session by an agent's name: over the first transport that starts."""

import asyncio
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.config.places import Places
from quarterdeck.drivers.agent_description import Agent, parse_agent
from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.errors import (
    AgentMissingError,
    OpenFailedError,
    UnknownAgentError,
    UnsupportedError,
)
from quarterdeck.drivers.open_session import open_session
from quarterdeck.wire.events import (
    NoticePosted,
    PermissionAsked,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    ToolCallEnded,
    UnknownEvent,
)
from quarterdeck.wire.ids import new_session_id
from quarterdeck.wire.usage import TokenUsage
from tests.support.deadlines import SOON
from tests.support.driver_rig import Driven

FAKE = [sys.executable, "-m", "quarterdeck.testing.acp_agent"]
LEAVES = [sys.executable, "-c", "import sys; print('no licence', file=sys.stderr); sys.exit(3)"]
CODEX = {"dialect": "codex", "modes": {"ask": []}}


def agent_of(**transports: dict[str, Any]) -> Agent:
    fields = {"install": "get-it now", "transports": transports}
    return parse_agent("tester", fields, ("/tester.toml",))


async def opened(agent: str | Agent, cwd: Path, **options: Any) -> Driven:
    driven = Driven()
    opening = DriverSessionOptions.of(cwd=str(cwd))
    driven.session = await open_session(agent, opening, driven.sink, **options)
    return driven


async def test_an_agent_of_the_users_own_needs_no_code(tmp_path: Path):
    folder = Places.find().agents
    await asyncio.to_thread(folder.mkdir, parents=True)
    words = ", ".join(f'"{word}"' for word in FAKE)
    await asyncio.to_thread(
        (folder / "mine.toml").write_text, f"[transports.acp]\ncommand = [{words}]"
    )
    driven = await opened("Mine", tmp_path)
    ended = await driven.say("echo hello")
    await driven.session.close()
    assert (ended.stop, driven.text) == ("end_turn", "hello")
    (first,) = driven.all(SessionOpened)
    assert (first.agent, first.transport) == ("mine", "acp")
    assert not driven.all(NoticePosted)


LINER = """\
import json, sys
prompt, words = sys.stdin.read(), sys.argv[1:]
session = words[words.index("--session") + 1] if "--session" in words else "s-1"
for line in (
    {"type": "start", "session_id": session, "model": "m-1"},
    {"type": "delta", "text": f"{prompt} {' '.join(words)}"},
    {"type": "call", "id": "c1", "tool": "read_file", "arguments": {"path": "x"}},
    {"type": "called", "id": "c1", "output": "text", "error": None},
    {"type": "mystery"},
    {"type": "done", "error": None, "tokens": {"in": 5, "out": 7}},
):
    print(json.dumps(line), flush=True)
"""


async def test_the_page_of_agents_has_an_example_of_a_pipe_that_works(tmp_path: Path):
    page = Path(__file__).parents[2] / "docs/agents.md"
    text = await asyncio.to_thread(page.read_text)
    (example,) = re.findall(r"`liner\.toml`[^\n]*\n\n```toml\n(.*?)```", text, re.DOTALL)
    script = tmp_path / "liner"
    await asyncio.to_thread(script.write_text, f"#!{sys.executable}\n{LINER}")
    await asyncio.to_thread(script.chmod, 0o755)
    agent = parse_agent("liner", tomllib.loads(example), ("/liner.toml",))
    driven = Driven()
    opening = DriverSessionOptions.of(
        cwd=str(tmp_path), environment={"PATH": str(tmp_path)}, model="-x"
    )
    driven.session = await open_session(agent, opening, driven.sink)
    first = await driven.say("--hello 👋")
    await driven.say("again")
    await driven.session.close()
    assert (first.stop, first.usage) == ("end_turn", TokenUsage(input=5, output=7))
    assert driven.text == (
        "--hello 👋 --json --read-only --model -xagain --json --read-only --model -x --session s-1"
    )
    assert driven.session.agent_session == "s-1"
    assert [call.status for call in driven.all(ToolCallEnded)] == ["completed", "completed"]
    assert len(driven.all(UnknownEvent)) == 2


async def test_a_mode_that_the_file_has_no_words_for_is_refused(tmp_path: Path):
    agent = agent_of(pipe={"command": [sys.executable], **CODEX})
    with pytest.raises(UnsupportedError, match="full-auto"):
        driven = Driven()
        opening = DriverSessionOptions.of(cwd=str(tmp_path), mode="full-auto")
        await open_session(agent, opening, driven.sink)


LEAVES_FIRST = """\
import os, sys
tries = open(sys.argv[1], "a"); tries.write("x"); tries.close()
if os.path.getsize(sys.argv[1]) <= int(sys.argv[2]): sys.exit("database is locked")
os.execv(sys.executable, [sys.executable, "-m", "quarterdeck.testing.acp_agent"])
"""


def leaving(tmp_path: Path, times: int, **fields: Any) -> dict[str, Any]:
    """An agent that leaves so many times while it starts; the file has a byte for each start."""
    words = [sys.executable, "-c", LEAVES_FIRST, str(tmp_path / "starts"), str(times)]
    return {"command": words, **fields}


async def test_an_agent_known_to_leave_while_it_starts_is_started_once_more(tmp_path: Path):
    agent = agent_of(acp=leaving(tmp_path, 1, quirks=["leaves-at-start"]))
    driven = await opened(agent, tmp_path)
    assert (await driven.say("echo hello")).stop == "end_turn"
    await driven.session.close()
    assert not driven.all(NoticePosted)
    assert len((tmp_path / "starts").read_bytes()) == 2


@pytest.mark.parametrize(("quirks", "starts"), [(["leaves-at-start"], 2), ([], 1)])
async def test_an_agent_that_leaves_again_and_again_fails(
    tmp_path: Path, quirks: list[str], starts: int
):
    driven = Driven()
    agent = agent_of(acp=leaving(tmp_path, 9, quirks=quirks))
    with pytest.raises(OpenFailedError, match="exited while starting") as caught:
        await open_session(agent, DriverSessionOptions.of(cwd=str(tmp_path)), driven.sink)
    assert "database is locked" in caught.value.stderr
    assert not getattr(caught.value, "__notes__", [])
    assert len((tmp_path / "starts").read_bytes()) == starts


async def test_when_a_program_is_missing_the_next_transport_is_used_and_told(tmp_path: Path):
    agent = agent_of(pipe={"command": ["no-such-program"], **CODEX}, acp={"command": FAKE})
    driven = await opened(agent, tmp_path)
    assert (await driven.say("echo hello")).stop == "end_turn"
    await driven.session.close()
    assert driven.session.transport == "acp"
    (notice,) = driven.all(NoticePosted)
    assert notice.title == "tester is used over acp: pipe did not start"
    assert "'no-such-program'" in (notice.description or "")
    assert "get-it now" in (notice.description or "")


async def test_when_a_program_leaves_at_once_the_next_transport_is_used(tmp_path: Path):
    script = tmp_path / "once"
    await asyncio.to_thread(script.write_text, "#!/bin/sh\nexit 0\n")
    await asyncio.to_thread(script.chmod, 0o755)
    agent = agent_of(acp={"command": LEAVES}, pipe={"command": [str(script)], **CODEX})
    driven = await opened(agent, tmp_path)
    await driven.session.close()
    assert driven.session.transport == "pipe"
    (notice,) = driven.all(NoticePosted)
    assert "acp did not start" in notice.title
    assert len(driven.all(SessionOpened)) == len(driven.all(SessionEnded)) == 1


async def test_a_transport_that_is_named_is_the_only_one_tried(tmp_path: Path):
    agent = agent_of(pipe={"command": ["no-such-program"], **CODEX}, acp={"command": FAKE})
    with pytest.raises(AgentMissingError, match="get-it now") as told:
        await opened(agent, tmp_path, transport="pipe")
    assert told.value.program == "no-such-program"


async def test_when_none_starts_the_failure_of_one_that_was_there_is_raised(tmp_path: Path):
    driven = Driven()
    agent = agent_of(pipe={"command": ["no-such-program"], **CODEX}, acp={"command": LEAVES})
    with pytest.raises(OpenFailedError) as told:
        await open_session(agent, DriverSessionOptions.of(cwd=str(tmp_path)), driven.sink)
    assert "no licence" in told.value.stderr
    assert any("no-such-program" in note for note in told.value.__notes__)
    (ended,) = driven.all(SessionEnded)
    assert (ended.how, len(driven.all(SessionOpened))) == ("broken", 1)


async def test_a_missing_program_is_told_within_a_second(tmp_path: Path):
    async with asyncio.timeout(SOON):
        began = asyncio.get_running_loop().time()
        with pytest.raises(AgentMissingError) as told:
            await opened(agent_of(acp={"command": ["no-such-program"]}), tmp_path)
        assert asyncio.get_running_loop().time() - began < 5
    assert told.value.searched and "get-it now" in str(told.value)


async def test_an_unknown_agent_writes_nothing(tmp_path: Path):
    driven = Driven()
    with pytest.raises(UnknownAgentError):
        await open_session("nobody", DriverSessionOptions.of(cwd=str(tmp_path)), driven.sink)
    with pytest.raises(UnsupportedError, match="Use it in a terminal"):
        await open_session("aider", DriverSessionOptions.of(cwd=str(tmp_path)), driven.sink)
    assert driven.events == []


async def test_a_session_that_is_known_goes_on_under_its_id(tmp_path: Path):
    id_ = new_session_id()
    driven = await opened(agent_of(acp={"command": FAKE}), tmp_path, session_id=id_, is_known=True)
    await driven.session.close()
    assert driven.session.id == id_
    assert driven.all(SessionResumed) and not driven.all(SessionOpened)


async def test_what_the_agent_asks_is_judged_in_its_project(tmp_path: Path):
    await asyncio.to_thread((tmp_path / ".git").mkdir)
    below = tmp_path / "below"
    await asyncio.to_thread(below.mkdir)
    driven = await opened(agent_of(acp={"command": FAKE}), below)
    turn = asyncio.create_task(driven.say("ask rm -rf build"))
    await driven.answer("reject_once")
    await turn
    await driven.session.close()
    (asked,) = driven.all(PermissionAsked)
    assert asked.title == "rm -rf build"


async def test_a_sink_that_fails_at_the_start_leaves_no_process(tmp_path: Path):
    """Nobody has the session then, so nobody could end the agent."""
    mark = tmp_path / "pid"
    code = (
        "import os, pathlib, runpy, sys\n"
        f"pathlib.Path({str(mark)!r}).write_text(str(os.getpid()))\n"
        "sys.argv = ['acp-agent']\n"
        "runpy.run_module('quarterdeck.testing.acp_agent', run_name='__main__')\n"
    )

    async def sink(event: Any, **_: Any) -> None:
        raise RuntimeError("the log is full")

    agent = agent_of(acp={"command": [sys.executable, "-c", code]})
    with pytest.raises(RuntimeError, match="the log is full"):
        await open_session(agent, DriverSessionOptions.of(cwd=str(tmp_path)), sink)
    with pytest.raises(ProcessLookupError):
        os.kill(int(await asyncio.to_thread(mark.read_text)), 0)


async def test_an_opening_that_is_cancelled_leaves_no_process_and_writes_nothing(tmp_path: Path):
    mark = tmp_path / "pid"
    script = tmp_path / "mute"
    text = f"#!/bin/sh\necho $$ > {mark}.new && mv {mark}.new {mark}\nexec sleep 600\n"
    await asyncio.to_thread(script.write_text, text)
    await asyncio.to_thread(script.chmod, 0o755)
    driven = Driven()
    opening = asyncio.create_task(
        open_session(
            agent_of(acp={"command": [str(script)]}),
            DriverSessionOptions.of(cwd=str(tmp_path)),
            driven.sink,
        )
    )
    async with asyncio.timeout(SOON):
        while not await asyncio.to_thread(mark.exists):
            await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    with pytest.raises(ProcessLookupError):
        os.kill(int(await asyncio.to_thread(mark.read_text)), 0)
    assert driven.events == []
