"""Reviews, conflicts and merging from the whole workbench: commands, keys, the agent table."""

from pathlib import Path

from msgspec.structs import replace

from quarterdeck.fleet.api import AgentConflict
from quarterdeck.fleet.errors import FleetError
from quarterdeck.fleet.landing.api import LandingConflict, LandingTarget
from quarterdeck.wire.worktrees import ChangeCounts, ConflictFile, Worktree
from quarterdeck.workbench.layout.spec import panels_of
from quarterdeck.workbench.panels.review.panel import ReviewPanel
from quarterdeck.workbench.screens.landing import LandingScreen
from quarterdeck.workbench.screens.landing_queue import LandingQueueScreen
from quarterdeck.workbench.widgets.agent_table import AgentTable
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until

TREE = Worktree(
    path="/w/parser", repository="/r", base="1", base_ref="main", branch="quarterdeck/parser"
)


async def fleet_with_changes() -> FakeFleet:
    fleet = FakeFleet()
    parser, api = await begin(fleet, "parser"), await begin(fleet, "api")
    fleet.change("src/parser.py", "when = 1\n", "when = 2\n")
    files = (ConflictFile(path="src/parser.py", kind="text"),)
    fleet.infos[parser] = replace(
        fleet.infos[parser],
        worktree=TREE,
        changes=ChangeCounts(files=1, added=41, removed=12),
        conflicts=(AgentConflict(other=api, files=files),),
    )
    return fleet


