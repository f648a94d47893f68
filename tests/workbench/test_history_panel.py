"""Sessions of other agents on a screen: listed, taken, gone on with."""

from pathlib import Path

from quarterdeck.journal.session_summary import SessionSummary
from quarterdeck.wire.ids import new_session_id
from tests.support.history_homes import claude_lines, recorded_home, write_lines
from tests.support.memory_fleet import FakeFleet
from tests.support.panel_app import alone, desk_in, shown, until_shown


async def test_sessions_are_listed_and_taken(tmp_path: Path):
    lab = tmp_path / "lab"
    lab.mkdir()
    home = recorded_home(tmp_path / "home", str(lab))
    fleet = FakeFleet()
    async with alone("history", desk_in(lab, fleet)) as (panel, app, pilot):
        panel.environment = {"HOME": str(home)}
        await pilot.press("r")
        await until_shown(
            app, pilot, "5 sessions", "codex", "scene:shell run it", "A scripted title"
        )
        first = panel.list.chosen
        await pilot.press("enter")
        await pilot.app.workers.wait_for_complete()
        (info,) = await fleet.agents()
        assert (info.agent, info.title) == (first.agent, first.id)
        await pilot.press("down", "g")
        await pilot.app.workers.wait_for_complete()
        assert len(await fleet.agents()) == 2


async def test_sessions_of_run_are_listed_searched_and_opened(tmp_path: Path):
    fleet = FakeFleet()
    run = new_session_id()
    fleet.standalone.append(
        SessionSummary(
            id=run,
            agent="codex",
            cwd=str(tmp_path),
            title="Ebb \x1b[31m tide",
            model=None,
            parent=None,
            forked_from=None,
            transport=None,
            agent_session="theirs",
            opened=1,
            updated=2,
            last_seq=3,
            ended="closed",
            reason=None,
        )
    )
    async with alone("history", desk_in(tmp_path, fleet)) as (panel, app, pilot):
        panel.environment = {"HOME": str(tmp_path / "nowhere")}
        await pilot.press("r")
        await until_shown(app, pilot, "1 session", "codex", "run Ebb \\x1b[31m tide")
        await pilot.press("slash", *"xyz", "enter")
        await until_shown(app, pilot, "No session contains")
        await pilot.press("escape")
        await until_shown(app, pilot, "run Ebb")
        await pilot.press("g")
        await pilot.app.workers.wait_for_complete()
        (info,) = await fleet.agents()
        assert (info.agent, info.cwd, info.is_live) == ("codex", str(tmp_path), True)
        assert fleet.standalone == []


async def test_words_leave_those_that_have_them(tmp_path: Path):
    lab = tmp_path / "lab"
    lab.mkdir()
    home = recorded_home(tmp_path / "home", str(lab))
    async with alone("history", desk_in(lab)) as (panel, app, pilot):
        panel.environment = {"HOME": str(home)}
        await pilot.press("r")
        await until_shown(app, pilot, "5 sessions")
        await pilot.press("slash", *"sky", "enter")
        await until_shown(app, pilot, "1 of 5 sessions", "with sky", "why is the sky blue?")
        assert "scene:shell" not in shown(app)
        await pilot.press("slash", *"xyz", "enter")
        await until_shown(app, pilot, "No session contains")
        await pilot.press("escape")
        await until_shown(app, pilot, "5 sessions", "scene:shell run it")


async def test_a_small_place_and_hostile_titles(tmp_path: Path):
    lab = tmp_path / "lab"
    lab.mkdir()
    home = recorded_home(tmp_path / "home", str(lab))
    file = next((home / ".claude/projects").iterdir()) / "evil.jsonl"
    write_lines(file, claude_lines("\x1b[31m evil\u202e שלום", cwd=str(lab)))
    async with alone("history", desk_in(lab), size=(20, 5)) as (panel, app, pilot):
        panel.environment = {"HOME": str(home)}
        await pilot.press("r")
        await until_shown(app, pilot, "history", "cla \\x1b[31m evi", "cod scene:shell")
        assert not set("\x1b\u202e") & set(shown(app))


async def test_what_cannot_be_read_is_told_with_its_reason(tmp_path: Path):
    home = recorded_home(tmp_path / "home")
    (home / ".local/share/opencode/opencode.db").write_bytes(b"x" * 100)
    async with alone("history", desk_in(tmp_path)) as (panel, app, pilot):
        panel.environment = {"HOME": str(home)}
        await pilot.press("r")
        await until_shown(
            app,
            pilot,
            "opencode: cannot read",
            "No sessions in this directory.",
        )


async def test_those_of_other_directories_only_on_demand(tmp_path: Path):
    home = recorded_home(tmp_path / "home")
    async with alone("history", desk_in(tmp_path)) as (panel, app, pilot):
        panel.environment = {"HOME": str(home)}
        await pilot.press("r")
        await until_shown(app, pilot, "No sessions in this directory", "a shows")
        await pilot.press("a")
        await until_shown(app, pilot, "all directories", "5 sessions", "/home/dev/lab")
        assert panel.remember() == {"everywhere": True}
        panel.environment = {}
        await pilot.press("r")
        await until_shown(app, pilot, "HOME")
        assert "5 sessions" not in shown(app)
