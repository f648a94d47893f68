"""What an agent does that no decision covers is told, whoever it is and however it is reached.

More of the same over ACP is in ``acp/test_acp_gate.py``.
"""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.modes import Mode
from quarterdeck.wire.events import PermissionViolated, ToolCallEnded, TurnEnded
from tests.drivers.rigs import claude, oneshot, pty
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import Driven, Rig, drive
from tests.support.shipped import shipped_daemon, shipped_pipe
from tests.support.work_trees import new_repository

ASKING = [acp_rig(), claude.RIGS[0], shipped_daemon("codex"), shipped_daemon("opencode")]
NEVER_ASKING = [
    *map(shipped_pipe, ("codex", "gemini", "opencode", "cursor", "pi")),
    oneshot.RIGS[-1],
]
TELLING = [*ASKING, *NEVER_ASKING]
"""Those that tell of each call what it does; a screen shows a title."""
ALL = [*TELLING, *pty.RIGS]

telling = pytest.mark.parametrize("rig", TELLING, ids=lambda rig: rig.name)
everybody = pytest.mark.parametrize("rig", ALL, ids=lambda rig: rig.name)


def around(cwd: Path) -> CallContext:
    """Where a violation ends the turn."""
    return CallContext(cwd=str(cwd), roots=(str(cwd),), on_violation="stop")


def told_after_its_call(driven: Driven) -> PermissionViolated:
    (violation,) = driven.all(PermissionViolated)
    ends = [one for one in driven.all(ToolCallEnded) if one.call == violation.call]
    assert driven.events.index(violation) == driven.events.index(ends[0]) + 1
    return violation


@telling
async def test_a_file_that_nobody_let_it_change(rig: Rig, tmp_path: Path):
    async with drive(rig, tmp_path) as driven:
        ended = await driven.say("sneak a.txt sneaked\necho after")
    assert await asyncio.to_thread((tmp_path / "a.txt").read_text) == "sneaked"
    violation = told_after_its_call(driven)
    assert violation.kind == "edit" and "no permission was requested" in violation.reason
    if rig not in oneshot.RIGS:  # a file of one's own says what the titles are
        assert "a.txt" in violation.title
    assert (ended.stop, "after" in driven.text) == ("end_turn", True)


@telling
async def test_a_command_that_nobody_let_it_run(rig: Rig, tmp_path: Path):
    async with drive(rig, tmp_path) as driven:
        await driven.say("sneak-run touch made.txt")
    assert await asyncio.to_thread((tmp_path / "made.txt").exists)
    if rig.name == "codex-pipe":
        assert driven.all(PermissionViolated) == []  # a sandbox of its own is around its commands
        return
    violation = told_after_its_call(driven)
    assert violation.kind == "execute" and "no permission was requested" in violation.reason
    assert "touch made.txt" in violation.title


@telling
async def test_by_setting_it_ends_the_turn(rig: Rig, tmp_path: Path):
    async with drive(rig, tmp_path, around=around(tmp_path)) as driven:
        ended = await driven.say("sneak a.txt sneaked\nwait\nsneak b.txt sneaked")
        assert (ended.stop, len(driven.all(PermissionViolated))) == ("failed", 1)
        assert "without permission" in (ended.reason or "")
        again = await driven.say("echo hello")
    assert (again.stop, "hello" in driven.text) == ("end_turn", True)
    assert not await asyncio.to_thread((tmp_path / "b.txt").exists)


@everybody
async def test_what_was_permitted_is_none(rig: Rig, tmp_path: Path):
    async with drive(rig, tmp_path, gate=Gate(mode="ask", attended=False)) as driven:
        await driven.say("do read a.txt" if rig in NEVER_ASKING else "do edit a.txt x")
    assert driven.all(PermissionViolated) == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With a file that has changed since its commit."""
    place = tmp_path / "work"
    new_repository(place, {"kept.txt": "kept\n"})
    (place / "kept.txt").write_text("changed\n")
    return place


MODES: tuple[Mode, ...] = ("read-only", "plan")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "rig", [one for one in ALL if one not in oneshot.RIGS], ids=lambda rig: rig.name
)
async def test_a_change_that_it_does_not_tell_of_where_nothing_may_change(
    rig: Rig, mode: Mode, repository: Path
):
    gate = Gate(mode=mode)
    async with drive(rig, repository, gate=gate, mode=mode, around=around(repository)) as driven:
        await driven.say("echo hello")
        assert driven.all(PermissionViolated) == []
        ended = await driven.say("hide kept.txt hidden\necho done")
    (violation,) = driven.all(PermissionViolated)
    assert violation.call is None and "kept.txt" in violation.title and mode in violation.reason
    # It is seen when the agent is done; the turn is no success all the same.
    assert ended.stop == "failed" and "kept.txt" in (ended.reason or "")
    assert "without permission" in (ended.reason or "")
    assert driven.events.index(violation) < driven.events.index(driven.all(TurnEnded)[-1])


async def test_what_a_screen_shows_is_told_once_by_the_disk(repository: Path):
    gate = Gate(mode="read-only")
    async with drive(pty.RIGS[0], repository, gate=gate) as driven:
        ended = await driven.say("sneak new.txt sneaked\nsneak-run touch made.txt")
    (violation,) = driven.all(PermissionViolated)
    assert "new.txt" in violation.title and "made.txt" in violation.title
    assert ended.stop == "end_turn"
