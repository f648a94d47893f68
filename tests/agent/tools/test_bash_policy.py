"""What the tool ``bash`` tells the policy, and what reaches its shell."""

import os
from pathlib import Path

import pytest

from quarterdeck.agent.tools.bash import BashTool
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.policy.decision import Allow, Ask, decide
from quarterdeck.policy.modes import SandboxState
from quarterdeck.system.local import LocalSystem
from tests.support.tool_calls import prepared, run, told

BASH = BashTool()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "project"
    (root / "src").mkdir(parents=True)
    (root / "out").symlink_to("/etc")
    return root


async def decided(root: Path, command: str) -> object:
    async with LocalSystem([root]) as system:
        workspace = ToolWorkspace(system=system, home=str(root.parent))
        call = (await prepared(BASH, workspace, command=command)).call
        await workspace.close()
    assert call is not None
    return decide(call, "ask", sandbox=SandboxState(seals=True))


@pytest.mark.parametrize("command", ["ls", "ls src | wc -l", "cat src/../src/a", "env ls"])
async def test_what_is_known_and_inside_runs_unasked(root: Path, command: str):
    assert isinstance(await decided(root, command), Allow)


@pytest.mark.parametrize(
    "command", ["cat out/passwd", "cat o?t/passwd", "ls out/..", "cd out && ls", "./ls", "ls > a"]
)
async def test_what_leads_out_or_is_not_known_asks(root: Path, command: str):
    assert isinstance(await decided(root, command), Ask)


async def test_a_program_of_the_workspace_asks(root: Path, monkeypatch: pytest.MonkeyPatch):
    fake = root / "ls"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}:{os.environ['PATH']}")
    assert isinstance(await decided(root, "ls"), Ask)


async def test_no_function_and_no_start_file_of_ours_reaches_the_shell(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    script = root / "start.sh"
    script.write_text("echo started\n")
    monkeypatch.setenv("BASH_FUNC_pwd%%", "() { echo fooled; }")
    monkeypatch.setenv("BASH_ENV", str(script))
    monkeypatch.setenv("ENV", str(script))
    monkeypatch.setenv("CDPATH", "/")
    async with LocalSystem([root]) as system:
        workspace = ToolWorkspace(system=system, home=str(root.parent))
        outcome = await run(BASH, workspace, command="pwd; cd src && pwd")
        await workspace.close()
    assert told(outcome).splitlines()[:2] == [str(root), f"{root}/src"]
