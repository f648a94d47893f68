"""What a person is told of an agent that did not start, and of errors in answers."""

import json
import sys
from pathlib import Path

import pytest

from quarterdeck.drivers.agent_description import Agent, parse_agent
from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.errors import LoginNeededError, OpenFailedError
from quarterdeck.drivers.open_session import open_session
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection, Router
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.events import SessionEnded
from quarterdeck.wire.rpc.stream import memory_pair
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import Driven, drive

FAKE = [sys.executable, "-m", "quarterdeck.testing.acp_agent"]


def agent(*command: str, transport: str = "acp", hint: str = "", **login: object) -> Agent:
    name, _, dialect = transport.partition(" ")
    reach = {"command": command, "dialect": dialect}
    fields = {"transports": {name: reach}, "login": {"hint": hint, **login}}
    return parse_agent("odd", fields, ())


async def start(wanted: Agent, cwd: Path) -> tuple[OpenFailedError, SessionEnded]:
    driven = Driven()
    with pytest.raises(OpenFailedError) as caught:
        await open_session(wanted, DriverSessionOptions.of(cwd=str(cwd)), driven.sink)
    return caught.value, driven.all(SessionEnded)[0]


@pytest.mark.parametrize("transport", ["acp", "pipe claude", "daemon codex", "daemon opencode"])
async def test_a_failed_start_tells_exit_code_and_last_lines(transport: str, tmp_path: Path):
    script = "echo first >&2; echo key=sk-abcdefghijklmnop >&2; echo 'cannot go on' >&2; exit 9"
    error, ended = await start(agent("sh", "-c", script, transport=transport), tmp_path)
    for told in (str(error), ended.reason or ""):
        assert "exit code 9" in told
        assert "\n  cannot go on" in told
        assert "sk-abcdefghijklmnop" not in told
    assert ended.exit_code == 9


async def test_a_failed_start_tells_the_signal(tmp_path: Path):
    error, _ = await start(agent("sh", "-c", "kill -KILL $$"), tmp_path)
    assert "SIGKILL" in str(error)


async def test_only_the_last_lines_are_told(tmp_path: Path):
    error, _ = await start(agent("sh", "-c", "seq 1 500 >&2; exit 1"), tmp_path)
    assert "\n  500" in str(error) and "\n  400" not in str(error)


async def test_a_login_is_hinted_at_where_it_is_the_likely_cause(tmp_path: Path):
    hint = "run `odd login`"
    said = await start(agent("sh", "-c", "echo 'API key missing' >&2; exit 1", hint=hint), tmp_path)
    unseen = agent("sh", "-c", "exit 1", hint=hint, variables=["ODD_KEY"], complete=True)
    silent = await start(unseen, tmp_path)
    for error, ended in (said, silent):
        assert hint in str(error) and hint in (ended.reason or "")
    other, _ = await start(agent("sh", "-c", "echo no disk >&2; exit 1", hint=hint), tmp_path)
    assert hint not in str(other)


async def test_a_needed_login_has_the_hint_of_the_file(tmp_path: Path):
    error, _ = await start(agent(*FAKE, "--needs-login", hint="run `odd login`"), tmp_path)
    assert isinstance(error, LoginNeededError)
    assert "run `odd login`" in str(error) and "Pretend to log in" in str(error)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"details": "the disk is full"}, "Internal error: the disk is full"),
        ({"message": "no quota"}, "Internal error: no quota"),
        ({"error": {"message": "deep"}}, "Internal error: deep"),
        ("plain words", "Internal error: plain words"),
        ({"details": "Internal error"}, "Internal error"),
        ({"details": {"a": 1}}, "Internal error"),
        (None, "Internal error"),
        ([1], "Internal error"),
    ],
)
async def test_what_the_data_of_an_error_says_is_told(data: object, told: str, tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        ended = await driven.say(f"error-data {json.dumps(data)}")
    assert (ended.stop, ended.reason) == ("failed", told)
    assert str(RpcError(-32603, "Internal error", data)) == f"{told} (-32603)"


async def test_errors_that_we_send_have_details():
    async def prompt(request: acp.PromptRequest) -> acp.PromptResponse:
        if request.session_id == "own":
            raise RpcError(-32603, "it failed", {"details": "why", "kind": "x"})
        raise RpcError(-32603, "it failed", {"kind": "x"} if request.session_id else None)

    ours, theirs = memory_pair()
    router = Router("agent", initialize_first=False)
    router.on(acp.SESSION_PROMPT, prompt)
    seen: list[object] = []
    async with AcpConnection(ours, router), AcpConnection(theirs, Router("client")) as client:
        for session in ("", "s", "own"):
            with pytest.raises(RpcError) as caught:
                request = acp.PromptRequest(session_id=session, prompt=())
                await client.call(acp.SESSION_PROMPT, request)
            seen.append(caught.value.data)
    assert seen == [
        {"details": "it failed"},
        {"kind": "x", "details": "it failed"},
        {"kind": "x", "details": "why"},
    ]
