"""The home screen: no letter is lost to it, sessions are continued, the first run comes once."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from quarterdeck.config.places import Places
from quarterdeck.drivers.history.session import HistorySession
from quarterdeck.fleet.api import AgentInfo, ImportedSession
from quarterdeck.wire.events import SessionChanged, SessionEnded
from quarterdeck.wire.ids import SessionId
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.context import WorkbenchContext
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.preferences.keymap import KeyBinding
from quarterdeck.workbench.preferences.store import load_preferences, note_first_steps
from quarterdeck.workbench.rendering.home_lines import HomePage, head_line, home_lines
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.stores.discovery import (
    DiscoveredAgent,
    DiscoveryStore,
    MachineDiscovery,
)
from quarterdeck.workbench.stores.home import (
    FIRST_STEPS,
    MOST_RECENT,
    TIPS,
    HomeStore,
    ProjectCommit,
    ProjectState,
    choose_tips,
    list_recent_sessions,
    look_at_project,
    read_mode,
)
from quarterdeck.workbench.widgets.home import HomeView, find_command_key
from quarterdeck.workbench.workspace.snapshot import WorkspaceSnapshot
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import SIZES, begin, screen_text, until


class HistoryFleet(FakeFleet):
    """Can take in sessions that other programs keep."""

    def __init__(self) -> None:
        super().__init__()
        self.imported: list[str] = []

    async def import_session(self, agent, session, environment, cwd=None) -> ImportedSession:
        self.imported.append(session)
        id_ = await begin(self, "taken")
        await self.append(id_, SessionEnded(how="closed"))
        return ImportedSession(agent=replace(self.infos[id_], can_resume=True), added=1, skipped=0)


@asynccontextmanager
async def at_home(
    tmp_path: Path, fleet: FakeFleet | None = None, *, size=(100, 30), steps=FIRST_STEPS
) -> AsyncGenerator[tuple[Workbench, Pilot[None], HomeView]]:
    home, project = tmp_path / "home", tmp_path / "project"
    programs = tmp_path / "bin"
    for folder in (project, programs):
        folder.mkdir(exist_ok=True)
    (programs / "codex").write_text("#!/bin/sh\necho codex 1.2.3\n")
    (programs / "codex").chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home), "OPENAI_API_KEY": "x"}
    places = Places.find({"QUARTERDECK_HOME": str(home)})
    preferences = await asyncio.to_thread(load_preferences, places, str(project), environment)
    preferences.choices.first_steps = preferences.choices.first_steps or steps

    async def reach(starts: bool) -> None:
        del starts

    context = WorkbenchContext(
        fleet=fleet or FakeFleet(), drafts=Drafts(home / "drafts"), cwd=str(project),
        clock=lambda: 1_000_000_000_000, preferences=preferences,
    )  # fmt: skip
    context.discovery.places, context.discovery.environment = places, environment
    app = await asyncio.to_thread(Workbench, context, reach)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.main.panel.is_home)
        view = app.main.panel.home
        assert view is not None
        await until(pilot, lambda: view.store.past is not None and context.discovery.found)
        await until(pilot, lambda: "Start with" in screen_text(app))
        yield app, pilot, view


async def past_fleet(count: int = 2) -> FakeFleet:
    """A fleet in which nothing runs any more."""
    fleet = HistoryFleet()
    for number in range(count):
        session = await begin(fleet, f"old{number}")
        await fleet.append(session, SessionEnded(how="closed"))
        fleet.infos[session] = replace(
            fleet.infos[session], title=f"Task {number}", updated=number, can_resume=True
        )
    return fleet


def kept_steps(tmp_path: Path) -> tuple[str, ...]:
    """The steps of the first run that are noted on disk."""
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    return load_preferences(places, "/", {}).choices.first_steps


async def until_kept(pilot: Pilot[None], tmp_path: Path, step: str) -> None:
    async with asyncio.timeout(20):
        while step not in await asyncio.to_thread(kept_steps, tmp_path):
            await pilot.pause(0.02)


def in_project(fleet: FakeFleet, tmp_path: Path) -> None:
    for session, info in fleet.infos.items():
        fleet.infos[session] = replace(info, cwd=str(tmp_path / "project"))


# Keys


@pytest.mark.parametrize("words", ["fix the tests", "1 2 3 4 5", "demo?", "review", "a", "d", "r"])
async def test_every_letter_from_the_first_on_goes_to_the_input(tmp_path: Path, words: str):
    fleet = await past_fleet()
    in_project(fleet, tmp_path)
    async with at_home(tmp_path, fleet) as (app, pilot, _):
        await pilot.press(*words)
        assert app.main.chat.text == words
        assert len(app.screen_stack) == 1
        assert not any(info.is_live for info in fleet.infos.values())


async def test_letters_that_no_line_has_are_typed_from_the_list_too(tmp_path: Path):
    async with at_home(tmp_path) as (app, pilot, view):
        await pilot.press("up")
        assert app.focused is view
        await pilot.press(*"write it")
        assert app.main.chat.text == "write it"
        assert app.focused is app.main.chat


async def test_up_and_down_reach_the_list_and_lead_back(tmp_path: Path):
    async with at_home(tmp_path) as (app, pilot, view):
        await pilot.press("up")
        assert (app.focused, view.cursor) == (view, "d")
        await pilot.press("down")
        assert app.focused is app.main.chat
        await pilot.press("x", "up")  # something is typed: up is a key of the text
        assert app.focused is app.main.chat
        await pilot.press("delete", "down")
        assert app.focused is view
        await pilot.press("escape")
        assert app.focused is app.main.chat


async def test_a_task_is_put_into_the_input_and_not_started(tmp_path: Path):
    async with at_home(tmp_path) as (app, pilot, _):
        await pilot.press("alt+f")
        await until(pilot, lambda: "fails" in app.main.chat.text)
        assert app.focused is app.main.chat
        text = app.main.chat.text
        await pilot.press("alt+f")  # something is typed by now
        assert app.main.chat.text == text


async def test_the_list_of_other_agents_opens_with_a_key(tmp_path: Path):
    async with at_home(tmp_path) as (app, pilot, _):
        await pilot.press("up", "a")
        await until(pilot, lambda: "Not installed" in screen_text(app))


# Sessions


async def test_a_session_of_ours_is_resumed_with_one_key(tmp_path: Path):
    fleet = await past_fleet(11)
    in_project(fleet, tmp_path)
    first = max(fleet.infos.values(), key=lambda info: info.updated)
    await fleet.append(first.session, SessionChanged(archived=True))
    async with at_home(tmp_path, fleet) as (app, pilot, view):
        assert len(view._recent) == MOST_RECENT
        assert "Task 6" in screen_text(app) and "Task 0" not in screen_text(app)
        wanted = view._recent[0].info
        assert wanted is not None
        await pilot.press("alt+1")
        await until(pilot, lambda: app.context.shown == wanted.session)
        assert fleet.infos[wanted.session].is_live
        assert not fleet.infos[wanted.session].is_archived
        await until(pilot, lambda: not app.main.panel.is_home)
        assert app.main.transcript.display


async def test_a_session_on_disk_is_taken_into_the_log_and_continued(tmp_path: Path):
    fleet = HistoryFleet()
    past = HistorySession(agent="claude", id="abc", path="/x", title="why is CI red", updated=5)
    async with at_home(tmp_path, fleet) as (app, pilot, view):
        view.store.past = (past,)
        view.update()
        await until(pilot, lambda: "why is CI red" in screen_text(app))
        await pilot.press("up")
        await pilot.press("1")
        await until(pilot, lambda: app.context.shown in fleet.infos)
        assert fleet.imported == ["abc"]
        assert fleet.infos[SessionId(str(app.context.shown))].is_live


async def test_a_session_that_cannot_be_continued_is_told_about(tmp_path: Path):
    fleet = await past_fleet(1)
    in_project(fleet, tmp_path)
    async with at_home(tmp_path, fleet) as (app, pilot, _):
        fleet.infos.clear()
        await pilot.press("alt+1")
        await until(pilot, lambda: any(n.severity == "error" for n in app._notifications))
        assert app.main.panel.is_home


def agent(name: str, **facts) -> AgentInfo:
    told = {
        "session": SessionId(name), "name": name, "agent": "claude", "cwd": "/w/p", "state": "done",
    }  # fmt: skip
    return AgentInfo(**{**told, **facts})


def test_recent_sessions_are_those_of_the_project_newest_first_and_none_twice():
    past = [
        HistorySession(agent="claude", id="theirs", path="/x", updated=50),
        HistorySession(agent="claude", id="ours", path="/x", updated=99),
    ]
    agents = [
        agent("a", updated=10, agent_session="ours"),
        agent("b", updated=70, is_archived=True, cwd="/w/p/deep"),
        agent("c", updated=80, cwd="/w/pp"),
        agent("child", updated=90, parent=SessionId("a")),
    ]
    found = list_recent_sessions(agents, past, ["/w/p"])
    assert [one.title for one in found] == ["b", "theirs", "a"]
    many = [agent(f"{n}") for n in range(12)]
    assert len(list_recent_sessions(many, past, ["/w/p"])) == MOST_RECENT


async def test_agents_that_live_are_shown_and_home_is_a_command_away(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    home = tmp_path / "home"
    places = Places.find({"QUARTERDECK_HOME": str(home)})
    context = WorkbenchContext(
        fleet=fleet, drafts=Drafts(home / "drafts"), cwd="/", clock=lambda: 0
    )
    del places

    async def reach(starts: bool) -> None:
        del starts

    app = await asyncio.to_thread(Workbench, context, reach)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.context.shown is not None)
        assert not app.main.panel.is_home
        await pilot.press(*"/home", "enter")
        await until(pilot, lambda: app.main.panel.is_home)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: not app.main.panel.is_home)
        assert app.context.shown is not None


async def test_an_agent_that_starts_while_home_is_shown_comes_into_view(tmp_path: Path):
    fleet = FakeFleet()
    async with at_home(tmp_path, fleet) as (app, pilot, _):
        ann = await begin(fleet, "ann")
        await until(pilot, lambda: app.context.shown == ann)
        await until(pilot, lambda: not app.main.panel.is_home)


# The first run


async def test_the_first_run_is_walked_and_never_shown_again(tmp_path: Path):
    async with at_home(tmp_path, steps=()) as (app, pilot, view):
        await until(pilot, lambda: "step 3 of 4" in screen_text(app))  # codex and a key are found
        await pilot.press("enter")  # goes to the modes
        assert (app.focused, view.cursor) == (view, "mode ask")
        await pilot.press("up", "enter")
        await until(pilot, lambda: "step 4 of 4" in screen_text(app))
        assert app.focused is app.main.chat
        places = app.context.discovery.places
        assert places is not None
        await until(pilot, lambda: view.store.mode == "plan")
        await until(pilot, lambda: "new agents have mode plan" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "Get started" not in screen_text(app))
        await until_kept(pilot, tmp_path, "prompt")
    async with at_home(tmp_path, steps=()) as (app, pilot, _):
        assert "Get started" not in screen_text(app)
        assert (await asyncio.to_thread(read_mode, places, Path(app.context.cwd))) == "plan"


async def test_a_step_that_was_skipped_stays_skipped(tmp_path: Path):
    async with at_home(tmp_path, steps=()) as (app, pilot, _):
        await until(pilot, lambda: "step 3 of 4" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "step 4 of 4" in screen_text(app))
        await until_kept(pilot, tmp_path, "mode")
    async with at_home(tmp_path, steps=()) as (app, pilot, _):
        await until(pilot, lambda: "step 4 of 4" in screen_text(app))
        await pilot.press(*"do it")  # typing needs no step to be done
        assert app.main.chat.text == "do it"


async def test_where_agents_were_started_before_there_is_no_first_run(tmp_path: Path):
    fleet = await past_fleet(1)
    async with at_home(tmp_path, fleet, steps=()) as (app, pilot, _):
        assert "Get started" not in screen_text(app)
        await until(pilot, lambda: set(app.preferences.choices.first_steps) == set(FIRST_STEPS))


async def test_init_in_the_shell_counts_for_the_workbench(tmp_path: Path):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    await asyncio.to_thread(note_first_steps, places, FIRST_STEPS)
    async with at_home(tmp_path, steps=()) as (app, _, _):
        assert "Get started" not in screen_text(app)


# Tips, project, lines


def test_tips_change_and_name_the_keys_that_count():
    context = WorkbenchContext(
        fleet=FakeFleet(), drafts=Drafts(Path("/nowhere")), cwd="/", clock=lambda: 0
    )
    for tip in TIPS:
        if tip.command:
            assert find_command_key(context, tip.command), tip

    def tips() -> list[str]:
        find = lambda name: find_command_key(context, name)  # noqa: E731
        return [choose_tips(n, find)[0] for n in range(40)]

    assert all(one != after for one, after in zip(tips(), tips()[1:], strict=False))
    assert any("ctrl+g answers" in tip for tip in tips())
    context.preferences.keymap.put(KeyBinding(key="ctrl+g", command=""))
    assert not any("ctrl+g" in tip or "answers the next" in tip for tip in tips())
    context.preferences.keymap.put(KeyBinding(key="f11", command="answer"))
    assert any("f11 answers" in tip for tip in tips())


def test_the_project_is_clean_has_changes_or_is_no_repository(tmp_path: Path):
    assert look_at_project(tmp_path) == ProjectState(root=str(tmp_path))

    def git(*words: str) -> None:
        told = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *told, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    assert look_at_project(tmp_path).commits == ()
    (tmp_path / "a").write_text("1")
    git("add", ".")
    git("commit", "-m", "one")
    clean = look_at_project(tmp_path)
    (commit,) = clean.commits
    assert clean == ProjectState(root=str(tmp_path), branch="main", changed=0, commits=(commit,))
    assert commit.subject == "one" and commit.id and commit.time > 0
    (tmp_path / "a").write_text("2")
    (tmp_path / "b c").write_text("2")
    dirty = look_at_project(tmp_path)
    assert dirty.changed == 2 and dirty.files == (("M", "a"), ("?", "b c"))


def page(**facts) -> HomePage:
    told = {
        "cwd": "/work/" + "deep/" * 30 + "project", "now": 0,
        "home": HomeStore(project=ProjectState(root="/", branch="b" * 80, changed=3), past=()),
        "discovery": DiscoveryStore(),
    }  # fmt: skip
    return HomePage(**{**told, **facts})


@pytest.mark.parametrize("width", [1, 10, 20, 40, 59, 60, 80, 120, 400])
def test_the_page_fits_every_width_and_shows_no_foreign_control(width: int):
    evil = "\x1b[31m[red]\u202e🧑‍🚀 שלום " * 5
    found = MachineDiscovery(
        agents=tuple(
            DiscoveredAgent(name=f"n{n}", title=evil, is_here=bool(n % 2), install=evil)
            for n in range(6)
        ),
        keys=("A_KEY",), key_names=("A_KEY", "B_KEY"),
    )  # fmt: skip
    agents = [agent(f"{n}", title=evil, agent=evil, updated=n) for n in range(5)]
    for step in (None, *FIRST_STEPS):
        shown = page(
            discovery=DiscoveryStore(found=found), step=step, tips=[evil] * 4,
            recent=list_recent_sessions(agents, [], ["/w"]),
        )  # fmt: skip
        lines = [head_line(shown, width), *(line for _, line in home_lines(shown, max(20, width)))]
        assert all(width_of(line) <= max(20, width) for line in lines)
        text = "".join(map(text_of, lines))
        assert "\x1b" not in text and "\u202e" not in text


def test_review_is_offered_only_where_something_is_uncommitted():
    found = DiscoveryStore(found=MachineDiscovery(keys=("A_KEY",), key_names=("A_KEY",)))
    dirty = [key for key, _ in home_lines(page(discovery=found), 80)]
    clean_state = HomeStore(project=ProjectState(root="/", branch="main", changed=0), past=())
    clean = [key for key, _ in home_lines(page(discovery=found, home=clean_state), 80)]
    assert "r" in dirty and "r" not in clean and "f" in clean
    nothing = [key for key, _ in home_lines(page(discovery=DiscoveryStore(
        found=MachineDiscovery())), 80)]  # fmt: skip
    assert [key for key in nothing if key and key != "a"] == ["d"]


def full_page(height: int) -> HomePage:
    commits = tuple(
        ProjectCommit(id=f"abc{n}", subject=f"Change number {n}", time=0) for n in range(5)
    )
    files = tuple(("M", f"src/file{n}.py") for n in range(8))
    project = ProjectState(root="/", branch="main", changed=12, files=files, commits=commits)
    return page(
        home=HomeStore(project=project, past=()), height=height, tips=["one", "two", "three"],
        discovery=DiscoveryStore(found=MachineDiscovery(keys=("A_KEY",), key_names=("A_KEY",))),
        recent=list_recent_sessions([agent(f"{n}", updated=n) for n in range(9)], [], ["/w"]),
    )  # fmt: skip


def test_more_is_shown_where_there_is_room_and_nothing_scrolls_at_80x24():
    small = home_lines(full_page(19), 80)
    assert len(small) <= 19
    keys = {key for key, _ in small if key}
    assert {"1", "5", "f", "r", "d"} <= keys and not keys & {"6", "e"}
    assert not any("Last commits" in text_of(line) for _, line in small)
    large = home_lines(full_page(36), 120)
    words = [text_of(line).rstrip() for _, line in large]
    assert 26 <= len(large) <= 36
    assert {"7", "e", "b", "t"} <= {key for key, _ in large}
    assert " Last commits" in words and any("Change number 2" in line for line in words)
    assert " Uncommitted  12" in words and any(line.endswith("9 more") for line in words)
    assert sum(line.startswith(" •") for line in words) == 2


def test_what_changed_stands_beside_what_can_be_chosen_on_a_wide_screen():
    wide = home_lines(full_page(46), 200)
    words = [text_of(line) for _, line in wide]
    (beside,) = [line for line in words if "Uncommitted" in line]
    assert beside.strip().startswith("Agents here")
    assert any("Change number 0" in line for line in words)
    assert all(width_of(line) <= 200 for _, line in wide) and len(wide) <= 46


@pytest.mark.parametrize("size", [*SIZES, (20, 5), (400, 100)], ids=str)
async def test_the_home_screen_lives_at_every_size(tmp_path: Path, size: tuple[int, int]):
    async with at_home_small(tmp_path, size) as (app, pilot):
        await pilot.press("up", "down", "x")
        assert app.main.chat.text.endswith("x")


@asynccontextmanager
async def at_home_small(
    tmp_path: Path, size: tuple[int, int]
) -> AsyncGenerator[tuple[Workbench, Pilot[None]]]:
    async with at_home(tmp_path, steps=()) as (app, pilot, _):
        await pilot.resize_terminal(*size)
        await pilot.pause()
        yield app, pilot


# Layouts that were saved before


def test_an_untouched_default_layout_loses_its_inbox_and_another_keeps_it(tmp_path: Path):
    from quarterdeck.workbench.layout.spec import panels_of, parse_layout
    from quarterdeck.workbench.panels.kinds import KINDS
    from quarterdeck.workbench.workspace.snapshot import WorkspaceFiles

    def saved(inbox_size: str) -> list[str]:
        side = {
            "type": "vertical", "size": "38%", "stacked_size": "auto",
            "children": [
                {"type": "panel", "size": "auto", "id": "agents", "widget": "agents"},
                {"type": "panel", "size": inbox_size, "id": "inbox", "widget": "inbox"},
            ],
        }  # fmt: skip
        root = {"type": "horizontal", "stack_below": 110, "children": [
            side, {"type": "panel", "id": "chat", "widget": "chat"}]}  # fmt: skip
        files = WorkspaceFiles(tmp_path)
        layout = parse_layout({"version": 1, "tabs": [{"title": "main", "root": root}]})
        files.save("/w", WorkspaceSnapshot(layout=layout))
        return [node.id for node in panels_of(files.load("/w", KINDS).layout)]

    assert saved("auto") == ["agents", "chat"]
    assert saved("30%") == ["agents", "inbox", "chat"]
