"""The states of a screen that are about reviews, conflicts and merging."""

from pathlib import Path

from msgspec.structs import replace

from quarterdeck.fleet.api import AgentConflict
from quarterdeck.fleet.landing.api import LandingConflict, LandingTarget
from quarterdeck.fleet.radar.api import (
    ConflictPair,
    ConflictReport,
    LandingProposal,
    RadarAgent,
    RepositoryConflicts,
)
from quarterdeck.fleet.review.errors import ReviewError
from quarterdeck.wire.worktrees import ChangeCounts, ConflictFile, Worktree

from .staged_workbench import Stage, StagedFleet, state

__all__: list[str] = []

_OLD = '''"""Dates as people write them."""

from datetime import datetime


def read(text):
    """Read a date."""
    when = parse(text)
    return when


def parse(text):
    parts = text.split("-")
    return datetime(*map(int, parts))
'''
_NEW = '''"""Dates as people write them."""

from datetime import UTC, datetime


def read(text):
    """Read a date, keep its offset."""
    when = parse(text).astimezone(UTC)
    return when


def parse(text):
    parts = text.split("-")
    return datetime(*map(int, parts))


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
'''
_TEST = "def test_offset():\n    assert read('2026-01-01').hour == 0\n"
_BOTH = (ConflictFile(path="src/router.py", kind="text", symbols=("Router.match",)),)


async def _changed(fleet: StagedFleet, home: Path) -> None:
    del home
    parser = await fleet.agent_at_work("parser", "Dates with a time zone are read wrong.")
    api = await fleet.agent_at_work("api", "Version the endpoints.", agent="codex")
    fleet.change("docs/dates.md", "# Dates\n", "# Dates\n\nOffsets are kept.\n")
    fleet.change("src/parser.py", _OLD, _NEW)
    fleet.change(
        "src/router.py", "def match(path):\n    return 1\n", "def match(p):\n    return 2\n"
    )
    fleet.change("tests/test_parser.py", None, _TEST)
    fleet.reviewed["docs/dates.md"].viewed = fleet.reviewed["docs/dates.md"].new
    fleet.reviewed["tests/test_parser.py"].viewed = "def test_offset():\n"
    for session, other, name in ((parser, api, "parser"), (api, parser, "api")):
        fleet.infos[session] = replace(
            fleet.infos[session],
            worktree=Worktree(
                path=f"/state/{name}", repository="/work", base="1a2b3c4", base_ref="main",
                branch=f"quarterdeck/{name}",
            ),
            changes=ChangeCounts(files=4, added=13, removed=5, is_dirty=True),
            conflicts=(AgentConflict(other=other, files=_BOTH),),
        )  # fmt: skip


async def _commented(fleet: StagedFleet, home: Path) -> None:
    await _changed(fleet, home)
    lead = await fleet.agent_at_work("lead", "Look after them.", agent="native")
    await fleet.comment("parser", "src/parser.py", 8, "why UTC here and not local?")
    await fleet.comment("parser", "src/parser.py", 17, "calendar.isleap does this", author=lead)
    fleet.noted["com_2"] = replace(fleet.noted["com_2"], state="sent", content="another")


async def _open(stage: Stage, *words: str) -> None:
    stage.app.context.select(stage.fleet.find("parser"))
    await stage.command("review", "parser src/parser.py")
    await stage.until("review parser → main", *words)


@state(_changed)
async def review_of_an_agent(stage: Stage) -> None:
    await _open(stage, "astimezone(UTC)")
    await stage.press("j")


@state(_commented)
async def review_with_comments(stage: Stage) -> None:
    await _open(stage, "you: why UTC")


@state(_changed)
async def review_with_a_comment_being_written(stage: Stage) -> None:
    await _open(stage, "astimezone(UTC)")
    await stage.press("j", "c", *"Say why.")
    await stage.until("Say why.")


@state(_changed)
async def review_with_lines_selected(stage: Stage) -> None:
    await _open(stage, "astimezone(UTC)")
    await stage.press("j", "down", "down", "down", "space", "v", "down")
    await stage.until("esc clear")


