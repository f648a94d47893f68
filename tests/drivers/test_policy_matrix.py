"""Every driver and every mode: what is on the disk afterwards is what the policy says.

The fakes speak each agent's own language, are started with the words of the files that ship, and
really read, write and run. Real agents have the same matrix in
``tests/interop/test_permission_matrix.py``.
"""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import MODES, Mode
from quarterdeck.wire.events import PermissionAnswered, PermissionViolated
from tests.drivers.rigs import claude, oneshot, pty
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import Driven, Rig, drive
from tests.support.shipped import shipped_daemon, shipped_pipe

RUN = "touch made.txt"
DEEDS = f"do read notes.txt\ndo edit a.txt after\ndo run {RUN}"
COLUMNS: dict[str, tuple[Mode, tuple[str, ...]]] = {
    "allow": ("ask", ("allow edit(**)", "allow bash(touch:*)", "allow bash(/bin/sh -c:*)")),
    "ask": ("ask", ()),
    "accept-edits": ("accept-edits", ()),
    "deny": ("accept-edits", ("allow bash", "deny edit(a.txt)", "deny bash(touch)")),
    "deny-read": ("ask", ("deny read(notes.txt)",)),
    "read-only": ("read-only", ("allow edit(**)", "allow bash")),
    "plan": ("plan", ("allow edit(**)", "allow bash")),
    "full-auto": ("full-auto", ()),
    "deny-all": ("deny-all", ("allow edit(**)", "allow bash")),
}
REFUSED = "refused"
"""The session was not opened: the agent could not be held to the mode or a rule."""


ASKING = "rex r·· re· r·· refused r·· r·· re· refused"
NEVER_ASKING = "r·· r·· refused refused refused r·· r·· refused refused"
EXPECTED: dict[str, tuple[Rig, str]] = {
    rig.name: (rig, told)
    for rig, told in (
        (acp_rig(), ASKING),
        # It tells of every call before it does it, so that a rule about reading holds.
        (claude.RIGS[0], "rex r·· re· r·· ··· r·· r·· re· ···"),
        (shipped_daemon("codex"), ASKING),
        (shipped_daemon("opencode"), ASKING),
        (pty.RIGS[0], ASKING),
        # Its own sandbox holds it in full-auto.
        (shipped_pipe("codex"), "r·· r·· refused refused refused r·· r·· rex refused"),
        (shipped_pipe("gemini"), NEVER_ASKING),
        (shipped_pipe("cursor"), NEVER_ASKING),
        (shipped_pipe("opencode"), "r·· r·· refused refused refused r·· r·· refused ···"),
        (shipped_pipe("pi"), "r·· r·· refused refused refused r·· r·· refused ···"),
        # A file of one's own: its words for modes are two.
        (oneshot.RIGS[-1], "r·· r·· refused refused refused refused refused rex refused"),
    )
}
"""By the columns, in their order: r it read, e it edited, x it ran, · it did not."""
CELLS = [
    pytest.param(rig, column, cell, id=f"{name}-{column}")
    for name, (rig, told) in EXPECTED.items()
    for column, cell in zip(COLUMNS, told.split(), strict=True)
]


def gate_of(column: str) -> Gate:
    mode, rules = COLUMNS[column]
    return Gate(mode=mode, rules=tuple(parse_rule(one) for one in rules), attended=False)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("before")
    return work


def seen_on_disk(work: Path, secret: str, driven: Driven) -> str:
    """What was done, in the letters of the table; nothing else may be there."""
    files = {path.name: path.read_text() for path in work.iterdir()}
    assert files.pop("notes.txt") == secret
    read = "r" if secret in driven.text else "·"
    edited = {"before": "·", "after": "e"}[files.pop("a.txt")]
    ran = "·" if files.pop("made.txt", None) is None else "x"
    assert files == {}
    return read + edited + ran


@pytest.mark.parametrize(("rig", "column", "expected"), CELLS)
async def test_what_is_on_the_disk_is_what_the_policy_says(
    rig: Rig, column: str, expected: str, work: Path
) -> None:
    secret = uuid4().hex
    await asyncio.to_thread((work / "notes.txt").write_text, secret)
    mode, rules = COLUMNS[column]
    driven = Driven()
    try:
        async with drive(rig, work, gate=gate_of(column), mode=mode) as driven:
            ended = await driven.say(DEEDS)
    except UnsupportedError as error:
        assert expected == REFUSED, error
        named = [one for one in rules if one.startswith("deny")]
        assert any(f"{word!r}" in str(error) for word in (mode, *named)), error
        assert await asyncio.to_thread(seen_on_disk, work, secret, driven) == "···"
        return
    assert ended.stop == "end_turn", ended
    assert await asyncio.to_thread(seen_on_disk, work, secret, driven) == expected
    assert driven.all(PermissionViolated) == []
    if driven.session.capabilities.asks:
        allowed = [one for one in driven.all(PermissionAnswered) if one.kind == "allow_once"]
        assert len(allowed) == len(expected.strip("r·").replace("·", "")), driven.events


@pytest.mark.parametrize("column", COLUMNS)
async def test_what_an_agent_has_us_do_is_what_the_policy_says(column: str, work: Path) -> None:
    from quarterdeck.system.sandbox import detect_sandbox

    secret = uuid4().hex
    await asyncio.to_thread((work / "notes.txt").write_text, secret)
    # It asks us for everything, reading too.
    rig = acp_rig(asks=frozenset(("read", "edit", "run")))
    async with drive(rig, work, gate=gate_of(column), mode=COLUMNS[column][0]) as driven:
        await driven.say(f"read {work}/notes.txt")
        await driven.say(f"write {work}/a.txt after")
        await driven.say(f"terminal {RUN}")
    contained = column == "full-auto" and (await detect_sandbox()).is_there
    expected = "".join((
        "·" if column in ("deny-read", "deny-all") else "r",
        "e" if column in ("allow", "accept-edits", "full-auto") else "·",
        "x" if column == "allow" or contained else "·",
    ))  # fmt: skip
    assert await asyncio.to_thread(seen_on_disk, work, secret, driven) == expected
    assert driven.all(PermissionViolated) == []


def test_the_table_has_every_mode_and_every_agent_that_runs_once_for_each_turn() -> None:
    assert {mode for mode, _ in COLUMNS.values()} == set(MODES)
    assert {f"{name}-pipe" for name in oneshot.LAUNCHES} <= EXPECTED.keys()
