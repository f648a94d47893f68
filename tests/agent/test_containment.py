"""What nobody was asked about is contained, in a whole session and after a change of mode."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from quarterdeck.agent.session_system import LocalSessionSystem
from quarterdeck.agent.tools.bash import BashTool
from quarterdeck.agent.tools.bash.background import CommandsTool
from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome, text_outcome
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.system.api import CommandSpec
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.sandbox import SANDBOX_VARIABLE, detect_sandbox, detect_sealed_sandbox
from quarterdeck.wire.events import PermissionAnswered, PermissionAsked
from tests.support.agent_tools import FakeTool, NumberArguments
from tests.support.native_agents import Deck, call, deck, says


@pytest.fixture
async def seals() -> None:
    found = await detect_sealed_sandbox()
    if not found.seals:
        pytest.skip(f"no sandbox here seals commands: {found.reason or '; '.join(found.gaps)}")


def write_script(directory: Path, outside: Path) -> Path:
    script = directory / "write.sh"
    script.write_text(f"#!/bin/sh\necho in > inside.txt\necho out > {outside}\n")
    script.chmod(0o755)
    return script


def repository(work: Path, program: Path) -> None:
    """A repository that names a program, which every look at its state runs."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for words in (["init", "-q"], ["config", "core.fsmonitor", str(program)]):
        subprocess.run(["git", *words], cwd=work, check=True, env={"PATH": "/usr/bin:/bin"})


@pytest.mark.usefixtures("seals")
@pytest.mark.parametrize("mode", ["ask", "read-only", "plan", "accept-edits"])
async def test_a_command_that_does_more_than_it_seems_has_no_effect(tmp_path: Path, mode: str):
    """The repository is trusted and runs a program of its own: the seal is all that is left."""
    work, outside = tmp_path / "work", tmp_path / "outside.txt"
    work.mkdir()
    repository(work, write_script(work, outside))
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    await asyncio.to_thread(TrustStore(places.trust_file).trust, work)
    looks = says(call("bash", command="git status --short"))
    async with deck(tmp_path, looks, "ok", mode=mode) as ship:
        await ship.prompt()
        assert await ship.events(PermissionAsked) == []
    assert not (work / "inside.txt").exists()
    assert not outside.exists()


@pytest.mark.usefixtures("seals")
async def test_a_sealed_command_sees_the_machine_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(SANDBOX_VARIABLE, raising=False)
    seal = await detect_sealed_sandbox()
    if seal.kind != "landlock":
        pytest.skip(f"{seal.kind} has processes of its own: {seal.reason}")
    cage = LocalSessionSystem((str(tmp_path),))
    await cage.sandbox()
    terminal = await cage.terminals_for("sealed").create(
        CommandSpec(argv=["/bin/sh", "-c", f"test -d /proc/{os.getpid()} && echo x > made"])
    )
    left = await terminal.wait()
    text = (await terminal.output()).text
    await cage.close()
    assert left.code not in (0, None)
    assert "made" in text, "it came to the writing, and that was refused"


@pytest.mark.usefixtures("seals")
async def test_git_asks_in_a_workspace_that_is_not_trusted(tmp_path: Path):
    looks = says(call("bash", command="git status"))
    async with deck(tmp_path, looks, "ok", attended=False) as ship:
        await ship.prompt()
        (asked,) = await ship.events(PermissionAsked)
        assert "not trusted" in (asked.reason or "")


