"""Terminals of a fleet: the same in process and through a socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.pty.seen import Drawn, Left, Resized, Seen, Written
from quarterdeck.drivers.screen import Screen, open_screen
from quarterdeck.fleet.errors import BadWish, NoSuchTerminal, NotNow
from quarterdeck.fleet.port import Fleet
from quarterdeck.fleet.terminal_port import TerminalWish
from tests.support.fleets import FakeFleet
from tests.support.patience import SOON


@pytest.fixture(params=["in process", "through a socket"])
async def any_fleet(
    request: pytest.FixtureRequest, fleet: FakeFleet, connect: Any
) -> AsyncIterator[Fleet]:
    if request.param == "in process":
        yield fleet
    else:
        async with connect() as client:
            yield client


def sh(script: str, **more: Any) -> TerminalWish:
    return TerminalWish(cwd="/", command=("/bin/sh", "-c", script), **more)


class Viewer:
    """Looks at a terminal with an emulator of its own; an async context manager."""

    def __init__(self, fleet: Fleet, terminal: str) -> None:
        self.screen: Screen = open_screen(1, 1)
        self.drawn = 0
        self.left: str | None = None
        self._changed = asyncio.Event()
        self._seen = fleet.watch_terminal(terminal)

    async def __aenter__(self) -> "Viewer":
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        async with aclosing(self._seen) as seen:
            async for one in seen:
                self._take(one)
                self._changed.set()

    def _take(self, one: Seen) -> None:
        match one:
            case Drawn():
                self.screen = open_screen(one.columns, one.rows)
                self.screen.feed(one.data)
                self.drawn += 1
            case Written():
                self.screen.feed(one.data)
            case Resized():
                self.screen.resize(one.columns, one.rows)
            case Left():
                self.left = one.reason

    @property
    def text(self) -> str:
        return "\n".join(row.text for row in self.screen.rows())

    async def shows(self, holds: Callable[["Viewer"], object] | str) -> str:
        wanted = (lambda one: holds in one.text) if isinstance(holds, str) else holds
        async with asyncio.timeout(SOON):
            while not wanted(self):
                self._changed.clear()
                waiting = asyncio.create_task(self._changed.wait())
                await asyncio.wait((waiting, self._looking), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if self._looking.done():
                    self._looking.result()
                    assert wanted(self), self.text
        return self.text


async def test_a_program_is_started_watched_and_typed_into(any_fleet: Fleet, tmp_path: Path):
    wish = TerminalWish(cwd=str(tmp_path), command=("/bin/cat",), name="mine", columns=50, rows=9)
    opened = await any_fleet.open_terminal(wish)
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
        await viewer.shows(lambda one: one.left == "exit code 0")
    (ended,) = await any_fleet.terminals()
    assert ended.ended == "exit code 0"
    with pytest.raises(NotNow, match="has left"):
        await any_fleet.write_terminal(opened.id, b"x")
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
        with pytest.raises(NoSuchTerminal, match=r"'term-none'.*terminal list") as caught:
            await act
        assert caught.value.terminal == "term-none"
    missing = tmp_path / "missing"
    with pytest.raises(BadWish, match="missing"):
        await any_fleet.open_terminal(TerminalWish(cwd=str(missing)))
    with pytest.raises(BadWish, match="no-such-program"):
        await any_fleet.open_terminal(TerminalWish(cwd="/", command=("no-such-program",)))
    with pytest.raises(BadWish, match="absolute"):
        await any_fleet.open_terminal(TerminalWish(cwd="here"))
    assert await any_fleet.terminals() == []
