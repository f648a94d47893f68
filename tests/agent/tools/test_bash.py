"""Running commands as users judge it: time, output, processes, background."""
# ruff: noqa: ASYNC240

import asyncio
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from quarterdeck.agent.tools.bash import BashTool, CommandsTool
from quarterdeck.agent.tools.tool import ToolError
from quarterdeck.agent.tools.workspace import ToolOptions, ToolWorkspace
from quarterdeck.policy.decision import Allow, Ask, Deny, decide
from quarterdeck.system.errors import NoSuchPathError, OutsideRootsError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process_tree import MARK_VARIABLE, ProcessTree, find_processes
from quarterdeck.system.sandbox import SandboxedSystem, detect_sandbox
from quarterdeck.wire.events import TerminalExited, TerminalOutput, ToolCallUpdated
from quarterdeck.wire.tool_calls import TerminalItem
from tests.support.deadlines import SOON, quick_once
from tests.support.tool_calls import FakeLive, prepared, run, told

BASH, COMMANDS = BashTool(), CommandsTool()


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessTree]:
    """Mark everything that a test starts, and fail the test that leaves some of it running."""
    tree = ProcessTree(f"test{secrets.token_hex(8)}")
    monkeypatch.setenv(MARK_VARIABLE, tree.mark)
    yield tree
    left = find_processes([tree])
    for one in left:
        os.kill(one.pid, 9)
    assert [one.pid for one in left] == []


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[ToolWorkspace]:
    root = tmp_path / "project"
    root.mkdir()
    async with LocalSystem([root]) as system:
        workspace = ToolWorkspace(system=system, home=str(tmp_path))
        yield workspace
        await workspace.close()


async def running(mark: ProcessTree) -> int:
    return len(await asyncio.to_thread(find_processes, [mark]))


async def test_output_and_exit_code_are_told(workspace: ToolWorkspace):
    outcome = await run(BASH, workspace, command="echo out; echo err >&2; exit 3")
    assert re.fullmatch(r"out\nerr\n\[exit code 3, \d\.\d s\]", told(outcome))
    assert outcome.raw_output == {"exit_code": 3, "signal": None, "output_bytes": 8}
    assert not outcome.is_error, "the tool did its work; the model reads the code"


async def test_a_signal_is_told(workspace: ToolWorkspace):
    assert "[signal SIGKILL, " in told(await run(BASH, workspace, command="kill -9 $$"))


async def test_silence_is_said(workspace: ToolWorkspace):
    assert told(await run(BASH, workspace, command="true")).startswith("(no output)\n[exit code 0")


async def test_bash_and_not_another_shell(workspace: ToolWorkspace):
    assert told(await run(BASH, workspace, command="[[ ab == a* ]] && echo $0")).startswith(
        "/bin/bash"
    )


async def test_live_events_show_the_terminal_its_output_and_its_end(workspace: ToolWorkspace):
    live = FakeLive()
    await run(BASH, workspace, live, command="echo a; sleep 1.5; echo b; exit 4")
    first, *outputs, last = live.events
    assert isinstance(first, ToolCallUpdated)
    assert isinstance(first.content, tuple)
    (item,) = first.content
    assert isinstance(item, TerminalItem)
    assert [type(event) for event in outputs] == [TerminalOutput] * len(outputs)
    assert "".join(event.data for event in live.of(TerminalOutput)) == "a\nb\n"
    assert len(outputs) >= 2, "while it runs, not at its end"
    assert last == TerminalExited(terminal=outputs[0].terminal, exit_code=4)
    assert item.terminal_id == outputs[0].terminal