@pytest.mark.parametrize("background", [False, True])
async def test_a_change_of_mode_before_it_runs_takes_nothing_away(tmp_path: Path, background: bool):
    found = await detect_sandbox()
    if not found.is_there:
        pytest.skip(found.reason)
    outside = tmp_path / "outside.txt"
    ships: list[Deck] = []

    async def leave_full_auto(_: NumberArguments, live: LiveCall) -> ToolOutcome:
        await ships[0].seen(PermissionAnswered, 2)  # the command waits for us to end
        await ships[0].session.set_mode("ask")
        return text_outcome("left")

    tools = (FakeTool(leave_full_auto), BashTool(), CommandsTool())
    script = says(call("fake", n=1), call("bash", command="./write.sh", background=background))
    waits = says(call("commands", action="wait", id="cmd-1"))
    replies = (script, waits, "ok") if background else (script, "ok")
    limits = {"max_concurrent_tools": 1}
    async with deck(tmp_path, *replies, tools=tools, limits=limits, mode="full-auto") as ship:
        ships.append(ship)
        write_script(ship.cwd, outside)
        await ship.prompt()
        assert ship.session.gate.mode == "ask"
        assert (ship.cwd / "inside.txt").read_text() == "in\n"
    assert not outside.exists()


async def test_a_background_command_stays_contained_after_the_mode_was_left(tmp_path: Path):
    found = await detect_sandbox()
    if not found.is_there:
        pytest.skip(found.reason)
    outside = tmp_path / "outside.txt"
    line = "until test -e go; do sleep 0.05; done; ./write.sh"
    start = says(call("bash", command=line, background=True))
    waits = says(call("commands", action="wait", id="cmd-1"))
    async with deck(tmp_path, start, "ok", waits, "ok", mode="full-auto") as ship:
        write_script(ship.cwd, outside)
        await ship.prompt()
        await ship.session.set_mode("ask")
        (ship.cwd / "go").touch()
        await ship.prompt()
        assert (ship.cwd / "inside.txt").exists()
    assert not outside.exists()


async def test_what_a_person_allows_in_full_auto_is_contained(tmp_path: Path):
    found = await detect_sandbox()
    if not found.is_there:
        pytest.skip(found.reason)
    outside = tmp_path / "outside.txt"
    rules = (parse_rule("ask bash(./write.sh)", scope="session"),)
    script = says(call("bash", command="./write.sh"))
    async with deck(tmp_path, script, "ok", mode="full-auto", rules=rules) as ship:
        write_script(ship.cwd, outside)
        running = ship.start()
        (asked,) = await ship.asked()
        ship.answer(asked, "allow-once")
        await running
        assert (ship.cwd / "inside.txt").exists()
    assert not outside.exists()


async def test_what_a_person_allows_elsewhere_runs_free(tmp_path: Path):
    outside = tmp_path / "outside.txt"
    async with deck(tmp_path, says(call("bash", command="./write.sh")), "ok") as ship:
        write_script(ship.cwd, outside)
        running = ship.start()
        (asked,) = await ship.asked()
        ship.answer(asked, "allow-once")
        await running
    assert outside.read_text() == "out\n"


async def test_without_a_sandbox_what_is_not_certain_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(SANDBOX_VARIABLE, "none")
    looks = says(call("bash", command="git log"))
    async with deck(tmp_path, looks, "ok", attended=False) as ship:
        await ship.prompt()
        assert len(await ship.events(PermissionAsked)) == 1


async def test_a_required_sandbox_that_is_not_there_refuses_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(SANDBOX_VARIABLE, "none")
    runs = says(call("bash", command="echo x > made"))
    flags = {"sandbox": {"require": True}}
    rules = (parse_rule("allow bash", scope="session"),)
    async with deck(tmp_path, runs, "ok", flags=flags, rules=rules) as ship:
        await ship.prompt()
        assert await ship.events(PermissionAsked) == []
        assert not (ship.cwd / "made").exists()


async def test_nothing_runs_bare_where_containment_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(SANDBOX_VARIABLE, "none")
    cage = LocalSessionSystem((str(tmp_path),))
    try:
        for containment in ("workspace", "sealed"):
            with pytest.raises(OperatingSystemError, match="cannot be sandboxed"):
                cage.terminals_for(containment)
            await cage.sandbox()
            with pytest.raises(OperatingSystemError, match="says 'none'"):
                cage.terminals_for(containment)
    finally:
        await cage.close()
    async with LocalSystem([tmp_path]) as system:
        with pytest.raises(OperatingSystemError, match="sandbox"):
            ToolWorkspace(system=system).terminals("sealed")
