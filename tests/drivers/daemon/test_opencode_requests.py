"""Requests of OpenCode that are about another call than the one whose id they name."""

from pathlib import Path
from typing import Any

from quarterdeck.drivers.daemon.opencode.requests import permission_of
from quarterdeck.drivers.permissions import call_of
from quarterdeck.policy.decision import Allow, Ask, Decision
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.modes import Mode


async def decided(
    cwd: Path, mode: Mode, permission: str, metadata: dict[str, Any], **given: Any
) -> Decision:
    asked = {"permission": permission, "metadata": metadata, "tool": {"callID": "c"}}
    tool = "bash" if permission == "bash" else "edit"
    question = permission_of(asked, {"tool": tool, "state": {"input": given}})
    gate = Gate(mode=mode)
    around = CallContext(cwd=str(cwd), roots=(str(cwd),))
    return await gate.judge(await call_of(question, around, gate))


async def test_a_command_is_that_of_the_request_and_of_the_call(tmp_path: Path):
    alike = await decided(tmp_path, "ask", "bash", {"command": "ls"}, command="ls")
    assert isinstance(alike, Allow)
    other = await decided(tmp_path, "ask", "bash", {"command": "rm -rf build"}, command="ls")
    assert isinstance(other, Ask) and "rm -rf build" in other.reason


async def test_files_of_both_are_decided(tmp_path: Path):
    inside, protected = str(tmp_path / "a.txt"), str(tmp_path / ".git" / "config")
    mode: Mode = "accept-edits"
    alike = await decided(tmp_path, mode, "edit", {"filepath": inside}, filePath=inside)
    assert isinstance(alike, Allow)
    for one, two in ((inside, protected), (protected, inside)):
        decision = await decided(tmp_path, mode, "edit", {"filepath": one}, filePath=two)
        assert isinstance(decision, Ask)
