"""The panels of files alone on a screen: tree, viewer, Markdown, notebook, tail, changes."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.deadlines import SOON
from tests.support.hostile_text import hostile_strings
from tests.support.panel_app import alone, desk_in, shown, until_shown

COUNT = 56
CODE = "".join(f"def function_{n}():\n    return {n}\n\n\n" for n in range(1, 101))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "src" / "main.py").write_text(CODE)
    (top / "README.md").write_text(
        "# Read me\n\nSee [the guide](docs/guide.md) and [x](http://x).\n"
    )
    (top / "docs").mkdir()
    (top / "docs" / "guide.md").write_text("# Guide\n\n[code](../src/main.py)\n")
    words = ["-c", "user.name=n", "-c", "user.email=e@x"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words, *command], cwd=top, check=True, env=environment)
    (top / "src" / "main.py").write_text(CODE.replace("return 7\n", "return 77\n"))
    (top / "new.txt").write_text("new\n")
    return top


async def test_the_tree_opens_directories_and_files(project: Path):
    async with alone("tree", desk_in(project)) as (panel, app, pilot):
        screen = await until_shown(app, pilot, "2 changed", "src/", "? ", "new.txt", "README.md")
        assert "• ▸ src/" in screen and "?   new.txt" in screen and ".git" not in screen
        await pilot.press("j")
        assert panel.picker.cursor == str(project / "src")
        await pilot.press("enter")
        screen = await until_shown(app, pilot, "M     main.py")
        await pilot.press("down", "enter", "e", "d", "t")
        await pilot.pause()
        path = str(project / "src" / "main.py")
        assert [(event.path, event.how) for event in app.wanted] == [
            (path, "view"),
            (path, "edit"),
            (path, "diff"),
            (path, "tail"),
        ]
        await pilot.press("left")
        await pilot.pause()
        assert "main.py" not in shown(app) and panel.picker.cursor == str(project / "src")


async def test_the_tree_is_filtered_by_typing(project: Path):
    async with alone("tree", desk_in(project)) as (panel, app, pilot):
        await until_shown(app, pilot, "src/")
        await pilot.press("slash", *"main")
        await until_shown(app, pilot, "src/main.py", "filter: main")
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert [event.path for event in app.wanted] == [str(project / "src" / "main.py")]
        assert panel.remember()["filter"] == "main"
        await pilot.press("escape")
        await until_shown(app, pilot, "▸ docs/")
        await pilot.press("slash", *"zzz")
        await until_shown(app, pilot, "no matches")


async def test_the_tree_looks_again_after_agents_did_something(project: Path):
    desk = desk_in(project)
    async with alone("tree", desk) as (_, app, pilot):
        await until_shown(app, pilot, "2 changed")
        (project / "later.txt").write_text("x")
        desk.roster.replace([], None)
        await until_shown(app, pilot, "later.txt", "3 changed")


async def test_the_tree_says_what_cannot_be_read(tmp_path: Path):
    async with alone("tree", desk_in(tmp_path), {"root": "none"}) as (_, app, pilot):
        await until_shown(app, pilot, "✗ No such file or directory", "git failed")


async def test_the_viewer_shows_numbers_finds_and_goes(project: Path):
    path = project / "src" / "main.py"
    async with alone("file", desk_in(project), {"path": "src/main.py"}) as (panel, app, pilot):
        screen = await until_shown(app, pilot, "  1 def function_1():", "main.py")
        assert "4   " in screen and panel.title == "main.py"
        await pilot.press("slash", *"function_50", "enter")
        await until_shown(app, pilot, "197 def function_50():", "in line 197")
        await pilot.press("g", *"300", "enter")
        await until_shown(app, pilot, "300 ")
        assert panel.view.window.number(panel.view.top) == 300
        await pilot.press("end")
        await until_shown(app, pilot, "def function_100():")
        await pilot.press("home")
        await until_shown(app, pilot, "  1 def function_1():")
        await pilot.press("slash", *"nowhere", "enter")
        await until_shown(app, pilot, "nowhere not found")
        await pilot.press("e")
        await pilot.pause()
        assert app.wanted[0].path == str(path) and app.wanted[0].how == "edit"


async def test_the_viewer_notices_changes_and_that_a_file_is_gone(project: Path):
    path = project / "new.txt"
    async with alone("file", desk_in(project), {"path": str(path)}) as (_, app, pilot):
        await until_shown(app, pilot, "1 new")
        path.write_text("other\n")
        await until_shown(app, pilot, "1 other", "changed on disk")
        path.unlink()
        await until_shown(app, pilot, "it does not exist", "1 other")
        path.write_text("back\n")
        await until_shown(app, pilot, "1 back")


async def test_the_viewer_breaks_long_lines_and_shifts_them(tmp_path: Path):
    (tmp_path / "long").write_text("".join(f"{n:>9}|" for n in range(1, 31)) + "\nnext\n")
    async with alone("file", desk_in(tmp_path), {"path": "long"}) as (_, app, pilot):
        screen = await until_shown(app, pilot, "1 ", "2 next")
        assert "30|" not in screen
        await pilot.press("w")
        await until_shown(app, pilot, "       30|", "wrapped")
        await pilot.press("w", *["right"] * 29)
        await until_shown(app, pilot, "       30|")


async def test_windows_of_a_huge_file_follow_the_scrolling(tmp_path: Path):
    path = tmp_path / "huge.log"
    path.write_text("".join(f"this is line {n}\n" for n in range(1, 200_001)))
    async with alone("file", desk_in(tmp_path), {"path": "huge.log"}) as (panel, app, pilot):
        await until_shown(app, pilot, "this is line 1", "a window at 0 %")
        async with asyncio.timeout(SOON):
            while panel.view.window.start == 0:
                panel.view.scroll_end(animate=False)
                await pilot.pause(0.05)
        window = panel.view.window
        assert window.lines[0] == f"this is line {window.first}"
        await pilot.press("end")
        await until_shown(app, pilot, "-1 this is line 200000")
        await pilot.press("g", *"150000", "enter")
        await until_shown(app, pilot, "150000 this is line 150000")
        await pilot.press("slash", *"line 199999", "enter")
        await until_shown(app, pilot, "199999 this is line 199999")


async def test_what_is_no_text_is_said(tmp_path: Path):
    (tmp_path / "b").write_bytes(b"\0\1\2abc")
    async with alone("file", desk_in(tmp_path), {"path": "b"}) as (_, app, pilot):
        await until_shown(app, pilot, "binary, 6 B", "00 01 02 61 62 63")
    async with alone("file", desk_in(tmp_path), {"path": "."}) as (_, app, pilot):
        await until_shown(app, pilot, "cannot show", "directory")  # wrapped at any place
    async with alone("file", desk_in(tmp_path)) as (_, app, pilot):
        await until_shown(app, pilot, "No file is open", "/open tree")


async def test_markdown_follows_links_and_goes_back(project: Path):
    async with alone("markdown", desk_in(project), {"path": "README.md"}) as (panel, app, pilot):
        await until_shown(app, pilot, "Read me", "2 links")
        await pilot.press("n")
        await until_shown(app, pilot, "link 1/2, enter: docs/guide.md")
        await pilot.press("enter")
        await until_shown(app, pilot, "Guide", "guide.md", "b back")
        assert panel.title == "guide.md"
        await pilot.press("n", "enter")
        await pilot.pause()
        assert [event.path for event in app.wanted] == [str(project / "src" / "main.py")]
        await pilot.press("b")
        await until_shown(app, pilot, "Read me")
        await pilot.press("n", "n", "enter")
        await pilot.pause()
        assert len(app.wanted) == 1
        (project / "README.md").unlink()
        await until_shown(app, pilot, "it does not exist", "Read me")


async def test_a_notebook_and_a_broken_one(tmp_path: Path):
    cells = [
        {"cell_type": "markdown", "source": "# Begin"},
        {"cell_type": "code", "source": "1 + 1", "execution_count": 1, "outputs": [
            {"output_type": "execute_result", "data": {"text/plain": "2"}}]},
    ]  # fmt: skip
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    async with alone("notebook", desk_in(tmp_path), {"path": "a.ipynb"}) as (_, app, pilot):
        await until_shown(app, pilot, "Begin", "[1] code", "1 + 1", "│ 2", "2 cells")
        path.write_text("{broken")
        await until_shown(app, pilot, "✗ not a notebook", "Begin")


async def test_a_tail_follows_pauses_and_filters(tmp_path: Path):
    path = tmp_path / "a.log"
    async with alone("tail", desk_in(tmp_path), {"path": "a.log"}, size=(80, 10)) as (
        panel,
        app,
        pilot,
    ):
        await until_shown(app, pilot, "waits for the file", "does not exist yet")
        path.write_text("".join(f"line {n}\n" for n in range(100)))
        await until_shown(app, pilot, "line 99", "following", "100 lines")
        await pilot.press("up")
        with path.open("a") as file:
            file.write("line 100 needle\nhalf")
        await until_shown(app, pilot, "paused", "101 lines", "line 98")
        assert "line 100" not in shown(app)
        await pilot.press("end")
        await until_shown(app, pilot, "line 100 needle", "half")
        await pilot.press("slash", *"needle", "enter")
        screen = await until_shown(app, pilot, "filter: needle", "line 100 needle")
        assert "line 99" not in screen
        path.rename(tmp_path / "a.log.1")
        path.write_text("needle of the next\n")
        await until_shown(app, pilot, "line 100 needle", "needle of the next")
        assert panel.remember() == {"filter": "needle", "follows": True}


async def test_changes_are_shown_file_by_file(project: Path):
    async with alone("diff", desk_in(project)) as (panel, app, pilot):
        await until_shown(
            app, pilot, "2 files", "+2 −1", "against HEAD", "M src/main.py", "A new.txt"
        )
        await until_shown(app, pilot, "-     return 7", "+     return 77")
        await pilot.press("N")
        await pilot.pause()
        assert "new.txt" in shown(app) and "+ new" in shown(app)
        await pilot.press("w")
        await until_shown(app, pilot, "ignoring whitespace")
        await pilot.press("P", "e")
        await until_shown(app, pilot, "src/main.py")
        async with asyncio.timeout(SOON):
            while not app.wanted:
                await pilot.pause(0.02)
        assert app.wanted[0].path == str(project / "src" / "main.py")
        (project / "new.txt").unlink()
        await pilot.press("r")
        await until_shown(app, pilot, "+1 −1")
        assert panel.title == "diff"


async def test_one_file_a_patch_and_no_repository(project: Path, tmp_path: Path):
    async with alone("diff", desk_in(project), {"path": "src/main.py"}) as (_, app, pilot):
        await until_shown(app, pilot, "src/main.py", "+1 −1")
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
    async with alone("diff", desk_in(project), {"patch": patch}) as (_, app, pilot):
        await until_shown(app, pilot, "- old", "+ new")
    async with alone("diff", desk_in(tmp_path)) as (_, app, pilot):
        await until_shown(app, pilot, "not in a git", "repository.")  # wrapped where the path ends


@pytest.mark.parametrize("kind", ["file", "markdown", "tail", "notebook", "diff", "tree", "editor"])
async def test_hostile_names_and_contents_do_nothing(tmp_path: Path, kind: str):
    for number, hostile in enumerate(hostile_strings(COUNT)):
        directory = tmp_path / str(number)
        directory.mkdir()
        name = hostile.encode("utf-8", "replace").decode().replace("/", "∕").replace("\0", "")
        path = directory / (name[:40] + "a")
        path.write_bytes(hostile.encode("utf-8", "surrogatepass") * 2)
    made = [path for number in range(COUNT) for path in (tmp_path / str(number)).iterdir()]
    desk = desk_in(tmp_path)
    options = {} if kind == "tree" else {"path": str(made[0])}
    async with alone(kind, desk, options) as (panel, app, pilot):
        for path in made if kind != "tree" else []:
            if not panel.change(type(panel.options)(path=str(path))):
                await panel.remove()
                panel = type(panel)(desk, type(panel.options)(path=str(path)), id=kind)
                await app.mount(panel)
            await pilot.pause(0.02)
            check(shown(app))
        for row in [str(number) for number in range(COUNT)] if kind == "tree" else []:
            panel.tree_model.toggle(f"{tmp_path}/{row}")
        panel.look_now()
        await pilot.pause(0.2)
        check(shown(app))


def check(screen: str) -> None:
    for character in "\x1b\x9b\x07\x08\r\x00\u202e\u2066\u200b\u2028\ufeff":
        assert character not in screen


@pytest.mark.parametrize("size", [(20, 5), (80, 24)])
@pytest.mark.parametrize(
    "kind",
    ["diff", "editor", "file", "markdown", "notebook", "system", "tail", "tree", "usage"],
)
async def test_every_panel_lives_in_little_room_and_gives_back_its_state(
    project: Path, kind: str, size: tuple[int, int]
):
    has_path = kind not in ("tree", "usage", "system")
    options = {"path": "README.md"} if has_path else {}
    async with alone(kind, desk_in(project), options, size=size) as (panel, app, pilot):
        await pilot.pause(0.2)
        await pilot.press("pagedown", "end", "home", "right", "down", "up")
        await pilot.resize_terminal(3, 2)
        await pilot.pause(0.05)
        await pilot.resize_terminal(*size)
        await pilot.pause(0.05)
        state = panel.remember()
        assert json.loads(json.dumps(state)) == state and isinstance(panel.title, str)
        assert app.focused is not None
    odd = {key: [None] for key in state} | {"unknown": 1}
    for kept in (state, odd, {}):
        async with alone(kind, desk_in(project), options, size=size, state=kept) as (
            panel,
            _,
            pilot,
        ):
            await pilot.pause(0.05)
            assert isinstance(panel.title, str)


async def test_nothing_is_looked_at_while_a_panel_is_hidden(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    async with alone("tail", desk_in(tmp_path), {"path": "a.log"}) as (panel, app, pilot):
        await until_shown(app, pilot, "one")
        panel.display = False
        await pilot.pause(0.1)
        assert not panel.is_seen
        path.write_text("one\ntwo\n")
        await pilot.pause(0.7)
        assert list(panel.tail.lines) == ["one"]
        panel.display = True
        await until_shown(app, pilot, "two")
