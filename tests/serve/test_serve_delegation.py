"""The client's files and terminals under the agent's tools."""

import asyncio
import time
from pathlib import Path

import pytest

from quarterdeck.system.sandbox import detect_sandbox, detect_sealed_sandbox
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.tool_calls import TerminalItem
from tests.support.deadlines import SOON

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


async def test_what_is_unsaved_in_the_editor_counts(connected, project: Path):
    readme = str(project / "README.md")
    async with connected(**FILES) as editor:
        editor.buffers[readme] = "Not saved yet.\n"
        await editor.prompt(await editor.new(project), "scene:read")
        assert "Not saved yet." in editor.said()


async def test_writes_go_through_the_editor(connected, project: Path):
    target = project / "hello.txt"
    async with connected(**FILES) as editor:
        await editor.prompt(await editor.new(project), "scene:edit")
        assert editor.said().endswith("Edited it.")
        assert editor.writes == {str(target): "goodbye from script\n"}
        assert target.read_text() == "goodbye from script\n"


async def test_a_change_in_the_editor_is_not_written_over(connected, project: Path):
    target = project / "hello.txt"
    async with connected(**FILES) as editor:
        session = await editor.new(project)
        await editor.prompt(session, "scene:write")
        editor.buffers[str(target)] = "the person is typing\n"
        editor.forget()
        await editor.prompt(session, "scene:write")
        assert editor.call_states() == ["failed"]
        assert target.read_text() == "hello from script\n"


async def test_a_client_that_only_reads_is_not_used(connected, project: Path):
    readme = str(project / "README.md")
    async with connected(fs={"readTextFile": True}) as editor:
        editor.buffers[readme] = "Not saved yet.\n"
        await editor.prompt(await editor.new(project), "scene:read")
        assert "A project." in editor.said()


