"""The editor on a screen: nothing typed is lost, nothing foreign is overwritten."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.workbench.panels.editor.model import UnsavedCopies
from tests.support.deadlines import SOON
from tests.support.panel_app import alone, desk_in, shown, until_shown
from tests.support.workbench_app import until

COPIES = "workbench/unsaved"


def copies() -> UnsavedCopies:
    return UnsavedCopies(Places.find().state / COPIES)


async def kept_text(path: Path) -> str | None:
    kept = await asyncio.to_thread(copies().find, str(path))
    return None if kept is None else kept.text


async def until_kept(path: Path, text: str | None) -> None:
    async with asyncio.timeout(SOON):
        while await kept_text(path) != text:
            await asyncio.sleep(0.02)


async def test_what_is_typed_is_marked_kept_and_saved(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    async with alone("editor", desk_in(tmp_path), {"path": "a.txt"}) as (panel, app, pilot):
        await until_shown(app, pilot, "one", "two", "1:1")
        assert panel.unsaved is None and panel.title == "a.txt"
        await pilot.press(*"new ")
        assert panel.title == "a.txt" and "unsaved" in panel.unsaved
        await until_kept(path, "new one\ntwo\n")
        await pilot.press("ctrl+s")
        await until_shown(app, pilot, "saved")
        assert path.read_text() == "new one\ntwo\n" and panel.unsaved is None
        await until_kept(path, None)
        await pilot.press(*"xy", "ctrl+z")
        await until(pilot, lambda: not panel.is_dirty)


async def test_copies_are_kept_where_this_workbench_keeps_its_files(tmp_path: Path):
    """The demo has places of its own; what is typed there is not for the person's next editor."""
    path, state = tmp_path / "a.txt", tmp_path / "demo" / "state"
    path.write_text("one\n")
    desk = desk_in(tmp_path)
    desk.discovery.places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "demo")})
    async with alone("editor", desk, {"path": "a.txt"}) as (_, app, pilot):
        await until_shown(app, pilot, "one", "1:1")
        await pilot.press(*"new ")
        own = UnsavedCopies(state / COPIES)
        async with asyncio.timeout(SOON):
            while await asyncio.to_thread(own.find, str(path)) is None:
                await asyncio.sleep(0.02)
        assert await kept_text(path) is None


async def test_a_copy_that_a_crash_left_is_offered(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("on disk\n")
    await asyncio.to_thread(copies().keep, str(path), "from before\n", 1_700_000_000)
    async with alone("editor", desk_in(tmp_path), {"path": "a.txt"}) as (panel, app, pilot):
        await until_shown(app, pilot, "was recovered", "u use it")
        await pilot.press("s")
        await until_shown(app, pilot, "- on disk", "+ from before", "was recovered")
        await pilot.press("u", "escape")
        await until_shown(app, pilot, "from before", "● a.txt")
        assert panel.unsaved and path.read_text() == "on disk\n"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: path.read_text() == "from before\n")
    async with alone("editor", desk_in(tmp_path), {"path": "a.txt"}) as (panel, app, pilot):
        await until_shown(app, pilot, "from before")
        assert not panel.choice.display