async def test_a_review_fills_a_tab_and_escape_goes_back(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("review", "parser")
        await until(pilot, lambda: "when = 2" in screen_text(app))
        assert len(app.main.view.spec.tabs) == 2
        assert "review parser → main" in screen_text(app) and "esc back" in screen_text(app)
        app.action_command("review", "parser src/parser.py")
        await pilot.pause(0.1)
        assert len(app.main.view.spec.tabs) == 2
        await pilot.press("escape")
        await until(pilot, lambda: len(app.main.view.spec.tabs) == 1)
        assert not app.main.query(ReviewPanel)


async def test_a_key_of_the_agent_table_opens_the_review_of_its_row(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.main.query_one(AgentTable).place(fleet.find("parser"))
        app.main.query_one(AgentTable).focus()
        await pilot.press("v")
        await until(pilot, lambda: "when = 2" in screen_text(app))
        panel = app.main.query_one(ReviewPanel)
        assert panel.session == fleet.find("parser")
        assert app.context.focused == fleet.find("parser")


async def test_the_key_at_the_end_of_a_turn_counts_in_the_input(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.main.show_agent(fleet.find("parser"))
        await until(pilot, lambda: app.context.focused == fleet.find("parser"))
        await pilot.press("alt+v")
        await until(pilot, lambda: "when = 2" in screen_text(app))
        assert app.main.query_one(ReviewPanel).session == fleet.find("parser")


async def test_any_key_can_be_bound_to_an_action_of_a_review(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("review-do", "accept")
        await until(pilot, lambda: "no review has the focus" in screen_text(app))
        app.action_command("review", "parser")
        await until(pilot, lambda: "when = 2" in screen_text(app))
        app.action_command("review-do", "accept-file")
        await until(pilot, lambda: any(kind == "accept" for kind, _ in fleet.calls))
        app.action_command("review-do", "explode")
        await until(pilot, lambda: "cannot 'explode'" in screen_text(app))


async def test_the_table_shows_branch_changes_and_the_other_agent(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (160, 40)) as (app, pilot):
        table = app.main.query_one(AgentTable)
        table.columns = ("name", "changes", "conflicts")
        table.update()
        await until(pilot, lambda: "⚠ api" in screen_text(app))
        row = next(line for line in screen_text(app).splitlines() if "⚠ api" in line)
        assert "+41 −12" in row
        table.columns = ("name", "branch")
        table.update()
        await until(pilot, lambda: "⎇ quarterdeck/pa" in screen_text(app).splitlines()[1][:46])
        table.columns = ()
        table.update()
        await until(pilot, lambda: "⚠ api  " in screen_text(app))


async def test_the_chat_names_the_branch_instead_of_the_directory(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (160, 40)) as (app, pilot):
        app.main.show_agent(fleet.find("parser"))
        await until(pilot, lambda: "⎇ quarterdeck/parser · +41 −12" in screen_text(app))


async def test_the_dialog_merges_with_what_was_typed(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("review", "parser")
        await until(pilot, lambda: "when = 2" in screen_text(app))
        await pilot.press("M")
        await until(pilot, lambda: "Read time zones" in screen_text(app))
        assert "2 files  +41 −12 into main" in screen_text(app)
        await pilot.press(*"squash", "tab", *"next", "ctrl+s")
        await until(pilot, lambda: "merged into next" in screen_text(app))
        (options,) = fleet.landed
        assert (options.method, options.into, options.message) == ("squash", "next", None)
        assert options.expected == "5678"


async def test_a_merge_that_fails_stays_open_and_says_why(tmp_path: Path):
    fleet = await fleet_with_changes()
    fleet.landing_state, fleet.landing_reason = "check", "`make test` failed"
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("merge", "parser")
        await until(pilot, lambda: "Read time zones" in screen_text(app))
        await pilot.press(*"rebas", "ctrl+s")
        await until(pilot, lambda: "no method 'rebas'" in screen_text(app))
        await pilot.press("e", "tab", "tab", *"!", "ctrl+s")
        await until(pilot, lambda: "nothing was changed: `make test` failed" in screen_text(app))
        assert isinstance(app.screen, LandingScreen)
        assert fleet.landed[0].message == "!Read time zones\n\nWork of parser."
        fleet.refuses_landing = FleetError("parser has no worktree")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "parser has no worktree" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, LandingScreen))


async def test_a_branch_that_is_checked_out_is_merged_with_its_files(tmp_path: Path):
    fleet = await fleet_with_changes()
    fleet.landing_target = LandingTarget(branch="main", commit="1a2b", checkout="/w/tides")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("merge", "parser")
        await until(pilot, lambda: "update those in /w/tides" in screen_text(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: fleet.landed)
        assert fleet.landed[0].checkout


async def test_a_checkout_that_is_not_clean_is_not_updated(tmp_path: Path):
    fleet = await fleet_with_changes()
    fleet.landing_target = LandingTarget(
        branch="main", commit="1a2b", checkout="/w/tides", problem="'/w/tides' has changes"
    )
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("merge", "parser")
        await until(pilot, lambda: "'/w/tides' has changes" in screen_text(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: fleet.landed)
        assert not fleet.landed[0].checkout


async def test_conflicts_are_handed_back_from_the_dialog(tmp_path: Path):
    fleet = await fleet_with_changes()
    fleet.landing_conflicts = (LandingConflict(path="a.py", kind="contents"),)
    fleet.landing_state, fleet.landing_reason = "conflict", "1 file conflicts"
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("merge", "parser")
        await until(pilot, lambda: "ctrl+o asks parser to resolve it" in screen_text(app))
        await pilot.press("ctrl+o")
        await until(pilot, lambda: not isinstance(app.screen, LandingScreen))
        assert fleet.landed[0].hand_to == fleet.find("parser")


async def test_agents_land_one_after_the_other_and_a_closed_dialog_tells_the_end(tmp_path: Path):
    fleet = await fleet_with_changes()
    fleet.landing_state, fleet.landing_reason = "check", "`make test` failed"
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("land", "api parser")
        await until(pilot, lambda: "2. parser  +41 −12" in screen_text(app))
        await pilot.press(*"next", "tab", "-", "ctrl+s")
        await until(pilot, lambda: "1. api     ● is being merged" in screen_text(app))
        (options,) = fleet.landed
        assert (options.into, options.skip_check) == ("next", True)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, LandingQueueScreen))
        fleet.landing_goes_on.set()
        told = "landed on next: api; parser its check failed"
        await until(pilot, lambda: told in screen_text(app))


async def test_a_landing_queue_is_stopped_by_a_key(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("land", "parser")
        await until(pilot, lambda: "1. parser  +41 −12" in screen_text(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "ctrl+x stop the queue" in screen_text(app))
        await pilot.press("ctrl+x")
        await until(pilot, lambda: "1. parser  ⊘ cancelled" in screen_text(app))
        assert "asked to resolve" not in screen_text(app)  # it has nothing to resolve


async def test_landing_nobody_says_so(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("land", "nobody")
        await until(pilot, lambda: "no agent 'nobody'" in screen_text(app))
        app.action_command("land", "")
        await until(pilot, lambda: "no agent here has changes" in screen_text(app))


async def test_conflicts_open_as_a_panel_and_escape_closes_it(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        app.action_command("conflicts", "")
        await until(pilot, lambda: "when two agents work on one repository" in screen_text(app))
        assert "conflicts" in {node.widget for node in panels_of(app.main.view.spec)}
        await pilot.press("L")
        await until(pilot, lambda: "there is nothing to land" in screen_text(app))
        await pilot.press("escape")
        await until(
            pilot,
            lambda: "conflicts" not in {node.widget for node in panels_of(app.main.view.spec)},
        )


async def test_a_lead_opens_a_review_without_taking_the_focus(tmp_path: Path):
    fleet = await fleet_with_changes()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await until(pilot, lambda: fleet.screens is not None)
        app.main.chat.focus()
        await pilot.press("x")
        done = await app.screen_controller.call("open_review", {"agent": "parser"})
        assert done["panel"].startswith("review")
        app.action_command("review", "nobody")
        await until(pilot, lambda: "no agent 'nobody'" in screen_text(app))