async def test_paths_outside_do_not_reach_the_editor(connected, project: Path, tmp_path: Path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (project / "README.md").unlink()
    (project / "README.md").symlink_to(secret)
    async with connected(**FILES) as editor:
        editor.buffers[str(secret)] = "secret"
        await editor.prompt(await editor.new(project), "scene:read")
        assert "secret." not in editor.said()
        assert editor.call_states() == ["failed"]
        sent = [m for way, m in editor.judge.frames if m.get("method") == "fs/read_text_file"]
        assert sent == []


async def test_a_root_behind_a_symlink_is_spelled_as_the_editor_does(
    connected, project: Path, tmp_path: Path
):
    spelled = tmp_path / "spelled"
    spelled.symlink_to(project)
    async with connected(**FILES) as editor:
        await editor.prompt(await editor.new(spelled), "scene:write")
        assert list(editor.writes) == [str(spelled / "hello.txt")]


async def test_commands_run_in_the_clients_terminal(connected, project: Path):
    async with connected(terminal=True) as editor:
        await editor.prompt(await editor.new(project), "scene:shell")
        shown = [update.content for update in editor.of(acp.ToolCallUpdate) if update.content]
        assert shown == [(TerminalItem(terminal_id="t1"),)]
        assert editor.outputs["t1"] == "scripted-output\n"
        assert editor.released == ["t1"]
        assert editor.call_states() == ["in_progress", "completed"]
        assert editor.of(acp.ToolCallUpdate)[-1].raw_output["exit_code"] == 0
        assert (project / "made-by-shell.txt").exists()


def allow(environment: dict[str, str], *rules: str) -> None:
    """Rules of the person; what they allow needs no sandbox and runs at the client's."""
    place = Path(environment["QUARTERDECK_HOME"])
    place.mkdir(exist_ok=True)
    (place / "config.toml").write_text(f"[permissions]\nallow = {list(rules)!r}\n")


async def test_cancel_ends_the_command_in_the_clients_terminal(
    connected, project: Path, environment: dict[str, str]
):
    allow(environment, "bash(echo:*)", "bash(sleep:*)")
    async with connected(terminal=True) as editor:
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:longcmd"))
        await editor.until(lambda: "long-start" in editor.outputs.get("t1", ""))
        began = time.monotonic()
        await editor.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert time.monotonic() - began < SOON
        assert editor.released == ["t1"]
        assert editor.terminals["t1"].returncode is not None
        assert editor.call_states()[-1] == "failed"


async def test_what_nobody_was_asked_about_does_not_run_at_the_clients(connected, project: Path):
    if not (await detect_sealed_sandbox()).seals:
        pytest.skip("no sandbox on this machine seals commands")
    async with connected(terminal=True) as editor:
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:longcmd"))
        await editor.until(
            lambda: any("long-start" in str(each.content) for each in editor.of(acp.ToolCallUpdate))
        )
        await editor.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert editor.asked == []
        assert editor.terminals == {}


async def test_what_the_sandbox_shall_hold_does_not_run_at_the_clients(connected, project: Path):
    sandbox = await detect_sandbox()
    if not sandbox.is_there:
        pytest.skip(f"no sandbox here: {sandbox.reason}")
    async with connected(terminal=True) as editor:
        session = await editor.new(project)
        mode = acp.SetSessionModeRequest(session_id=session, mode_id="full-auto")
        await editor.connection.call(acp.SESSION_SET_MODE, mode)
        await editor.prompt(session, "scene:shell")
        assert editor.asked == []
        assert editor.terminals == {}
        assert "scripted-output" in str(editor.of(acp.ToolCallUpdate)[-1].content)


async def test_output_is_sent_to_clients_that_show_it_themselves(connected, project: Path):
    async with connected(_meta={"terminal_output": True}) as editor:
        await editor.prompt(await editor.new(project), "scene:shell")
        announced = editor.of(acp.ToolCall)[-1]
        assert announced.meta is not None
        id_ = announced.meta["terminal_info"]["terminal_id"]
        assert announced.content == (TerminalItem(terminal_id=id_),)
        metas = [update.meta for update in editor.of(acp.ToolCallUpdate) if update.meta]
        data = "".join(m["terminal_output"]["data"] for m in metas if "terminal_output" in m)
        assert data == "scripted-output\n"
        assert metas[-1]["terminal_exit"]["exit_code"] == 0


@pytest.mark.parametrize("answer", [None, {"q1": "blue"}])
async def test_questions_become_forms(connected, project: Path, tmp_path: Path, answer):
    async with connected(elicitation={"form": {}}) as editor:
        editor.form = answer
        session = await asking_session(editor, project, tmp_path)
        await editor.prompt(session, "ask me")
        (question,) = editor.questions
        assert (question.mode, question.session_id) == ("form", session)
        assert "Which colour?" in str(question)
        assert ("blue" in editor.said()) == (answer is not None)


async def test_a_client_without_forms_is_not_asked(connected, project: Path, tmp_path: Path):
    async with connected() as editor:
        session = await asking_session(editor, project, tmp_path)
        answer = await editor.prompt(session, "ask me")
        assert answer.stop_reason == "end_turn"
        assert editor.questions == []
        assert "no person is available" in editor.said()


async def asking_session(editor, project: Path, tmp_path: Path) -> str:
    script = tmp_path / "ask.toml"
    script.write_text(ASKING)
    session = await editor.new(project)
    await editor.connection.call(
        acp.SESSION_SET_CONFIG_OPTION,
        acp.SetSessionConfigOptionRequest(
            session_id=session, config_id="model", value=f"scripted/{script}"
        ),
    )
    editor.forget()
    return session


ASKING = """
default = "ask"
[[scenes.ask.replies]]
parts = [{ call = "ask_user", arguments = { questions = [{ question = "Which colour?" }] } }]
[[scenes.ask.replies]]
parts = [{ text = "You answered: {{last_tool_result}}" }]
"""