@state(_changed)
async def review_of_all_files(stage: Stage) -> None:
    await _open(stage, "astimezone(UTC)")
    await stage.press("o")
    await stage.until("1 of 4 viewed", "src/parser.py")
    await stage.press("home")
    await stage.until("Offsets are kept")


async def _unchanged(fleet: StagedFleet, home: Path) -> None:
    del home
    await fleet.agent_at_work("parser", "Dates with a time zone are read wrong.")


@state(_unchanged)
async def review_without_changes(stage: Stage) -> None:
    await stage.command("review", "parser")
    await stage.until("has changed no file")


@state(_unchanged)
async def review_of_a_worktree_that_is_gone(stage: Stage) -> None:
    stage.fleet.refuses = ReviewError(
        "the worktree '/state/parser' is gone; `quarterdeck resume parser` recreates it"
    )
    await stage.command("review", "parser")
    await stage.until("is gone")


@state(_changed)
async def merge_dialog(stage: Stage) -> None:
    await stage.command("merge", "parser")
    await stage.until("Read time zones", "into main")


async def _in_conflict(fleet: StagedFleet, home: Path) -> None:
    await _changed(fleet, home)
    fleet.landing_target = LandingTarget(branch="main", commit="1a2b3c4", checkout="/work/tides")
    fleet.landing_conflicts = (LandingConflict(path="src/router.py", kind="contents"),)


@state(_in_conflict)
async def merge_dialog_with_conflicts(stage: Stage) -> None:
    await stage.command("merge", "parser")
    await stage.until("src/router.py", "ctrl+o asks parser", "update those in /work/tides")


@state(_in_conflict)
async def landing_queue_that_ended(stage: Stage) -> None:
    stage.fleet.landing_state = "conflict"
    await stage.command("land", "parser api")
    await stage.until("land 2 agents", "conflicts with main: src/router.py")
    await stage.press("ctrl+s")
    await stage.until("is being merged", "2. api · waits", "ctrl+x stop")
    stage.fleet.landing_goes_on.set()
    await stage.until(
        "1. parser ✓ landed on main", "2. api ✗ conflicts: src/router.py", "─ esc close"
    )


@state(_changed)
async def agents_in_worktrees(stage: Stage) -> None:
    await stage.press("f2")
    await stage.command("zoom")
    await stage.until("⚠ api")


def _report() -> ConflictReport:
    names = ("api", "cache", "docs")
    agents = tuple(
        RadarAgent(
            session=f"ses_{name}", name=name, directory=f"/state/{name}",  # pyright: ignore[reportArgumentType]
            changes=ChangeCounts(files=at + 1, added=20 * at + 4, removed=at),
        )
        for at, name in enumerate(names)
    )  # fmt: skip
    files = (*_BOTH, ConflictFile(path="src/models.py", kind="symbol", symbols=("Model", "load")))
    shared = (ConflictFile(path="README.md", kind="file"),)
    pairs = (
        ConflictPair(
            one=agents[0].session, one_name="api", other=agents[1].session, other_name="cache",
            files=files,
        ),
        ConflictPair(
            one=agents[1].session, one_name="cache", other=agents[2].session, other_name="docs",
            files=shared,
        ),
    )  # fmt: skip
    order = tuple(
        LandingProposal(session=agent.session, name=agent.name, conflicts=count, shared=1)
        for agent, count in ((agents[2], 0), (agents[0], 1), (agents[1], 1))
    )
    found = RepositoryConflicts(
        repository="/work/tides", agents=agents, pairs=pairs, landing_order=order
    )
    return ConflictReport(repositories=(found,))


async def _conflicting(fleet: StagedFleet, home: Path) -> None:
    await _changed(fleet, home)
    fleet.conflict_report = _report()


@state(_conflicting)
async def conflicts_of_agents(stage: Stage) -> None:
    await stage.command("conflicts")
    await stage.until("⚠ 2")
    await stage.until("[⚠ 2]", "Router.match")  # it begins at the worst


@state(_unchanged)
async def conflicts_without_agents(stage: Stage) -> None:
    await stage.command("conflicts")
    await stage.until("two agents work on one")
