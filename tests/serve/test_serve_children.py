"""Sub-agents as an editor sees them."""

import asyncio
from pathlib import Path

import msgspec

from quarterdeck.wire.acp import schema as acp
from tests.support.deadlines import SOON

SCRIPT = """
[scenes.lead]
when = {contains = "lead"}
[[scenes.lead.replies]]
[[scenes.lead.replies.parts]]
type = "call"
call = "spawn_agent"
arguments = {task = "change it", profile = "general"}
[[scenes.lead.replies]]
parts = [{type = "text", text = "All is done."}]

[scenes.change]
when = {contains = "change it"}
[[scenes.change.replies]]
parts = [{type = "call", call = "write", arguments = {path = "new.txt", content = "hello"}}]
[[scenes.change.replies]]
parts = [{type = "text", text = "Changed new.txt."}]
"""


async def leading(editor, project: Path, tmp_path: Path) -> str:
    script = tmp_path / "lead.toml"
    script.write_text(SCRIPT)
    session = await editor.new(project)
    await editor.connection.call(
        acp.SESSION_SET_CONFIG_OPTION,
        acp.SetSessionConfigOptionRequest(
            session_id=session, config_id="model", value=f"scripted/{script}"
        ),
    )
    return session


async def test_what_a_sub_agent_asks_is_a_call_of_its_own(connected, project: Path, tmp_path: Path):
    async with connected() as editor:
        session = await leading(editor, project, tmp_path)
        answer = await editor.prompt(session, "lead")
        assert answer.stop_reason == "end_turn"
        (asked,) = editor.asked
        assert asked.session_id == session
        assert asked.tool_call.title.startswith("general ▸ ")
        assert asked.tool_call.meta["quarterdeck"]["child"]["path"] == ["general"]
        spawn, inner = editor.of(acp.ToolCall, session)
        assert spawn.name == "spawn_agent"
        assert inner.tool_call_id == asked.tool_call.tool_call_id != spawn.tool_call_id
        ends = [
            u.status
            for u in editor.of(acp.ToolCallUpdate, session)
            if u.tool_call_id == inner.tool_call_id
        ]
        assert ends == ["completed"]
        assert editor.said(session) == "All is done."
        assert {note.session_id for note in editor.updates} == {session}
    assert (project / "new.txt").read_text() == "hello"


async def test_cancel_takes_back_what_a_sub_agent_asks(connected, project: Path, tmp_path: Path):
    async with connected() as editor:
        editor.leave = None
        session = await leading(editor, project, tmp_path)
        running = asyncio.ensure_future(editor.prompt(session, "lead"))
        await editor.until(lambda: bool(editor.asked))
        async with asyncio.timeout(SOON):
            await editor.cancel(session)
            assert (await running).stop_reason == "cancelled"
        states = {
            u.tool_call_id: u.status for u in editor.of(acp.ToolCallUpdate, session) if u.status
        }
        assert set(states.values()) == {"failed"}
    assert not (project / "new.txt").exists()


async def test_a_loaded_session_shows_the_answer_at_the_call(
    connected, project: Path, tmp_path: Path
):
    async with connected() as editor:
        session = await leading(editor, project, tmp_path)
        await editor.prompt(session, "lead")
        await editor.connection.call(acp.SESSION_CLOSE, acp.CloseSessionRequest(session_id=session))
        editor.forget()
        await editor.load(session, project)
        (spawn,) = editor.of(acp.ToolCall, session)
        assert spawn.name == "spawn_agent"
        assert "Changed new.txt." in str(editor.of(acp.ToolCallUpdate, session)[-1].content)
        listed = await editor.connection.call(acp.SESSION_LIST, acp.ListSessionsRequest())
        assert [one.session_id for one in listed.sessions] == [session]


async def test_a_client_that_knows_sub_agents_sees_them_as_sessions(
    connected, project: Path, tmp_path: Path
):
    async with connected(subagents={}) as editor:
        session = await leading(editor, project, tmp_path)
        answer = await editor.prompt(session, "lead")
        assert answer.stop_reason == "end_turn"
        placed = [
            msgspec.json.decode(note.update.raw) for note in editor.updates if is_placing(note)
        ]
        assert [one["state"]["state"] for one in placed] == ["running", "idle"]
        assert placed[0]["title"] == "general: change it"
        child = placed[0]["sessionId"]
        own = [note for note in editor.updates if note.session_id == child]
        kinds = [type(note.update).__name__ for note in own]
        assert kinds[0] == "UserMessageChunk"
        assert "ToolCall" in kinds
        assert editor.said(child) == "Changed new.txt."
        first = next(n for n, note in enumerate(editor.updates) if note.session_id == child)
        assert any(is_placing(note) for note in editor.updates[:first])


def is_placing(note: acp.SessionNotification) -> bool:
    update = note.update
    return isinstance(update, acp.UnknownUpdate) and update.kind == "subagent_update"
