"""The table of agents: order, families, columns, keys, filter, git; and when it draws."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult

from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.wire.content import text
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage
from quarterdeck.workbench.rendering.agent_rows import (
    COLUMNS,
    AgentRow,
    agent_head,
    agent_line,
    place_columns,
)
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.screens.dialogs import ConfirmScreen
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.stores.checkouts import Checkout, Checkouts
from quarterdeck.workbench.stores.roster import SORTS, RosterStore
from quarterdeck.workbench.widgets.agent_table import AgentTable
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until

SECOND = 1_000_000


def agent(name: str, **facts) -> AgentInfo:
    told = {
        "session": SessionId(f"s-{name}"),
        "name": name,
        "agent": "claude",
        "cwd": "/work/project",
        "state": "idle",
        "spawned": sum(map(ord, name)),
    }
    return AgentInfo(**{**told, **facts})


def roster(*agents: AgentInfo) -> RosterStore:
    store = RosterStore()
    store.replace(agents, None)
    return store


def names(store: RosterStore) -> list[str]:
    return ["  " * store.depth(a.session) + a.name for a in store.agents]


def test_who_needs_a_person_comes_first_and_lifts_the_family():
    store = roster(
        agent("aa"),
        agent("lead", state="running"),
        agent("child", parent=SessionId("s-lead"), needs_person=True, state="waiting"),
        agent("other", parent=SessionId("s-lead")),
        agent("gone", is_archived=True),
        agent("orphan", parent=SessionId("s-nobody")),
    )
    assert names(store) == ["lead", "  child", "  other", "aa", "orphan"]
    store.show_archived(True)
    assert names(store)[-1] == "gone"


def test_parents_in_a_circle_hide_nobody():
    store = roster(agent("a", parent=SessionId("s-b")), agent("b", parent=SessionId("s-a")))
    assert sorted(names(store)) == ["a", "b"]


@pytest.mark.parametrize("by", list(SORTS))
def test_every_sort_gives_every_agent_and_can_be_turned(by: str):
    store = roster(*(agent(name) for name in ("zoe", "ann", "bob")))
    store.sort(by)
    first = names(store)
    store.sort(by, is_reversed=True)
    assert sorted(first) == ["ann", "bob", "zoe"]
    assert names(store) == first[::-1]


def test_agents_are_narrowed_by_words_and_by_directory():
    store = roster(
        agent("ann", model="opus", cwd="/work/a"),
        agent("bob", model="gpt", cwd="/work/a/b"),
        agent("eve", model="gpt", cwd="/work/ab"),
    )
    store.seek("GPT a/b")
    assert names(store) == ["bob"]
    store.seek("")
    store.narrow("/work/a")
    assert sorted(names(store)) == ["ann", "bob"]
    assert store.query.narrows


@pytest.mark.parametrize("width", [1, 8, 20, 40, 60, 80, 120, 200, 300])
def test_columns_fit_every_width(width: int):
    info = agent(
        "ann",
        model="claude-opus",
        state="running",
        usage=TokenUsage(input=12345),
        cost=Cost(amount=1.5, currency="USD"),
        context=ContextUsage(used=50, size=200),
    )
    row = AgentRow(
        agent=info,
        roster=roster(info),
        now=5 * SECOND,
        checkout=Checkout(branch="main", added=3, removed=1),
    )
    assert width_of(agent_line(row, width)) <= width
    assert width_of(agent_head(width)) <= width
    if width >= 120:
        told = text_of(agent_line(row, width))
        assert all(word in told for word in ("ann", "● ", "running", "25%", "$1.50", "12k", "main"))
    if width >= 200:
        assert all(word in text_of(agent_line(row, 200)) for word in ("claude-opus", "+3 −1"))


def test_a_person_chooses_the_columns():
    shown = [column.name for column, _, _ in place_columns(80, ("name", "cost", "branch"))]
    assert shown == ["name", "cost", "branch"]
    assert [column.name for column, _, _ in place_columns(80, ("cost",))] == ["name", "cost"]
    usual = {column.name for column, _, _ in place_columns(200)}
    assert set(COLUMNS) == {*usual, "conflicts"}
    urgent = [column.name for column, _, _ in place_columns(120, (), ("conflicts",))]
    assert "conflicts" in urgent and "conflicts" not in usual


class Alone(App[None]):
    def __init__(self, store: RosterStore) -> None:
        super().__init__()
        self.now = 100 * SECOND
        self.table = AgentTable(store, lambda: self.now)

    def compose(self) -> ComposeResult:
        yield self.table


async def test_only_times_of_those_at_work_go_on_and_none_when_nobody_works():
    store = roster(agent("ann", state="running", updated=90 * SECOND), agent("bob"))
    async with Alone(store).run_test(size=(80, 10)) as pilot:
        app = pilot.app
        assert isinstance(app, Alone)
        await until(pilot, lambda: "10s" in screen_text(app))
        app.now = 107 * SECOND
        await until(pilot, lambda: "17s" in screen_text(app))
        timer = app.table._timer
        assert timer is not None and timer._active.is_set()
        store.replace([replace(one, state="idle") for one in store.everyone], None)
        await pilot.pause()
        assert not timer._active.is_set()


async def test_a_click_on_a_name_of_a_column_sorts_by_it():
    store = roster(agent("zoe"), agent("ann"))
    async with Alone(store).run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: "zoe" in screen_text(pilot.app))
        await pilot.click(AgentTable, offset=(3, 0))
        assert names(store) == ["ann", "zoe"]
        assert "agent▾" in screen_text(pilot.app)
        await pilot.click(AgentTable, offset=(3, 0))
        assert names(store) == ["zoe", "ann"]


async def test_typing_narrows_and_escape_shows_all():
    store = roster(agent("zoe"), agent("ann"), agent("kim"))
    async with Alone(store).run_test(size=(80, 10)) as pilot:
        app = pilot.app
        assert isinstance(app, Alone)
        app.table.focus()
        await pilot.press("slash", "k", "i")
        assert names(store) == ["kim"]
        assert "/ ki" in screen_text(app)
        await pilot.press("x")
        assert names(store) == []
        assert "0 of 3" in screen_text(app)
        await pilot.press("backspace", "enter", "s")
        assert (names(store), store.query.by) == (["kim"], "name")
        await pilot.press("escape")
        assert len(names(store)) == 3


async def test_keys_act_on_the_agent_under_the_cursor_alone(tmp_path: Path):
    fleet = FakeFleet()
    ann, bob = await begin(fleet, "ann"), await begin(fleet, "bob")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await pilot.press("f2", "down", "i")
        await until(pilot, lambda: fleet.infos[bob].state == "interrupted")
        assert fleet.infos[ann].state == "running"
        await pilot.press("k")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("n")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert fleet.infos[bob].is_live
        await pilot.press("k")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.pause(QUIET + 0.05)
        await pilot.press("y")
        await until(pilot, lambda: not fleet.infos[bob].is_live)
        await until(pilot, lambda: not app.context.roster.find(bob).is_live)
        await pilot.press("r")
        await until(pilot, lambda: fleet.infos[bob].is_live)
        await pilot.press("a")
        await until(pilot, lambda: fleet.infos[bob].is_archived)
        await until(pilot, lambda: [a.name for a in app.context.roster.agents] == ["ann"])
        await pilot.press("z")
        await until(pilot, lambda: len(app.context.roster.agents) == 2)
        assert fleet.infos[ann].state == "running"


async def test_commands_sort_narrow_and_choose_columns(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "zoe")
    await fleet.spawn(
        SpawnOptions(options=SessionOptions(agent="codex", cwd="/elsewhere"), name="ann")
    )
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        store = app.context.roster
        await pilot.press(*"/sort name", "enter")
        await until(pilot, lambda: names(store) == ["ann", "zoe"])
        await pilot.press(*"/here", "enter")
        await until(pilot, lambda: names(store) == ["zoe"])
        await pilot.press(*"/here", "enter")
        await pilot.press(*"/filter codex", "enter")
        await until(pilot, lambda: names(store) == ["ann"])
        await pilot.press(*"/columns nonsense", "enter")
        await until(pilot, lambda: any("no column" in one.message for one in app._notifications))
        await pilot.press(*"/columns name kind", "enter")
        await until(pilot, lambda: app.preferences.choices.columns == ("name", "kind"))


def git(cwd: Path, *words: str) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *settings, *words], cwd=cwd, check=True, capture_output=True)


def checkout(path: Path) -> Path:
    path.mkdir()
    git(path, "init")
    (path / "a").write_text("1\n2\n")
    git(path, "add", ".")
    git(path, "commit", "-m", "one")
    (path / "a").write_text("1\n3\n4\n")
    return path


async def test_branch_and_size_of_changes_come_from_git(tmp_path: Path):
    path = await asyncio.to_thread(checkout, tmp_path / "repo")
    known = Checkouts()
    assert known.is_due(str(path))
    assert await known.ask(str(path))
    assert known.get(str(path)) == Checkout(branch="main", added=2, removed=1)
    assert known.get(str(path)).changes == "+2 −1"
    assert not known.is_due(str(path))
    assert known.is_due(str(path), is_stale=True)
    assert not await known.ask(str(path))


@pytest.mark.parametrize("what", ["no repository", "no directory", "no commit"])
async def test_where_git_has_nothing_to_say_there_is_nothing(tmp_path: Path, what: str):
    if what == "no commit":
        await asyncio.to_thread(git, tmp_path, "init")
    known = Checkouts()
    await known.ask(str(tmp_path / ("x" if what == "no directory" else "")))
    assert known.get(str(tmp_path)).changes == ""


async def test_nothing_of_a_checkout_is_run_to_look_at_it(tmp_path: Path):
    path = await asyncio.to_thread(checkout, tmp_path / "repo")
    trace = tmp_path / "trace"

    def booby_trap() -> None:
        git(path, "config", "filter.evil.clean", f"touch {trace}; cat")
        git(path, "config", "core.fsmonitor", f"touch {trace}")
        (path / ".gitattributes").write_text("* filter=evil\n")

    await asyncio.to_thread(booby_trap)
    known = Checkouts()
    await known.ask(str(path))
    assert known.get(str(path)).branch == "main"
    assert not trace.exists()


async def test_what_an_agent_does_is_seen_in_its_row(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await fleet.send("ann", (text("ask"),))
        await until(pilot, lambda: "permission" in screen_text(app))
