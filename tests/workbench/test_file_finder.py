"""The finder of files after ``@``: what comes first, how fast, and what is shown beside it."""

import random
import subprocess
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quarterdeck.workbench.completion import FileIndex, list_recent_files
from quarterdeck.workbench.rendering.lines import text_of
from quarterdeck.workbench.widgets.completion_list import CompletionList, FilePreview, read_preview
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until


def test_the_last_part_of_a_path_counts_before_the_rest():
    index = FileIndex(["app/deep/other.py", "docs/my_app.md", "src/app.py", "a/p/p.txt"])
    assert index.search("app") == ["src/app.py", "docs/my_app.md", "app/deep/other.py", "a/p/p.txt"]
    assert index.search("ma") == ["docs/my_app.md"]
    assert index.search("srcapp") == ["src/app.py"]
    assert index.search("src/ap") == ["src/app.py"]
    assert index.search("zz") == []


def test_changed_files_come_first_then_those_of_the_last_commits():
    names = ["a.py", "bb.py", "ccc.py", "dddd.py"]
    index = FileIndex(names, changed={"dddd.py"}, recent={"ccc.py"})
    assert index.search("") == ["dddd.py", "ccc.py", "a.py", "bb.py"]
    assert index.search("py") == ["dddd.py", "ccc.py", "a.py", "bb.py"]


def test_letters_of_every_script_are_found_composed_or_not():
    decomposed = unicodedata.normalize("NFD", "Übung.py")
    index = FileIndex([f"src/{decomposed}", "src/Straße.md", "日本語/ノート.md", "x.py"])
    assert index.search("übu") == [f"src/{decomposed}"]
    assert index.search("STRASSE") == ["src/Straße.md"]
    assert index.search("ノー") == ["日本語/ノート.md"]
    assert index.search("日ノ") == ["日本語/ノート.md"]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.text("ab/_.[^]-", min_size=1, max_size=8), max_size=12),
    st.text("ab/[^]-.", max_size=4),
)
def test_typing_on_finds_what_typing_at_once_finds(names: list[str], typed: str):
    names = sorted(set(names))
    slow, at_once = FileIndex(names), FileIndex(names)
    for end in range(1, len(typed)):
        slow.search(typed[:end])
    assert slow.search(typed) == at_once.search(typed)
    fitting = [name for name in names if _has_letters(name, typed)]
    assert sorted(at_once.search(typed)) == sorted(fitting)


def _has_letters(name: str, typed: str) -> bool:
    rest = iter(name)
    return all(letter in rest for letter in typed)


def test_a_key_takes_less_than_twenty_milliseconds_with_many_files():
    chosen = random.Random(1)
    words = ["app", "test", "core", "view", "model", "util", "main", "index", "über", "straße"]
    names = [
        f"{chosen.choice(words)}/{chosen.choice(words)}/{chosen.choice(words)}_{n}.py"
        for n in range(20_000)
    ]
    index = FileIndex(names)
    taken: list[float] = []
    for typed in ("test_19", "tap", "vmi1", "strasse", "zzzz", "core/view/x", "_"):
        for end in range(1, len(typed) + 1):
            before = time.process_time()
            index.search(typed[:end])
            taken.append(time.process_time() - before)
    taken.sort()
    assert taken[len(taken) // 2] < 0.010
    assert taken[int(len(taken) * 0.9)] < 0.040  # twice the goal: the machine may be busy


def test_git_tells_what_is_changed_and_recent(tmp_path: Path):
    def git(*words: str) -> None:
        own = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *own, *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "sub").mkdir()
    for name in ("one.py", "sub/two.py"):
        (tmp_path / name).write_text("x")
        git("add", ".")
        git("commit", "-qm", name)
    (tmp_path / "sub/two.py").write_text("changed")
    (tmp_path / "sub/new.py").write_text("x")
    changed, recent = list_recent_files(str(tmp_path))
    assert {"sub/two.py", "sub/new.py"} <= changed
    assert "one.py" not in changed
    assert {"one.py", "sub/two.py"} <= recent
    below, _ = list_recent_files(str(tmp_path / "sub"))
    assert {"two.py", "new.py"} <= below
    assert list_recent_files(str(tmp_path.parent / "none"))[0] <= {""}


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", "empty"),
        (b"a\0b", "a binary file"),
        (b"one\r\ntwo\n", "one"),
        (b"\x1b[31mred", "\\x1b[31mred"),
        (b"\xff\xfe text", "\ufffd\ufffd text"),
    ],
)
def test_a_preview_shows_any_file_literally(tmp_path: Path, data: bytes, shown: str):
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    assert text_of(read_preview(str(path), 5)[0]) == shown
    assert "cannot be read" in text_of(read_preview(str(tmp_path / "gone"), 5)[0])
    assert "cannot be read" in text_of(read_preview(str(tmp_path), 5)[0])


async def project_of(fleet: FakeFleet, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "first.py").write_text("def first():\n    return 1\n")
    (project / "second.py").write_text("class Second:\n    pass\n")
    ann = await begin(fleet, "ann")
    fleet.infos[ann] = replace(fleet.infos[ann], cwd=str(project))


async def test_the_first_lines_of_a_file_stand_beside_the_list(tmp_path: Path):
    fleet = FakeFleet()
    await project_of(fleet, tmp_path)
    async with opened(fleet, tmp_path / "drafts", (120, 40)) as (app, pilot):
        await until(
            pilot, lambda: app.context.agent is not None and "project" in app.context.agent.cwd
        )
        await pilot.press(*"see @")
        await until(pilot, lambda: "def first():" in screen_text(app))
        await pilot.press("down")
        await until(pilot, lambda: "class Second:" in screen_text(app))
        assert "def first():" not in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: "class Second:" not in screen_text(app))
        assert not app.screen.query_one(FilePreview).display


async def test_a_narrow_screen_has_no_preview_and_commands_have_none(tmp_path: Path):
    fleet = FakeFleet()
    await project_of(fleet, tmp_path)
    async with opened(fleet, tmp_path / "drafts", (90, 30)) as (app, pilot):
        await until(
            pilot, lambda: app.context.agent is not None and "project" in app.context.agent.cwd
        )
        await pilot.press(*"@")
        await until(pilot, lambda: "first.py" in screen_text(app))
        assert not app.screen.query(FilePreview)
        await pilot.press("escape", "backspace")
        await pilot.resize_terminal(140, 40)
        await pilot.press(*"/he")
        await until(pilot, lambda: "/help" in screen_text(app))
        assert not app.screen.query_one(CompletionList).preview.display


async def test_the_list_stays_above_an_input_that_gets_another_place(tmp_path: Path):
    fleet = FakeFleet()
    await project_of(fleet, tmp_path)
    async with opened(fleet, tmp_path / "drafts", (120, 40)) as (app, pilot):
        await until(
            pilot, lambda: app.context.agent is not None and "project" in app.context.agent.cwd
        )
        await pilot.press(*"see @")
        await until(pilot, lambda: "def first():" in screen_text(app))
        offers, chat = app.screen.query_one(CompletionList), app.main.chat
        before = chat.region.y
        app.main.query_one("#status").display = False  # the size of the input stays
        await until(pilot, lambda: chat.region.y == before + 1)
        await until(pilot, lambda: offers.region.bottom == chat.region.y - 1)
