"""Odd workspaces and huge outputs: a clear word, and the session goes on."""

import errno
import os
import re
from pathlib import Path

import pytest

from quarterdeck.agent.tools.tool import ToolOutcome
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.events import ToolCallEnded
from tests.support.agent_tools import FakeTool, NumberArguments
from tests.support.native_agents import assert_valid, call, deck, results, says, told


async def test_a_directory_that_is_no_repository_will_do(tmp_path: Path):
    step = says(
        call("glob", pattern="**/*"), call("grep", pattern="needle"), call("bash", command="ls")
    )
    async with deck(tmp_path, step, "ok") as ship:
        (ship.cwd / "a.txt").write_text("a needle\n")
        ended = await ship.prompt()
        found = results(ship.requests[1].messages[-1])
    assert ended.stop == "end_turn"
    assert [each.is_error for each in found] == [False] * 3
    assert all("a.txt" in told(each) for each in found)


async def test_the_root_of_the_file_system_will_do(tmp_path: Path):
    marker = tmp_path / "marker.txt"
    marker.write_text("found\n")
    step = says(
        call("read", path=str(marker)),
        call("bash", command="pwd"),
        call("ls", path="/"),
        call("grep", pattern="found", path=str(tmp_path), glob="*.txt"),
    )
    async with deck(tmp_path, step, "ok") as ship:
        ship.session = await ship.agent.new(ship.options.at("/"))
        ended = await ship.prompt()
        found = results(ship.requests[1].messages[-1])
    assert ended.stop == "end_turn"
    assert [each.is_error for each in found] == [False] * 4, [told(each) for each in found]
    assert told(found[1]).startswith("/\n")
    assert "marker.txt:1:found" in told(found[3])


def read_only_directory() -> Path | None:
    """A place where not even the superuser can write, or one that this user cannot."""
    for place in (Path("/proc/self"), Path("/sys/kernel")):
        try:
            descriptor = os.open(place / "quarterdeck-test", os.O_CREAT | os.O_WRONLY, 0o600)
        except OSError as error:
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT):
                return place
        else:
            os.close(descriptor)
    return None


async def test_a_workspace_that_cannot_be_written_to_is_said_and_the_session_goes_on(
    tmp_path: Path,
):
    place = read_only_directory()
    if place is None:
        pytest.skip("everything can be written to here")
    step = says(
        call("write", path="new.txt", content="x"), call("bash", command="echo x > new.txt")
    )
    async with deck(tmp_path, step, "ok", "still here", mode="ask") as ship:
        ship.session = await ship.agent.new(ship.options.at(str(place)))
        running = ship.start()
        for count in (1, 2):
            ship.answer((await ship.asked(count))[-1], "allow-once")
        ended = await running
        written, ran = results(ship.requests[1].messages[-1])
        again = await ship.prompt("and now?")
    assert ended.stop == again.stop == "end_turn"
    assert written.is_error
    assert "new.txt" in told(written)
    assert "exit code" in told(ran)


async def test_five_megabytes_of_output_are_cut_and_the_whole_is_counted(tmp_path: Path):
    async def flood(arguments: NumberArguments, live: object):
        return ToolOutcome(result=(TextPart(text="first\n" + "x" * 5_000_000 + "\nlast"),))

    steps = (says(call("fake")), "ok", "still here")
    async with deck(tmp_path, *steps, tools=[FakeTool(flood)]) as ship:
        assert (await ship.prompt()).stop == "end_turn"
        (result,) = results(ship.requests[1].messages[-1])
        ends = await ship.events(ToolCallEnded)
        assert (await ship.prompt("and now?")).stop == "end_turn"
        assert_valid(ship.requests[-1].messages)
    assert len(told(result)) < 250_200
    assert told(result).startswith("first\n")
    assert told(result).endswith("\nlast")
    dropped = re.search(r"\[… (\d+) bytes omitted …\]", told(result))
    assert dropped
    kept = told(result).replace(f"\n{dropped.group()}\n", "")
    assert len(kept) + int(dropped[1]) == 5_000_011
    assert len(ends) == 1