@pytest.mark.parametrize(
    "line",
    [
        "echo part; sleep 60",
        "echo part; (sleep 60; echo) & wait",
        "echo part; setsid sleep 60; sleep 60",
        "trap '' TERM; echo part; sh -c 'trap \"\" TERM; sleep 60'; sleep 60",
        "echo part; nohup setsid sh -c 'sleep 60 & sleep 60' & sleep 60",
    ],
)
async def test_a_timeout_holds_and_keeps_what_was_printed(
    workspace: ToolWorkspace, mark: ProcessTree, line: str
):
    async def measure() -> float:
        begun = time.monotonic()
        outcome = await run(BASH, workspace, command=line, timeout=1)
        taken = time.monotonic() - begun
        assert "part\n" in told(outcome)
        assert "timed out after 1 s" in told(outcome)
        assert outcome.is_error
        assert await running(mark) == 0
        return taken

    await quick_once(measure, 1 + 1)


async def test_what_a_command_leaves_running_is_ended_and_does_not_delay(
    workspace: ToolWorkspace, mark: ProcessTree
):
    async def measure() -> float:
        begun = time.monotonic()
        outcome = await run(BASH, workspace, command="sleep 60 & (setsid sleep 60 &) ; echo done")
        taken = time.monotonic() - begun
        assert told(outcome).startswith("done\n[exit code 0")
        assert await running(mark) == 0
        return taken

    await quick_once(measure, 1)


async def test_large_output_is_cut_in_the_middle_and_whole_in_a_file(workspace: ToolWorkspace):
    script = "import sys; sys.stdout.write(''.join(f'{n:09}\\n' for n in range(500_000)))"
    outcome = await run(BASH, workspace, command=f'{sys.executable} -S -c "{script}"')
    text = told(outcome)
    found = re.search(r"\n\[… (\d+) of (\d+) bytes are not shown; the whole .* (/\S+) …\]\n", text)
    assert found is not None
    dropped, total, file = int(found[1]), int(found[2]), Path(found[3])
    head, tail = text[: found.start()], text[found.end() : text.rindex("[exit code 0")]
    assert total == 5_000_000
    assert len(head) + len(tail) + dropped == total
    assert len(head) + len(tail) == workspace.options.output_bytes
    assert (head[:10], tail[-10:]) == ("000000000\n", "000499999\n")
    assert file.stat().st_size == total
    assert not file.is_relative_to(workspace.cwd)
    await workspace.close()
    assert not file.exists()


