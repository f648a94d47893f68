"""Calls of other people's agents are looked up on the disk before they are decided."""

import os
from pathlib import Path

import pytest

from quarterdeck.drivers.permissions import call_of
from quarterdeck.policy import Allow, Ask, Call, CallContext, SandboxState, decide
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import new_request_id, new_tool_call_id


@pytest.fixture
def work(tmp_path: Path) -> Path:
    real = Path(os.path.realpath(tmp_path)) / "work"
    real.mkdir()
    (real / "a.txt").write_text("a")
    (real / "link").symlink_to("/etc")
    return real


async def asked_call(command: str | list[str], around: CallContext) -> Call:
    asked = PermissionAsked(
        request=new_request_id(),
        call=new_tool_call_id(),
        title="run",
        options=(),
        kind="execute",
        name="shell",
        raw_input={"command": command},
    )
    return await call_of(asked, around, Gate(mode="ask"))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.txt", Allow),
        (["bash", "-lc", "cat a.txt"], Allow),
        ("/bin/bash -lc 'cat a.txt | head -3'", Allow),
        ("cat link/passwd", Ask),
        (["cat", "link/passwd"], Ask),
        (["bash", "-lc", "cat link/passwd"], Ask),
        ("cat lin?/passwd", Ask),
        ("./cat a.txt", Ask),
    ],
)
async def test_a_command_is_judged_by_what_it_finds(
    work: Path, command: str | list[str], expected: type[Allow | Ask]
):
    around = CallContext(cwd=str(work), roots=(str(work),), home=str(work.parent))
    call = await asked_call(command, around)
    assert isinstance(decide(call, "ask", sandbox=SandboxState(seals=True)), expected)


async def test_a_program_of_the_workspace_is_not_the_known_one(
    work: Path, monkeypatch: pytest.MonkeyPatch
):
    fake = work / "cat"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{work}:/usr/bin:/bin")
    around = CallContext(cwd=str(work), roots=(str(work),))
    assert isinstance(decide(await asked_call("cat a.txt", around), "ask"), Ask)
