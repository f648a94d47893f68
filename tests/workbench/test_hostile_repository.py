"""Nothing that a repository names runs because somebody looks at it in the workbench."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.drivers.history.codex_files import open_zstd
from quarterdeck.drivers.history.session import HistoryUnreadableError
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.system.errors import GitError
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.completion import list_files
from quarterdeck.workbench.panels.diff import ChangesQuery, read_changes
from quarterdeck.workbench.panels.panel import Panel
from quarterdeck.workbench.panels.tree_model import read_status_marks
from quarterdeck.workbench.preferences.store import load_preferences
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.trust import TrustScreen
from quarterdeck.workbench.stores.checkouts import Checkouts
from tests.support.hostile_repository import HostileRepository, make_hostile_repository
from tests.support.memory_fleet import FakeFleet
from tests.support.panel_app import alone, desk_in, shown, until_shown
from tests.support.real_terminals import PROGRAM, clean_environment, needs_tmux, pane, stop_host
from tests.support.workbench_app import screen_text, until

VIEWERS = ("file", "markdown", "notebook", "tail", "editor", "diff")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileRepository:
    return make_hostile_repository(tmp_path_factory.mktemp("hostile"))


def outside(hostile: HostileRepository) -> dict[str, bytes]:
    """What must stay as it is."""
    files = (path for path in hostile.outside.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def test_questions_about_every_repository_in_it(hostile: HostileRepository):
    before = outside(hostile)
    for name, path in hostile.repositories.items():
        assert read_changes(ChangesQuery(cwd=str(path))).problem is None, name
        assert isinstance(read_status_marks(str(path)), dict)
        assert list_files(str(path)) is not None
        asyncio.run(Checkouts().ask(str(path)))
        assert hostile.ran() == [], name
    assert outside(hostile) == before


async def test_the_tree_and_what_changed(hostile: HostileRepository):
    async with alone("tree", desk_in(hostile.top), size=(120, 60)) as (_, app, pilot):
        await until_shown(app, pilot, "changed", "nested/")
        await pilot.press("slash", *"kept")
        await until_shown(app, pilot, "src/kept.py")
        await pilot.press("escape", "down", "down", "enter", "down", "enter")
        await pilot.pause()
    async with alone("diff", desk_in(hostile.top), size=(120, 40)) as (_, app, pilot):
        await until_shown(app, pilot, "a.txt")
    for name, path in hostile.repositories.items():
        async with alone("diff", desk_in(hostile.top), {"cwd": str(path)}) as (_, app, pilot):
            await until_shown(app, pilot, "@@" if name in ("nested", "sub", "top") else "")
    assert hostile.ran() == []


def odd_files(hostile: HostileRepository) -> list[str]:
    """Everything in it that is not an ordinary file, and names that want to do something."""
    odd = sorted(f"odd/{path.name}" for path in (hostile.top / "odd").iterdir())
    top = [path.name for path in hostile.top.iterdir() if path.is_symlink()]
    return [*sorted(top), *odd, "pipe", "CLAUDE.md", "hard-link.txt", "AGENTS.md", "conftest.py"]


FEW = ("link-loop", "link-zero", "link-directory", "pipe", "hard-link.txt", "odd/-rf")


@pytest.mark.parametrize("kind", VIEWERS)
async def test_odd_files_are_shown_or_refused_and_nothing_hangs(
    hostile: HostileRepository, kind: str
):
    for name in odd_files(hostile) if kind == "file" else FEW:
        options: dict[str, Any] = {"path": str(hostile.top / name)}
        async with asyncio.timeout(20), alone(kind, desk_in(hostile.top), options) as (_, app, _p):
            assert "\x1b" not in shown(app) and "\u202e" not in shown(app)
    assert hostile.ran() == []


def test_programs_that_lie_in_it_are_not_taken_for_those_of_the_machine(
    hostile: HostileRepository, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(hostile.top)
    monkeypatch.setenv("PATH", f".::{hostile.top}")
    with pytest.raises(GitError, match="outside the project"):
        read_status_marks(str(hostile.top))
    assert list_files(str(hostile.top))
    with suppress(HistoryUnreadableError), open_zstd(hostile.top / "a.txt") as file:
        file.read()
    assert hostile.ran() == []


PANELS = (
    *("tree", "diff", "agents", "history", "system", "feed", "usage", "inbox", "chat"),
    *(
        "file path=AGENTS.md",
        "markdown path=AGENTS.md",
        "editor path=conftest.py",
        "tail path=Makefile",
    ),
)


async def test_the_whole_workbench_with_an_agent_in_it(hostile: HostileRepository, tmp_path: Path):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    before = await asyncio.to_thread(outside, hostile)
    fleet = FakeFleet()
    await fleet.spawn(
        SpawnOptions(
            options=SessionOptions(agent="claude", cwd=str(hostile.top)),
            name="ann",
            prompt="say hello",
        )
    )
    looks = await asyncio.to_thread(load_preferences, places, str(hostile.top), environment)
    desk = desk_in(hostile.top, fleet)
    desk.preferences = looks
    desk.discovery.places, desk.discovery.environment = places, environment

    async def reach(starts: bool) -> None:
        del starts

    app = await asyncio.to_thread(Workbench, desk, reach)
    async with asyncio.timeout(50), app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        await pilot.pause(QUIET + 0.05)
        await pilot.press("n")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        count = len(app.query(Panel))
        for words in PANELS:
            app.action_command("open", words)
            await until(pilot, lambda: len(app.query(Panel)) > count)
            app.action_command("close-panel", "")
            await until(pilot, lambda: len(app.query(Panel)) == count)
        app.action_command("open", "tree")
        await until(pilot, lambda: "nested/" in screen_text(app))
        app.action_command("open", "diff")
        await until(pilot, lambda: "@@" in screen_text(app))
        for name, words in (
            ("diff", "ann"),
            ("layout", "list"),
            ("layout", "evil"),
            ("doctor", ""),
        ):
            app.action_command(name, words)
            await pilot.pause()
        assert not await asyncio.to_thread(TrustStore(places.trust_file).is_trusted, hostile.top)
    await fleet.stop()
    assert await asyncio.to_thread(outside, hostile) == before
    assert await asyncio.to_thread(hostile.ran) == []


@needs_tmux
def test_the_workbench_is_opened_in_it(hostile: HostileRepository, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    command = f"{PROGRAM}; echo left with $?; sleep 60"
    environment = clean_environment(home)
    try:
        with pane(home, command, cwd=hostile.top) as screen:
            screen.shows("trust")
            screen.press("n")
            for words in ("/open tree", "/open diff", "/open history", "/open agents", "/doctor"):
                screen.press(words, "Enter")
                screen.shows("")
            screen.press("C-q")
    finally:
        stop_host(environment)
    assert hostile.ran() == []