async def test_an_output_that_was_told_whole_leaves_no_file(
    workspace: ToolWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    await run(BASH, workspace, command="echo a")
    assert [path.name for path in tmp_path.rglob("output-*")] == []


async def test_what_leaves_the_session_is_waited_for(workspace: ToolWorkspace, mark: ProcessTree):
    """A shell becomes the last command of its line; ``setsid`` would fork then and seem to end."""
    outcome = await run(BASH, workspace, command="setsid sh -c 'sleep 0.3; echo late; exit 3'")
    assert told(outcome).startswith("late\n[exit code 3")
    outcome = await run(BASH, workspace, command="cat <<end; setsid true\ntext\nend")
    assert told(outcome).startswith("text\n[exit code 0")


async def test_it_runs_the_same_in_a_sandbox(tmp_path: Path, mark: ProcessTree):
    found = await detect_sandbox()
    if not found.is_there:
        pytest.skip(found.reason)
    (tmp_path / "project").mkdir()
    async with SandboxedSystem([tmp_path / "project"], found) as system:
        workspace = ToolWorkspace(system=system)
        outcome = await run(BASH, workspace, command="echo in > file; cat file; exit 3")
        assert told(outcome).startswith("in\n[exit code 3")
        outcome = await run(BASH, workspace, command="echo part; setsid sleep 60", timeout=2)
        assert told(outcome).startswith("part\n[timed out after 2 s")
        cut = told(await run(BASH, workspace, command="seq 20000"))
        file = re.search(r"whole output is in (\S+) ", cut)
        assert file is not None
        assert told(await run(BASH, workspace, command=f"tail -n 1 {file[1]}")).startswith("20000")
        await workspace.close()


async def test_a_flood_makes_few_events_and_bounded(workspace: ToolWorkspace):
    live = FakeLive()
    begun = time.monotonic()
    outcome = await run(BASH, workspace, live, command="yes", timeout=0.4)
    assert time.monotonic() - begun < SOON
    assert len(live.of(TerminalOutput)) < 40
    assert sum(len(event.data) for event in live.of(TerminalOutput)) < 2_000_000
    assert len(told(outcome)) < workspace.options.output_bytes + 500


async def test_invalid_bytes_lose_no_later_line(workspace: ToolWorkspace):
    live = FakeLive()
    outcome = await run(BASH, workspace, live, command=r"printf 'a\377\376\303\nb\n'; echo c")
    assert told(outcome).startswith("a\ufffd\ufffd\ufffd\nb\nc\n[exit")
    assert "".join(event.data for event in live.of(TerminalOutput)).endswith("\nb\nc\n")


async def test_there_is_no_input(workspace: ToolWorkspace):
    begun = time.monotonic()
    assert told(await run(BASH, workspace, command="cat; read x; echo $?")).startswith("1\n")
    assert time.monotonic() - begun < SOON


async def test_no_key_reaches_a_command(workspace: ToolWorkspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("SOME_TOKEN", "sk-secret")
    text = told(await run(BASH, workspace, command="env"))
    assert "sk-secret" not in text
    assert {"PAGER=cat", "GIT_TERMINAL_PROMPT=0", "TERM=dumb"} <= set(text.split("\n"))


async def test_cancelling_ends_everything_soon(workspace: ToolWorkspace, mark: ProcessTree):
    line = "trap '' TERM; echo begun; setsid sh -c 'trap \"\" TERM; sleep 60' & sleep 60"

    async def measure() -> float:
        live = FakeLive()
        task = asyncio.ensure_future(run(BASH, workspace, live, command=line))
        while not live.of(TerminalOutput):
            await asyncio.sleep(0.01)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        taken = time.monotonic() - begun
        assert await running(mark) == 0
        assert isinstance(live.events[-1], TerminalExited)
        return taken

    await quick_once(measure, 1)


async def test_what_is_shown_is_what_runs(workspace: ToolWorkspace):
    Path(workspace.cwd, "sub").mkdir()
    line = "make test\necho " + "x" * 200
    ready = await prepared(BASH, workspace, command=line, workdir="sub")
    assert ready.title == "make test …"
    assert (ready.call.command, ready.call.cwd) == (line, f"{workspace.cwd}/sub")
    assert ready.shows == {"command": line, "cwd": f"{workspace.cwd}/sub"}
    assert repr(line)[1:-1] in str(ready.content)
    assert told(await run(BASH, workspace, command="pwd", workdir="sub")).startswith(
        f"{workspace.cwd}/sub\n"
    )


async def test_bad_orders_are_refused_before_anybody_is_asked(workspace: ToolWorkspace):
    Path(workspace.cwd, "file").touch()
    with pytest.raises(OutsideRootsError):
        await prepared(BASH, workspace, command="ls", workdir="..")
    with pytest.raises(NoSuchPathError):
        await prepared(BASH, workspace, command="ls", workdir="missing")
    for arguments in (
        {"command": "ls", "workdir": "file"},
        {"command": " \n"},
        {"command": "a\0b"},
        {"command": "ls", "timeout": 0},
        {"command": "ls", "timeout": -1},
    ):
        with pytest.raises(ToolError):
            await prepared(BASH, workspace, **arguments)


async def test_a_named_time_is_bounded(workspace: ToolWorkspace):
    workspace.options = ToolOptions(bash_max_timeout=0.3)
    begun = time.monotonic()
    text = told(await run(BASH, workspace, command="sleep 60", timeout=120_000))
    assert time.monotonic() - begun < SOON
    assert "timed out after 0.3 s" in text


async def test_a_background_command_lives(workspace: ToolWorkspace, mark: ProcessTree):
    live = FakeLive()
    started = await run(
        BASH, workspace, live, command="echo one; while [ ! -e go ]; do sleep 0.02; done; echo two",
        background=True,
    )  # fmt: skip
    assert started.raw_output == {"id": "cmd-1"}
    assert "'cmd-1'" in told(started)
    listed = told(await run(COMMANDS, workspace, action="list"))
    assert listed.startswith("cmd-1 [still running, ")
    while "one" not in (text := told(await run(COMMANDS, workspace, action="read", id="cmd-1"))):
        assert "(nothing new)" in text
        await asyncio.sleep(0.01)
    assert "(nothing new)" in told(await run(COMMANDS, workspace, action="read", id="cmd-1"))
    Path(workspace.cwd, "go").touch()
    watching = FakeLive()
    text = told(await run(COMMANDS, workspace, watching, action="wait", id="cmd-1", seconds=10))
    assert re.fullmatch(r"two\n\[exit code 0, \d+\.\d s\]", text)
    assert [type(event) for event in watching.events] == [TerminalOutput, TerminalExited]
    again = FakeLive()
    await run(COMMANDS, workspace, again, action="read", id="cmd-1")
    assert again.events == [], "an exit is told once"


async def test_a_wait_ends_in_time(workspace: ToolWorkspace):
    await run(BASH, workspace, command="sleep 60", background=True)
    begun = time.monotonic()
    text = told(await run(COMMANDS, workspace, action="wait", id="cmd-1", seconds=0.2))
    assert 0.2 <= time.monotonic() - begun < SOON
    assert "still running" in text


async def test_a_background_command_is_killed_with_all_it_started(
    workspace: ToolWorkspace, mark: ProcessTree
):
    await run(BASH, workspace, command="setsid sleep 60 & echo up; sleep 60", background=True)
    while "up" not in told(await run(COMMANDS, workspace, action="read", id="cmd-1")):
        await asyncio.sleep(0.01)
    begun = time.monotonic()
    text = told(await run(COMMANDS, workspace, action="kill", id="cmd-1"))
    assert time.monotonic() - begun < SOON
    assert "[signal SIG" in text
    assert await running(mark) == 0


async def test_closing_the_workspace_ends_background_commands(
    workspace: ToolWorkspace, mark: ProcessTree
):
    for _ in range(3):
        await run(BASH, workspace, command="sleep 60", background=True)
    async with asyncio.timeout(SOON):  # a program's environment is seen a moment after its start
        while await running(mark) < 3:
            await asyncio.sleep(0.01)
    await workspace.close()
    assert await running(mark) == 0


async def test_unread_output_is_bounded_and_the_loss_is_said(workspace: ToolWorkspace):
    workspace.options = ToolOptions(output_bytes=300)
    await run(BASH, workspace, command="seq 1 5 1000; sleep 0.1; seq 2000", background=True)
    text = told(await run(COMMANDS, workspace, action="wait", id="cmd-1", seconds=10))
    assert len(text) < 600
    assert "not shown; the full output is in" in text or "bytes …]" in text
    assert "\n2000\n[exit code 0" in text


async def test_the_number_of_background_commands_is_bounded(workspace: ToolWorkspace):
    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(run(BASH, workspace, command="sleep 60", background=True))
    with pytest.raises(ToolError, match="16 background commands are already running"):
        await prepared(BASH, workspace, command="sleep 60", background=True)
    await run(COMMANDS, workspace, action="kill", id="cmd-7")
    await run(BASH, workspace, command="sleep 60", background=True)


async def test_an_unknown_id_is_refused_naming_the_known(workspace: ToolWorkspace):
    await run(BASH, workspace, command="true", background=True)
    with pytest.raises(ToolError, match=r"'cmd-9'; available: cmd-1"):
        await prepared(COMMANDS, workspace, action="read", id="cmd-9")
    with pytest.raises(ToolError, match="needs the id"):
        await prepared(COMMANDS, workspace, action="kill")


async def test_policy_judges_the_start_and_not_the_looking_after(workspace: ToolWorkspace):
    await run(BASH, workspace, command="true", background=True)
    looking = await prepared(COMMANDS, workspace, action="kill", id="cmd-1")
    assert isinstance(decide(looking.call, "read-only"), Allow)
    starting = await prepared(BASH, workspace, command="make", background=True)
    assert isinstance(decide(starting.call, "ask"), Ask)
    assert isinstance(decide(starting.call, "read-only"), Deny)
