"""The first run: what is found is told, trust is asked about, failures offer what mends them."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.fleet.errors import HostError, HostVersionError
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.context import WorkbenchContext
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.screens import key_guard
from quarterdeck.workbench.screens.dialogs import ReadingScreen
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.trust import TrustScreen
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import SIZES, screen_text, until

SECRET = "sk-very-secret"
sizes = pytest.mark.parametrize("size", [*SIZES, (20, 5)], ids=lambda size: f"{size[0]}x{size[1]}")


class Ground:
    """A machine with one agent, one key, and a project that would act."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"
        self.places = Places.find({"QUARTERDECK_HOME": str(self.home)})
        self.project = tmp_path / "project"
        (self.project / ".git").mkdir(parents=True)
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "codex").write_text("#!/bin/sh\necho codex 1.2.3\n")
        (programs / "codex").chmod(0o755)
        self.environment = {"PATH": str(programs), "HOME": str(self.home)}
        self.store = TrustStore(self.places.trust_file)

    def acts(self) -> "Ground":
        (self.project / "AGENTS.md").write_text("Be quick.")
        return self


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@asynccontextmanager
async def opened_on(
    ground: Ground,
    size: tuple[int, int] = (80, 24),
    fleet: FakeFleet | None = None,
    failure: QuarterdeckError | None = None,
) -> AsyncGenerator[tuple[Workbench, Pilot[None]]]:
    async def reach(starts: bool) -> None:
        del starts
        if failure is not None:
            raise failure

    desk = WorkbenchContext(
        fleet=fleet or FakeFleet(),
        drafts=Drafts(ground.home / "drafts"),
        cwd=str(ground.project),
        clock=lambda: 1_000_000,
    )
    desk.discovery.places, desk.discovery.environment = ground.places, ground.environment
    app = await asyncio.to_thread(Workbench, desk, reach)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: desk.discovery.trust is not None)
        yield app, pilot


async def after_the_guard(pilot: Pilot[None]) -> None:
    await pilot.pause(QUIET + 0.05)


async def test_what_is_here_and_what_is_missing_is_told(ground: Ground):
    ground.environment["OPENAI_API_KEY"] = SECRET
    async with opened_on(ground, (100, 30)) as (app, pilot):
        await until(pilot, lambda: "Codex 1.2.3" in screen_text(app))
        shown = screen_text(app)
        assert "OPENAI_API_KEY ✓" in shown and "● built-in" in shown
        assert SECRET not in shown
        assert re.search(r"\+ \d+ more  a", shown)
        assert "d  demo" in shown and "Type a task and press enter" in shown


async def test_where_no_agent_is_installed_the_home_screen_says_how_to_get_one(ground: Ground):
    ground.environment["PATH"] = str(ground.home)
    async with opened_on(ground, (100, 30)) as (app, pilot):
        words = "Claude Code not installed: npm install -g @anthropic-ai/claude-code"
        await until(pilot, lambda: words in screen_text(app))
        assert "f  fix a failing test" not in screen_text(app)


async def test_without_a_key_the_variables_are_named(ground: Ground):
    async with opened_on(ground, (120, 30)) as (app, pilot):
        await until(pilot, lambda: "built-in needs a key" in screen_text(app))
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
            assert f"{name} –" in screen_text(app)


async def test_the_doctor_tells_versions_and_ways_to_get_each(ground: Ground):
    ground.environment["OPENAI_API_KEY"] = SECRET
    async with opened_on(ground, (100, 50)) as (app, pilot):
        await pilot.press(*"/doctor", "enter")
        await until(pilot, lambda: isinstance(app.screen, ReadingScreen))
        await until(pilot, lambda: "1.2.3" in screen_text(app))
        shown = screen_text(app)
        assert "OPENAI_API_KEY" in shown and SECRET not in shown
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


@sizes
async def test_the_workspace_is_asked_about_once_and_trusted(ground: Ground, size: tuple[int, int]):
    async with opened_on(ground.acts(), size) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        await after_the_guard(pilot)
        if size[1] > 5:
            assert "AGENTS.md is sent to our own agent" in screen_text(app)
            assert "n  not now" in screen_text(app)
        await pilot.press("t")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await until(pilot, lambda: app.context.discovery.trust.state == "trusted")
        assert await asyncio.to_thread(ground.store.is_trusted, ground.project)
    async with opened_on(ground, size) as (app, pilot):
        await pilot.pause(0.1)
        assert len(app.screen_stack) == 1


