"""The conflicts panel: who changes what another changes, and where that leads."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from quarterdeck.fleet.radar.api import (
    BaseConflict,
    ConflictPair,
    ConflictReport,
    LandingProposal,
    RadarAgent,
    RepositoryConflicts,
)
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import ConflictChanged
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import ChangeCounts, ConflictFile
from quarterdeck.workbench.panels.conflicts import find_cells
from quarterdeck.workbench.panels.panel import Panel
from tests.support.memory_fleet import FakeFleet
from tests.support.panel_app import alone, desk_in, shown, until_shown
from tests.support.workbench_app import begin, until

API, CACHE, DOCS = (SessionId(name) for name in ("ses_api", "ses_cache", "ses_docs"))
ROUTER = ConflictFile(path="src/router.py", kind="text", symbols=("Router.match",))
MODELS = ConflictFile(path="src/models.py", kind="symbol", symbols=("Model",))
README = ConflictFile(path="README.md", kind="file")


def report() -> ConflictReport:
    agents = tuple(
        RadarAgent(session=s, name=s[4:], directory=f"/w/{s}", changes=ChangeCounts(added=4))
        for s in (API, CACHE, DOCS)
    )
    pairs = (
        ConflictPair(
            one=API, one_name="api", other=CACHE, other_name="cache", files=(ROUTER, MODELS)
        ),
        ConflictPair(one=CACHE, one_name="cache", other=DOCS, other_name="docs", files=(README,)),
    )
    order = (
        LandingProposal(session=DOCS, name="docs", conflicts=0, shared=1),
        LandingProposal(session=API, name="api", conflicts=1),
    )
    base = (BaseConflict(session=DOCS, name="docs", base="main", files=(README,)),)
    found = RepositoryConflicts(
        repository="/work/tides", agents=agents, pairs=pairs, landing_order=order, against_base=base
    )
    return ConflictReport(repositories=(found,), problems=("lib is not a repository",))


def test_each_pair_has_a_cell_for_each_of_its_agents():
    cells = find_cells(report().repositories[0])
    assert {(one, other) for one, other in cells} == {
        (API, CACHE),
        (CACHE, API),
        (CACHE, DOCS),
        (DOCS, CACHE),
        (DOCS, ""),
    }
    assert cells[API, CACHE].kind == "text" and cells[DOCS, CACHE].kind == "file"
    assert cells[CACHE, API].one_name == "cache" and cells[CACHE, API].other_name == "api"


def noted(panel: Any, kind: type) -> list[Any]:
    found: list[Any] = []
    post = panel.post_message

    def note(message: Any) -> bool:
        if isinstance(message, kind):
            found.append(message)
        return post(message)

    panel.post_message = note
    return found


async def test_a_cell_lists_its_files_and_enter_reviews_one(tmp_path: Path):
    fleet = FakeFleet()
    fleet.conflict_report = report()
    async with alone("conflicts", desk_in(tmp_path, fleet)) as (panel, app, pilot):
        wanted = noted(panel, Panel.CommandWanted)
        screen = await until_shown(app, pilot, "⚠ 2", "= 1", "1. docs", "0 conflicts")
        assert "lib is not a repository" in screen and "⚠ 1 cannot be merged" in screen
        # The cursor begins at the worst.
        await until_shown(app, pilot, "[⚠ 2]", "api × cache", "src/router.py", "Router.match")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: wanted)
        assert (wanted[0].command, wanted[0].words) == ("review", f"{API} src/router.py")


async def test_the_cursor_shows_where_the_focus_is(tmp_path: Path):
    fleet = FakeFleet()
    fleet.conflict_report = report()
    async with alone("conflicts", desk_in(tmp_path, fleet)) as (panel, app, pilot):
        await until_shown(app, pilot, "[⚠ 2]")
        app.screen.set_focus(None)
        await until(pilot, lambda: "[⚠ 2]" not in shown(app))
        app.screen.set_focus(panel.matrix)  # what is shown came before the focus
        await until_shown(app, pilot, "[⚠ 2]")


async def test_files_of_a_cell_are_chosen_one_by_one(tmp_path: Path):
    fleet = FakeFleet()
    fleet.conflict_report = report()
    async with alone("conflicts", desk_in(tmp_path, fleet)) as (panel, app, pilot):
        wanted = noted(panel, Panel.CommandWanted)
        await until_shown(app, pilot, "⚠ 2")
        await pilot.press("down", "left")
        await until_shown(app, pilot, "cache × api")
        await pilot.press("enter", "down", "down", "enter")
        await until(pilot, lambda: wanted)
        assert (wanted[0].command, wanted[0].words) == ("review", f"{CACHE} src/models.py")
        await pilot.press("up", "up")
        assert panel.matrix.cell is not None and panel.matrix.cell.one == CACHE
        await pilot.press("left", "enter")  # nothing is shared with the base
        await until(pilot, lambda: len(wanted) == 2)
        assert (wanted[1].command, wanted[1].words) == ("review", CACHE)


async def test_the_order_of_the_repository_is_landed_by_a_key(tmp_path: Path):
    fleet = FakeFleet()
    fleet.conflict_report = report()
    async with alone("conflicts", desk_in(tmp_path, fleet)) as (panel, app, pilot):
        wanted = noted(panel, Panel.CommandWanted)
        await until_shown(app, pilot, "[⚠ 2]")
        await pilot.press("enter", "L")
        await until(pilot, lambda: wanted)
        order = fleet.conflict_report.repositories[0].landing_order
        assert (wanted[0].command, wanted[0].words.split()) == ("land", [o.session for o in order])


async def test_what_conflicts_with_the_base_counts_in_the_first_line(tmp_path: Path):
    fleet = FakeFleet()
    full = report()
    one = replace(full.repositories[0], pairs=())
    fleet.conflict_report = replace(full, repositories=(one,))
    async with alone("conflicts", desk_in(tmp_path, fleet)) as (_, app, pilot):
        screen = await until_shown(app, pilot, "= 1 same file")
        assert "no conflicts" not in screen.splitlines()[0]


async def test_it_follows_what_happens(tmp_path: Path):
    fleet = FakeFleet()
    desk = desk_in(tmp_path, fleet)
    async with alone("conflicts", desk) as (_, app, pilot):
        await until_shown(app, pilot, "when two agents work on one repository")
        assert fleet.asked_conflicts == [str(tmp_path)]
        session = await begin(fleet, "api")
        fleet.conflict_report = report()
        record = await fleet.append(session, ConflictChanged(other=CACHE, files=(ROUTER,)))
        desk.publish_records([record])
        await until_shown(app, pilot, "⚠ 2")
        await pilot.press("a")
        await until(pilot, lambda: fleet.asked_conflicts[-1] is None)
        await until_shown(app, pilot, "conflicts everywhere")


class _Refusing(FakeFleet):
    async def conflicts(self, cwd: str | None = None) -> ConflictReport:
        raise QuarterdeckError("git 2.30 is too old; the radar needs 2.38")


async def test_an_error_is_shown(tmp_path: Path):
    async with alone("conflicts", desk_in(tmp_path, _Refusing())) as (_, app, pilot):
        await until_shown(app, pilot, "git 2.30 is too old", "r try again")


async def test_it_fits_narrow_screens_and_many_agents(tmp_path: Path):
    fleet = FakeFleet()
    agents = tuple(
        RadarAgent(session=SessionId(f"s{n}"), name=f"agent-{n}", directory=f"/w/{n}")
        for n in range(30)
    )
    found = RepositoryConflicts(repository="/work/tides", agents=agents)
    fleet.conflict_report = ConflictReport(repositories=(found,))
    async with alone("conflicts", desk_in(tmp_path, fleet), size=(40, 10)) as (panel, app, pilot):
        await until_shown(app, pilot, "agent-0", "no conflicts")
        await pilot.press(*["right"] * 29, *["down"] * 29)
        await until_shown(app, pilot, "agent-29")
        assert panel.matrix.column == 29
        assert len(shown(app).splitlines()) == 10
