"""Commands that a person runs in an agent's directory: the same in process and over a socket."""

import asyncio
import os
from pathlib import Path

import pytest

from quarterdeck.fleet import person_commands as bounds
from quarterdeck.fleet.api import Fleet, SpawnOptions
from quarterdeck.fleet.errors import (
    AgentNotReadyError,
    FleetLimitError,
    InvalidOptionsError,
    NoSuchAgentError,
)
from quarterdeck.wire.events import CommandStarted, Event, TerminalExited, TerminalOutput
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet
from tests.support.processes import is_running
from tests.support.scripted_fleet import Casting, events_of, fleet_of, new_agent


async def spawned(fleet: Fleet, cwd: Path) -> None:
    await fleet.spawn(SpawnOptions(options=SessionOptions(agent="x", cwd=str(cwd)), name="ann"))


async def finished(fleet: Fleet, command: str) -> tuple[CommandStarted, str, TerminalExited]:
    """Its beginning, its output and its end, as they are in the log."""
    async with asyncio.timeout(SOON):
        async for record in fleet.follow(0, agent="ann"):
            event = record.event
            if isinstance(event, TerminalExited) and event.terminal == command:
                break
    return read_command([r.event for r in await fleet.read("ann", limit=1000)], command)


def read_command(events: list[Event], command: str) -> tuple[CommandStarted, str, TerminalExited]:
    (started,) = [e for e in events if isinstance(e, CommandStarted) and e.terminal == command]
    (exited,) = [e for e in events if isinstance(e, TerminalExited) and e.terminal == command]
    pieces = [e.data for e in events if isinstance(e, TerminalOutput) and e.terminal == command]
    assert events.index(started) < events.index(exited)
    return started, "".join(pieces), exited


async def test_a_line_of_the_shell_runs_in_the_agents_directory(any_fleet: Fleet, tmp_path: Path):
    await spawned(any_fleet, tmp_path)
    command = await any_fleet.run_command("ann", "  pwd; echo ünï >&2 | cat; exit 3 ")
    started, output, exited = await finished(any_fleet, command)
    assert (started.command, started.cwd) == ("pwd; echo ünï >&2 | cat; exit 3", str(tmp_path))
    assert output == f"{tmp_path}\nünï\n"
    assert (exited.exit_code, exited.signal) == (3, None)
    assert not await any_fleet.end_command(command)


async def test_output_is_in_the_log_while_the_command_runs(any_fleet: Fleet, tmp_path: Path):
    await spawned(any_fleet, tmp_path)
    command = await any_fleet.run_command("ann", "echo begun; sleep 600")
    async with asyncio.timeout(SOON):
        async for record in any_fleet.follow(0, agent="ann"):
            if isinstance(record.event, TerminalOutput):
                assert record.event.data == "begun\n"
                break
    assert await any_fleet.end_command(command)
    _, _, exited = await finished(any_fleet, command)
    assert exited.exit_code is None
    assert exited.signal


async def test_ending_a_command_ends_all_that_it_started(fleet: FakeFleet, tmp_path: Path):
    await spawned(fleet, tmp_path)
    command = await fleet.run_command("ann", "sleep 600 & echo $!; wait")
    async with asyncio.timeout(SOON):
        async for record in fleet.follow(0, agent="ann"):
            if isinstance(record.event, TerminalOutput):
                child = int(record.event.data)
                break
    assert is_running(child)
    assert await fleet.end_command(command)
    assert not is_running(child)


async def test_a_long_output_keeps_its_beginning_and_its_end(
    fleet: FakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bounds, "MOST_LOGGED", 100)
    monkeypatch.setattr(bounds, "_END", 50)
    await spawned(fleet, tmp_path)
    command = await fleet.run_command("ann", "seq 1 20000; echo end")
    _, output, exited = await finished(fleet, command)
    assert exited.exit_code == 0
    assert output.startswith("1\n2\n3\n")
    assert output.endswith("20000\nend\n")
    assert "characters …]" in output
    assert len(output) < 250


@pytest.mark.parametrize("line", ["", "  ", "a\nb", "a\0b", "x" * 10_001])
async def test_what_is_no_line_is_refused(any_fleet: Fleet, tmp_path: Path, line: str):
    await spawned(any_fleet, tmp_path)
    with pytest.raises(InvalidOptionsError, match="one line"):
        await any_fleet.run_command("ann", line)


async def test_what_is_not_there_is_named(any_fleet: Fleet, tmp_path: Path):
    with pytest.raises(NoSuchAgentError):
        await any_fleet.run_command("ann", "ls")
    await spawned(any_fleet, tmp_path / "gone")
    with pytest.raises(InvalidOptionsError, match="does not exist"):
        await any_fleet.run_command("ann", "ls")
    assert not await any_fleet.end_command("term-x")


async def test_only_so_many_run_at_one_time(
    fleet: FakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bounds, "MOST_RUNNING", 1)
    await spawned(fleet, tmp_path)
    command = await fleet.run_command("ann", "sleep 600")
    with pytest.raises(FleetLimitError):
        await fleet.run_command("ann", "ls")
    await fleet.end_command(command)
    await finished(fleet, command)
    await fleet.run_command("ann", "ls")


async def test_a_fleet_that_stops_ends_its_commands_and_starts_none(
    fleet: FakeFleet, tmp_path: Path
):
    await spawned(fleet, tmp_path)
    command = await fleet.run_command("ann", "sleep 600")
    await fleet.stop()
    _, _, exited = await finished(fleet, command)
    assert exited.exit_code is None
    with pytest.raises(AgentNotReadyError):
        await fleet.run_command("ann", "ls")


async def test_a_command_does_not_see_variables_of_the_host(
    fleet: FakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(os.environ, "SOME_API_KEY", "secret")
    await spawned(fleet, tmp_path)
    command = await fleet.run_command("ann", 'echo "[$SOME_API_KEY]"')
    _, output, _ = await finished(fleet, command)
    assert output == "[]\n"


async def test_a_real_fleet_logs_it_and_counts_it(tmp_path: Path):
    async with fleet_of(tmp_path / "home", Casting()) as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann"))
        command = await fleet.run_command("ann", "echo hi; sleep 600")
        assert (await fleet.status()).terminals == 1
        await fleet.end_command(command)
        _, output, exited = await finished(fleet, command)
        assert (output, exited.exit_code) == ("hi\n", None)
        assert (await fleet.agent("ann")).state == "idle"
        assert (await fleet.status()).terminals == 0


async def test_what_ran_when_the_host_was_killed_has_an_end(tmp_path: Path):
    home, copy = tmp_path / "home", tmp_path / "copy"
    async with fleet_of(home, Casting()) as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann"))
        command = await fleet.run_command("ann", "sleep 600")
        begun = [e for e in await events_of(fleet, "ann") if isinstance(e, CommandStarted)]
        assert [one.terminal for one in begun] == [command]  # in the log, so in the file
        await asyncio.to_thread(_copy, home, copy)
    async with fleet_of(copy, Casting()) as fleet:
        _, _, exited = read_command(await events_of(fleet, "ann"), command)
        assert (exited.exit_code, exited.signal) == (None, None)


def _copy(home: Path, copy: Path) -> None:
    import shutil

    shutil.copytree(home, copy)
