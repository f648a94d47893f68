"""The table of agents: order, families, columns, keys, filter, git; and when it draws."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult

from quarterdeck.fleet.api import AgentInfo, InboxItem, SpawnOptions
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    QuestionAsked,
    ThoughtChunk,
    ToolCallStarted,
    TurnStarted,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Cancelled, Decider, Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage
from quarterdeck.wire.worktrees import ChangeCounts, Worktree
from quarterdeck.workbench.rendering.agent_rows import (
    COLUMNS,
    LEAST_WORDS,
    AgentRow,
    agent_card,
    agent_head,
    agent_line,
    find_urgent_columns,
    group_line,
    measure_columns,
    place_columns,
)
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.screens.dialogs import ConfirmScreen
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.stores.checkouts import Checkout, Checkouts
from quarterdeck.workbench.stores.roster import BUCKETS, SORTS, AgentActivity, RosterStore
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
    assert names(store) == ["child", "lead", "aa", "other", "orphan"]
    store.group("lead")
    assert names(store) == ["lead", "  child", "  other", "aa", "orphan"]
    store.show_archived(True)
    assert names(store)[-1] == "gone"
    store.group("none")
    assert names(store) == ["child", "lead", "aa", "other", "orphan", "gone"]


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
    wide = measure_columns([row])
    assert width_of(agent_line(row, width)) <= width
    assert width_of(agent_head(width)) <= width
    if width >= 120:
        told = text_of(agent_line(row, width))
        assert all(word in told for word in ("ann", "● ", "running", "25 %", "1.50 $"))
    if width >= 200:
        assert all(
            word in text_of(agent_line(row, 200, (), (), wide))
            for word in ("claude-opus", "+3 −1", "12k")
        )


def test_a_person_chooses_the_columns():
    shown = [column.name for column, _, _ in place_columns(80, ("name", "cost", "branch"))]
    assert shown == ["name", "cost", "branch"]
    assert [column.name for column, _, _ in place_columns(80, ("cost",))] == ["name", "cost"]
    usual = {column.name for column, _, _ in place_columns(200)}
    assert set(COLUMNS) == {*usual, "conflicts", "plan", "budget"}
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
        await pilot.click(AgentTable, offset=(5, 0))
        assert names(store) == ["ann", "zoe"]
        assert "agent▾" in screen_text(pilot.app)
        await pilot.click(AgentTable, offset=(5, 0))
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
        await pilot.press(*"/group none", "enter", *"/sort name", "enter")
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
        await until(pilot, lambda: "? ann" in screen_text(app))
        await until(pilot, lambda: "needs permission: ls" in screen_text(app))


# Words and figures


def row(info: AgentInfo, *, now: int = 5 * SECOND, **facts) -> AgentRow:
    store = facts.pop("store", None) or roster(info)
    return AgentRow(agent=info, roster=store, now=now, **facts)


STATES = {
    "starting": "starting",
    "running": "running",
    "waiting": "needs you",
    "idle": "idle",
    "done": "done",
    "failed": "failed",
    "interrupted": "stopped",
    "killed": "stopped",
}


@pytest.mark.parametrize("state", STATES)
def test_states_have_the_words_and_signs_of_the_visual_language(state: str):
    info = agent("ann", state=state, needs_person=state == "waiting")
    assert info.state_word == STATES[state]
    sign = dict(zip(STATES, "◌●?○✓✗⊘⊘", strict=True))[state]
    assert text_of(agent_line(row(info), 43)).startswith(f"{sign} ann")
    assert text_of(agent_card(row(info), 43)[0]).startswith(f"{sign} ann")
    assert STATES[state] in text_of(agent_line(row(info), 120))


def test_an_agent_that_asks_another_agent_is_running():
    info = agent("ann", state="waiting", waits_for="agent")
    assert info.state_word == "running"
    assert "asks another agent" in text_of(agent_line(row(info), 60))


def asked(info: AgentInfo, number: int = 1, **facts) -> InboxItem:
    wanted = PermissionAsked(
        request=RequestId(f"r{number}"), call=ToolCallId("c"), title="pytest -q", kind="execute",
        options=(),
    )  # fmt: skip
    told = {"permission": wanted, **facts}
    return InboxItem(
        request=wanted.request, session=info.session, name=info.name, since=2 * SECOND, seq=1,
        **told,
    )  # fmt: skip


def test_a_row_says_what_the_agent_needs_and_since_when():
    info = agent("ann", state="waiting", needs_person=True)
    line = text_of(agent_line(row(info, requests=[asked(info)], now=9 * SECOND), 43))
    assert "wants to run pytest -q" in line and line.endswith("  7s")
    two = text_of(agent_line(row(info, requests=[asked(info), asked(info, 2)]), 43))
    assert "+1 wants to run" in two
    question = QuestionAsked(request=RequestId("r"), text="which heading style?")
    item = asked(info, permission=None, question=question)
    assert "asks: which heading style?" in text_of(agent_card(row(info, requests=[item]), 60)[0])


def record(event: Event, session: str = "s-ann", time: int = 0, seq: int = 1) -> Record:
    return Record(session=SessionId(session), event=event, time=time, seq=seq)


def plan(done: int, every: int) -> PlanChanged:
    entries = [
        PlanEntry(content="x", priority="low", status="completed" if n < done else "pending")
        for n in range(every)
    ]
    return PlanChanged(entries=tuple(entries))


@pytest.mark.parametrize(("done", "every", "shown"), [(3, 7, "3/7"), (50, 200, "25 %")])
def test_the_progress_of_a_plan_is_shown_however_long_it_is(done: int, every: int, shown: str):
    info = agent("ann", state="running")
    store = roster(info)
    store.take([record(plan(done, every))])
    assert find_urgent_columns([info], store)[:2] == ("activity", "plan")
    assert shown in text_of(agent_line(row(info, store=store), 120, (), ("plan",)))
    assert shown in text_of(agent_card(row(info, store=store), 43)[1])


@pytest.mark.parametrize(
    ("title", "kind", "words"),
    [
        ("Edit src/a.py", "edit", "editing src/a.py"),
        ("ruff check", "execute", "running ruff check"),
        ("mcp_thing", "other", "mcp_thing"),
        ("", "read", "reading"),
    ],
)
def test_the_last_action_is_told_in_words(title: str, kind, words: str):
    info = agent("ann", state="running")
    store = roster(info)
    store.take([record(ToolCallStarted(call=ToolCallId("c"), title=title, kind=kind))])
    assert store.doing(info) == words


def test_activity_is_counted_in_a_ring_that_does_not_grow():
    activity = AgentActivity()
    assert activity.sparkline(0) == ""
    for second in range(0, 36_000):
        activity.count(second * SECOND)
    now = 35_999 * SECOND
    assert activity.sparkline(now) == "▆" * BUCKETS  # 30 in each half minute
    assert len(activity._counts) == BUCKETS
    assert activity.sparkline(now + 60 * SECOND) == "▆▆▆▆▁▁"
    activity.count(0)  # one that comes late
    assert activity.sparkline(now + 3_600 * SECOND) == ""
    activity.count(now + 7_200 * SECOND)
    assert activity.sparkline(now + 7_200 * SECOND) == "▁▁▁▁▁▂"


@pytest.mark.parametrize(
    ("kind", "doing"),
    [("allow_once", "running pytest -q"), ("reject_once", ""), (None, "")],
)
def test_what_was_allowed_is_what_an_agent_does(kind: str | None, doing: str):
    activity = AgentActivity()
    call = ToolCallId("call_1")
    asked = PermissionAsked(
        request=RequestId("r1"), call=call, title="pytest -q", kind="execute", options=()
    )
    answered = PermissionAnswered(
        request=asked.request,
        call=call,
        outcome=Selected(option_id="x") if kind else Cancelled(),
        by=Decider(kind="person"),
        kind=kind,
    )
    activity.take(asked, 1)
    assert activity.doing == "wants to run pytest -q"
    activity.take(answered, 2)
    assert activity.doing == doing
    activity.take(ThoughtChunk(content=text("hm")), 3)
    activity.take(answered, 4)  # a rule decided: nothing was asked
    assert activity.doing == "thinking"


def test_what_was_before_is_recalled_and_what_is_known_counts_more():
    info = agent("ann", state="running", updated=50)
    store = roster(info)
    past = [
        record(plan(1, 3)),
        record(TurnStarted(), time=7),
        record(MessageChunk(content=text("x"))),
    ]
    store.take([record(ThoughtChunk(content=text("hm")), time=90)])
    store.recall(info.session, past)
    assert (store.doing(info), store.since(info)) == ("thinking", 7)
    assert store.activity(info.session).plan == (1, 3)


HOSTILE = ["🧑‍🚀🧑‍🚀 crew", "שלום עולם", "x" * 500, "\x1b[31mred\u202e", "", "\n\n"]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("width", [1, 5, 18, 43, 78, 120, 400])
def test_no_name_breaks_a_row_or_a_card(name: str, width: int):
    tree = Worktree(path="/w", repository="/r", base="1", branch="qd/" + "b" * 200)
    info = agent("ann", model="m" * 200, state="running", worktree=tree)
    info = replace(info, name=name, changes=ChangeCounts(files=1, added=10**6, removed=10**6))
    one = row(info, checkout=Checkout())
    wide = measure_columns([one])
    for line in (agent_line(one, width, (), (), wide), *agent_card(one, width, wide)):
        assert width_of(line) <= width
        assert "\x1b" not in text_of(line) and "\u202e" not in text_of(line)
    assert width_of(group_line(name, 3, width)) <= width


@pytest.mark.parametrize("width", range(43, 200, 7))
def test_columns_disappear_whole_and_words_keep_their_room(width: int):
    columns = place_columns(width, (), ("conflicts", "plan", "changes", "branch"), {"name": 20})
    sizes = {column.name: cells for column, _, cells in columns}
    assert sizes["doing"] >= LEAST_WORDS
    assert all(cells >= COLUMNS[name].width for name, cells in sizes.items() if name != "name")
    _, at, cells = columns[-1]
    assert at + cells == width


# Groups and cards


def texts(app: App[None]) -> list[str]:
    return [line.rstrip() for line in screen_text(app).splitlines()]


async def test_agents_stand_in_groups_by_state_and_a_title_cannot_be_chosen():
    store = roster(
        agent("done", state="idle"), agent("busy", state="running"),
        agent("asks", state="waiting", needs_person=True),
    )  # fmt: skip
    async with Alone(store).run_test(size=(60, 30)) as pilot:
        app = pilot.app
        assert isinstance(app, Alone)
        await until(pilot, lambda: "needs you 1" in screen_text(app))
        titles = [line for line in texts(app) if line and line[0] not in "?●○ "]
        assert titles == ["needs you 1", "running 1", "done 1"]
        app.table.focus()
        await pilot.press("down")
        seen = [app.table.cursor]
        for _ in range(3):
            await pilot.press("down")
            seen.append(app.table.cursor)
        assert seen == ["s-asks", "s-busy", "s-done", "s-done"]
        await pilot.click(AgentTable, offset=(2, 0))  # a title
        assert app.table.cursor == "s-done"
        await pilot.click(AgentTable, offset=(2, 2))  # the second line of the first card
        assert app.table.cursor == "s-asks"
        store.group("project")
        await until(pilot, lambda: "needs you 1" not in screen_text(app))
        store.replace([replace(one, cwd=f"/work/{one.name}") for one in store.everyone], None)
        await until(pilot, lambda: "/work/busy 1" in screen_text(app))


async def test_cards_become_rows_where_there_is_no_room_for_them():
    many = [agent(f"a{n}", state="running", model="opus") for n in range(10)]
    store = roster(*many)
    async with Alone(store).run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: screen_text(pilot.app).count("opus") == 10)  # on second lines
        await pilot.resize_terminal(60, 12)
        await until(pilot, lambda: screen_text(pilot.app).count("opus") == 0)
        assert sum("● " in line and " a" in line for line in texts(pilot.app)) == 10
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: "context" in texts(pilot.app)[0])


async def test_what_happens_is_drawn_by_the_clock_and_not_by_the_event():
    store = roster(agent("ann", state="running", updated=90 * SECOND), agent("bob"))
    async with Alone(store).run_test(size=(60, 20)) as pilot:
        app = pilot.app
        assert isinstance(app, Alone)
        await until(pilot, lambda: "ann" in screen_text(app))
        drawn = 0
        update = app.table.update

        def counted() -> None:
            nonlocal drawn
            drawn += 1
            update()

        app.table.update = counted
        for number in range(500):
            store.take([record(MessageChunk(content=text("x")), time=95 * SECOND, seq=number)])
        await until(pilot, lambda: "writing" in screen_text(app))
        assert "▁▁▁▁▁█" in screen_text(app)
        assert drawn == 0


async def test_the_grouping_is_changed_with_a_key_and_kept(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await pilot.press("f2", "g")
        await until(pilot, lambda: app.context.roster.query.group == "lead")
        await until(pilot, lambda: app.preferences.choices.group == "lead")
        await pilot.press("f2", *"/group project", "enter")
        await until(pilot, lambda: app.context.roster.query.group == "project")
        await pilot.press(*"/group nonsense", "enter")
        await until(pilot, lambda: any("cannot group" in n.message for n in app._notifications))


async def test_a_number_goes_to_an_agent_of_the_list_from_the_input_and_what_follows_is_for_it(
    tmp_path: Path,
):
    fleet = FakeFleet()
    sessions = [await begin(fleet, f"agent{number}") for number in range(11)]
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.context.shown == sessions[0])
        app.context.roster.sort("need", is_reversed=True)  # the list as it is on the screen
        await pilot.press("a", "alt+3", "b")
        assert app.context.shown == sessions[8]
        assert app.main.chat.text == "b"
        await pilot.press("alt+9", "alt+0")
        assert app.context.shown == sessions[2]
        await pilot.press("f2", "alt+1", "c")  # from the list, too, into the chat
        assert app.context.shown == sessions[10] and app.main.chat.text == "c"
        lines = {line.split()[2]: line for line in screen_text(app).split("\n") if " agent" in line}
        assert "● 1 agent10" in lines["agent10"] and "● 9 agent2" in lines["agent2"]
        assert "●   agent1 " in screen_text(app) and "●   agent0 " in screen_text(app)


async def test_a_number_beyond_the_list_and_a_number_in_a_dialog_do_nothing(tmp_path: Path):
    fleet = FakeFleet()
    first, second = await begin(fleet, "ann"), await begin(fleet, "bob")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.context.shown == first)
        await pilot.press("alt+3")
        assert app.context.shown == first
        await pilot.press("f1")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        assert "alt+1 … alt+9" in screen_text(app)
        await pilot.press("alt+2", "escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert app.context.shown == first
        await pilot.press(*"/agent bob", "enter")
        await until(pilot, lambda: app.context.shown == second)
        await pilot.press(*"/agent 1", "enter")
        await until(pilot, lambda: app.context.shown == first)
        await pilot.press(*"/agent 7", "enter")
        await until(pilot, lambda: "no agent '7' in the list" in screen_text(app))


async def test_a_number_goes_to_the_chat_that_has_the_agent_as_its_own(tmp_path: Path):
    fleet = FakeFleet()
    first, second = await begin(fleet, "ann"), await begin(fleet, "bob")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.context.shown == first)
        await pilot.press(*"/split right chat agent=bob", "enter")
        await until(pilot, lambda: len(list(app.main.chats())) == 2)
        await pilot.press("alt+1", "a", "alt+2", "b")
        assert app.context.shown == first
        assert app.main.panel.session == second and app.main.panel.chat.text == "b"


async def test_a_number_is_for_the_home_screen_while_that_is_shown(tmp_path: Path):
    fleet = FakeFleet()
    first, _ = await begin(fleet, "ann"), await begin(fleet, "bob")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.context.shown == first)
        assert "2 bob" in screen_text(app)
        app.context.go_home()
        await until(pilot, lambda: app.main.panel.is_home)
        assert "2 bob" not in screen_text(app)
        home = app.main.panel.home
        assert home is not None
        await until(pilot, lambda: len(home._recent) == 2)
        wanted = home._recent[1].info  # the newest is first there
        assert wanted is not None
        await pilot.press("alt+2")
        await until(pilot, lambda: not app.main.panel.is_home)
        assert app.context.shown == wanted.session != app.context.roster.agents[1].session


@pytest.mark.parametrize("width", [20, 39, 46, 60, 80, 130])
def test_numbers_keep_lines_within_their_width(width: int):
    table = AgentTable(
        roster(agent("lead", needs_person=True), agent("bob", state="running"), agent("日本語")),
        lambda: 5 * SECOND,
    )
    lines = [line for _, line in table.rows(width)]
    assert all(width_of(line) <= width for line in lines)
    assert any(" 2 " in text_of(line) for line in lines) == (width >= 40)