async def test_closing_keeps_the_last_second(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("x")
    async with alone("editor", desk_in(tmp_path), {"path": "a.txt"}) as (_, app, pilot):
        await until_shown(app, pilot, "1:1")
        await pilot.press(*"late")
    assert await kept_text(path) == "latex" and path.read_text() == "x"


async def test_a_change_on_disk_is_taken_or_asked_about(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    async with alone("editor", desk_in(tmp_path), {"path": "a.txt"}) as (panel, app, pilot):
        await until_shown(app, pilot, "one")
        path.write_text("two\n")
        await until_shown(app, pilot, "two", "reloaded")
        assert not panel.is_dirty
        await pilot.press(*"mine ")
        path.write_text("three\n")
        await until_shown(app, pilot, "The file changed on disk", "k keep mine")
        await pilot.press("s")
        await until_shown(app, pilot, "- three", "+ mine two")
        await pilot.press("k", "escape")
        await until_shown(app, pilot, "mine two")
        await pilot.press("ctrl+s")
        await until_shown(app, pilot, "o overwrite the file")
        assert path.read_text() == "three\n"
        await pilot.press("o")
        await until(pilot, lambda: path.read_text() == "mine two\n")
        await pilot.press(*"x")
        path.write_text("four\n")
        await until_shown(app, pilot, "The file changed on disk")
        await pilot.press("r")
        await until_shown(app, pilot, "four")
        assert panel.unsaved is None
        await pilot.press("ctrl+z")
        await until_shown(app, pilot, "mine xtwo")


async def test_a_file_that_vanishes_is_said_and_can_be_saved_again(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    async with alone("editor", desk_in(tmp_path), {"path": "a.txt"}) as (panel, app, pilot):
        await until_shown(app, pilot, "one")
        path.unlink()
        await until_shown(app, pilot, "deleted on disk")
        assert panel.unsaved
        await pilot.press("ctrl+s")
        await until(pilot, lambda: path.exists() and path.read_text() == "one\n")


@pytest.mark.parametrize("data", [b"caf\xe9\n", b"a\0b"])
async def test_what_cannot_be_decoded_is_only_shown(tmp_path: Path, data: bytes):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    async with alone("editor", desk_in(tmp_path), {"path": "a.txt"}) as (panel, app, pilot):
        await until_shown(app, pilot, "read-only: ")
        await pilot.press(*"xyz", "ctrl+s")
        await until_shown(app, pilot, "not saved")
        assert path.read_bytes() == data and panel.unsaved is None


async def test_odd_characters_are_seen_named_and_kept(tmp_path: Path):
    path = tmp_path / "a.txt"
    data = "a\u202eb\x1b[31m\x0c\u2028c\r\nd\n".encode()
    path.write_bytes(data)
    async with alone("editor", desk_in(tmp_path), {"path": "a.txt"}) as (panel, app, pilot):
        screen = await until_shown(app, pilot, "a⍰b␛[31m␌⍰c␍", "2 ")
        assert "\x1b" not in screen and "\u202e" not in screen
        await pilot.press("right")
        await until_shown(app, pilot, "U+202E")
        panel.area.move_cursor(panel.area.document.end)
        await pilot.press(*"end", "ctrl+s")
        await until(pilot, lambda: path.read_bytes() == data + b"end")


async def test_a_new_file_gets_its_name_when_it_is_saved(tmp_path: Path):
    async with alone("editor", desk_in(tmp_path)) as (panel, app, pilot):
        await until_shown(app, pilot, "new file")
        await pilot.press(*"text")
        assert panel.unsaved == "unsaved changes in a new file"
        await pilot.press("ctrl+s", *"below/b.txt", "enter")
        await until(pilot, lambda: (tmp_path / "below" / "b.txt").exists())
        await until(pilot, lambda: panel.title == "b.txt")
        assert (tmp_path / "below" / "b.txt").read_text() == "text"


async def test_a_new_file_that_takes_the_name_of_another_asks_first(tmp_path: Path):
    (tmp_path / "b.txt").write_text("theirs")
    async with alone("editor", desk_in(tmp_path)) as (_, app, pilot):
        await until_shown(app, pilot, "new file")
        await pilot.press(*"mine", "ctrl+s", *"b.txt", "enter")
        await until_shown(app, pilot, "o overwrite the file")
        assert (tmp_path / "b.txt").read_text() == "theirs" and "mine" in shown(app)


async def test_finding_and_going_to_a_line(tmp_path: Path):
    (tmp_path / "a.txt").write_text("".join(f"word {n}\n" for n in range(1, 200)))
    async with alone("editor", desk_in(tmp_path), {"path": "a.txt", "line": 100}) as (
        panel,
        app,
        pilot,
    ):
        await until_shown(app, pilot, "100:1")
        await pilot.press("ctrl+f", *"word 150", "enter")
        await until_shown(app, pilot, "150:1")
        await pilot.press("ctrl+l", *"7", "enter")
        await until_shown(app, pilot, "7:1")
        assert panel.remember()["cursor"] == [6, 0]
    async with alone(
        "editor", desk_in(tmp_path), state={"path": str(tmp_path / "a.txt"), "cursor": [6, 0]}
    ) as (_, app, pilot):
        await until_shown(app, pilot, "7:1", "word 7")


async def test_a_save_that_fails_says_so_and_loses_nothing(tmp_path: Path):
    async with alone("editor", desk_in(tmp_path), {"path": "below/a.txt"}) as (panel, app, pilot):
        await until_shown(app, pilot, "1:1")
        (tmp_path / "below").write_text("in the way")
        await pilot.press(*"text", "ctrl+s")
        await until_shown(app, pilot, "not saved")
        assert panel.area.real_text == "text" and panel.unsaved
    assert await kept_text(tmp_path / "below" / "a.txt") == "text"
