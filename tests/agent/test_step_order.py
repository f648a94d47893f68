"""Calls of one step that touch the same take turns; the others run side by side."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.wire.events import PermissionAsked, ToolCallEnded, ToolCallStarted
from quarterdeck.wire.tool_calls import Diff
from tests.support.agent_tools import FakeTool, Gathering, returns
from tests.support.native_agents import assert_valid, call, deck, results, says, told, types


def edit(old: str, new: str, path: str = "log.txt"):
    return call("edit", path=path, old=old, new=new)


async def test_a_file_may_be_read_and_edited_in_one_step(tmp_path: Path):
    step = says(call("read", path="log.txt"), edit("calm", "rough"))
    async with deck(tmp_path, step, "ok", mode="accept-edits") as ship:
        (ship.cwd / "log.txt").write_text("sea: calm\n")
        await ship.prompt()
        read, edited = results(ship.requests[1].messages[-1])
    assert "sea: calm" in told(read)
    assert not edited.is_error, told(edited)
    assert (ship.cwd / "log.txt").read_text() == "sea: rough\n"


async def test_an_edit_without_a_read_is_still_refused(tmp_path: Path):
    step = says(call("read", path="other.txt"), edit("calm", "rough"))
    async with deck(tmp_path, step, "ok", mode="accept-edits") as ship:
        (ship.cwd / "log.txt").write_text("sea: calm\n")
        (ship.cwd / "other.txt").write_text("x\n")
        await ship.prompt()
        _, edited = results(ship.requests[1].messages[-1])
        started = await ship.events(ToolCallStarted)
    assert edited.is_error
    assert "was not read" in told(edited)
    assert (ship.cwd / "log.txt").read_text() == "sea: calm\n"
    assert [each.name for each in started] == ["read", "edit"]


async def test_edits_that_build_on_each_other_show_what_they_will_do(tmp_path: Path):
    """The second is asked about when the first is done, with the diff that then holds."""
    step = says(call("read", path="log.txt"), edit("calm", "rough"), edit("rough", "wild"))
    async with deck(tmp_path, step, "ok") as ship:
        (ship.cwd / "log.txt").write_text("sea: calm\n")
        running = ship.start()
        (first,) = await ship.asked()
        assert ship.answer(first, "allow-once")
        _, second = await ship.asked(2)
        assert (ship.cwd / "log.txt").read_text() == "sea: rough\n"
        assert ship.answer(second, "allow-once")
        await running
        asked = await ship.events(PermissionAsked)
    diffs = [item for each in asked for item in each.content if isinstance(item, Diff)]
    assert [(diff.old_text, diff.new_text) for diff in diffs] == [
        ("sea: calm\n", "sea: rough\n"),
        ("sea: rough\n", "sea: wild\n"),
    ]
    assert (ship.cwd / "log.txt").read_text() == "sea: wild\n"


async def test_a_refused_edit_leaves_the_next_to_the_file_as_it_is(tmp_path: Path):
    step = says(call("read", path="log.txt"), edit("calm", "rough"), edit("rough", "wild"))
    async with deck(tmp_path, step, "ok") as ship:
        (ship.cwd / "log.txt").write_text("sea: calm\n")
        running = ship.start()
        (first,) = await ship.asked()
        assert ship.answer(first, "reject-once")
        await running
        *_, second = results(ship.requests[1].messages[-1])
        assert len(await ship.events(PermissionAsked)) == 1
    assert second.is_error
    assert "is not in" in told(second)
    assert (ship.cwd / "log.txt").read_text() == "sea: calm\n"


async def test_a_command_sees_what_was_written_before_it(tmp_path: Path):
    step = says(
        call("write", path="run.sh", content="echo from the file\n"),
        call("bash", command="sh run.sh > out.txt; cat out.txt"),
        call("read", path="out.txt"),
    )
    async with deck(tmp_path, step, "ok") as ship:
        running = ship.start()
        for count in (1, 2):
            assert ship.answer((await ship.asked(count))[-1], "allow-once")
        await running
        _, ran, read = results(ship.requests[1].messages[-1])
    assert "from the file" in told(ran)
    assert "from the file" in told(read)


async def test_commands_that_only_read_run_side_by_side(tmp_path: Path):
    step = says(call("bash", command="cat one"), call("bash", command="cat two"))
    async with deck(tmp_path, step, "ok") as ship:
        for name in ("one", "two"):
            (ship.cwd / name).write_text(name)
        await ship.prompt()
        events = await ship.events(ToolCallStarted, ToolCallEnded)
    assert types(events) == ["ToolCallStarted"] * 2 + ["ToolCallEnded"] * 2


async def test_edits_of_different_files_run_side_by_side(tmp_path: Path):
    gathering = Gathering()
    tools = [FakeTool(gathering.run, name=n, kind="edit", writes=f"{n}.txt") for n in ("a", "b")]
    step = says(call("a", n=1), call("b", n=2))
    async with deck(tmp_path, step, "ok", tools=tools, mode="accept-edits") as ship:
        running = ship.start()
        await asyncio.wait_for(gathering.wait_for(2), 45)
        gathering.door.set()
        await running
    assert gathering.most == 2


async def test_calls_that_write_the_same_file_never_overlap(tmp_path: Path):
    gathering = Gathering()
    tool = FakeTool(gathering.run, kind="edit", writes="a.txt")
    step = says(*(call("fake", n=n) for n in range(4)))
    async with deck(tmp_path, step, "ok", tools=[tool], mode="accept-edits") as ship:
        running = ship.start()
        gathering.door.set()
        await running
    assert gathering.most == 1
    assert gathering.entered == [0, 1, 2, 3]


@pytest.mark.parametrize("names", [("slow", "later", "later"), ("slow", "free", "later")])
async def test_a_call_that_waited_its_turn_is_ended_with_the_turn(
    tmp_path: Path, names: tuple[str, ...]
):
    gathering = Gathering()
    tools = [
        FakeTool(gathering.run, name="slow", kind="edit", writes="a.txt"),
        FakeTool(returns("later"), name="later", kind="edit", writes="a.txt"),
        FakeTool(returns("free"), name="free"),
    ]
    async with deck(
        tmp_path, says(*(call(name) for name in names)), "next", tools=tools, mode="accept-edits"
    ) as ship:
        running = ship.start()
        await gathering.wait_for(1)
        await ship.session.cancel()
        ended = await running
        started = await ship.events(ToolCallStarted)
        ends = await ship.events(ToolCallEnded)
        await ship.prompt("and now?")
    assert ended.stop == "cancelled"
    assert tools[1].ran == []
    assert sorted(each.name or "" for each in started) == sorted(names)
    assert sorted(each.call for each in started) == sorted(each.call for each in ends)
    assert_valid(ship.requests[-1].messages)