async def test_not_now_leaves_everything_as_it_is(ground: Ground):
    async with opened_on(ground.acts()) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        await after_the_guard(pilot)
        await pilot.press("n")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        words = "AGENTS.md: no effect until you trust this project"
        await until(pilot, lambda: words in " ".join(screen_text(app).split()))
        assert not await asyncio.to_thread(ground.store.is_trusted, ground.project)
        await pilot.press(*"/trust", "enter")
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))


async def test_never_means_never(ground: Ground):
    async with opened_on(ground.acts()) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        await after_the_guard(pilot)
        await pilot.press("x")
        await until(pilot, lambda: app.context.discovery.trust.is_unasked)
    async with opened_on(ground) as (app, pilot):
        await pilot.pause(0.1)
        assert len(app.screen_stack) == 1
        await pilot.press(*"/untrust", "enter")
        await until(pilot, lambda: not app.context.discovery.trust.is_unasked)


async def test_who_types_goes_on_typing_and_decides_nothing(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(key_guard, "QUIET", 60.0)  # however slow this machine types
    async with opened_on(ground.acts()) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        await pilot.press(*"try this")
        await until(pilot, lambda: app.main.chat.text == "try this")
        assert len(app.screen_stack) == 1
        assert not await asyncio.to_thread(ground.store.trusted)


async def test_a_workspace_without_such_files_asks_nothing(ground: Ground):
    async with opened_on(ground) as (app, pilot):
        await until(pilot, lambda: app.focused is not None)
        assert len(app.screen_stack) == 1
        await pilot.press(*"/trust")
        await until(pilot, lambda: "❯ /trust" in screen_text(app))
        await pilot.press("enter")
        # The length of the path decides where the words are wrapped.
        words = ("no settings", "or instructions;", "nothing to trust")
        await until(pilot, lambda: any(one in screen_text(app) for one in words))


async def test_hostile_names_do_nothing_to_the_question(ground: Ground):
    folder = ground.project / ".quarterdeck"
    folder.mkdir()
    (folder / "config.toml").write_text('[vendors."[red]\\u202e\\u001b[31m"]\nbase_url = "x"\n')
    async with opened_on(ground) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        await pilot.pause(0.05)
        shown = screen_text(app)
        assert "\x1b" not in shown and "\u202e" not in shown


FAILURES = {
    "another version": HostVersionError(
        "the host is quarterdeck 9.9 (protocol 9); restart the host with `quarterdeck host stop`"
    ),
    "no room": HostError(
        "the host exits right after it starts; see 'x', which ends with:\n  no space"
    ),
    "unusable": HostError("cannot use the directory '/x': Permission denied; make it writable"),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
@sizes
async def test_a_host_that_cannot_be_used_is_told_and_typing_goes_on(
    ground: Ground, size: tuple[int, int], failure: QuarterdeckError
):
    async with opened_on(ground, size, failure=failure) as (app, pilot):
        await until(pilot, lambda: app.context.host == "failed")
        await pilot.press(*"hello")
        assert app.main.chat.text == "hello"
        if size[1] > 5:
            shown = " ".join(screen_text(app).split())
            assert str(failure).split(";")[0][:40] in shown
            assert "/host retry" in shown and "/doctor" in shown


async def test_another_directory_is_asked_about_too(ground: Ground, tmp_path: Path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    (other / "AGENTS.md").write_text("Be slow.")
    async with opened_on(ground) as (app, pilot):
        await pilot.pause(0.1)
        assert len(app.screen_stack) == 1
        app.context.move(str(other))
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        assert app.context.discovery.trust is not None
        assert app.context.discovery.trust.root == str(other.resolve())


async def test_a_directory_is_watched_once(ground: Ground):
    async with opened_on(ground) as (app, _):
        before = len(app.context._watchers)
        await app.first_run.discover()
        assert len(app.context._watchers) == before
