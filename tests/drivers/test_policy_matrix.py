"""Every driver and every mode: what an agent does is what the policy says.

The fakes speak each agent's own language; real agents have the same matrix in
``tests/interop/test_permission_matrix.py``.
"""

import asyncio
from importlib import import_module
from pathlib import Path

import pytest

from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import Mode
from quarterdeck.wire.events import PermissionAnswered, PermissionViolated
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import Rig, drive

RUN = "touch made.txt"
ASKING: list[Rig] = [
    rig
    for name in ("acp", "claude", "daemons")
    for rig in import_module(f"tests.drivers.rigs.{name}").RIGS
]
ONE_SHOT: list[Rig] = import_module("tests.drivers.rigs.oneshot").RIGS
COLUMNS: dict[str, tuple[Mode, tuple[str, ...]]] = {
    "allow": ("ask", ("allow edit(**)", "allow bash(touch:*)", "allow bash(/bin/sh -c:*)")),
    "ask": ("ask", ()),
    "accept-edits": ("accept-edits", ()),
    "deny": ("accept-edits", ("allow bash", "deny edit(a.txt)", "deny bash(touch)")),
    "read-only": ("read-only", ("allow edit(**)", "allow bash")),
    "plan": ("plan", ("allow edit(**)", "allow bash")),
    "full-auto": ("full-auto", ()),
}
RUNS = {"allow"}
"""Columns in which a command that an agent runs itself may run; no sandbox of ours is around it."""
EDITS = {"allow", "accept-edits", "full-auto"}


def gate_of(column: str) -> Gate:
    mode, rules = COLUMNS[column]
    return Gate(mode=mode, rules=tuple(parse_rule(one) for one in rules), attended=False)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("rig", ASKING, ids=lambda rig: rig.name)
async def test_an_agent_that_asks_runs_what_the_policy_allows(
    rig: Rig, column: str, tmp_path: Path
) -> None:
    async with drive(rig, tmp_path, gate=gate_of(column), mode=COLUMNS[column][0]) as driven:
        await driven.say(f"ask {RUN}")
    answers = driven.all(PermissionAnswered)
    allowed = [one for one in answers if one.kind == "allow_once"]
    assert bool(allowed) is (column in RUNS), answers
    said = "allowed" in driven.text or "permission: yes" in driven.text
    assert said is (column in RUNS)
    assert driven.all(PermissionViolated) == []


@pytest.mark.parametrize("column", COLUMNS)
async def test_what_an_agent_has_us_do_is_what_the_policy_says(column: str, tmp_path: Path) -> None:
    from quarterdeck.system.sandbox import detect_sandbox

    (tmp_path / "notes").write_text("some notes")
    async with drive(acp_rig(), tmp_path, gate=gate_of(column)) as driven:
        await driven.say(f"read {tmp_path}/notes")
        await driven.say(f"write {tmp_path}/a.txt hello")
        await driven.say(f"terminal {RUN}")
    assert "some notes" in driven.text
    assert (tmp_path / "a.txt").exists() is (column in EDITS)
    contained = column == "full-auto" and (await detect_sandbox()).is_there
    runs = column == "allow" or contained
    assert (tmp_path / "made.txt").exists() is runs, driven.all(PermissionAnswered)
    assert driven.all(PermissionViolated) == []


@pytest.mark.parametrize("mode", ["ask", "read-only", "plan"])
@pytest.mark.parametrize("rig", ONE_SHOT, ids=lambda rig: rig.name)
async def test_an_agent_that_never_asks_runs_nothing(rig: Rig, mode: Mode, tmp_path: Path) -> None:
    from quarterdeck.drivers.errors import UnsupportedError

    try:
        async with drive(rig, tmp_path, gate=Gate(mode=mode), mode=mode) as driven:
            await driven.say(f"ask {RUN}")
    except UnsupportedError as error:
        assert mode in str(error)
        return
    assert "allowed" not in driven.text
    assert not await asyncio.to_thread((tmp_path / "made.txt").exists)
    assert driven.all(PermissionViolated) == []
