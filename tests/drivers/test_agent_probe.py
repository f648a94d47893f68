"""Looking for agents: programs, versions that are asked once, logins that are never read."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.config.places import Places
from quarterdeck.drivers.agent_description import Agent, LoginEvidence, parse_agent
from quarterdeck.drivers.probe import (
    AgentInstallation,
    VersionQuery,
    ask_versions,
    login_state,
    probe,
)
from tests.support.deadlines import SOON


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools"
    path.mkdir()
    return path


def put(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def agent_of(name: str = "tester", **fields: Any) -> Agent:
    given = {"version": [name, "--version"], "transports": {"acp": {"command": [name, "acp"]}}}
    return parse_agent(name, {**given, **fields}, ("/x.toml",))


async def look(tools: Path, *agents: Agent, **options: Any) -> list[AgentInstallation]:
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": os.environ["HOME"]}
    environment |= options.pop("variables", {})
    return await probe(agents, places=Places.find(), environment=environment, **options)


class TestPrograms:
    async def test_a_program_is_found_with_its_version(self, tools: Path):
        path = put(tools, "tester", "echo 'Tester CLI v1.22.333-rc.1 (linux)'")
        (state,) = await look(tools, agent_of())
        assert (state.path, state.version, state.problem) == (str(path), "1.22.333-rc.1", "")
        assert [one.name for one in state.usable] == ["acp"]

    async def test_one_that_is_missing_is_no_error(self, tools: Path):
        (state,) = await look(tools, agent_of())
        assert not state.is_installed and state.usable == ()
        assert (state.version, state.problem) == (None, "")
        assert "tester" in state.transports[0].problem

    async def test_a_file_that_cannot_be_run_is_told(self, tools: Path):
        put(tools, "tester", "").chmod(0o644)
        (state,) = await look(tools, agent_of())
        assert not state.is_installed
        assert "chmod" in state.transports[0].problem

    async def test_each_transport_is_looked_for_by_itself(self, tools: Path):
        put(tools, "tester", "echo 1.0")
        put(tools, "tester-acp", "echo adapter 2.5.1")
        acp = {"command": ["tester-acp"], "version": ["tester-acp", "-V"], "verified": "x 1.0.0"}
        pipe = {"command": ["tester", "run"], "dialect": "codex"}
        gone = {"command": ["other"], "install": "get other"}
        agent = agent_of(order=["acp", "pipe"], transports={"pty": gone, "pipe": pipe, "acp": acp})
        (state,) = await look(tools, agent)
        told = [(one.name, one.version, one.verified, one.path is None) for one in state.transports]
        assert told == [
            ("acp", "2.5.1", "x 1.0.0", False),
            ("pipe", "1.0", "", False),
            ("pty", None, "", True),
        ]
        assert [one.name for one in state.usable] == ["acp", "pipe"]

    async def test_names_may_be_in_any_script(self, tools: Path):
        put(tools, "助手 ñ", "echo '版本 3.1'")
        (state,) = await look(
            tools,
            parse_agent(
                "助手",
                {"version": ["助手 ñ", "-V"], "transports": {"acp": {"command": ["助手 ñ"]}}},
                ("/x.toml",),
            ),
        )
        assert state.version == "3.1"

    async def test_our_own_agent_is_known_without_starting_anything(self, tools: Path):
        from quarterdeck import __version__
        from quarterdeck.drivers.catalogue import find_agent

        (state,) = await look(tools, await asyncio.to_thread(find_agent, "native"))
        assert (state.version, state.path) == (__version__, sys.executable)
        assert not await asyncio.to_thread((Places.find().cache / "agents.json").exists)


class TestAsking:
    @pytest.mark.parametrize(
        ("script", "problem"),
        [
            ("echo 1.2; exit 1", "ended with"),
            ("kill -9 $$", "ended with"),
            ("echo no number here", "printed no version"),
            ("head -c 20000 /dev/urandom", "printed no version"),
            ("", "printed no version"),
            ("exec /nonexistent/program", "ended with"),
        ],
    )
    async def test_an_odd_program_is_installed_without_a_version(
        self, tools: Path, script: str, problem: str
    ):
        put(tools, "tester", script)
        (state,) = await look(tools, agent_of())
        assert state.is_installed
        assert state.version is None or "urandom" in script
        assert problem in state.problem or "urandom" in script

    async def test_ten_megabytes_are_not_read(self, tools: Path):
        put(tools, "tester", "echo 4.5.6; exec head -c 10000000 /dev/zero")
        (state,) = await look(tools, agent_of())
        assert state.version == "4.5.6"

    async def test_an_endless_printer_is_ended(self, tools: Path):
        put(tools, "tester", "echo $$ > $HOME/pid; exec yes 7.8.9")
        (state,) = await look(tools, agent_of())
        assert state.version == "7.8.9"
        await gone("pid")

    async def test_one_that_hangs_is_ended_with_its_children(self, tools: Path):
        script = "echo $$ > $HOME/pid; sleep 600 & echo $! > $HOME/child; sleep 600"
        put(tools, "tester", script)
        async with asyncio.timeout(SOON):
            (state,) = await look(tools, agent_of(), limit=0.5)
        assert "did not answer within 0.5 s" in state.problem
        await gone("pid")
        await gone("child")

    async def test_a_version_on_standard_error_counts(self, tools: Path):
        put(tools, "tester", "echo tester 9.9.1 >&2")
        (state,) = await look(tools, agent_of())
        assert state.version == "9.9.1"

    async def test_a_program_sees_no_key_and_no_project(self, tools: Path):
        put(tools, "tester", "env > $HOME/seen; pwd >> $HOME/seen; echo 1.0")
        await look(tools, agent_of(), variables={"SOME_API_KEY": "hush"})
        home = Path(os.environ["HOME"])
        seen = await asyncio.to_thread((home / "seen").read_text)
        assert "hush" not in seen
        assert seen.splitlines()[-1] == "/"

    async def test_at_most_four_run_at_once(self, tools: Path):
        # Each adds a line when it starts and removes nothing: a crowd shows as a count above 4.
        script = (
            'd=$HOME/running; mkdir -p $d; touch $d/$$; ls $d | wc -l >> "$HOME/crowd"; '
            "sleep 0.05; rm $d/$$; echo 1.0"
        )
        names = [f"tester{number}" for number in range(10)]
        for name in names:
            put(tools, name, script)
        states = await look(tools, *(agent_of(name) for name in names))
        assert {state.version for state in states} == {"1.0"}
        crowd = await asyncio.to_thread((Path(os.environ["HOME"]) / "crowd").read_text)
        assert max(map(int, crowd.split())) <= 4


class TestMemory:
    def count(self) -> int:
        file = Path(os.environ["HOME"]) / "count"
        return len(file.read_text()) if file.exists() else 0

    async def test_the_second_look_starts_nothing(self, tools: Path):
        put(tools, "tester", "printf x >> $HOME/count; echo 1.0")
        first = await look(tools, agent_of())
        second = await look(tools, agent_of())
        assert first == second
        assert await asyncio.to_thread(self.count) == 1

    async def test_refreshing_asks_again(self, tools: Path):
        put(tools, "tester", "printf x >> $HOME/count; echo 1.0")
        await look(tools, agent_of())
        await look(tools, agent_of(), refresh=True)
        assert await asyncio.to_thread(self.count) == 2

    async def test_another_binary_is_asked(self, tools: Path):
        put(tools, "tester", "printf x >> $HOME/count; echo 1.0")
        await look(tools, agent_of())
        put(tools, "tester", "printf x >> $HOME/count; echo 2.0.0")
        (state,) = await look(tools, agent_of())
        assert state.version == "2.0.0"

    async def test_a_link_to_another_binary_is_asked(self, tools: Path):
        put(tools, "one", "echo 1.0")
        put(tools, "two", "echo 2.0")
        link = tools / "tester"
        await asyncio.to_thread(link.symlink_to, "one")
        (before,) = await look(tools, agent_of())
        await asyncio.to_thread(link.unlink)
        await asyncio.to_thread(link.symlink_to, "two")
        (after,) = await look(tools, agent_of())
        assert (before.version, after.version) == ("1.0", "2.0")

    async def test_a_failure_is_remembered_for_a_while_only(self, tools: Path):
        put(tools, "tester", "printf x >> $HOME/count; exit 1")
        await look(tools, agent_of())
        await look(tools, agent_of())
        assert await asyncio.to_thread(self.count) == 1
        memory = Places.find().cache / "agents.json"
        kept = json.loads(await asyncio.to_thread(memory.read_text))
        kept["answers"][0]["asked"] -= 3600
        await asyncio.to_thread(memory.write_text, json.dumps(kept))
        await look(tools, agent_of())
        assert await asyncio.to_thread(self.count) == 2

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99, "answers": []}', "\x00" * 9])
    async def test_a_memory_that_cannot_be_read_is_none(self, tools: Path, text: str):
        memory = Places.find().cache / "agents.json"
        await asyncio.to_thread(memory.parent.mkdir, parents=True)
        await asyncio.to_thread(memory.write_text, text)
        put(tools, "tester", "echo 1.0")
        (state,) = await look(tools, agent_of())
        assert state.version == "1.0"

    async def test_a_memory_that_cannot_be_written_is_none(self, tools: Path):
        path = put(tools, "tester", "echo 1.0")
        question = VersionQuery(str(path), ("--version",))
        answers = await ask_versions(
            [question], Path("/dev/null/x/agents.json"), environment={"PATH": "/usr/bin:/bin"}
        )
        assert answers[question].version == "1.0"

    async def test_the_memory_holds_no_environment(self, tools: Path):
        put(tools, "tester", "echo 1.0")
        await look(tools, agent_of(), variables={"SOME_API_KEY": "hush"})
        memory = Places.find().cache / "agents.json"
        assert "hush" not in await asyncio.to_thread(memory.read_text)


class TestLogin:
    LOGIN = LoginEvidence(variables=("KEY",), files=("~/.tester/auth", "$TESTER_HOME/auth"))

    def test_a_variable_shows_a_login(self):
        assert login_state(self.LOGIN, {"KEY": "x"}) == "yes"
        assert login_state(self.LOGIN, {"KEY": ""}) == "unknown"

    def test_a_file_shows_a_login_though_nobody_may_read_it(self, tmp_path: Path):
        (tmp_path / ".tester").mkdir()
        (tmp_path / ".tester" / "auth").write_text("secret")
        (tmp_path / ".tester" / "auth").chmod(0)
        assert login_state(self.LOGIN, {"HOME": str(tmp_path)}) == "yes"

    def test_a_file_below_a_variable_counts_only_where_it_is_set(self, tmp_path: Path):
        (tmp_path / "auth").write_text("secret")
        assert login_state(self.LOGIN, {"TESTER_HOME": str(tmp_path)}) == "yes"
        assert login_state(self.LOGIN, {}) == "unknown"

    def test_no_is_said_only_where_there_is_no_other_way(self):
        login = LoginEvidence(variables=("KEY",), complete=True)
        assert login_state(login, {}) == "no"
        assert login_state(LoginEvidence(), {}) == "unknown"


async def gone(name: str) -> None:
    """Wait until the process whose id a fake wrote down is no more."""
    pid = int(await asyncio.to_thread((Path(os.environ["HOME"]) / name).read_text))
    async with asyncio.timeout(SOON):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            await asyncio.sleep(0.01)
