"""Sessions over the protocol: opened, loaded, resumed, forked, listed, closed, deleted, set."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.errors import RpcError


async def test_nothing_is_told_of_a_session_before_its_answer(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        await editor.until(lambda: bool(editor.of(acp.AvailableCommandsUpdate)))
        sent = [message for way, message in editor.judge.frames if way == "out"]
        kinds = [message.get("method", "answer") for message in sent]
        assert kinds[:2] == ["answer", "answer"]
        assert kinds[2] == "session/update"
        names = {each.name for each in editor.of(acp.AvailableCommandsUpdate)[0].available_commands}
        assert names >= {"help", "model", "mode", "context", "compact"}
        assert {note.session_id for note in editor.updates} == {session}


async def test_the_answer_has_modes_and_options(connected, project: Path):
    async with connected() as editor:
        request = acp.NewSessionRequest(cwd=str(project), mcp_servers=())
        answer = await editor.connection.call(acp.SESSION_NEW, request)
        assert answer.modes is not None
        assert answer.modes.current_mode_id == "ask"
        assert "plan" in {mode.id for mode in answer.modes.available_modes}
        assert answer.config_options is not None
        assert [option.id for option in answer.config_options] == ["mode", "model", "effort"]
        assert answer.config_options[1].current_value == "scripted/default"


@pytest.mark.parametrize("cwd", ["relative/place", "/no/such/directory"])
async def test_a_directory_that_cannot_be_used_is_refused(connected, cwd: str):
    async with connected() as editor:
        with pytest.raises(RpcError) as caught:
            await editor.new(Path(cwd))
        assert caught.value.code == -32602
        assert repr(cwd) in caught.value.message


async def test_load_tells_everything_before_it_answers(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        await editor.prompt(session, "scene:write")
        await editor.prompt(session, "scene:shell")
        told = conversation(editor)
    async with connected() as editor:
        answer = await editor.load(session, project)
        assert answer.config_options is not None
        replayed = conversation(editor)
        assert replayed[0] == ("user", "scene:write")
        assert [each for each in replayed if each[0] != "user"] == told
        done = [update for update in editor.of(acp.ToolCallUpdate) if update.status == "completed"]
        assert "scripted-output" in str(done[-1].content)
        assert editor.of(acp.SessionInfoUpdate)[-1].title == "scene:write"
        assert editor.asked == []
        assert (await editor.prompt(session, "scene:text")).stop_reason == "end_turn"


async def test_a_session_loaded_twice_is_not_told_twice(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        await editor.prompt(session, "scene:text")
        await editor.load(session, project)
        await editor.load(session, project)
        editor.forget()
        await editor.prompt(session, "scene:write")
        assert editor.said() == "I will write a file.Wrote it. Done."
        assert len(editor.of(acp.ToolCall)) == 1
        assert len(editor.asked) == 1


async def test_load_in_the_middle_of_a_turn(connected, project: Path):
    async with connected() as editor:
        editor.leave = None
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:write"))
        await editor.until(lambda: bool(editor.asked))
        editor.forget()
        await editor.load(session, project)
        assert editor.said() == "I will write a file."
        await editor.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert len(editor.asked) == 1
        assert editor.call_states() == ["failed"]


async def test_a_session_loaded_elsewhere_works_there(connected, project: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    async with connected() as editor:
        session = await editor.new(project)
        with pytest.raises(RpcError) as caught:
            await editor.load(session, other)
        assert repr(str(project)) in caught.value.message
    async with connected() as editor:
        await editor.load(session, other)
        await editor.prompt(session, "scene:write")
        assert (other / "hello.txt").exists()
        assert not (project / "hello.txt").exists()


async def test_resume_tells_nothing_of_the_past(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        await editor.prompt(session, "scene:text")
    async with connected() as editor:
        request = acp.ResumeSessionRequest(session_id=session, cwd=str(project))
        answer = await editor.connection.call(acp.SESSION_RESUME, request)
        assert answer.modes is not None
        await editor.prompt(session, "turn {{turn}}")
        assert editor.said() == "You said: turn {{turn}}"
        assert editor.of(acp.UserMessageChunk) == []


async def test_list_close_delete(connected, project: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    async with connected() as editor:
        first, second = await editor.new(project), await editor.new(other)
        await editor.prompt(first, "scene:text")
        listed = await listing(editor)
        assert {each.session_id for each in listed} == {first, second}
        (found,) = await listing(editor, cwd=str(project))
        assert (found.session_id, found.cwd, found.title) == (first, str(project), "scene:text")
        assert found.updated_at is not None
        assert found.updated_at.endswith("Z")
        await editor.connection.call(acp.SESSION_CLOSE, acp.CloseSessionRequest(session_id=first))
        with pytest.raises(RpcError) as caught:
            await editor.prompt(first, "scene:text")
        assert caught.value.code == -32002
        delete = acp.DeleteSessionRequest(session_id=second)
        await editor.connection.call(acp.SESSION_DELETE, delete)
        await editor.connection.call(acp.SESSION_DELETE, delete)
        assert [each.session_id for each in await listing(editor)] == [first]


async def test_close_ends_the_turn_and_its_prompt_is_answered(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:slow"))
        await editor.until(lambda: bool(editor.said()))
        await editor.connection.call(acp.SESSION_CLOSE, acp.CloseSessionRequest(session_id=session))
        assert (await turn).stop_reason == "cancelled"
        told = len(editor.updates)
        await asyncio.sleep(0.1)
        assert len(editor.updates) == told


async def test_fork_shares_the_past_and_not_the_future(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        await editor.prompt(session, "scene:text")
        request = acp.ForkSessionRequest(session_id=session, cwd=str(project))
        forked = (await editor.connection.call(acp.SESSION_FORK, request)).session_id
        assert forked != session
        editor.forget()
        await editor.prompt(forked, "scene:think")
        assert editor.said(forked) == "Thought and answered."
        assert editor.said(session) == ""
        editor.forget()
        await editor.load(forked, project)
        assert editor.said() == "Hello from the scripted model.Thought and answered."


async def test_set_mode_and_options(connected, project: Path, tmp_path: Path):
    script = tmp_path / "mine.toml"
    script.write_text('default = "a"\n[scenes]\na = ["I am the other model."]\n')
    async with connected() as editor:
        session = await editor.new(project)
        await editor.connection.call(
            acp.SESSION_SET_MODE, acp.SetSessionModeRequest(session_id=session, mode_id="plan")
        )
        assert editor.of(acp.CurrentModeUpdate)[-1].current_mode_id == "plan"
        assert current(editor.of(acp.ConfigOptionUpdate)[-1].config_options)["mode"] == "plan"
        answer = await set_option(editor, session, "model", f"scripted/{script}")
        assert current(answer)["model"] == f"scripted/{script}"
        assert current(await set_option(editor, session, "effort", "high"))["effort"] == "high"
        await editor.prompt(session, "hello")
        assert editor.said() == "I am the other model."
        await editor.prompt(session, "scene:write")
    async with connected() as editor:
        loaded = await editor.load(session, project)
        assert loaded.config_options is not None
        kept = current(loaded.config_options)
        assert (kept["mode"], kept["model"]) == ("plan", f"scripted/{script}")


@pytest.mark.parametrize(
    ("option", "value"),
    [("mode", "no-such"), ("model", "no/such/model"), ("effort", "much"), ("colour", "red")],
)
async def test_settings_that_are_none_are_refused(
    connected, project: Path, option: str, value: str
):
    async with connected() as editor:
        session = await editor.new(project)
        with pytest.raises(RpcError) as caught:
            await set_option(editor, session, option, value)
        assert caught.value.code == -32602
        assert caught.value.data["kind"] == "invalid_config_option"


async def test_a_title_can_be_given(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        request = acp.SetSessionTitleRequest(session_id=session, title="My work")
        answer = await editor.connection.call(acp.SESSION_SET_TITLE, request)
        assert answer.title == "My work"
        assert editor.of(acp.SessionInfoUpdate)[-1].title == "My work"
        await editor.prompt(session, "scene:text")
        (found,) = await listing(editor)
        assert found.title == "My work"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {"prompt": [{"type": "text", "text": "x"}]}),
        ("session/load", {"cwd": "/", "mcpServers": []}),
        ("session/resume", {"cwd": "/"}),
        ("session/fork", {"cwd": "/"}),
        ("session/close", {}),
        ("session/set_mode", {"modeId": "plan"}),
        ("session/set_config_option", {"configId": "mode", "value": "plan"}),
    ],
)
@pytest.mark.parametrize("session", ["ses_00000000000000000000000000", "../../etc/passwd"])
async def test_an_unknown_session_is_not_found(
    connected, method: str, params: dict[str, Any], session: str
):
    async with connected() as editor:
        with pytest.raises(RpcError) as caught:
            await editor.connection.peer.request(method, {"sessionId": session, **params})
        assert caught.value.code == -32002
        assert caught.value.data["kind"] == "unknown_session"


async def test_two_sessions_work_at_once_with_their_own_settings(
    connected, environment: dict[str, str], tmp_path: Path
):
    del environment["QUARTERDECK_MODEL"]
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        (folder / ".git").mkdir(parents=True)
        (folder / "talk.toml").write_text(
            f'default = "a"\n[[scenes.a.replies]]\n'
            f'parts = [{{ text = "{folder.name} ", repeat = 20, pause = 0.01 }}]\n'
        )
        (folder / ".quarterdeck").mkdir()
        settings = f'model = "scripted/{folder}/talk.toml"\n'
        (folder / ".quarterdeck" / "config.toml").write_text(settings)
    await asyncio.to_thread(trust, environment, folders)
    async with connected() as editor:
        sessions = [await editor.new(folder) for folder in folders]
        await asyncio.gather(*(editor.prompt(session, "go") for session in sessions))
        assert [editor.said(session) for session in sessions] == ["one " * 20, "two " * 20]
        order = [note.session_id for note in editor.updates]
        assert order.index(sessions[1]) < len(order) - order[::-1].index(sessions[0])


async def test_a_session_in_use_elsewhere_is_told_so(connected, project: Path):
    async with connected() as editor, connected() as other:
        session = await editor.new(project)
        with pytest.raises(RpcError) as caught:
            await other.load(session, project)
        assert caught.value.data["kind"] == "session_in_use"


async def test_commands_are_answered_without_the_model(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        assert (await editor.prompt(session, "/mode plan")).stop_reason == "end_turn"
        assert "`plan`" in editor.said()
        assert editor.of(acp.CurrentModeUpdate)[-1].current_mode_id == "plan"
        editor.forget()
        await editor.prompt(session, "/model no-such-thing")
        assert "no-such-thing" in editor.said()
        editor.forget()
        await editor.prompt(session, "/help")
        assert "/model" in editor.said()
        editor.forget()
        await editor.prompt(session, "/unknown is for the model")
        assert editor.said() == "You said: /unknown is for the model"


def trust(environment: dict[str, str], folders: list[Path]) -> None:
    store = TrustStore(Places.find(environment).trust_file)
    for folder in folders:
        store.trust(folder)


def current(options: Any) -> dict[str, Any]:
    return {option.id: option.current_value for option in options}


async def set_option(editor, session: str, option: str, value: str) -> Any:
    request = acp.SetSessionConfigOptionRequest(session_id=session, config_id=option, value=value)
    return (await editor.connection.call(acp.SESSION_SET_CONFIG_OPTION, request)).config_options


async def listing(editor, **query: str) -> list[acp.SessionInfo]:
    answer = await editor.connection.call(acp.SESSION_LIST, acp.ListSessionsRequest(**query))
    return list(answer.sessions)


def conversation(editor) -> list[tuple[str, str]]:
    """What was said and called, in order, pieces of one message joined."""
    found: list[tuple[str, str]] = []
    last = None
    for note in editor.updates:
        match note.update:
            case acp.UserMessageChunk(content=content):
                found.append(("user", content.text))
            case acp.AgentMessageChunk(content=content, message_id=message):
                if message == last:
                    found[-1] = ("agent", found[-1][1] + content.text)
                else:
                    found.append(("agent", content.text))
                last = message
            case acp.ToolCall(title=title):
                found.append(("call", title))
            case _:
                pass
    return found
