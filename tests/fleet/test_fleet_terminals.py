"""Terminals of a fleet: the same in process and through a socket."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.fleet.api import Fleet, SpawnOptions
from quarterdeck.fleet.errors import (
    AgentNotReadyError,
    FleetLimitError,
    InvalidOptionsError,
    NoSuchFleetTerminalError,
)
from quarterdeck.fleet.terminals import service as bounds
from quarterdeck.fleet.terminals.api import FleetTerminalOptions
from quarterdeck.terminal.viewer_events import TerminalDrawn, TerminalEnded
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet
from tests.support.processes import is_running
from tests.support.terminal_viewer import Viewer


def sh(script: str, **more: Any) -> FleetTerminalOptions:
    return FleetTerminalOptions(cwd="/", command=("/bin/sh", "-c", script), **more)


async def test_a_program_is_started_watched_and_typed_into(any_fleet: Fleet, tmp_path: Path):
    options = FleetTerminalOptions(
        cwd=str(tmp_path), command=("/bin/cat",), name="mine", columns=50, rows=9
    )
    opened = await any_fleet.open_terminal(options)
    assert (opened.name, opened.command, opened.cwd) == ("mine", ("/bin/cat",), str(tmp_path))
    assert (opened.columns, opened.rows, opened.ended) == (50, 9, None)
    assert await any_fleet.terminals() == [opened]
    assert (await any_fleet.status()).terminals == 1
    async with Viewer(any_fleet, opened.id) as viewer:
        await any_fleet.write_terminal(opened.id, b"hello \xe2\x98\x83\r")
        await viewer.shows("hello ☃\nhello ☃")
        await any_fleet.paste_terminal(opened.id, "pasted\x1b[31m\n")
        await viewer.shows("pasted␛[31m")
        await any_fleet.write_terminal(opened.id, b"\x04")
        assert await viewer.leaves() == "exit code 0"
    (ended,) = await any_fleet.terminals()
    assert ended.ended == "exit code 0"
    assert (await any_fleet.status()).terminals == 0
    with pytest.raises(AgentNotReadyError, match="has ended"):
        await any_fleet.write_terminal(opened.id, b"x")
    seen = [one async for one in any_fleet.watch_terminal(opened.id)]
    assert [type(one) for one in seen] == [TerminalDrawn, TerminalEnded]
    await any_fleet.close_terminal(opened.id)
    assert await any_fleet.terminals() == []


async def test_what_is_not_there_is_named(any_fleet: Fleet, tmp_path: Path):
    for act in (
        anext(any_fleet.watch_terminal("term-none")),
        any_fleet.write_terminal("term-none", b"x"),
        any_fleet.paste_terminal("term-none", "x"),
        any_fleet.resize_terminal("term-none", 1, 1),
        any_fleet.close_terminal("term-none"),
    ):
        with pytest.raises(NoSuchFleetTerminalError, match=r"'term-none'.*terminal list") as caught:
            await act
        assert caught.value.terminal == "term-none"
    missing = tmp_path / "missing"
    with pytest.raises(InvalidOptionsError, match="missing"):
        await any_fleet.open_terminal(FleetTerminalOptions(cwd=str(missing)))
    with pytest.raises(InvalidOptionsError, match="no-such-program"):
        await any_fleet.open_terminal(FleetTerminalOptions(cwd="/", command=("no-such-program",)))
    for cwd in ("here", "/\0"):
        with pytest.raises(InvalidOptionsError, match="absolute"):
            await any_fleet.open_terminal(FleetTerminalOptions(cwd=cwd))
    assert await any_fleet.terminals() == []


async def test_how_a_program_left_is_told_in_words(any_fleet: Fleet):
    opened = await any_fleet.open_terminal(sh("echo last words; exit 3"))
    async with Viewer(any_fleet, opened.id) as viewer:
        assert await viewer.leaves() == "exit code 3"
        assert "last words" in viewer.text
    opened = await any_fleet.open_terminal(sh("sleep 600"))
    async with Viewer(any_fleet, opened.id) as viewer:
        await viewer.until(lambda: viewer.drawn)
        os.killpg(opened.pid, signal.SIGKILL)
        assert await viewer.leaves() == "signal SIGKILL"


async def test_whoever_comes_late_sees_the_same_screen(any_fleet: Fleet):
    script = "printf '\\033]2;mine\\a\\033[31mred\\033[0m 你好\\n'; seq 300; read x; seq 20"
    opened = await any_fleet.open_terminal(sh(script, columns=60, rows=12))
    async with Viewer(any_fleet, opened.id) as early:
        await early.shows("300")
        async with Viewer(any_fleet, opened.id) as late:
            await late.shows("300")
            assert late.screen.rows() == early.screen.rows()
            assert late.screen.text() == early.screen.text()
            assert (await any_fleet.terminals())[0].title == "mine"
            await any_fleet.write_terminal(opened.id, b"\r")
            await asyncio.gather(early.leaves(), late.leaves())
            assert late.screen.text() == early.screen.text()
            assert late.screen.cursor == early.screen.cursor


async def test_a_new_size_holds_for_everybody_and_within_bounds(any_fleet: Fleet):
    script = "trap 'stty size' WINCH; echo up; while :; do sleep 0.02; done"
    opened = await any_fleet.open_terminal(sh("read x", columns=0, rows=5000))
    assert (opened.columns, opened.rows) == (1, 1000)
    await any_fleet.close_terminal(opened.id)
    opened = await any_fleet.open_terminal(sh(script))
    async with Viewer(any_fleet, opened.id) as one, Viewer(any_fleet, opened.id) as two:
        await one.shows("up")
        await any_fleet.resize_terminal(opened.id, 70, 20)
        await asyncio.gather(one.shows("20 70"), two.shows("20 70"))
        assert one.screen.size == two.screen.size == (70, 20)
        await any_fleet.resize_terminal(opened.id, -3, 10**9)
        await one.until(lambda: one.screen.size == (1, 1000))
    for number in range(60):  # a storm of them
        await any_fleet.resize_terminal(opened.id, 40 + number, 10 + number % 7)
    (info,) = await any_fleet.terminals()
    assert (info.columns, info.rows) == (99, 13)


async def test_a_burst_comes_whole_to_who_looks(any_fleet: Fleet):
    opened = await any_fleet.open_terminal(sh("read x; seq 150000; echo end; read x"))
    async with Viewer(any_fleet, opened.id) as viewer:
        await viewer.until(lambda: viewer.drawn)
        begun = time.perf_counter()
        await any_fleet.write_terminal(opened.id, b"\r")
        await viewer.shows("150000\nend")
        assert time.perf_counter() - begun < SOON / 2  # a megabyte
        async with Viewer(any_fleet, opened.id) as late:
            await late.shows("150000\nend")
            assert late.screen.rows() == viewer.screen.rows()


async def test_who_does_not_look_holds_nobody_up_and_gets_the_screen_again(any_fleet: Fleet):
    script = "read x; yes 0123456789abcdef | head -c 3000000; echo; echo end; read x"
    opened = await any_fleet.open_terminal(sh(script))
    async with Viewer(any_fleet, opened.id) as slow, Viewer(any_fleet, opened.id) as quick:
        await quick.until(lambda: quick.drawn)
        await slow.until(lambda: slow.drawn)
        slow.may_look.clear()
        await any_fleet.write_terminal(opened.id, b"\r")
        await quick.shows("end")
        assert len(await any_fleet.terminals()) == 1  # and the way to the host is free
        slow.may_look.set()
        await slow.shows("end")
        assert slow.drawn == 2
        assert slow.screen.rows() == quick.screen.rows()


async def test_a_program_that_ignores_hanging_up_is_ended_with_its_tree(any_fleet: Fleet):
    script = "trap '' HUP TERM; sleep 600 & echo child $!; wait; sleep 600"
    opened = await any_fleet.open_terminal(sh(script))
    async with Viewer(any_fleet, opened.id) as viewer:
        await viewer.shows("child ")
        child = int(viewer.text.split()[1])
        await any_fleet.close_terminal(opened.id)
        assert await viewer.leaves() == "signal SIGKILL"
    assert not is_running(opened.pid) and not is_running(child)
    assert await any_fleet.terminals() == []


async def test_what_a_program_does_not_read_is_refused_and_harms_nobody(any_fleet: Fleet):
    opened = await any_fleet.open_terminal(sh("stty raw -echo; echo up; sleep 600"))
    async with Viewer(any_fleet, opened.id) as viewer:
        await viewer.shows("up")
    typing = [
        asyncio.create_task(any_fleet.write_terminal(opened.id, bytes(300_000)))
        for _ in range(bounds.MOST_PENDING + 3)
    ]
    done, waiting = await asyncio.wait(typing, return_when=asyncio.FIRST_COMPLETED)
    assert all("does not read" in str(task.exception()) for task in done)
    with pytest.raises(InvalidOptionsError, match="too much input at once"):
        await any_fleet.paste_terminal(opened.id, "x" * (bounds.MOST_TYPED + 1))
    assert len(await any_fleet.terminals()) == 1
    await any_fleet.close_terminal(opened.id)
    for result in await asyncio.gather(*typing, return_exceptions=True):
        assert isinstance(result, AgentNotReadyError)
    assert waiting


async def test_there_are_bounds(any_fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounds, "MOST_TERMINALS", 2)
    monkeypatch.setattr(bounds, "MOST_ENDED", 1)
    first = await any_fleet.open_terminal(sh("read x"))
    second = await any_fleet.open_terminal(sh("read x"))
    with pytest.raises(FleetLimitError, match="close some"):
        await any_fleet.open_terminal(sh("read x"))
    for one in (first, second):
        await any_fleet.write_terminal(one.id, b"\r")
        async with Viewer(any_fleet, one.id) as viewer:
            await viewer.leaves()
    await any_fleet.open_terminal(sh("read x"))
    async with asyncio.timeout(SOON):
        while first.id in [one.id for one in await any_fleet.terminals()]:
            await asyncio.sleep(0.01)
    assert len(await any_fleet.terminals()) == 2


async def test_the_screen_of_an_agent_is_seen_by_its_name(any_fleet: Fleet, fleet: FakeFleet):
    ann = await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
    await any_fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="bob"))
    await fleet.give_screen("ann", "/bin/cat", size=(40, 10))
    (info,) = await any_fleet.terminals()
    assert (info.id, info.session, info.name) == (ann.session, ann.session, "ann")
    assert (await any_fleet.status()).terminals == 0
    for name in ("ann", ann.session):
        async with Viewer(any_fleet, name) as viewer:
            await any_fleet.write_terminal(name, b"typed ")
            await any_fleet.paste_terminal(name, "pasted\r")
            await viewer.shows("typed pasted\ntyped pasted")
    with pytest.raises(AgentNotReadyError, match="its size is fixed"):
        await any_fleet.resize_terminal("ann", 10, 10)
    with pytest.raises(AgentNotReadyError, match="quarterdeck close ann"):
        await any_fleet.close_terminal("ann")
    with pytest.raises(NoSuchFleetTerminalError, match="bob"):
        await any_fleet.write_terminal("bob", b"x")


async def test_terminals_outlive_who_opened_them(fleet: FakeFleet, connect: Any):
    async with connect() as client:
        opened = await client.open_terminal(FleetTerminalOptions(cwd="/", command=("/bin/cat",)))
        async with Viewer(client, opened.id) as viewer:
            await client.write_terminal(opened.id, b"one\r")
            await viewer.shows("one\none")
    async with connect() as client:
        assert [one.id for one in await client.terminals()] == [opened.id]
        async with Viewer(client, opened.id) as viewer:
            await viewer.shows("one\none")
            await client.write_terminal(opened.id, b"two\r")
            await viewer.shows("two\ntwo")


async def test_a_terminal_that_is_being_opened_as_all_end_is_ended_too(fleet: FakeFleet):
    opening = asyncio.create_task(fleet.open_terminal(sh("sleep 600")))
    kept = await fleet.open_terminal(sh("sleep 600"))
    last = asyncio.create_task(fleet.open_terminal(sh("sleep 600")))
    await asyncio.sleep(0)
    await fleet.stop()
    results = await asyncio.gather(opening, last, return_exceptions=True)
    assert isinstance(results[1], AgentNotReadyError)
    assert not is_running(kept.pid)
    assert await fleet.terminals() == []
    with pytest.raises(AgentNotReadyError, match="stopping"):
        await fleet.open_terminal(sh("sleep 600"))
