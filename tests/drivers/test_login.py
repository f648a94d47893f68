"""Logging in to agents over ACP, from a program."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

import quarterdeck
from quarterdeck.config.places import Places
from quarterdeck.drivers.errors import (
    LoginMethod,
    LoginNeededError,
    OpenFailedError,
    UnsupportedError,
)
from tests.support.processes import is_running

FAKE = [sys.executable, "-m", "quarterdeck.testing.acp_agent"]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A home with agents of every kind."""
    done, deck = tmp_path / "done", tmp_path / "deck"
    (deck / "agents").mkdir(parents=True)
    locked = [*FAKE, "--needs-login", "--login-file", str(done)]
    every = [*locked, "--terminal-login", "--more-logins"]
    agents = {
        "one": locked,
        "many": every,
        "gone": ["no-such-program"],
        "broken": ["sh", "-c", "echo why >&2; exit 4"],
        "noted": ["sh", "-c", f"echo $$ > {tmp_path}/pid; exec {' '.join(locked)}"],
    }
    for name, command in agents.items():
        (deck / "agents" / f"{name}.toml").write_text(
            "[login]\nhint = 'ask the vendor'\n"
            f"[transports.acp]\ncommand = {json.dumps(command)}\n"
            f"environment = {{ FAKE_LOGIN_FILE = {json.dumps(str(done))} }}\n"
        )
    (deck / "agents" / "plain.toml").write_text(
        "[login]\nhint = 'run plain login'\n[transports.pty]\ncommand = ['sh']\n"
    )
    return Places.find({"QUARTERDECK_HOME": str(deck), "HOME": str(tmp_path)})


async def test_the_ways_of_an_agent_are_listed(places: Places, tmp_path: Path):
    methods = await quarterdeck.login_methods("many", cwd=tmp_path, places=places)
    assert [(method.id, method.kind) for method in methods] == [
        ("pretend", "agent"),
        ("type", "terminal"),
        ("meta", "terminal"),
        ("key", "variables"),
        ("refused", "agent"),
    ]
    by_id = {method.id: method for method in methods}
    assert by_id["type"].command is not None and by_id["type"].command[-1] == "--type"
    assert by_id["meta"].command is not None and "sh" in by_id["meta"].command
    assert by_id["key"].variables == ("FAKE_AGENT_KEY",)


async def test_the_only_way_is_taken_and_tried(places: Places, tmp_path: Path):
    done = await quarterdeck.log_in("one", cwd=tmp_path, places=places)
    assert done.id == "pretend"


async def test_one_of_several_must_be_named(places: Places, tmp_path: Path):
    with pytest.raises(LoginNeededError, match="pretend, type, meta, key, refused") as caught:
        await quarterdeck.log_in("many", cwd=tmp_path, places=places)
    assert len(caught.value.methods) == 5
    with pytest.raises(UnsupportedError, match="It offers pretend"):
        await quarterdeck.log_in("many", "charm", cwd=tmp_path, places=places)
    done = await quarterdeck.log_in("many", "pretend", cwd=tmp_path, places=places)
    assert done.name == "Pretend to log in"


async def test_a_refused_login_says_why(places: Places, tmp_path: Path):
    with pytest.raises(OpenFailedError, match="the account is closed"):
        await quarterdeck.log_in("many", "refused", cwd=tmp_path, places=places)


async def test_variables_must_be_set(places: Places, tmp_path: Path):
    with pytest.raises(OpenFailedError, match="set FAKE_AGENT_KEY first"):
        await quarterdeck.log_in("many", "key", cwd=tmp_path, places=places)
    own = {"FAKE_AGENT_KEY": "dummy"}
    done = await quarterdeck.log_in("many", "key", cwd=tmp_path, places=places, environment=own)
    assert done.kind == "variables"


async def test_a_login_in_a_terminal_is_run_by_the_caller(places: Places, tmp_path: Path):
    ran: list[LoginMethod] = []

    async def run(method: LoginMethod) -> int:
        ran.append(method)
        if len(ran) == 3:
            await asyncio.to_thread((tmp_path / "done").write_text, "")
        return 1 if len(ran) == 1 else 0

    with pytest.raises(UnsupportedError, match="without a terminal"):
        await quarterdeck.log_in("many", "type", cwd=tmp_path, places=places)
    with pytest.raises(OpenFailedError, match="exit code 1"):
        await quarterdeck.log_in("many", "type", cwd=tmp_path, places=places, run=run)
    with pytest.raises(LoginNeededError, match="log in first"):
        await quarterdeck.log_in("many", "type", cwd=tmp_path, places=places, run=run)
    done = await quarterdeck.log_in("many", "type", cwd=tmp_path, places=places, run=run)
    assert done.id == "type" and len(ran) == 3


async def test_agents_that_do_not_start_or_do_not_speak_it_are_told(places: Places, tmp_path: Path):
    for name, told in (
        ("gone", "no program 'no-such-program'"),
        ("broken", "exit code 4"),
        ("plain", "run plain login"),
    ):
        with pytest.raises((OpenFailedError, UnsupportedError), match=told):
            await quarterdeck.log_in(name, cwd=tmp_path, places=places)


async def test_nothing_of_the_agent_is_left(places: Places, tmp_path: Path):
    await quarterdeck.log_in("noted", cwd=tmp_path, places=places)
    assert not is_running(int((tmp_path / "pid").read_text()))


async def test_a_session_can_be_opened_with_a_login(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("QUARTERDECK_HOME", str(tmp_path / "deck"))
    with pytest.raises(LoginNeededError):
        async with quarterdeck.connect("one", cwd=tmp_path):
            pass
    async with quarterdeck.connect("one", cwd=tmp_path, login="pretend") as agent:
        assert await agent.ask("echo hello") == "hello"
    with pytest.raises(UnsupportedError, match="pty cannot log in"):
        async with quarterdeck.connect("plain", cwd=tmp_path, transport="pty", login="x"):
            pass
